"""Compiles export/guards.yaml into the data that hosts interpret, and derives each topic's signals."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from edge.guards import Guards
from edge.normaliser import Normaliser
from export.patterns import not_shared, trie

GUARDS_FILE = Path(__file__).with_name("guards.yaml")
_LATIN = re.compile("[a-z0-9]")
_NEUTRAL = "~"
SUPPORT = 150


def guard_data(source: Path = GUARDS_FILE) -> dict[str, Any]:
    """The ``guards`` object of a bundle. Raises ValueError where a pattern is not shared by both hosts."""
    raw = yaml.safe_load(source.read_text("utf-8"))
    signals: dict[str, str] = {}
    expressions: list[str] = []
    reasons = {kind: entry["reason"] for kind, entry in raw["signals"].items()}
    for kind, entry in raw["signals"].items():
        for value, terms in entry["values"].items():
            signal = "" if value == _NEUTRAL else f"{kind}:{value}" if value else kind
            if any(isinstance(term, bool) for term in terms):
                raise ValueError(f"{source}: {kind} has a word that YAML reads as true or false; quote it")
            for term in map(str, terms):
                if term.startswith("re:"):
                    expressions.append(term[3:])
                    signals[term[3:].partition("(")[0]] = signal
                else:
                    signals.setdefault(term.lower(), signal)
    numbers = raw["numbers"]
    reasons["number"] = numbers["reason"]
    units = {str(word): unit for unit, words in numbers["units"].items() for word in words}
    literal = [term for term in signals if not any(e.startswith(f"{term}(") for e in expressions)]
    data: dict[str, Any] = {
        "terms": _terms(literal, expressions),
        "signals": signals,
        "numbers": _numbers(numbers, units),
        "units": units,
        "number_words": {str(word): str(value) for word, value in numbers["words"].items()},
        "reasons": reasons,
        "patterns": [{"dialogue": False, **pattern} for pattern in raw["patterns"]],
    }
    for pattern in (data["terms"], data["numbers"], *(p["pattern"] for p in data["patterns"])):
        if bad := not_shared(pattern):
            raise ValueError(f"{source}: {bad!r} is not read alike by Python and JavaScript: {pattern}")
        re.compile(pattern)
    return data


def topic_signals(data: Mapping[str, Any], texts: Sequence[str], normaliser: Normaliser) -> list[str]:
    """The signals of a topic's examples: what a query of this topic may carry.

    Of many examples one that is odd, or mislabelled, opens nothing: a signal needs one in SUPPORT.
    """
    guards = Guards.of_data(data, {})
    counts = Counter(signal for text in texts for signal in guards.signals_of(normaliser.reading(text)))
    return sorted(signal for signal, count in counts.items() if count * SUPPORT >= len(texts))


def _terms(literal: Iterable[str], expressions: Iterable[str]) -> str:
    """One alternation, longest first; Latin words match as whole words, Han words anywhere."""
    latin = {term for term in literal if _LATIN.search(term)}
    han = set(literal) - latin
    parts = [f"(?<![a-z0-9]){trie(latin)}(?![a-z0-9])"] if latin else []
    return "|".join([*parts, *([trie(han)] if han else []), *expressions])


def _numbers(numbers: Mapping[str, Any], units: Mapping[str, str]) -> str:
    """Group 1 is the numeral, group 2 its unit. Neutral words are consumed with both groups empty."""
    latin = {unit for unit in units if _LATIN.search(unit)}
    unit = f"{trie(latin)}(?![a-z])|{trie(set(units) - latin)}"
    words = f"(?<![a-z]){trie(numbers['words'])}(?![a-z])"
    numeral = f"[0-9]+(?:[.,:][0-9]+)*|[零〇一二两三四五六七八九十百千万半]+|{words}"
    return f"{trie(numbers['neutral'])}|({numeral})(?:[ -]?({unit}))?"
