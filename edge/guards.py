"""Guards as data: which signals a text carries, and which of them a topic's examples carry too.

A signal is a short string such as ``negation``, ``weekday:saturday`` or ``number:7 day``. A query
whose signals lie outside those of its topic's examples asks something else than the topic answers,
however close its words are. Patterns keep to what Python ``re`` and JavaScript read alike.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge.decision import GuardHit, Reason

_HAN_DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5}
_HAN_DIGITS |= {"六": 6, "七": 7, "八": 8, "九": 9}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}

_LONGEST_NUMERAL = 20
_LEADING_ZEROS = re.compile("^0+(?=[0-9])")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A wording that forwards a turn whatever its topic; ``dialogue``: only where there is history."""

    name: str
    reason: Reason
    regex: re.Pattern[str]
    dialogue: bool


@dataclass(frozen=True, slots=True)
class Guards:
    """The guards of a bundle.

    ``terms`` finds every known word, longest first; ``signals[word]`` is its signal, or "" for
    a word that only looks like one (没问题 is no negation). ``reasons[kind]`` is the reason of a
    signal's kind, the part before its colon. ``allowed[topic]`` holds the signals of a topic's
    examples, or None where nothing is checked because the topic's answer is not curated here.
    """

    patterns: tuple[Pattern, ...]
    terms: re.Pattern[str]
    signals: Mapping[str, str]
    numbers: re.Pattern[str]
    units: Mapping[str, str]
    number_words: Mapping[str, str]
    reasons: Mapping[str, Reason]
    allowed: Mapping[str, frozenset[str] | None]

    @classmethod
    def of_data(cls, data: Mapping[str, Any], allowed: Mapping[str, Sequence[str] | None]) -> "Guards":
        """The guards that a manifest describes."""
        return cls(
            patterns=tuple(
                Pattern(p["name"], Reason(p["reason"]), re.compile(p["pattern"]), p["dialogue"])
                for p in data["patterns"]
            ),
            terms=re.compile(data["terms"]),
            signals=data["signals"],
            numbers=re.compile(data["numbers"]),
            units=data["units"],
            number_words=data["number_words"],
            reasons={kind: Reason(reason) for kind, reason in data["reasons"].items()},
            allowed={t: None if s is None else frozenset(s) for t, s in allowed.items()},
        )

    def wordings(self, normal: str, in_dialogue: bool) -> list[GuardHit]:
        """The patterns that a reading form matches, in the order of the data."""
        return [
            GuardHit(p.name, p.reason, match.group())
            for p in self.patterns
            if (in_dialogue or not p.dialogue) and (match := p.regex.search(normal))
        ]

    def signals_of(self, normal: str) -> frozenset[str]:
        """Every signal of a reading form."""
        found = {self.signals[match.group()] for match in self.terms.finditer(normal)}
        found.discard("")
        for match in self.numbers.finditer(normal):
            signal = self._number(match)
            if signal is not None:
                found.add(signal)
        return frozenset(found)

    def mismatches(self, normal: str, topic: str, slots: Iterable[str] = ()) -> list[GuardHit]:
        """The signals of a reading form that lie outside the topic's examples.

        ``slots``: those parts of it, reading forms too, that fill a slot of the topic's tools. An order
        number is what the tool is asked for, and makes no other question of it.
        """
        allowed = self.allowed[topic]
        if allowed is None:
            return []
        found = self.signals_of(normal) - allowed
        if found:
            found = found.difference(*map(self.signals_of, slots))
        return [
            GuardHit(kind, self.reasons[kind], signal)
            for signal in sorted(found)
            for kind in [signal.partition(":")[0]]
        ]

    def _number(self, match: re.Match[str]) -> str | None:
        """``number:7 day``; a Han or English numeral counts only with a unit ("one" is also a pronoun)."""
        raw, unit = match.group(1), self.units.get(match.group(2) or "")
        if raw is None:  # a word that only looks like a number
            return None
        word = self.number_words.get(raw)
        if unit is None and not "0" <= raw[0] <= "9":
            return None
        if not word:
            number = None if "0" <= raw[0] <= "9" else han_number(raw)
            word = _plain(raw) if number is None else str(number)
        value = word
        return f"number:{value} {unit}" if unit else f"number:{value}"


def han_number(text: str) -> float | None:
    """The value of a Han numeral: 二十五 is 25, 两百 is 200, 半 is 0.5, 一二三 is 123.

    None for letters of numerals that make none: 半一, or more than twenty.
    """
    if text == "半":
        return 0.5
    body = text.rstrip("半")
    if "半" in body or len(body) > _LONGEST_NUMERAL:
        return None
    half = 0.5 if text.endswith("半") else 0
    # ``unit``: what one step of the next digit is worth in 一百五, which is 150; 零 says it is 1.
    myriads, total, digit, unit = 0, 0, 0, 1
    for char in body:
        if char == "万":
            myriads, total, digit, unit = (total + digit or 1) * 10000, 0, 0, 1000
        elif char in _HAN_UNITS:
            total, digit, unit = total + (digit or 1) * _HAN_UNITS[char], 0, _HAN_UNITS[char] // 10
        elif _HAN_DIGITS[char] == 0 or digit:
            digit, unit = digit * 10 + _HAN_DIGITS[char], 1
        else:
            digit = _HAN_DIGITS[char]
    value = myriads + total + digit * unit + half
    return int(value) if value == int(value) else value


def _plain(digits: str) -> str:
    """1,024 and 1024.0 are 1024; 9:30 stays 9:30."""
    digits = digits.replace(",", "")
    if digits.count(".") == 1:  # more of them are an address or a version
        digits = digits.rstrip("0").rstrip(".")
    return _LEADING_ZEROS.sub("", digits)
