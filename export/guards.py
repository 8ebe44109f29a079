"""Compiles export/guards.yaml into the data that hosts interpret, and derives each topic's signals."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from edge.guards import Guards
from edge.normaliser import Normaliser

GUARDS_FILE = Path(__file__).with_name("guards.yaml")
# What Python and JavaScript read differently, or only one of them reads at all.
_NOT_SHARED = re.compile(r"\\[dDwWbBsSAZ]|\(\?P|\(\?[aiLmsux]|\(\?#|[*+?}]\+|\(\?>")
_LATIN = re.compile("[a-z0-9]")
_NEUTRAL = "~"


def guard_data(source: Path = GUARDS_FILE) -> dict[str, Any]:
    """The ``guards`` object of a bundle. Raises ValueError where a pattern is not shared by both hosts."""
    raw = yaml.safe_load(source.read_text("utf-8"))
    signals: dict[str, str] = {}
    expressions: list[str] = []
    reasons = {kind: entry["reason"] for kind, entry in raw["signals"].items()}
    for kind, entry in raw["signals"].items():
        for value, terms in entry["values"].items():
            signal = "" if value == _NEUTRAL else f"{kind}:{value}" if value else kind
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
        if bad := _NOT_SHARED.search(pattern):
            raise ValueError(
                f"{source}: {bad.group()!r} is not read alike by Python and JavaScript: {pattern}"
            )
        re.compile(pattern)
    return data


def topic_signals(data: Mapping[str, Any], texts: Iterable[str], normaliser: Normaliser) -> list[str]:
    """Every signal of a topic's examples: what a query of this topic may carry."""
    guards = Guards.of_data(data, {})
    found: set[str] = set()
    for text in texts:
        found |= guards.signals_of(normaliser.reading(text))
    return sorted(found)


def _terms(literal: Iterable[str], expressions: Iterable[str]) -> str:
    """One alternation, longest first; Latin words match as whole words, Han words anywhere."""
    ordered = sorted(set(literal), key=lambda term: (-len(term), term))
    latin = "|".join(re.escape(t).replace("\\ ", " ") for t in ordered if _LATIN.search(t))
    han = "|".join([*(t for t in ordered if not _LATIN.search(t)), *expressions])
    return f"(?<![a-z0-9])(?:{latin})(?![a-z0-9])|(?:{han})"


def _numbers(numbers: Mapping[str, Any], units: Mapping[str, str]) -> str:
    """Group 1 is the numeral, group 2 its unit. Neutral words are consumed with both groups empty."""
    words = "|".join(sorted(numbers["words"], key=len, reverse=True))
    by_length = sorted(units, key=lambda unit: (-len(unit), unit))
    latin = "|".join(re.escape(u) for u in by_length if _LATIN.search(u))
    other = "|".join(re.escape(u) for u in by_length if not _LATIN.search(u))
    neutral = "|".join(sorted(numbers["neutral"], key=len, reverse=True))
    numeral = f"[0-9]+(?:[.,:][0-9]+)*|[零〇一二两三四五六七八九十百千万半]+|(?<![a-z])(?:{words})(?![a-z])"
    return f"(?:{neutral})|({numeral})(?:[ -]?((?:{latin})(?![a-z])|(?:{other})))?"
