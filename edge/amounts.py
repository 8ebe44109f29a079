"""The amounts that a text names: 两百块, 1,024, $5, twenty five people.

Numerals and units are data in the bundle, compiled from export/slots.yaml.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge.doubts import is_negative
from edge.guards import han_number

_DIGIT = re.compile("[0-9]")
_WORDS = re.compile("[a-z]+")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in a text. ``value`` is None where it is a limit, a range, a guess or negative
    (至少 3, 5-6, 二十多, -5).

    ``unit``: the canonical name of its unit, or "". ``start`` and ``end`` are those of the numeral alone.
    """

    value: int | float | None
    unit: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Amounts:
    """How amounts are written.

    ``regex`` has the groups vague before, symbol, numeral, multiplier, vague after it, unit, vague after
    that; all are empty for a word that only looks like an amount. ``han``: the Han numerals that are one
    number: 二十五, but not 六七. ``words``: English numerals.
    """

    regex: re.Pattern[str]
    han: re.Pattern[str]
    words: Mapping[str, int]
    multipliers: Mapping[str, int]
    units: Mapping[str, str]

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Amounts":
        """The amounts of a manifest. Raises KeyError, TypeError or ValueError."""
        regex = re.compile(data["regex"])
        if regex.groups != 7:
            raise ValueError(f"amounts.regex must have 7 groups, it has {regex.groups}")
        han = re.compile(data["han"])
        return cls(regex, han, data["words"], data["multipliers"], data["units"])

    def read(self, text: str) -> tuple[Amount, ...]:
        """The amounts of a text in lower case."""
        found = []
        for match in self.regex.finditer(text):
            before, symbol, numeral, multiplier, about, unit, after = match.groups()
            if numeral is None:
                continue
            name = self.units.get(unit or symbol or "", "")
            if not name and not _DIGIT.match(numeral):
                continue
            no_value = before or about or after or is_negative(text, match.start(3))
            number = None if no_value else self._number(numeral)
            if number is not None and multiplier:
                number = _whole(number * self.multipliers[multiplier])
            end = match.end(4) if multiplier else match.end(3)
            found.append(Amount(number, name, match.start(3), end))
        return tuple(found)

    def _number(self, numeral: str) -> int | float | None:
        if _DIGIT.match(numeral):
            digits = numeral.replace(",", "")
            return float(digits) if "." in digits else int(digits)
        if _WORDS.match(numeral):
            return english_number(numeral, self.words)
        return han_number(numeral) if self.han.fullmatch(numeral) else None


def english_number(text: str, words: Mapping[str, int]) -> int | None:
    """The value of English numerals: "two hundred and five" is 205; None where they make no one number."""
    thousands, part = 0, 0
    for word in _WORDS.findall(text):
        if word in ("and", "a", "an"):
            part = part if word == "and" else 1
            continue
        number = words[word]
        if number == 1000:
            if thousands or not part:
                return None
            thousands, part = part * 1000, 0
        elif number == 100:
            if not 0 < part < 10:
                return None
            part *= 100
        elif part % 100 == 0 or (number < 10 and part % 10 == 0 and part % 100 >= 20):
            part += number
        else:
            return None
    return thousands + part


def _whole(number: float) -> int | float:
    """1.2 × 10000 is 12000, without the noise of binary fractions."""
    rounded = round(number, 6)
    return int(rounded) if rounded == int(rounded) else rounded
