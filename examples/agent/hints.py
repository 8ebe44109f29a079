"""Routing hints for the agent: one RFC 9651 dictionary in the header ``x-frontdesk-hints``, signed or not.

Both directions, standard library only: an agent developer may copy this file as it is.

    hints = parse_hints(request.headers["x-frontdesk-hints"])
    hints.topic, hints.confidence, hints.reason, hints.tools, hints.slots["order_id"], hints.budget_ms
    # where the front desk signs them: verify_hints, with its keys and one Seen a process
"""

import base64
import hashlib
import hmac
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import unquote_to_bytes

HINTS_VERSION = 1
HINTS_HEADER = "x-frontdesk-hints"
SIGNATURE_HEADER = "x-frontdesk-signature"
MAX_HEADER_BYTES = 4096
VALID_SECONDS = 60

_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*")
_BARE = re.compile(
    r"(?P<number>-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15}))|@(?P<date>-?[0-9]{1,15})|\?(?P<flag>[01])"
    r'|"(?P<string>(?:[ !#-\[\]-~]|\\["\\])*)"|%"(?P<display>(?:[ !#$&-~]|%[0-9a-f]{2})*)"'
    rf"|:(?P<bytes>[A-Za-z0-9+/]*=*):|(?P<token>{_TOKEN.pattern})"
)
_COMMA = re.compile(r"[ \t]*(?:,[ \t]*(?!\Z)|\Z)")
_SPACE = re.compile(r" +|(?=\))")
_SPACES = re.compile(r" *")
_KID = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_HINTS_KEY = re.compile(rf"({_KID}):([!-+\--~]{{32,}})")
_SIGNATURE = re.compile(rf"kid=({_KID}),t=([0-9]{{1,12}}),attempt=([0-9]{{1,4}}),v1=([0-9a-f]{{64}})")


class HintsError(ValueError):
    """The hints cannot be read (``code`` is ``unreadable``) or not be believed.

    ``unsigned``; ``malformed``: the signature cannot be read; ``unknown_key``; ``altered``: not what was
    signed, or signed with another secret; ``expired``: signed more than VALID_SECONDS ago, or ahead;
    ``replayed``; ``too_many``: ``Seen`` is full.
    """

    def __init__(self, message: str, code: str = "unreadable") -> None:
        super().__init__(message)
        self.code = code


class Token(str):
    """An RFC 9651 token: a bare word such as ``zh`` or ``topic_forwards``."""


class Date(int):
    """An RFC 9651 date: seconds since the epoch."""


Bare = bool | int | float | str | bytes
_READ: Mapping[str, Callable[[str], Bare]] = {
    "number": lambda text: float(text) if "." in text else int(text),
    "date": Date,
    "flag": lambda text: text == "1",
    "string": lambda text: re.sub(r"\\(.)", r"\1", text),
    "display": lambda text: unquote_to_bytes(text).decode("utf-8"),
    "bytes": lambda text: base64.b64decode(text.rstrip("=") + "==="),
    "token": Token,
}
_T = TypeVar("_T", int, float, str)


