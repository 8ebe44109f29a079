"""Routing hints for the agent: one RFC 9651 dictionary in the header ``x-frontdesk-hints``.

Both directions, standard library only: an agent developer may copy this file as it is.

    hints = parse_hints(request.headers["x-frontdesk-hints"])
    hints.topic, hints.confidence, hints.reason, hints.tools, hints.slots["order_id"], hints.budget_ms
"""

import base64
import binascii
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import unquote_to_bytes

HINTS_VERSION = 1
HINTS_HEADER = "x-frontdesk-hints"
MAX_HEADER_BYTES = 4096

_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*")
_NUMBER = re.compile(r"-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})")
_BYTES = re.compile(r":[A-Za-z0-9+/]*=*:")
_DISPLAY = re.compile(r'%"(?:[ !#$&-~]|%[0-9a-f]{2})*"')
_MAX_INTEGER = 10**15 - 1
_MAX_DECIMAL = 10**12


class HintsError(ValueError):
    """The header is not the dictionary of RFC 9651 that it should be."""


class Token(str):
    """An RFC 9651 token: a bare word such as ``zh`` or ``topic_forwards``."""

    __slots__ = ()


class Date(int):
    """An RFC 9651 date: seconds since the epoch."""

    __slots__ = ()


Bare = bool | int | float | str | bytes
_T = TypeVar("_T", int, float, str)


@dataclass(frozen=True, slots=True)
class Item:
    """A value with parameters."""

    value: Bare
    params: Mapping[str, Bare] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hints:
    """What the front desk found out before it forwarded a turn.

    ``confidence`` is P(``topic`` is right), floored to 3 places; ``top`` holds up to three
    (topic, confidence) pairs; ``reason`` says why the turn was not answered at the edge;
    ``tools`` are the tools that the topic declares, ``slots`` their inputs by name, as far as the turn
    says them beyond doubt; a slot may be left out although the turn says it. ``complexity`` is
    ``single`` or ``multi`` (requests in the turn); ``budget_ms`` is what is left until the promised
    first byte.
    """

    version: int = HINTS_VERSION
    topic: str | None = None
    confidence: float | None = None
    top: tuple[tuple[str, float], ...] = ()
    lang: str | None = None
    reason: str | None = None
    tools: tuple[str, ...] = ()
    slots: Mapping[str, Bare] = field(default_factory=dict)
    complexity: str | None = None
    budget_ms: int | None = None
    bundle: str | None = None


def format_hints(hints: Hints) -> str:
    """The header value; where it would pass 4 KB the slots are dropped, then the longest members."""
    members: dict[str, Item | tuple[Item, ...] | None] = {
        "v": Item(hints.version),
        "topic": _item(hints.topic),
        "confidence": None if hints.confidence is None else Item(_floor3(hints.confidence)),
        "lang": _word(hints.lang),
        "reason": _word(hints.reason),
        "complexity": _word(hints.complexity),
        "budget": _item(hints.budget_ms),
        "bundle": _item(hints.bundle),
        "top": tuple(Item(topic, {"c": _floor3(conf)}) for topic, conf in hints.top) or None,
        "tools": tuple(map(Item, hints.tools)) or None,
        "slots": tuple(Item(value, {"n": _bare_word(name)}) for name, value in hints.slots.items()) or None,
    }
    parts = {key: _format_member(key, member) for key, member in members.items() if member is not None}
    while len(header := ", ".join(parts.values())) > MAX_HEADER_BYTES:
        del parts["slots" if "slots" in parts else max(parts, key=lambda key: len(parts[key]))]
    return header


