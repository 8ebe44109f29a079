"""What happened, as data: the spans of one request, and the event that sinks receive."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edge.decision import Decision


class Spans:
    """Where the time of one request went: (stage, milliseconds), in order."""

    __slots__ = ("_last", "spent", "start")

    def __init__(self) -> None:
        self.start = self._last = time.perf_counter()
        self.spent: list[tuple[str, float]] = []

    def mark(self, name: str) -> None:
        """Book the time since the last mark to ``name``."""
        now = time.perf_counter()
        self.spent.append((name, (now - self._last) * 1000))
        self._last = now

    def total_ms(self) -> float:
        """Milliseconds since the request came."""
        return (time.perf_counter() - self.start) * 1000

    def server_timing(self) -> str:
        """The ``server-timing`` header value so far."""
        return ", ".join(f"{name};dur={ms:.3f}" for name, ms in self.spent)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a request called. ``level``: what for. ``gain_ms``: what it was expected to save, if known.

    ``outcome``: ``ok``, ``prefetched`` (left for the agent to collect), ``collected``, or why there is none.
    ``problem``: why the results do not fill the topic's template; it names a field and never a value.
    """

    tool: str
    level: str
    outcome: str
    ms: float = 0.0
    cached: bool = False
    gain_ms: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ContextUse:
    """Estimated tokens of a conversation as it came and as it was forwarded; None where they are unknown.

    ``unpruned``: why it was forwarded as it came although that was not meant, in snake_case.
    """

    before: int | None
    after: int | None
    unpruned: str = ""

    def header(self) -> str:
        """The value of ``x-frontdesk-context``."""
        known = [] if self.before is None else [f"before={self.before}", f"after={self.after}"]
        return ";".join([*known, f"unpruned={self.unpruned}"] if self.unpruned else known)


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What the cache did for a turn.

    ``outcome``: ``hit``, ``stored`` (the agent answered, and that is kept), ``miss``, or ``none`` where the
    turn has nothing to do with it. ``why``: of a miss that was not kept and of ``none``, in snake_case.
    ``tier``: ``exact``, ``semantic`` or ``waited`` (somebody asked the same at the same time); ``shared``: it
    came from what several servers share. ``id``: of the entry, for a purge.
    """

    outcome: str
    why: str = ""
    tier: str = ""
    shared: bool = False
    similarity: float | None = None
    age_s: float | None = None
    id: str = ""

    def header(self) -> str:
        """The value of ``x-frontdesk-cache``."""
        facts = {"why": self.why, "tier": self.tier, "id": self.id}
        facts |= {} if self.age_s is None else {"age": f"{self.age_s:.0f}"}
        return ";".join([self.outcome, *(f"{name}={value}" for name, value in facts.items() if value)])


@dataclass(frozen=True, slots=True)
class Served:
    """One finished request. It holds no text of any message.

    ``audit``: what was done to the cache on somebody's demand, as JSON can hold it.
    ``outcome``: ``ok``, ``client_left``, ``upstream_failed`` (mid-stream) or an error code.
    ``first_byte_ms`` and ``total_ms`` count from the arrival of the body.
    """

    request_id: str
    tenant: str
    route: str
    status: int
    outcome: str
    stream: bool
    decision: Decision | None
    spans: tuple[tuple[str, float], ...]
    first_byte_ms: float | None
    total_ms: float
    upstream_status: int | None = None
    completion_tokens: int | None = None
    tools: tuple[ToolCall, ...] = ()
    context: ContextUse | None = None
    cache: CacheUse | None = None
    audit: Mapping[str, Any] | None = None


Sink = Callable[[Served], None]
