"""The endpoints: chat here, what is beside it next door, and everything else under /v1 passed through."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from edge.access import Access
from edge.admin import PATH as ADMIN
from edge.admin import Admin
from edge.beside import JSON, Beside
from edge.cache.cache import Cache
from edge.caching import Caching
from edge.config import Settings
from edge.decision import Answer, Decision, Path, Reason
from edge.errors import (
    BadRequest,
    MethodNotAllowed,
    NotFound,
    RequestError,
    RequestTooLarge,
)
from edge.exchange import Exchange, unix_now
from edge.execution import Carried, forwarded
from edge.feedback import Feedback
from edge.forward import OWN_PREFIX, BrokenResponse, Forwarder, RawHeaders, Relayed, unless_gone
from edge.host import Host
from edge.identity import Identity
from edge.outbound import Outbound
from edge.pipeline import Pipeline, withhold
from edge.prefetch import PATH as PREFETCH
from edge.query import Query
from edge.stages.admit import ClientLeft, check_framing, read_body, stays_below, trimmed
from edge.telemetry import Sink
from edge.toolbox import Asker
from edge.wire import completion_events, completion_json, parse_chat

EVENTS = b"text/event-stream; charset=utf-8"

logger = logging.getLogger("frontdesk")


class Endpoints:
    """The request handlers over one host (bundle and pipeline) and one upstream."""

    def __init__(
        self,
        settings: Settings,
        host: Host,
        forwarder: Forwarder,
        identity: Identity,
        cache: Cache,
        sinks: Sequence[Sink],
    ) -> None:
        self.settings = settings
        self.host = host
        self.identity = identity
        self.sinks = sinks
        self.access = Access(settings, identity)
        self.outbound = Outbound(settings, host, forwarder)
        self.feedback = Feedback(settings, cache)
        self.admin = Admin(settings, cache, self.feedback)
        self.caching = Caching(settings, host, self.access, cache)
        self.beside = Beside(settings, host, forwarder, self.outbound, self.access)
        self.observing = settings.answering.mode == "observe"

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route one HTTP request, answer its errors, and tell the sinks how it ended."""
        if scope["type"] != "http":
            return await WebSocketClose()(scope, receive, send)
        scope = trimmed(scope)
        exchange = Exchange(scope, self.settings.budget_ms)
        exchange.bundle = self.host.label
        relayed = Relayed()
        status, outcome = 200, "ok"
        try:
            check_framing(scope)
            # Who collects a result shows the agent's signature, an operator a token; neither is a user.
            if not scope["path"].startswith(("/health/", PREFETCH, ADMIN)):
                exchange.caller, exchange.scope = self.identity.admit(scope)
            await self._endpoint(scope)(exchange, receive, send, relayed)
            status, outcome = relayed.status or 200, relayed.outcome
        except RequestError as error:
            status, outcome = error.status, error.error_code
            await exchange.refuse(send, error)
        except ClientLeft:
            status, outcome = 499, "client_left"
        except BrokenResponse:
            status, outcome = relayed.status, relayed.outcome
            raise
        except Exception:
            status, outcome = RequestError.status, RequestError.code
            if relayed.started:
                raise
            logger.exception("The request %s failed.", exchange.request_id)
            await exchange.refuse(
                send, RequestError("An internal error; the log has it under this x-request-id.")
            )
        finally:
            if not scope["path"].startswith("/health"):
                exchange.served(self.sinks, status, outcome, relayed.stream, relayed)

    def _endpoint(self, scope: Scope) -> Callable[..., Awaitable[None]]:
        path, method = scope["path"], scope["method"]
        if path.startswith("/v1/"):
            path = path.rstrip("/")
        if method in ("TRACE", "CONNECT"):
            # One shows the client which credential we sent, the other makes a tunnel of the connection.
            raise MethodNotAllowed(f"{method} is not served here.", allow="GET, POST")
        # What the upstream has too goes there with any other method: it may list stored completions.
        shared: dict[tuple[str, str], Callable[..., Awaitable[None]]] = {
            ("/v1/chat/completions", "POST"): self.chat,
            ("/v1/models", "GET"): self.beside.models,
            ("/v1/models", "HEAD"): self.beside.models,
        }
        ours: dict[str, tuple[str, Callable[..., Awaitable[None]]]] = {
            "/v1/classify": ("POST", self.beside.classify),
            "/v1/feedback": ("POST", self.feedback.endpoint),
            "/admin/cache": ("GET", self.admin.cache),
            "/admin/cache/purge": ("POST", self.admin.purge),
            "/health/liveness": ("GET", self.beside.liveness),
            "/health/readiness": ("GET", self.beside.readiness),
        }
        if (path, method) in shared:
            unread = self.observing and path == "/v1/models"
            return self.outbound.pass_through if unread else shared[path, method]
        if path.startswith(PREFETCH):
            if method != "GET":
                raise MethodNotAllowed(f"{path} takes GET, got {method}.", allow="GET")
            return self.beside.prefetch
        if path in ours:
            expected, endpoint = ours[path]
            if method != expected and not (expected == "GET" and method == "HEAD"):
                raise MethodNotAllowed(f"{path} takes {expected}, got {method}.", allow=expected)
            return endpoint
        raw = scope.get("raw_path") or scope["path"].encode()
        if path.startswith("/v1/") and raw.startswith(b"/v1/") and stays_below(path):
            return self.outbound.pass_through
        raise NotFound(f"There is nothing at {scope['path']}; the API lies under /v1.")

    async def chat(self, exchange: Exchange, receive: Receive, send: Send, relayed: Relayed) -> None:
        """``POST /v1/chat/completions``: decide, then answer or forward."""
        try:
            body = await read_body(exchange.scope, receive, self.settings.max_body_bytes)
        except RequestTooLarge as error:
            if not self.observing:
                raise
            exchange.decision = Decision(Path.AGENT, Reason.OBSERVE)
            return await self.outbound.pass_through(
                exchange, receive, send, relayed, error.read, more=error.more
            )
        exchange.spans.mark("admit")
        data = self._read(exchange, body)
        if isinstance(data, Decision):
            exchange.decision = data
            return await self.outbound.forward(exchange, receive, send, relayed, body)
        pipeline, carried, filling = self.host.pipeline, Carried(), None
        if pipeline is None:
            exchange.decision = Decision(Path.AGENT, Reason.NOT_READY)
        else:
            query, decision = self._decide(pipeline, data, exchange)
            exchange.decision = decision = await self._disclose(pipeline, decision, exchange)
            if query is not None and decision.calls:
                carried = await self._call_tools(query, exchange, receive)
            elif query is not None and not decision.is_local:
                filling = await self.caching.open(exchange, query, body, data, receive)
            decision = exchange.decision
            if query is not None and decision.answer is not None:
                relayed.stream = query.stream
                self.feedback.given(exchange)
                return await self._answer(exchange, send, decision.answer, query)
        async with self.caching.filling(filling, exchange, relayed):
            await self.outbound.forward(exchange, receive, send, relayed, body, data, carried)
        if exchange.cache is not None and exchange.cache.outcome == "stored":
            self.feedback.given(exchange)
        return None

    def _read(self, exchange: Exchange, body: bytes) -> dict[str, Any] | Decision:
        """The chat body, or the decision to forward it unread. Raises BadRequest."""
        if exchange.header(OWN_PREFIX + b"bypass") == "1":
            return Decision(Path.AGENT, Reason.BYPASS)
        if exchange.header(b"content-encoding") not in ("", "identity"):
            return Decision(Path.AGENT, Reason.CLIENT_OPTIONS)
        try:
            return parse_chat(body)
        except BadRequest:
            if not self.observing:  # whoever only watches must not refuse
                raise
            return Decision(Path.AGENT, Reason.OBSERVE)

    async def _disclose(self, pipeline: Pipeline, decision: Decision, exchange: Exchange) -> Decision:
        """The decision as far as the caller may know it: what led to it is the desk's, too."""
        if self.observing and self.access.is_stranger(pipeline, exchange) and decision.observed is not None:
            return replace(decision, observed=withhold(decision.observed, Reason.UNVERIFIED_CALLER))
        if not (decision.is_local or decision.calls or exchange.debug):
            return decision
        if await self.access.may_read(pipeline, exchange):
            return decision
        exchange.debug = False
        return (
            withhold(decision, Reason.UNVERIFIED_CALLER) if decision.is_local else replace(decision, calls=())
        )

    async def _call_tools(self, query: Query, exchange: Exchange, receive: Receive) -> Carried:
        """What goes with the turn once its tools were called; the exchange has the new decision."""
        decision = exchange.decision
        if self.host.execution is None or decision is None:  # then there are no calls
            return Carried()
        asker = Asker(exchange.caller, exchange.scope["headers"], exchange.trace)
        try:
            work = self.host.execution.run(decision, query, asker, exchange.budget, exchange.request_id)
            exchange.decision, carried = await unless_gone(receive, work)
        except ClientLeft:
            raise
        except Exception:  # a user must not suffer for a tool
            logger.exception("The tools of the request %s failed.", exchange.request_id)
            exchange.decision, carried = forwarded(decision, Reason.TOOL_FAILED), Carried()
        exchange.calls = carried.calls
        exchange.spans.mark("tools")
        return carried

    def _decide(
        self, pipeline: Pipeline, data: Mapping[str, Any], exchange: Exchange
    ) -> tuple[Query | None, Decision]:
        """The pipeline's decision; a forward if it fails, because a user must not suffer for our fault."""
        try:
            query = Query.of_body(data, pipeline.runtime.bundle.normaliser, self.access.user(exchange))
            exchange.spans.mark("query")
            return query, pipeline.decide(query, exchange.spans)
        except Exception:
            logger.exception("The request %s could not be decided on, and is forwarded.", exchange.request_id)
            return None, Decision(Path.AGENT, Reason.NOT_READY)

    async def _answer(self, exchange: Exchange, send: Send, answer: Answer, query: Query) -> None:
        pipeline = self.host.pipeline
        assert pipeline is not None  # noqa: S101 - there is no answer without it
        tokens = pipeline.runtime.router.token_count(query.normal)
        common = (answer, f"chatcmpl-{secrets.token_hex(12)}", query.model, unix_now())
        fingerprint = f"frontdesk-{pipeline.runtime.bundle.version}"
        if query.stream:
            usage = tokens if query.include_usage else None
            body = completion_events(*common, fingerprint, usage)
            extra: RawHeaders = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        else:
            body, extra = completion_json(*common, fingerprint, tokens), []
        exchange.spans.mark("render")
        await exchange.respond(send, 200, EVENTS if query.stream else JSON, body, extra)
