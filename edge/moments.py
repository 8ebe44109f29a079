"""The days, months and times of day that a text names, in Chinese and English.

Rules and words are data in the bundle, compiled from export/slots.yaml. What can be read two ways
keeps both readings: a moment holds every value it may mean, and who needs one of them chooses.
Weeks begin on Monday, except where that decides what "next Friday" means: then both ways must agree.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any

# Stands for what a rule has read; no text holds it, because the normaliser removes it.
BLANK = "\0"
# Of two years, the one whose day is nearer counts if it is nearer than five months.
_NEAR = timedelta(days=156)

Value = date | time
Roles = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Moment:
    """A day, month or time in a text.

    ``kind``: ``date`` (of the calendar), ``day`` (told from today), ``month`` (its first day) or ``time``.
    ``values``: what it may mean, none where there is no such day. ``open``: what was left unsaid and may
    be supplied (``year``, ``month``, ``week``), or "" where two values are two meanings.
    """

    kind: str
    values: tuple[Value, ...]
    start: int
    end: int
    open: str = ""

    def value(self, today: date, when: str) -> Value | None:
        """The one value that is meant; None where there is none, or more than one.

        ``when``: ``past`` (today or before), ``future`` (today or later) or "".
        """
        left = self.left(today, when)
        if not self.open:
            return left[0] if len(left) == 1 else None
        days = [value for value in left if isinstance(value, date)]
        if not days or (not when and self.open == "month"):
            return None
        near = self._today(today)
        if when == "past":
            return max(days)
        if when == "future" or self.open == "week":
            return min(day for day in days if day >= near)
        nearest = min(days, key=lambda day: abs(day - near))
        return nearest if abs(nearest - near) <= _NEAR else None

    def left(self, today: date, when: str) -> tuple[Value, ...]:
        """The values that ``when`` allows."""
        near = self._today(today)
        return tuple(
            value
            for value in self.values
            if not isinstance(value, date)
            or not ((when == "past" and value > near) or (when == "future" and value < near))
        )

    def _today(self, today: date) -> date:
        return today.replace(day=1) if self.kind == "month" else today


@dataclass(frozen=True, slots=True)
class Rule:
    """A wording.

    ``roles`` names the groups of ``regex``; ``fixed`` holds what the wording says itself. A text without
    ``probe`` cannot match: a few probes that rules share are tried before sixty long patterns.
    """

    kind: str
    probe: re.Pattern[str]
    regex: re.Pattern[str]
    roles: tuple[str, ...]
    fixed: Roles


@dataclass(frozen=True, slots=True)
class Calendar:
    """The rules, and ``words[role][word]``: the number (or the part of the day) that a word stands for.

    ``hours[part][hour]``: the hours of the clock that a spoken hour may mean in a part of the day.
    """

    rules: tuple[Rule, ...]
    words: Mapping[str, Mapping[str, Any]]
    hours: Mapping[str, Mapping[str, Sequence[int]]]

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Calendar":
        """The calendar of a manifest. Raises KeyError, TypeError or ValueError."""
        rules = tuple(
            Rule(r["as"], re.compile(r["if"]), re.compile(r["pattern"]), tuple(r["roles"]), dict(r["set"]))
            for r in data["rules"]
        )
        words, hours = dict(data["words"]), dict(data["hours"])
        for rule in rules:
            known = rule.kind == "noise" or (
                rule.kind in _READERS
                and rule.regex.groups == len(rule.roles)
                and words.keys() >= set(rule.roles)
                and rule.fixed.get("part", "exact") in hours
            )
            if not known:
                raise ValueError(f"no host can follow the rule {rule.regex.pattern!r}")
        return cls(rules, words, hours)

    def read(self, text: str, today: date, month_first: bool) -> tuple[tuple[Moment, ...], str]:
        """The moments of a text in lower case, and the text with everything that was read blanked out.

        ``month_first``: 3/4 is 4 March, as in Chinese; without it such a date has two values.
        """
        found: list[Moment] = []
        holds: dict[re.Pattern[str], bool] = {}
        for rule in self.rules:
            if rule.probe not in holds:
                holds[rule.probe] = rule.probe.search(text) is not None
            for match in list(rule.regex.finditer(text)) if holds[rule.probe] else ():
                start, end = match.span()
                text = text[:start] + BLANK * (end - start) + text[end:]
                if rule.kind != "noise":
                    said = self._said(rule, match)
                    kind, values, left_open = _READERS[rule.kind](said, _Now(today, month_first, self.hours))
                    found.append(Moment(kind, tuple(dict.fromkeys(values)), start, end, left_open))
        return tuple(found), text

    def _said(self, rule: Rule, match: re.Match[str]) -> dict[str, Any]:
        said = dict(rule.fixed)
        for role, word in zip(rule.roles, match.groups(), strict=True):
            if word:
                said[role] = int(word) if "0" <= word[0] <= "9" else self.words[role][word]
        return said


@dataclass(frozen=True, slots=True)
class _Now:
    today: date
    month_first: bool
    hours: Mapping[str, Mapping[str, Sequence[int]]]


Read = tuple[str, Sequence[Value], str]


def _days(year: int, month: int, day: int) -> list[date]:
    """The day, if there is one."""
    try:
        return [date(year, month, day)]
    except ValueError:
        return []


def _first(today: date, months: int) -> date:
    """The first day of the month that many months from today's."""
    month = today.year * 12 + today.month - 1 + months
    return date(month // 12, month % 12 + 1, 1)


def _years(said: Roles, now: _Now) -> tuple[list[int], str]:
    if "year" in said:
        return [said["year"]], ""
    if "years" in said:
        return [now.today.year + said["years"]], ""
    return [now.today.year + step for step in (-1, 0, 1)], "year"


def _date(said: Roles, now: _Now) -> Read:
    years, left_open = _years(said, now)
    return "date", [d for y in years for d in _days(y, said["month"], said["day"])], left_open


def _slash(said: Roles, now: _Now) -> Read:
    years, left_open = _years(said, now)
    first, second = said["first"], said["second"]
    orders = [(first, second)] if now.month_first else [(first, second), (second, first)]
    readings = [[d for y in years for d in _days(y, *order)] for order in orders]
    both = all(readings) and len(orders) == 2 and first != second
    return "date", [d for days in readings for d in days], "" if both else left_open


def _month(said: Roles, now: _Now) -> Read:
    years, left_open = _years(said, now)
    return "month", [d for y in years for d in _days(y, said["month"], 1)], left_open


def _month_side(said: Roles, now: _Now) -> Read:
    """Last July is another year's for sure only if this year's is not over."""
    side, today = said["side"], now.today
    over = said["month"] - today.month
    years = [today.year + side]
    if side and side * over > 0:
        years.append(today.year)
    return "month", [d for y in years for d in _days(y, said["month"], 1)], ""


def _months_on(said: Roles, now: _Now) -> Read:
    return "month", [_first(now.today, said["shift"])], ""


def _months(said: Roles, now: _Now) -> Read:
    return "month", [_first(now.today, said["sign"] * said["count"])], ""


def _day_of(said: Roles, now: _Now) -> Read:
    first = _first(now.today, said["shift"])
    return "date", _days(first.year, first.month, said["day"]), ""


def _day_alone(said: Roles, now: _Now) -> Read:
    firsts = [_first(now.today, step) for step in (-1, 0, 1)]
    return "date", [d for first in firsts for d in _days(first.year, first.month, said["day"])], "month"


def _relative(said: Roles, now: _Now) -> Read:
    return "day", [now.today + timedelta(days=said["days"])], ""


def _counted(said: Roles, now: _Now) -> Read:
    return "day", [now.today + timedelta(days=said["sign"] * said["count"] * said["unit"])], ""


def _weekday(said: Roles, now: _Now) -> Read:
    day = now.today + timedelta(days=said["weekday"] - now.today.weekday())
    if "shift" in said:
        return "day", [day + timedelta(weeks=said["shift"])], ""
    return "day", [day + timedelta(weeks=step) for step in (-1, 0, 1)], "week"


def _weekday_side(said: Roles, now: _Now) -> Read:
    """What "next Friday" is: the coming one if another week begins before it, on Monday and on Sunday."""
    today, side = now.today, said["side"]
    monday, sunday = today.weekday(), today.isoweekday() % 7
    ahead = (said["weekday"] - monday) % 7
    if side == 0:  # "this Friday" when Friday is over may be either
        days = [today + timedelta(days=ahead)]
        return "day", days if monday + ahead < 7 else [days[0] - timedelta(weeks=1), *days], ""
    step = (ahead or 7) if side > 0 else ahead - 7
    nearest = today + timedelta(days=step)
    other_week = all(not 0 <= place + step < 7 for place in (monday, sunday))
    return "day", [nearest] if other_week else [nearest, nearest + timedelta(weeks=side)], ""


def _clock(said: Roles, now: _Now) -> Read:
    hours = now.hours[said["part"]].get(str(said["hour"]), ())
    minute = said.get("minute", said.get("half", 0))
    return "time", [time(hour, minute) for hour in hours], ""


_READERS: Mapping[str, Callable[[Roles, _Now], Read]] = {
    "date": _date,
    "slash": _slash,
    "month": _month,
    "month_side": _month_side,
    "months_on": _months_on,
    "months": _months,
    "day_of": _day_of,
    "day_alone": _day_alone,
    "days": _relative,
    "counted": _counted,
    "weekday": _weekday,
    "weekday_side": _weekday_side,
    "clock": _clock,
}
