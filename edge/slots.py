"""Slots of tools, filled from a query's text without an LLM: values that are valid, or the reason why not.

What a slot accepts is declared in tools.yaml, compiled by export/tools.py and checked here when a bundle is
loaded. Two values, a day that does not exist, a number that is a range: nothing is guessed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from enum import StrEnum
from typing import Any

from edge import doubts
from edge.amounts import Amount, Amounts
from edge.decision import Filled, Missing, SlotValue, Suggestion
from edge.moments import Calendar, Moment
from edge.normaliser import Normaliser
from edge.query import MAX_CHARACTERS, Query

# What a header can carry: see RFC 9651 for numbers.
MAX_VALUE_CHARACTERS = 64
_MAX_INTEGER = 10**15 - 1
_MAX_NUMBER = 10**12
SLOT_NAME = re.compile("[A-Za-z][A-Za-z0-9_]{0,63}")
_MOMENTS = ("date", "month", "time")
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool,
}  # fmt: skip
_DIGITS = re.compile("[0-9]+")
_HAS_DIGIT = re.compile("[0-9]")
_HAN = re.compile("[\u4e00-\u9fff]")
_ISO = {
    "date": re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "month": re.compile("[0-9]{4}-(?:0[1-9]|1[0-2])"),
    "time": re.compile("(?:[01][0-9]|2[0-3]):[0-5][0-9]"),
}
_LOWER = {ord(upper): ord(upper) + 32 for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}


class Kind(StrEnum):
    """How a slot is found in a text."""

    PATTERN = "pattern"
    VALUES = "values"
    DATE = "date"
    MONTH = "month"
    TIME = "time"
    NUMBER = "number"
    FREE = "free"
    CALLER = "caller"


@dataclass(frozen=True, slots=True)
class Slot:
    """One input of a tool.

    ``find`` finds candidates of a pattern or of the words of ``terms``; ``valid`` is what a whole value must
    match; ``unit``: the unit that a number must have, or ""; ``when``: ``past``, ``future`` or "".
    """

    name: str
    kind: Kind
    type: str = "string"
    required: bool = True
    default: SlotValue | None = None
    find: re.Pattern[str] | None = None
    valid: re.Pattern[str] | None = None
    terms: Mapping[str, SlotValue] = field(default_factory=dict)
    enum: tuple[SlotValue, ...] = ()
    unit: str = ""
    when: str = ""
    minimum: float | None = None
    maximum: float | None = None

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Slot":
        """A slot of a manifest. Raises KeyError, TypeError or ValueError."""
        slot = cls(
            name=data["name"],
            kind=Kind(data["kind"]),
            type=data["type"],
            required=data["required"],
            default=data["default"],
            find=None if data["find"] is None else re.compile(data["find"]),
            valid=None if data["pattern"] is None else re.compile(data["pattern"]),
            terms=dict(data["terms"]),
            enum=tuple(data["enum"]),
            unit=data["unit"],
            when=data["when"],
            minimum=data["minimum"],
            maximum=data["maximum"],
        )
        slot._check()
        return slot

    def _check(self) -> None:
        """Raise for what would load and then fill a slot with what its tool does not accept."""
        if not SLOT_NAME.fullmatch(self.name):
            raise ValueError(f"a slot's name {self.name!r} must match {SLOT_NAME.pattern}")
        if self.type not in _TYPES or self.when not in ("", "past", "future"):
            raise ValueError(f"the slot {self.name} has the type {self.type!r} and when {self.when!r}")
        if not isinstance(self.required, bool) or not isinstance(self.unit, str):
            raise TypeError(f"the slot {self.name}: 'required' is true or false, 'unit' a text")
        if any(limit is not None and not _is_number(limit) for limit in (self.minimum, self.maximum)):
            raise TypeError(f"the slot {self.name}: 'minimum' and 'maximum' must be numbers")
        if self.kind is Kind.PATTERN and (self.find is None or self.valid is None):
            raise ValueError(f"the slot {self.name} lacks its pattern")
        if self.kind is Kind.VALUES and (self.find is None or not self.terms):
            raise ValueError(f"the slot {self.name} lacks its values")
        if self.kind is Kind.CALLER and self.default is not None:
            raise ValueError(f"the slot {self.name} is the caller's and has a default")
        known = [*self.terms.values(), *([] if self.default is None else [self.default])]
        if bad := [value for value in known if not self.accepts(value)]:
            raise ValueError(f"the slot {self.name} does not accept its own value {bad[0]!r}")

    def accepts(self, value: object) -> bool:
        """Whether the declaration allows a value, and a header can carry it."""
        if not isinstance(value, _TYPES[self.type]) or (isinstance(value, bool) and self.type != "boolean"):
            return False
        if self.enum and value not in self.enum:
            return False
        if isinstance(value, str):
            if not 0 < len(value) <= MAX_VALUE_CHARACTERS or not value.isprintable():
                return False
            return self.valid.fullmatch(value) is not None if self.valid else self._is_moment(value)
        if isinstance(value, int) and abs(value) > _MAX_INTEGER:
            return False
        if isinstance(value, float) and not (abs(value) < _MAX_NUMBER and round(value, 3) == value):
            return False
        assert isinstance(value, int | float)  # noqa: S101 - what no text is
        low = self.minimum is not None and value < self.minimum
        return not low and not (self.maximum is not None and value > self.maximum)

    def _is_moment(self, value: str) -> bool:
        if self.kind not in _MOMENTS:
            return True
        if not _ISO[self.kind].fullmatch(value):
            return False
        try:
            return self.kind != Kind.DATE or bool(date.fromisoformat(value))
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class SlotSet:
    """The inputs of a declared tool."""

    name: str
    slots: tuple[Slot, ...] = ()

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "SlotSet":
        """Those of a manifest's tool. Raises KeyError, TypeError or ValueError."""
        for key in ("name", "description", "method", "url", "effects", "scope"):
            if not isinstance(data[key], str) or not data[key]:
                raise TypeError(f"a tool's {key!r} must be a text, got {data[key]!r}")
        try:
            slots = tuple(map(Slot.of_data, data["slots"]))
        except re.error as exc:
            raise ValueError(f"a pattern of a slot does not compile: {exc}") from exc
        if len({slot.name for slot in slots}) < len(slots):
            raise ValueError(f"the tool {data['name']} has two slots of one name")
        if data["scope"] != "user" and any(slot.kind is Kind.CALLER for slot in slots):
            raise ValueError(f"the tool {data['name']} is not of scope user and has the caller in a slot")
        return cls(data["name"], slots)


