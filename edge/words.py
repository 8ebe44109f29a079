"""The words by which questions are read: terms, units and numerals, as trees of stems.

They are data in the bundle, compiled from export/pairs.yaml.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Kinds of items that say what a question is about; the others say what is asked of it.
CORE = frozenset({"word", "side", "name", "number", "date", "person"})
KINDS = CORE | {"not", "yes_no", "ask", "modal", "scope", "each"}
FIGURE = "figure"  # a number as it is said, before its unit is made another
JOINED = "|"  # between the items of one word

TOKEN = re.compile("[0-9]+(?:[.,:/-][0-9]+)*|[A-Za-z\u00df-\u00f6\u00f8-\u00ff]+(?:'[A-Za-z]+)?|[^ -]")
IS_LATIN = re.compile("[a-z\u00df-\u00f6\u00f8-\u00ff]")
_AM_PM = re.compile("(?<![A-Za-z])([AaPp])[.]([Mm])[.]?(?![A-Za-z])")

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Words:
    """The language data.

    ``terms`` and ``units`` are trees of stems; a node's "" holds the items, or the unit, of its word.
    ``whole``: the English numerals that make larger ones; ``numbers`` has the others too, such as half.
    ``first``: words with which a yes-or-no question begins.
    """

    terms: Node
    units: Node
    forms: Mapping[str, str]
    scale: Mapping[str, tuple[float, str]]
    counters: frozenset[str]
    numbers: Mapping[str, float]
    whole: Mapping[str, int]
    ordinals: Mapping[str, int]
    roles: frozenset[str]
    connectors: frozenset[str]
    first: frozenset[str]

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Words":
        """The words of a manifest. Raises KeyError, TypeError or ValueError."""
        forms = {str(word): str(base) for word, base in data["forms"].items()}
        terms: Node = {}
        for word, joined in data["terms"].items():
            items = tuple(joined.split(JOINED)) if joined else ()
            if unknown := {item.partition(":")[0] for item in items} - KINDS:
                raise ValueError(f"the word {word!r} stands for {min(unknown)!r}, which is no kind of item")
            _plant(terms, word, forms, items)
        units: Node = {}
        for word, unit in data["units"].items():
            _plant(units, word, forms, str(unit))
        return cls(
            terms=terms,
            units=units,
            forms=forms,
            scale={unit: (float(times), str(base)) for unit, (times, base) in data["scale"].items()},
            counters=frozenset(data["counters"]),
            numbers={**data["numbers"], **data["others"]},
            whole=dict(data["numbers"]),
            ordinals=dict(data["ordinals"]),
            roles=frozenset(data["roles"]),
            connectors=frozenset(data["connectors"]),
            first=frozenset(data["first"]),
        )


def tokens_of(text: str) -> list[re.Match[str]]:
    """Words, numbers, and every other character by itself; a hyphen is a space."""
    return list(TOKEN.finditer(_AM_PM.sub(r"\1\2", text)))


def stem(word: str, forms: Mapping[str, str]) -> str:
    """A word without its English endings, the same for every form of most words; it need be no word."""
    if not IS_LATIN.match(word):
        return word
    word = word.removesuffix("'s")
    word = forms.get(word, word)
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    if word.endswith("ing") and len(word) > 5:
        word = word[:-3]
    elif word.endswith("ied") and len(word) > 4:
        word = f"{word[:-3]}y"
    elif word.endswith("ed") and not word.endswith("eed") and len(word) > 3:
        word = word[:-2] if len(word) > 4 else word[:-1]
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def longest(tree: Node, stems: Sequence[str], at: int) -> tuple[Any, int]:
    """The value of the longest word of a tree that begins at a place, and the place behind it."""
    node, found, end = tree, None, at
    for place in range(at, len(stems)):
        step = node.get(stems[place])
        if step is None:
            break
        node = step
        if "" in node:
            found, end = node[""], place + 1
    return found, end


def _plant(tree: Node, word: str, forms: Mapping[str, str], value: Any) -> None:  # noqa: ANN401 - of a tree
    node = tree
    for match in tokens_of(word.lower()):
        node = node.setdefault(stem(match.group(), forms), {})
    known = node.get("")
    # Forms of one word may be listed apart: open, opening.
    node[""] = tuple(dict.fromkeys((*known, *value))) if isinstance(known, tuple) else value