@dataclass(frozen=True, slots=True)
class Item:
    """A value with parameters."""

    value: Bare
    params: Mapping[str, Bare] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hints:
    """What the front desk found out before it forwarded a turn.

    ``confidence`` is P(``topic`` is right), floored to 3 places, ``top`` up to three (topic, confidence);
    ``reason`` says why the turn was not answered at the edge; ``tools`` are those of the topic, ``slots``
    their inputs by name, as far as the turn says them beyond doubt. ``complexity`` is ``single`` or ``multi``
    (requests in the turn), ``length`` ``short``, ``medium`` or ``long``, ``tier`` the suggested model,
    ``small`` or ``large``; ``budget_ms`` is what is left until the promised first byte. ``injected``: tools
    whose results end the conversation; ``prefetch``: ids of results that can be collected, with their tools.
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
    length: str | None = None
    tier: str | None = None
    budget_ms: int | None = None
    bundle: str | None = None
    injected: tuple[str, ...] = ()
    prefetch: Mapping[str, str] = field(default_factory=dict)


def format_hints(hints: Hints) -> str:
    """The header value; where it would pass 4 KB the slots are dropped, then the longest members."""
    members: dict[str, Item | tuple[Item, ...] | None] = {
        "v": Item(hints.version),
        "topic": _item(hints.topic),
        "confidence": None if hints.confidence is None else Item(_floor3(hints.confidence)),
        "lang": _word(hints.lang),
        "reason": _word(hints.reason),
        "complexity": _word(hints.complexity),
        "length": _word(hints.length),
        "tier": _word(hints.tier),
        "budget": _item(hints.budget_ms),
        "bundle": _item(hints.bundle),
        "top": tuple(Item(topic, {"c": _floor3(conf)}) for topic, conf in hints.top) or None,
        "tools": tuple(map(Item, hints.tools)) or None,
        "injected": tuple(map(Item, hints.injected)) or None,
        "prefetch": tuple(Item(key, {"n": tool}) for key, tool in hints.prefetch.items()) or None,
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
    top = tuple((str(item.value), _scalar(item.params, "c", float) or 0.0) for item in _list(members, "top"))
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
        length=_scalar(members, "length", str),
        tier=_scalar(members, "tier", str),
        budget_ms=_scalar(members, "budget", int),
        bundle=_scalar(members, "bundle", str),
        injected=tuple(str(item.value) for item in _list(members, "injected")),
        prefetch={str(item.value): _name(item) for item in _list(members, "prefetch")},
    )


@dataclass(frozen=True, slots=True)
class HintsKey:
    """A secret that the front desk and the agent share, and the name by which signatures tell it."""

    kid: str
    secret: bytes = field(repr=False)


class Seen:
    """The (request id, attempt) pairs that came with good signatures, to tell replays; for any threads.

    While ``limit`` pairs are kept, no further hints are believed.
    """

    def __init__(self, limit: int = 65_536) -> None:
        self._limit = limit
        self._until: OrderedDict[tuple[str, int], float] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, request_id: str, attempt: int, now: float) -> None:
        """Note a pair. Raises HintsError where it came before."""
        with self._lock:
            while self._until and next(iter(self._until.values())) < now:
                self._until.popitem(last=False)
            if (request_id, attempt) in self._until:
                raise HintsError("The hints came before.", "replayed")
            if len(self._until) >= self._limit:
                raise HintsError("Too many signed hints came in a short time.", "too_many")
            # What was signed by a clock ahead of ours is good for that much longer.
            self._until[request_id, attempt] = now + 2 * VALID_SECONDS


def parse_keys(text: str) -> tuple[HintsKey, ...]:
    """The keys of ``kid:secret,kid:secret``; the first one signs. Raises ValueError, telling no secret."""
    found = [_HINTS_KEY.fullmatch(part.strip()) for part in text.split(",")]
    keys = tuple(HintsKey(match[1], match[2].encode()) for match in found if match)
    if len(keys) < len(found) or len({key.kid for key in keys}) < len(keys):
        raise ValueError(
            "expected kid:secret,kid:secret with different kids of letters, digits, '_', '.', '-', and "
            "secrets of at least 32 printable ASCII characters without spaces and commas"
        )
    return keys


def sign_hints(hints: str, request_id: str, body: bytes, key: HintsKey, now: int, attempt: int = 1) -> str:
    """The value of SIGNATURE_HEADER. ``body``: as it is sent; ``now``: seconds since the epoch."""
    if not (request_id + hints).isascii() or not (request_id + hints).isprintable():
        raise HintsError("Only printable ASCII can be signed: a line break would make another message of it.")
    mac = _mac(key.secret, str(now), request_id, str(attempt), body, hints)
    return f"kid={key.kid},t={now},attempt={attempt},v1={mac}"


def verify_hints(
    hints: str, signature: str, request_id: str, body: bytes, keys: Iterable[HintsKey], seen: Seen, now: float
) -> Hints:
    """The hints of a header value, if the front desk made them for this request. Raises HintsError.

    Headers as they came, "" for none; ``body``: as it was received; ``now``: seconds since the epoch.
    """
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise HintsError("There is no signature to be read.", "malformed" if signature else "unsigned")
    kid, signed_at, attempt, mac = match.groups()
    secret = next((key.secret for key in keys if key.kid == kid), None)
    if secret is None:
        raise HintsError(f"There is no key {kid!r}.", "unknown_key")
    if not hmac.compare_digest(mac, _mac(secret, signed_at, request_id, attempt, body, hints)):
        raise HintsError("Hints, body, request id or signature were altered.", "altered")
    if abs(age := now - int(signed_at)) > VALID_SECONDS:
        raise HintsError(f"The hints were signed {age:.0f} s ago.", "expired")
    seen.add(request_id, int(attempt), now)
    return parse_hints(hints)


def _mac(secret: bytes, signed_at: str, request_id: str, attempt: str, body: bytes, hints: str) -> str:
    digest = hashlib.sha256(body).hexdigest()
    signed = "\n".join(("frontdesk-hints-v1", signed_at, request_id, attempt, digest, hints))
    return hmac.digest(secret, signed.encode("utf-8", "surrogatepass"), "sha256").hex()


def parse_dictionary(text: str) -> dict[str, Item | tuple[Item, ...]]:
    """An RFC 9651 dictionary (section 4.2.2); inner lists are tuples of items. Raises HintsError."""
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
    return _format_pair(key, member.value) + _format_params(member.params)


def _format_item(item: Item) -> str:
    return _format_bare(item.value) + _format_params(item.params)


def _format_params(params: Mapping[str, Bare]) -> str:
    return "".join(";" + _format_pair(key, value) for key, value in params.items())


def _format_pair(key: str, value: Bare) -> str:
    """Section 4.1.2: what is true is its key alone."""
    return _key(key) if value is True else f"{_key(key)}={_format_bare(value)}"


def _format_bare(value: Bare) -> str:
    if isinstance(value, bool):
        return "?1" if value else "?0"
    if isinstance(value, bytes):
        return f":{base64.b64encode(value).decode()}:"
    if isinstance(value, int):
        if abs(value) >= 10**15:
            raise HintsError(f"{value!r} has more than 15 digits.")
        return f"@{int(value)}" if isinstance(value, Date) else str(int(value))
    if isinstance(value, float):
        rounded = round(value, 3) + 0.0  # -0.0 becomes 0.0
        if not abs(rounded) < 10**12:
            raise HintsError(f"{value!r} cannot be a decimal.")
        return str(rounded)
    if isinstance(value, Token):
        if not _TOKEN.fullmatch(value):
            raise HintsError(f"{value!r} cannot be a token.")
        return str(value)
    if all(" " <= char <= "~" for char in value):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    # Section 4.1.11: percent, double quote and everything outside printable ASCII are escaped.
    raw = value.encode("utf-8", "replace")
    return '%"' + "".join(chr(b) if 0x20 <= b <= 0x7E and b not in b'%"' else f"%{b:02x}" for b in raw) + '"'


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise HintsError(f"{key!r} cannot be a key.")
    return key


def _floor3(value: float) -> float:
    return math.floor(value * 1000) / 1000


def _scalar(members: Mapping[str, Item | tuple[Item, ...] | Bare], key: str, kind: type[_T]) -> _T | None:
    member = members.get(key)
    value = member.value if isinstance(member, Item) else member
    if value is None:
        return None
    if kind is float and type(value) is int:
        value = float(value)
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise HintsError(f"The member {key!r} should be {kind.__name__}, got {member!r}.")


def _name(item: Item) -> str:
    name = item.params.get("n")
    if not isinstance(name, str):
        raise HintsError(f"The parameter 'n' of {item.value!r} should be a name, got {name!r}.")
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
            key = self._match(_KEY, "a key").group()
            if not self._take("="):
                members[key] = Item(True, self._params())
            else:
                members[key] = self._inner_list() if self._take("(") else self._item()
            self._match(_COMMA, "a comma")
        return members

    def _inner_list(self) -> tuple[Item, ...]:
        items: list[Item] = []
        self._match(_SPACES)
        while not self._take(")"):
            items.append(self._item())
            self._match(_SPACE, "a space or )")
        self._params()
        return tuple(items)

    def _item(self) -> Item:
        return Item(self._bare(), self._params())

    def _params(self) -> dict[str, Bare]:
        params: dict[str, Bare] = {}
        while self._take(";"):
            self._match(_SPACES)
            key = self._match(_KEY, "a parameter").group()
            params[key] = self._bare() if self._take("=") else True
        return params

    def _bare(self) -> Bare:
        match = self._match(_BARE, "a value")
        kind = match.lastgroup or ""
        try:
            return _READ[kind](match[kind])
        except ValueError as exc:
            raise HintsError(f"{match.group()!r} cannot be read: {exc}.") from exc

    def _match(self, pattern: re.Pattern[str], what: str = "") -> re.Match[str]:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise HintsError(f"Expected {what} at {self.at} in {self.text!r}.")
        self.at = match.end()
        return match

    def _take(self, char: str) -> bool:
        self.at += (found := self.text.startswith(char, self.at))
        return found
