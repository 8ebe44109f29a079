"""``cache-control`` of requests and responses, as far as a cache of answers needs it (RFC 9111)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

_FORBIDS_STORING = frozenset({"no-store", "private"})
# On an event stream these are what servers send by habit, so that no proxy holds events back.
_FORBIDS_STORING_WHOLE = _FORBIDS_STORING | {"no-cache"}
# What a response says to one client, or says differently to others.
_PERSONAL_HEADERS = frozenset({b"set-cookie", b"www-authenticate"})
_SHAREABLE_VARY = frozenset({b"", b"accept", b"accept-encoding", b"origin"})


@dataclass(frozen=True, slots=True)
class Control:
    """What a client asks of the cache.

    ``max_age``: the oldest answer it takes, in seconds; None: any. 0 for ``no-cache``: the agent shall
    answer anew, and that may be stored. ``store``: False for ``no-store``.
    """

    max_age: float | None = None
    store: bool = True

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]]) -> Self:
        """From the headers of a request. What cannot be read asks for a new answer."""
        directives = _directives(headers)
        ages = [_seconds(value) for name, value in directives if name == "max-age"]
        names = {name for name, _ in directives}
        if "no-cache" in names:
            ages.append(0.0)
        return cls(min(ages) if ages else None, "no-store" not in names)

    @property
    def fresh(self) -> bool:
        """Whether nothing stored will do."""
        return self.max_age is not None and self.max_age <= 0


def may_store(headers: Iterable[tuple[bytes, bytes]], *, is_events: bool) -> bool:
    """Whether a response's headers, names in lower case, leave it to be given to others."""
    headers = list(headers)
    if {name for name, _ in headers} & _PERSONAL_HEADERS:
        return False
    forbidding = _FORBIDS_STORING if is_events else _FORBIDS_STORING_WHOLE
    for name, value in _directives(headers):
        if name in forbidding or (name == "max-age" and _seconds(value) <= 0 and not is_events):
            return False
    varies = [part.strip().lower() for n, value in headers if n == b"vary" for part in value.split(b",")]
    return _SHAREABLE_VARY.issuperset(varies)


def _directives(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    found = []
    for name, value in headers:
        if name == b"cache-control":
            for part in value.decode("latin-1").lower().split(","):
                directive, _, given = part.strip().partition("=")
                found.append((directive.strip(), given.strip().strip('"')))
    return found


def _seconds(value: str) -> float:
    return float(value) if value.isascii() and value.isdigit() and len(value) <= 10 else 0.0
