"""The slots of a desk's tools: what is wrong with their declarations, and what a bundle holds of them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edge.normaliser import Normaliser
from edge.slots import MAX_VALUE_CHARACTERS, SLOT_NAME, Kind, Slot
from export.located import Located, Problem
from export.patterns import problem_of, trie
from export.slots import unit_names

_KEYS = {
    "type", "description", "required", "default", "pattern", "values", "enum", "format", "unit", "minimum",
    "maximum", "when", "user",
}  # fmt: skip
_TYPES = ("string", "integer", "number", "boolean")
_FORMATS = ("date", "month", "time")
_WAYS = ("pattern", "values", "enum", "format", "user")  # to say how a slot is found: at most one
# No text of a user's can be told from a value that takes any of these.
_ANY_WORDS = ("where is it", "please", "order", "the", "我的订单", "怎么办", "一下", "帮我")


def slot_problems(tool: Located) -> Iterator[Problem]:
    """(line, key, what is wrong) of the slots of a tool."""
    slots = slots_of(tool)
    if slots is None:
        yield tool.line_of("slots"), "slots", f"must map names to declarations, got {tool['slots']!r}"
        return
    for name, entry in slots.items():
        line = slots.line_of(str(name))
        if not isinstance(name, str) or not SLOT_NAME.fullmatch(name):
            yield line, str(name), f"is no name of a slot: it must match {SLOT_NAME.pattern}"
        elif not isinstance(entry, Located):
            yield line, name, f"must be a mapping such as {{type: string, pattern: …}}, got {entry!r}"
        else:
            for key, what in _slot_problems(name, _given(entry), tool):
                yield entry.line_of(key), f"{name}.{key}" if key else name, what


def slots_of(tool: Located) -> Located | None:
    """The slots by name, with their lines; none where they are left out. None where they are no mapping."""
    slots = tool.get("slots")
    if slots is None:
        slots = Located()
        slots.line, slots.lines = tool.line, {}
    return slots if isinstance(slots, Located) else None


def slot_entry(name: str, entry: Mapping[str, Any], normaliser: Normaliser) -> dict[str, Any]:
    """A slot of a bundle's manifest: how it is found in a text, and what it accepts."""
    entry = _given(entry)
    kind, type_ = _kind(name, entry), entry.get("type", "string")
    pattern = entry.get("pattern") if kind in (Kind.PATTERN, Kind.FREE) else None
    terms = _terms(entry, normaliser) if kind is Kind.VALUES else {}
    find = None
    if kind is Kind.PATTERN:
        find = f"{_START}(?:{pattern}){_END}"
    elif kind is Kind.VALUES:
        find = _alternation(terms)
    values = [_value(key, type_) for key in entry["values"]] if "values" in entry else entry.get("enum", [])
    return {
        "name": name,
        "kind": str(kind),
        "type": type_,
        "description": entry.get("description", ""),
        "required": entry.get("required", True),
        "default": entry.get("default"),
        "find": find,
        "pattern": pattern,
        "terms": terms,
        "enum": values,
        "unit": entry.get("unit", ""),
        "when": entry.get("when", ""),
        "minimum": entry.get("minimum"),
        "maximum": entry.get("maximum"),
    }