def parse_hints(header: str) -> Hints:
    """The hints of a header value; unknown members are ignored. Raises HintsError."""
    members = parse_dictionary(header)
    version = _scalar(members, "v", int)
    if version != HINTS_VERSION:
        raise HintsError(f"These hints are of version {version}; this file reads version {HINTS_VERSION}.")
    top = tuple((str(item.value), _probability(item)) for item in _list(members, "top"))
    return Hints(
        version=version,
        topic=_scalar(members, "topic", str),
        confidence=_scalar(members, "confidence", float),
        top=top,
        lang=_scalar(members, "lang", str),
        reason=_scalar(members, "reason", str),
        tools=tuple(str(item.value) for item in _list(members, "tools")),
        slots={_name(item): item.value for item in _list(members, "slots")},
        complexity=_scalar(members, "complexity", str),
        budget_ms=_scalar(members, "budget", int),
        bundle=_scalar(members, "bundle", str),
    )


def format_dictionary(members: Mapping[str, Item | tuple[Item, ...]]) -> str:
    """An RFC 9651 dictionary (section 4.1.2); inner lists are tuples of items."""
    return ", ".join(_format_member(key, member) for key, member in members.items())


def parse_dictionary(text: str) -> dict[str, Item | tuple[Item, ...]]:
    """The reverse (section 4.2.2). Raises HintsError."""
    return _Parser(text).dictionary()


def _item(value: Bare | None) -> Item | None:
    return None if value is None else Item(value)


def _word(value: str | None) -> Item | None:
    """A token, or a string where the value cannot be a token."""
    return None if value is None else Item(_bare_word(value))


def _bare_word(value: str) -> str:
    return Token(value) if _TOKEN.fullmatch(value) else value


def _format_member(key: str, member: Item | tuple[Item, ...]) -> str:
    if not isinstance(member, Item):
        return f"{_key(key)}=({' '.join(map(_format_item, member))})"
    if member.value is True:  # section 4.1.2: a true member is its key alone
        return _key(key) + _format_params(member.params)
    return f"{_key(key)}={_format_item(member)}"


def _format_item(item: Item) -> str:
    return _format_bare(item.value) + _format_params(item.params)


def _format_params(params: Mapping[str, Bare]) -> str:
    return "".join(
        f";{_key(key)}" if value is True else f";{_key(key)}={_format_bare(value)}"
        for key, value in params.items()
    )


def _format_bare(value: Bare) -> str:
    if isinstance(value, bool):
        return "?1" if value else "?0"
    if isinstance(value, bytes):
        return f":{base64.b64encode(value).decode()}:"
    if isinstance(value, int):
        if not -_MAX_INTEGER <= value <= _MAX_INTEGER:
            raise HintsError(f"{value!r} has more than 15 digits.")
        return f"@{int(value)}" if isinstance(value, Date) else str(int(value))
    if isinstance(value, float):
        rounded = round(value, 3) + 0.0  # -0.0 becomes 0.0
        if not -_MAX_DECIMAL < rounded < _MAX_DECIMAL:
            raise HintsError(f"{value!r} cannot be a decimal.")
        text = f"{rounded:.3f}".rstrip("0")
        return f"{text}0" if text.endswith(".") else text
    if isinstance(value, Token):
        if not _TOKEN.fullmatch(value):
            raise HintsError(f"{value!r} cannot be a token.")
        return str(value)
    if all(" " <= char <= "~" for char in value):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return '%"' + "".join(_display_byte(byte) for byte in value.encode("utf-8", "replace")) + '"'


def _display_byte(byte: int) -> str:
    # Section 4.1.11: percent, double quote and everything outside printable ASCII are escaped.
    return chr(byte) if 0x20 <= byte <= 0x7E and byte not in (0x22, 0x25) else f"%{byte:02x}"


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise HintsError(f"{key!r} cannot be a key.")
    return key


def _floor3(value: float) -> float:
    return math.floor(value * 1000) / 1000


def _scalar(members: Mapping[str, Item | tuple[Item, ...]], key: str, kind: type[_T]) -> _T | None:
    member = members.get(key)
    if member is None:
        return None
    if isinstance(member, Item):
        value = member.value
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return kind(value)
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
    raise HintsError(f"The member {key!r} should be {kind.__name__}, got {member!r}.")


