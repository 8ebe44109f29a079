"""One JSON line on stderr for each request, and the request id that ties it to Frontdesk's own log."""

import json
import re
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stats import Stats
from wire import ApiError, Reply

# A foreign id goes into logs and headers: only what can do no harm there is taken over.
_SAFE_ID = re.compile(r"[A-Za-z0-9_=.:-]{1,255}")


@dataclass(slots=True)
class Record:
    """What is known of one request so far. Times and facts only: message text has no field here."""

    request_id: str
    path: str
    hints: str | None  # as they came, believed or not
    llm: str
    hints_ignored: str | None = None  # why: unsigned, altered, expired, replayed, …
    started: float = field(default_factory=time.perf_counter)
    status: int | None = None
    stream: bool = False
    first_token_ms: float | None = None
    ended: bool = False
    client_left: bool = False
    generation: str | None = None  # finished, failed, or cancelled because the client left
    generated_tokens: int | None = None  # known of the scripted LLM only
    route: str | None = None  # straight, injected, hinted, direct or planned: see loop.py
    stages: dict[str, float] = field(default_factory=dict)  # ms
    skipped: dict[str, str] = field(default_factory=dict)  # what was not done, and why
    tools: list[dict[str, Any]] = field(default_factory=list)
    llm_calls: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None

    def elapsed_ms(self) -> float:
        """Milliseconds since the request came."""
        return round((time.perf_counter() - self.started) * 1000, 1)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time inside to a stage, also where it ends with an error or is cancelled."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - begun) * 1000
            self.stages[name] = round(self.stages.get(name, 0.0) + spent, 1)

    def count(self, usage: object) -> None:
        """Add an LLM's ``usage``, as far as it can be read; servers leave parts of it out."""
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        for name, value in (
            ("prompt_tokens", usage.get("prompt_tokens")),
            ("cached_tokens", cached),
            ("completion_tokens", usage.get("completion_tokens")),
        ):
            if isinstance(value, int):
                setattr(self, name, (getattr(self, name) or 0) + value)

    def line(self) -> str:
        """The log line. ASCII, so that no header value can break a terminal or a log shipper."""
        return json.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "request_id": self.request_id,
                "path": self.path,
                "status": self.status,
                "llm": self.llm,
                "stream": self.stream,
                "hints": self.hints,
                "hints_ignored": self.hints_ignored,
                "route": self.route,
                "skipped": self.skipped,
                "stages": self.stages,
                "tools": self.tools,
                "llm_calls": self.llm_calls,
                "prompt_tokens": self.prompt_tokens,
                "cached_tokens": self.cached_tokens,
                "completion_tokens": self.completion_tokens,
                "first_token_ms": self.first_token_ms,
                "total_ms": self.elapsed_ms(),
                "client_left": self.client_left,
                "generation": self.generation,
                "generated_tokens": self.generated_tokens,
            }
        )


def write_line(line: str) -> None:
    """One write, where print() makes two: the lines of several workers must not run together."""
    sys.stderr.write(line + "\n")


class RequestLogMiddleware:
    """Pure ASGI, because only at this level the first byte and the last one can be timed as they are sent."""

    def __init__(self, app: ASGIApp, llm: str, stats: Stats) -> None:
        self.app = app
        self.llm = llm
        self.stats = stats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Probes under /health are left out: one line a second from a load balancer hides the others."""
        if scope["type"] != "http" or scope["path"].startswith("/health/"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _SAFE_ID.fullmatch(given) else uuid.uuid4().hex
        hints = ", ".join(headers.getlist("x-frontdesk-hints")) or None
        # Of a tool's path its name alone: what follows is what a user asked for.
        path = (
            scope["path"]
            if not scope["path"].startswith("/tools/")
            else "/tools/" + scope["path"].split("/")[2]
        )
        record = scope["record"] = Record(request_id, path, hints, self.llm)

        async def watched_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer["x-request-id"] = request_id
                record.status = message["status"]
                record.stream = answer.get("content-type", "").startswith("text/event-stream")
            elif message["type"] == "http.response.body":
                if record.stream and record.first_token_ms is None and message.get("body"):
                    record.first_token_ms = record.elapsed_ms()
                # Noted before it is sent: the server reports a disconnect as soon as an answer is complete.
                record.ended = not message.get("more_body", False)
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        except ClientDisconnect:  # while its body was still being read
            record.client_left = True
        except Exception:
            if record.status is None:
                await Reply(watched_send).json(500, ApiError(500, "Internal error.", "internal_error").body())
            raise
        finally:
            write_line(record.line())
            if record.route is not None and record.generation == "finished":
                times = {"first_token": record.first_token_ms, "total": record.elapsed_ms()}
                self.stats.add(record.route, {**record.stages, **times})