@dataclass(frozen=True, slots=True)
class SlotFiller:
    """Fills the slots of tools by the language data of a bundle."""

    tools: Mapping[str, SlotSet]
    calendar: Calendar
    amounts: Amounts
    normaliser: Normaliser

    @classmethod
    def of_data(
        cls, tools: Mapping[str, SlotSet], data: Mapping[str, Any], normaliser: Normaliser
    ) -> "SlotFiller":
        """The filler of a manifest. Raises KeyError, TypeError or ValueError."""
        try:
            calendar, amounts = Calendar.of_data(data), Amounts.of_data(data["amounts"])
        except re.error as exc:
            raise ValueError(f"a pattern of days or amounts does not compile: {exc}") from exc
        return cls(tools, calendar, amounts, normaliser)

    def suggest(self, names: Iterable[str], query: Query, today: date) -> tuple[Suggestion, ...]:
        """Every named tool with its slots as far as the query fills them."""
        text = _Text(self, query.typed, today)
        return tuple(Suggestion(name, _fill(self.tools[name].slots, text)) for name in names)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What a text says for a slot: ``value`` is None where ``why`` it is none is known."""

    value: SlotValue | None
    start: int
    end: int
    why: str = ""

    def is_within(self, other: "_Candidate") -> bool:
        return other.start <= self.start and self.end <= other.end


class _Text:
    """A query's text. What moments and amounts it holds is read once, and only if a slot asks for it."""

    def __init__(self, filler: SlotFiller, text: str, today: date) -> None:
        self.filler = filler
        self.today = today
        self.typed = filler.normaliser.typed(text)[:MAX_CHARACTERS]  # one ligature can become 18 letters
        self.lower = self.typed.lower()
        self._read: tuple[tuple[Moment, ...], tuple[Amount, ...], str] | None = None

    @property
    def moments(self) -> tuple[Moment, ...]:
        return self._parts()[0]

    @property
    def amounts(self) -> tuple[Amount, ...]:
        return self._parts()[1]

    def is_spoken_for(self, start: int, end: int) -> bool:
        """Whether digits belong to a day, a time or an amount with a unit."""
        _, amounts, rest = self._parts()
        blank = rest[start:end] != self.lower[start:end]
        return blank or any(a.unit and a.start < end and start < a.end for a in amounts)

    def cuts_a_moment(self, start: int, end: int) -> bool:
        """Whether words are but a part of a day: Friday in "next Friday" is not the Friday of a list."""
        return any(m.start <= start and end <= m.end and end - start < m.end - m.start for m in self.moments)

    def _parts(self) -> tuple[tuple[Moment, ...], tuple[Amount, ...], str]:
        if self._read is None:
            month_first = _HAN.search(self.lower) is not None
            moments, rest = self.filler.calendar.read(self.lower, self.today, month_first)
            self._read = moments, self.filler.amounts.read(rest), rest
        return self._read