def _given(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A declaration without its nulls, which count as left out."""
    return {key: value for key, value in entry.items() if value is not None}


# A value that begins or ends with a letter or digit must not go on beyond that: not in a longer word or
# number, nor across what joins them (EX-2041, 3.14, 10:30).
_START = r"(?:(?<![A-Za-z0-9])(?<![A-Za-z0-9][_-])(?<![0-9][.,:/])|(?![A-Za-z0-9]))"
_END = r"(?:(?![A-Za-z0-9])(?![_-][A-Za-z0-9])(?![.,:/][0-9])|(?<![A-Za-z0-9]))"


def _alternation(terms: Mapping[str, Any]) -> str:
    """Longest first; what begins or ends with a Latin letter or digit does so at the border of a word."""
    latin = [term for term in terms if term[0].isascii() and term[0].isalnum()]
    others = [term for term in terms if term not in latin]
    end = "(?![a-z0-9])"
    parts = [f"(?<![a-z0-9]){trie(latin, end)}"] if latin else []
    return "|".join([*parts, *([trie(others, end)] if others else [])])


def _kind(name: str, entry: Mapping[str, Any]) -> Kind:
    if _is_caller(name, entry):
        return Kind.CALLER
    if "values" in entry or ("enum" in entry and entry.get("type", "string") == "string"):
        return Kind.VALUES
    if "format" in entry:
        return Kind(entry["format"])
    if entry.get("type", "string") in ("integer", "number"):
        return Kind.NUMBER
    if "pattern" in entry and not any(re.fullmatch(entry["pattern"], words) for words in _ANY_WORDS):
        return Kind.PATTERN
    return Kind.FREE


def _is_caller(name: str, entry: Mapping[str, Any]) -> bool:
    return name == "user" or entry.get("user") is True


def _value(key: object, type_: str) -> Any:  # noqa: ANN401 - of the slot's type
    """The value that a key of ``values`` stands for; YAML has read true and 5 already, but not "5"."""
    return str(key) if type_ == "string" else key


def _terms(entry: Mapping[str, Any], normaliser: Normaliser) -> dict[str, Any]:
    """The words of each value in reading form; words that have come to mean two values mean none."""
    meant: dict[str, list[Any]] = {}
    for value, words in _words(entry):
        for word in words:
            meant.setdefault(normaliser.reading(word), []).append(value)
    return {word: values[0] for word, values in meant.items() if word and len(set(values)) == 1}


def _words(entry: Mapping[str, Any]) -> Iterator[tuple[Any, list[str]]]:
    type_ = entry.get("type", "string")
    if "values" in entry:
        yield from ((_value(key, type_), words) for key, words in entry["values"].items())
    else:
        yield from ((value, [value]) for value in entry["enum"])


def _slot_problems(name: str, entry: Mapping[str, Any], tool: Located) -> Iterator[tuple[str, str]]:
    for key in entry:
        if key not in _KEYS:
            yield str(key), f"is no key of a slot; its keys are {', '.join(sorted(_KEYS))}"
    found = list(_shape_problems(entry)) or list(_way_problems(name, entry, tool))
    yield from found
    if not found and not entry.keys() - _KEYS:
        try:  # the same checks as when the bundle is loaded
            Slot.of_data(slot_entry(name, entry, Normaliser()))
        except (KeyError, TypeError, ValueError) as exc:
            yield "default" if "default" in entry else "", f"cannot be used: {exc}"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _are_values(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(words, list) and words and all(isinstance(word, str) and word.strip() for word in words)
        for words in [*value.values(), *([] if value else [None])]
    )


_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_TYPES.__contains__, f"must be one of {', '.join(_TYPES)}"),
    "required": (_is_flag, "must be true or false"),
    "user": (_is_flag, "must be true or false"),
    "description": (_is_text, "must be a text"),
    "pattern": (_is_text, "must be a text"),
    "format": (_FORMATS.__contains__, f"must be one of {', '.join(_FORMATS)}"),
    "when": (("past", "future").__contains__, "must be past or future"),
    "unit": (_is_text, "must be a text"),
    "enum": (lambda value: isinstance(value, list) and bool(value), "must be a list of values"),
    "values": (_are_values, "must list for each value the words that users say, as in {x1: [X1, 云雀X1]}"),
}


def _shape_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What has the wrong type; the other checks rely on these."""
    for key, (is_right, what) in _SHAPES.items():
        if key in entry and not is_right(entry[key]):
            yield key, f"{what}, got {entry[key]!r}"


def _way_problems(name: str, entry: Mapping[str, Any], tool: Located) -> Iterator[tuple[str, str]]:
    ways = [key for key in _WAYS if entry.get(key) not in (None, False)]
    if len(ways) > 1:
        yield ways[1], f"and '{ways[0]}' both say how the slot is found; keep one"
    elif _is_caller(name, entry):
        if tool.get("scope", "user") != "user":
            yield "user", f"means the caller, so the tool's scope must be user, got {tool.get('scope')!r}"
        if "default" in entry:
            yield "default", "is not for a slot that only the caller can fill"
    else:
        yield from _text_problems(entry)
        yield from _number_problems(entry)
        if "values" in entry or "enum" in entry:
            yield from _value_problems(entry)


def _text_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    type_ = entry.get("type", "string")
    if "pattern" in entry and (problem := problem_of(entry["pattern"], MAX_VALUE_CHARACTERS)):
        yield "pattern", problem
    if ("pattern" in entry or "format" in entry) and type_ != "string":
        yield "type", f"must be string with 'pattern' and 'format', got {type_!r}"
    if "when" in entry and entry.get("format") not in ("date", "month"):
        yield "when", "belongs to format date or month"
    if type_ == "boolean" and "values" not in entry:
        yield "type", "boolean needs 'values' with the words for true and for false"


def _number_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    numeric = entry.get("type", "string") in ("integer", "number") and "values" not in entry
    for key in ("unit", "minimum", "maximum"):
        if key in entry and not numeric:
            yield key, "belongs to type integer or number"
    if numeric and "unit" in entry and entry["unit"] not in unit_names():
        yield "unit", f"must be one of {', '.join(unit_names())}, got {entry['unit']!r}"


def _value_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    meant: dict[str, Any] = {}
    if "enum" in entry and entry.get("type", "string") != "string":
        return
    if "enum" in entry and not all(isinstance(value, str) for value in entry["enum"]):
        yield "enum", "must hold texts where the type is string; put them in quotes"
        return
    if entry.get("type", "string") == "string" and any(
        isinstance(key, bool) for key in entry.get("values", ())
    ):
        yield "values", "has a key that YAML reads as true or false; put it in quotes"
    for value, words in _words(entry):
        for word in words:
            reading = Normaliser().reading(word)
            if not reading:
                yield "values", f"hold {word!r}, of which nothing is left to be read"
            if meant.setdefault(reading, value) != value:
                yield "values", f"take {word!r} for {meant[reading]!r} and for {value!r}; keep one"
