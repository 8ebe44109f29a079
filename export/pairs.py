"""Compiles export/pairs.yaml, and words of export/guards.yaml, into what tells two questions apart."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from edge.words import JOINED, stem
from export.guards import GUARDS_FILE

PAIRS_FILE = Path(__file__).with_name("pairs.yaml")
# Sections whose entries are lists of words under a value, and the kind of item that they give.
_SECTIONS = {"questions": "ask", "modality": "modal", "scope": "scope", "person": "person", "dates": "date"}
_AS_THEY_ARE = (
    "forms", "scale", "counters", "numbers", "others", "ordinals", "roles", "connectors", "first",
)  # fmt: skip
_NEUTRAL = "~"


def pair_data(source: Path = PAIRS_FILE, guards: Path = GUARDS_FILE) -> dict[str, Any]:
    """The ``pairs`` object of a bundle.

    ``terms[word]``: what a word or phrase stands for, joined by "|": ``not``, ``yes_no``, or "kind:value"
    with a kind of edge/words.py. A filler stands for nothing.
    """
    raw = yaml.safe_load(source.read_text("utf-8"))
    terms: dict[str, list[str]] = {}
    for word, item in _own(raw):
        _put(terms, word, item)
    borrowed = _borrowed(raw["from_guards"], yaml.safe_load(guards.read_text("utf-8"))["signals"])
    own = {_stems(word, raw["forms"]) for word in terms}
    for word, item in borrowed:
        if _stems(word, raw["forms"]) not in own:
            _put(terms, word, item)
    for word, base in _entries(raw["negated"]):
        terms[word] = ["not", *(terms.get(base) or [f"word:{base}"])]
    for word in raw["no_negation"]:
        terms[word] = [item for item in terms.get(word, []) if item != "not"]
    return {
        "terms": {word: JOINED.join(items) for word, items in terms.items()},
        "units": {str(word): unit for unit, words in raw["units"].items() for word in words},
    } | {name: raw[name] for name in _AS_THEY_ARE}


def _put(terms: dict[str, list[str]], word: object, item: str) -> None:
    if not isinstance(word, str):
        raise ValueError(f"{word!r} is no word: YAML reads on, off, yes and no as true and false")
    items = terms.setdefault(word, [])
    if item and item not in items:
        items.append(item)


def _stems(word: str, forms: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(stem(part, forms) for part in word.lower().replace("-", " ").split())


def _own(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    fillers = [*raw["filler"]["en"], *raw["filler"]["zh"], *raw["no_number"]]
    yield from ((word, "") for word in fillers)
    yield from ((word, "not") for words in raw["negation"].values() for word in words)
    yield from ((word, "yes_no") for word in raw["yes_no"])
    for section, kind in _SECTIONS.items():
        for value, words in raw[section].items():
            yield from ((word, f"{kind}:{value}") for word in words)
    yield from ((word, f"ask:{word}") for word in raw["degrees"])
    yield from ((word, f"name:{word}") for word in raw["names"])
    for axis, sides in enumerate(raw["opposites"]):
        for side, words in enumerate(sides):
            yield from ((word, f"side:{axis}.{side}") for word in words)
    for section, kind in (("same", "word"), ("people", "person")):
        yield from ((word, f"{kind}:{words[0]}") for words in raw[section] for word in words)
    yield from ((word, f"each:{unit}") for word, unit in _entries(raw["each"]))


def _borrowed(kinds: Mapping[str, str], signals: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Negations and what only looks like one; days by their value; names and people each by itself."""
    for value, words in signals["negation"]["values"].items():
        item = "" if value == _NEUTRAL else "not"
        plain = (word for word in words if isinstance(word, str) and not word.startswith("re:"))
        yield from ((word, item) for word in plain)
    for kind, called in kinds.items():
        for value, words in signals[kind]["values"].items():
            yield from ((str(word), f"{called}:{value if called == 'date' else word}") for word in words)


def _entries(by_lang: Mapping[str, Mapping[str, str]]) -> Iterable[tuple[str, str]]:
    return [(str(word), value) for words in by_lang.values() for word, value in words.items()]
