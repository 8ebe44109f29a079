"""One JSON line on stderr for each request, and the request id that ties it to Frontdesk's own log."""

import json
import re
import sys
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wire import ApiError, Reply

# A foreign id goes into logs and headers: only what can do no harm there is taken over.
_SAFE_ID = re.compile(r"[A-Za-z0-9_=-]{1,255}")


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

    def elapsed_ms(self) -> float:
        """Milliseconds since the request came."""
        return round((time.perf_counter() - self.started) * 1000, 1)

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

    def __init__(self, app: ASGIApp, llm: str) -> None:
        self.app = app
        self.llm = llm

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Probes under /health are left out: one line a second from a load balancer hides the others."""
        if scope["type"] != "http" or scope["path"].startswith("/health/"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _SAFE_ID.fullmatch(given) else uuid.uuid4().hex
        hints = ", ".join(headers.getlist("x-frontdesk-hints")) or None
        record = scope["record"] = Record(request_id, scope["path"], hints, self.llm)

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