def _fill(slots: tuple[Slot, ...], text: _Text) -> dict[str, Filled | Missing]:
    found = {slot.name: _candidates(slot, text) for slot in slots}
    filled: dict[str, Filled | Missing] = {}
    for slot in slots:
        candidates = found[slot.name]
        others = [c for name, listed in found.items() if name != slot.name for c in listed]
        # Words that two slots may mean fill neither: 英镑 alone does not say from which currency to which.
        shared = any(c.is_within(o) or o.is_within(c) for c in candidates for o in others)
        filled[slot.name] = _choose(slot, candidates, text, shared=shared)
    return filled


def _choose(slot: Slot, candidates: list[_Candidate], text: _Text, *, shared: bool) -> Filled | Missing:
    if slot.kind in (Kind.CALLER, Kind.FREE):
        reason = "caller" if slot.kind is Kind.CALLER else "free_text"
    elif not candidates:
        reason = "not_said"
    elif bad := [c.why for c in candidates if c.why]:
        reason = bad[0]
    elif len({c.value for c in candidates}) > 1 or shared:
        reason = "ambiguous"
    else:
        first = candidates[0]
        if first.value is not None and slot.accepts(first.value):
            return Filled(first.value, text.typed[first.start : first.end])
        reason = "invalid"
    if slot.default is not None and reason == "not_said":
        return Filled(slot.default, "")
    return Missing(reason, slot.required)


def _candidates(slot: Slot, text: _Text) -> list[_Candidate]:
    if slot.kind is Kind.VALUES and slot.find is not None:
        matches = [m for m in slot.find.finditer(text.lower) if m.group() in slot.terms]
        return [
            _Candidate(slot.terms[m.group()], *m.span(), "invalid" if text.cuts_a_moment(*m.span()) else "")
            for m in matches
        ]
    if slot.kind is Kind.PATTERN:
        return _by_pattern(slot, text)
    if slot.kind is Kind.NUMBER:
        return [_amount(slot, a) for a in text.amounts if not slot.unit or a.unit == slot.unit]
    if slot.kind in _MOMENTS:
        kinds = {"date": ("date", "day"), "month": ("month", "date"), "time": ("time",)}[slot.kind]
        return [_moment(slot, m, text) for m in text.moments if m.kind in kinds]
    return []


def _by_pattern(slot: Slot, text: _Text) -> list[_Candidate]:
    """As typed, or in upper or lower case; but then words alone are no value: THE is no airport."""
    assert slot.find is not None  # noqa: S101 - checked when the bundle was loaded
    found: dict[tuple[int, int], _Candidate] = {}
    for form in dict.fromkeys((text.typed, text.typed.translate(_UPPER), text.typed.translate(_LOWER))):
        for match in slot.find.finditer(form):
            value, place = match.group(), match.span()
            is_value = form is text.typed or _HAS_DIGIT.search(value)
            digits = _DIGITS.fullmatch(value) is not None
            other = digits and (text.is_spoken_for(*place) or doubts.is_called_no_id(text.lower, *place))
            if is_value and not other:
                why = "ambiguous" if digits and doubts.looks_like_no_id(value) else ""
                found.setdefault(place, _Candidate(value, *place, why))
    return list(found.values())


def _amount(slot: Slot, amount: Amount) -> _Candidate:
    value = amount.value
    if value is not None and slot.type == "integer":
        value = int(value) if value == int(value) else None
    return _Candidate(value, amount.start, amount.end, "" if value is not None else "invalid")


def _moment(slot: Slot, moment: Moment, text: _Text) -> _Candidate:
    today = text.today
    doubtful = moment.kind in ("date", "month") and doubts.of_moment(text.lower, moment.start, moment.end)
    if slot.kind is Kind.MONTH and moment.kind == "date":
        firsts = tuple(dict.fromkeys(day.replace(day=1) for day in moment.values if isinstance(day, date)))
        moment = Moment("month", firsts, moment.start, moment.end, moment.open)
    value = moment.value(today, slot.when)
    where = (moment.start, moment.end)
    if value is None:
        return _Candidate(None, *where, "ambiguous" if moment.left(today, slot.when) else "invalid")
    if doubtful:
        return _Candidate(None, *where, "ambiguous")
    if isinstance(value, time):
        return _Candidate(value.strftime("%H:%M"), *where)
    return _Candidate(value.isoformat()[: 7 if slot.kind is Kind.MONTH else 10], *where)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER
