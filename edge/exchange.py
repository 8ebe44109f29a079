"""One HTTP exchange: its id, its clock, the headers that every answer carries, and its event."""

import logging
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from starlette.types import Scope, Send

from edge.budget import Budget
from edge.decision import Decision, Path
from edge.errors import MethodNotAllowed, RequestError, error_json
from edge.forward import OWN_PREFIX, RawHeaders, Relayed
from edge.identity import Caller
from edge.telemetry import CacheUse, ContextUse, Served, Sink, Spans, ToolCall

logger = logging.getLogger("frontdesk")

WIRE_SCHEMA = b"1"
_REQUEST_ID = re.compile(r"[A-Za-z0-9_=.:-]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class Exchange:
    """What belongs to one request from its arrival to its last byte."""

    __slots__ = (
        "audit", "budget", "bundle", "cache", "caller", "calls", "context", "debug", "decision",
        "first_byte_ms", "request_id", "scope", "spans", "traceparent",
    )  # fmt: skip

    def __init__(self, scope: Scope, default_budget_ms: int) -> None:
        self.scope = scope
        self.spans = Spans()
        self.decision: Decision | None = None
        self.bundle = ""
        self.caller = Caller()
        self.calls: tuple[ToolCall, ...] = ()
        self.context: ContextUse | None = None
        self.cache: CacheUse | None = None
        self.audit: Mapping[str, Any] | None = None
        self.first_byte_ms: float | None = None
        given = self.header(b"x-request-id")
        self.request_id = given if _REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"
        trace = self.header(b"traceparent")
        self.traceparent = (
            trace
            if _TRACEPARENT.fullmatch(trace)
            else f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        )
        self.debug = self.header(OWN_PREFIX + b"debug") == "1"
        asked = self.header(OWN_PREFIX + b"budget-ms")
        budget_ms = (
            int(asked) if asked.isascii() and asked.isdigit() and len(asked) <= 7 else default_budget_ms
        )
        self.budget = Budget.of_ms(budget_ms)

    @property
    def trace(self) -> RawHeaders:
        """The headers by which whoever is asked for this request can tell it."""
        return [
            (b"x-request-id", self.request_id.encode()),
            (b"traceparent", self.traceparent.encode()),
        ]

    def header(self, name: bytes) -> str:
        """A request header as text, "" where it is missing."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value.decode("latin-1"))
        return ""

    def head(self) -> RawHeaders:
        """Schema, path, reason, request id and timing; the evidence too where it was asked for.

        To be called when the first byte goes out, because that is what the timing tells.
        """
        self.first_byte_ms = self.spans.total_ms()
        headers = [
            (b"x-frontdesk-schema", WIRE_SCHEMA),
            (b"x-request-id", self.request_id.encode()),
            (b"server-timing", self.spans.server_timing().encode()),
        ]
        decision = self.decision
        if decision is not None:
            headers += [
                (b"x-frontdesk-path", decision.path.encode()),
                (b"x-frontdesk-reason", decision.reason.encode()),
            ]
            if self.debug:
                headers += self._evidence(decision)
        return headers

    def _evidence(self, decision: Decision) -> Iterable[tuple[bytes, bytes]]:
        confidence, reading = decision.confidence, decision.reading
        similarity = None
        if self.cache is not None and self.cache.similarity is not None:
            similarity = f"{self.cache.similarity:.4f}"
        facts = {
            b"topic": decision.topic,
            b"confidence": None if confidence is None else f"{confidence:.4f}",
            b"exit": None if reading is None else str(reading.exit),
            b"bundle": self.bundle or None,
            b"cache": None if self.cache is None else self.cache.header(),
            b"similarity": similarity,
            b"context": None if self.context is None else self.context.header(),
            b"unproven": "1" if decision.unproven else None,
            b"observed": None
            if decision.observed is None
            else f"{decision.observed.path};{decision.observed.reason}",
        }
        return [
            (OWN_PREFIX + name, value.encode("ascii", "replace"))
            for name, value in facts.items()
            if value is not None
        ]

    async def respond(
        self, send: Send, status: int, content_type: bytes, body: bytes, extra: RawHeaders | None = None
    ) -> None:
        """Send a whole response of our own."""
        headers = [
            (b"content-type", content_type),
            (b"content-length", str(len(body)).encode()),
            *self.head(),
            *(extra or ()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def refuse(self, send: Send, error: RequestError) -> None:
        """Send an error of our own; ``x-frontdesk-path`` says that it is ours."""
        self.spans.mark("error")
        extra: RawHeaders = []
        if self.decision is None:
            extra += [(b"x-frontdesk-path", Path.ERROR.encode())]
            extra += [(b"x-frontdesk-reason", error.error_code.encode())]
        else:
            self.decision = replace(self.decision, path=Path.ERROR, answer=None)
        if error.error_code == "bad_framing":
            # Where the next request begins is uncertain: there must be none (RFC 9112, section 6.3).
            extra.append((b"connection", b"close"))
        if isinstance(error, MethodNotAllowed):
            extra.append((b"allow", error.allow.encode()))
        if error.status == 401:
            extra.append((b"www-authenticate", b"Bearer"))
        if error.status >= 500:
            # The SDKs would otherwise run a turn twice that the agent may have begun.
            extra += [(b"retry-after", b"1")] if error.repeatable else [(b"x-should-retry", b"false")]
        await self.respond(send, error.status, b"application/json", error_json(error), extra)

    def served(
        self,
        sinks: Iterable[Sink],
        status: int,
        outcome: str,
        stream: bool = False,
        relayed: Relayed | None = None,
    ) -> None:
        """Tell the sinks that the request is over."""
        event = Served(
            request_id=self.request_id,
            tenant=self.caller.tenant,
            route=self.scope["path"],
            status=status,
            outcome=outcome,
            stream=stream,
            decision=self.decision,
            spans=tuple(self.spans.spent),
            first_byte_ms=self.first_byte_ms,
            total_ms=self.spans.total_ms(),
            upstream_status=relayed.status or None if relayed else None,
            completion_tokens=relayed.completion_tokens if relayed else None,
            tools=self.calls,
            context=self.context,
            cache=self.cache,
            audit=self.audit,
        )
        for sink in sinks:
            try:
                sink(event)
            except Exception:  # the client must not suffer for a sink, nor the next sink
                logger.exception("A sink failed on the request %s.", self.request_id)


def unix_now() -> int:
    """Seconds since the epoch, as OpenAI's ``created`` and a signature have it."""
    return int(time.time())