def _probability(item: Item) -> float:
    value = item.params.get("c", 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise HintsError(f"The parameter 'c' of {item.value!r} should be a decimal, got {value!r}.")
    return float(value)


def _name(item: Item) -> str:
    name = item.params.get("n")
    if not isinstance(name, str):
        raise HintsError(f"The parameter 'n' of {item.value!r} should be a slot's name, got {name!r}.")
    return name


def _list(members: Mapping[str, Item | tuple[Item, ...]], key: str) -> Iterable[Item]:
    member = members.get(key, ())
    if isinstance(member, Item):
        raise HintsError(f"The member {key!r} should be an inner list.")
    return member


class _Parser:
    """A recursive descent over the header, as section 4.2 gives it."""

    def __init__(self, text: str) -> None:
        self.text = text.strip(" ")
        self.at = 0

    def dictionary(self) -> dict[str, Item | tuple[Item, ...]]:
        members: dict[str, Item | tuple[Item, ...]] = {}
        while self.at < len(self.text):
            key = self._match(_KEY, "a key")
            if self._take("="):
                members[key] = self._inner_list() if self._peek() == "(" else self._item()
            else:
                members[key] = Item(True, self._params())
            self._skip(" \t")
            if self.at == len(self.text):
                return members
            if not self._take(","):
                raise HintsError(f"Expected a comma at {self.at} in {self.text!r}.")
            self._skip(" \t")
            if self.at == len(self.text):
                raise HintsError("The dictionary ends in a comma.")
        return members

    def _inner_list(self) -> tuple[Item, ...]:
        self._take("(")
        items: list[Item] = []
        while True:
            self._skip(" ")
            if self._take(")"):
                self._params()
                return tuple(items)
            items.append(self._item())
            if self._peek() not in (" ", ")"):
                raise HintsError(f"Expected a space or ) at {self.at} in {self.text!r}.")

    def _item(self) -> Item:
        return Item(self._bare(), self._params())

    def _params(self) -> dict[str, Bare]:
        params: dict[str, Bare] = {}
        while self._take(";"):
            self._skip(" ")
            key = self._match(_KEY, "a parameter")
            params[key] = self._bare() if self._take("=") else True
        return params

    def _bare(self) -> Bare:
        char = self._peek()
        if char == '"':
            return self._string()
        if char == "%":
            return self._display_string()
        if char == "?":
            flag = self.text[self.at : self.at + 2]
            self.at += 2
            if flag not in ("?0", "?1"):
                raise HintsError(f"{flag!r} is no boolean.")
            return flag == "?1"
        if char == ":":
            return self._bytes()
        if char == "@":
            self.at += 1
            seconds = self._number()
            if isinstance(seconds, float):
                raise HintsError("A date is a whole number of seconds.")
            return Date(seconds)
        if char == "-" or char.isdigit():
            return self._number()
        return Token(self._match(_TOKEN, "a token"))

    def _number(self) -> int | float:
        number = self._match(_NUMBER, "a number")
        return float(number) if "." in number else int(number)

    def _bytes(self) -> bytes:
        digits = self._match(_BYTES, "a byte sequence").strip(":=")
        try:
            return base64.b64decode(digits + "=" * (-len(digits) % 4))
        except binascii.Error as exc:
            raise HintsError("A byte sequence is not Base64.") from exc

    def _string(self) -> str:
        self.at += 1
        out: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == '"':
                return "".join(out)
            if char == "\\":
                char = self._peek()
                self.at += 1
                if char not in ('"', "\\"):
                    raise HintsError("A string escapes only the double quote and the backslash.")
            elif not " " <= char <= "~":
                raise HintsError("A string holds printable ASCII only.")
            out.append(char)
        raise HintsError("A string is not closed.")

    def _display_string(self) -> str:
        raw = self._match(_DISPLAY, "a display string")[2:-1]
        try:
            return unquote_to_bytes(raw).decode("utf-8")
        except UnicodeDecodeError as exc:
            raise HintsError("A display string is not UTF-8.") from exc

    def _match(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise HintsError(f"Expected {what} at {self.at} in {self.text!r}.")
        self.at = match.end()
        return match.group()

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self.at += 1
        return True

    def _skip(self, chars: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in chars:
            self.at += 1
