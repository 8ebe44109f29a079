"""Who works and shops there, what is whose, and how the demo's data are made: equal for equal questions.

Nothing is stored. A person is one of ten, an order or a claim belongs to the one whose number is its last
digit, and every detail follows from a hash of what was asked and of the day.
"""

import zlib
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TypeVar

from tools import ToolError

PEOPLE = ("ana", "bo", "chen", "dana", "eva", "feng", "gao", "hana", "ivan", "jin")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_T = TypeVar("_T")


def known(user: str | None) -> str:
    """The caller's name. Raises ToolError where nobody vouched for one, or where there is no such person."""
    if user is None:
        raise ToolError(
            403, "no_identity", "Nobody is signed in; this tool tells people their own data only."
        )
    if user not in PEOPLE:
        raise ToolError(403, "unknown_user", "The signed-in user is not known here.")
    return user


def check_owner(user: str, number: str, what: str) -> None:
    """Raise ToolError unless an order or claim is the caller's: 404, as if there were none."""
    if PEOPLE[int(number[-1])] != user:
        raise ToolError(404, "not_found", f"The signed-in user has no {what} of this number.")


def roll(*of: object, below: int) -> int:
    """A whole number from 0 to below ``below`` that looks random and is the same for the same things."""
    return zlib.crc32("/".join(map(str, of)).encode()) % below


def pick(choices: Sequence[_T], *of: object) -> _T:
    """One of some choices, the same for the same things."""
    return choices[roll(*of, below=len(choices))]


def day_of(word: str, today: date) -> date:
    """today, tomorrow, day_after_tomorrow, or the next day of that name, today included."""
    ahead = {"today": 0, "tomorrow": 1, "day_after_tomorrow": 2}.get(word)
    return today + timedelta((DAYS.index(word) - today.weekday()) % 7 if ahead is None else ahead)


def money(cents: float) -> str:
    """An amount as a text with two places."""
    return f"{cents / 100:.2f}"


def iso(day: date | None) -> str | None:
    """A day as YYYY-MM-DD."""
    return None if day is None else day.isoformat()
