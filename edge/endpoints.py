"""The endpoints: chat, classify, models, health, and everything else under /v1 passed through."""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from edge.classify import classify
from edge.config import Settings
from edge.decision import Answer, Decision, Level, Path, Reason
from edge.errors import (
    BadRequest,
    MethodNotAllowed,
    NotFound,
    NotReady,
    RequestError,
    RequestTooLarge,
    ToolFailed,
    Unauthorized,
)
from edge.exchange import Exchange, unix_now
from edge.execution import Carried, forwarded
from edge.forward import OWN_PREFIX, BrokenResponse, Forwarder, RawHeaders, Relayed, body_stream, unless_gone
from edge.hints import SIGNATURE_HEADER
from edge.host import Host
from edge.identity import Identity
from edge.outbound import Outbound, target_of
from edge.pipeline import Pipeline, withhold
from edge.prefetch import PATH as PREFETCH
from edge.query import Query
from edge.results import Failure
from edge.stages.admit import ClientLeft, check_framing, read_body, stays_below, trimmed
from edge.telemetry import Sink, ToolCall
from edge.toolbox import Asker
from edge.wire import completion_events, completion_json, json_bytes, parse_chat, parse_object

JSON = b"application/json"
EVENTS = b"text/event-stream; charset=utf-8"
OUR_MODEL = "frontdesk"

logger = logging.getLogger("frontdesk")


class Endpoints:
    """The request handlers over one host (bundle and pipeline) and one upstream."""

    def __init__(
        self,
        settings: Settings,
        host: Host,
        forwarder: Forwarder,
        identity: Identity,
        sinks: Sequence[Sink],
    ) -> None:
        self.settings = settings
        self.host = host
        self.forwarder = forwarder
        self.identity = identity
        self.sinks = sinks
        self.outbound = Outbound(settings, host)
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
            # Who collects a result shows the agent's signature, and has no credential of a user's.
            if not scope["path"].startswith(("/health/", PREFETCH)):
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
            ("/v1/models", "GET"): self.models,
            ("/v1/models", "HEAD"): self.models,
        }
        ours: dict[str, tuple[str, Callable[..., Awaitable[None]]]] = {
            "/v1/classify": ("POST", self.classify),
            "/health/liveness": ("GET", self.liveness),
            "/health/readiness": ("GET", self.readiness),
        }
        if (path, method) in shared:
            return self.pass_through if self.observing and path == "/v1/models" else shared[path, method]
        if path.startswith(PREFETCH):
            if method != "GET":
                raise MethodNotAllowed(f"{path} takes GET, got {method}.", allow="GET")
            return self.prefetch
        if path in ours:
            expected, endpoint = ours[path]
            if method != expected and not (expected == "GET" and method == "HEAD"):
                raise MethodNotAllowed(f"{path} takes {expected}, got {method}.", allow=expected)
            return endpoint
        raw = scope.get("raw_path") or scope["path"].encode()
        if path.startswith("/v1/") and raw.startswith(b"/v1/") and stays_below(path):
            return self.pass_through
        raise NotFound(f"There is nothing at {scope['path']}; the API lies under /v1.")

    async def chat(self, exchange: Exchange, receive: Receive, send: Send, relayed: Relayed) -> None:
        """``POST /v1/chat/completions``: decide, then answer or forward."""
        try:
            body = await read_body(exchange.scope, receive, self.settings.max_body_bytes)
        except RequestTooLarge as error:
            if not self.observing:
                raise
            exchange.decision = Decision(Path.AGENT, Reason.OBSERVE)
            return await self.pass_through(exchange, receive, send, relayed, error.read, more=error.more)
        exchange.spans.mark("admit")
        data = self._read(exchange, body)
        if isinstance(data, Decision):
            exchange.decision = data
            return await self._forward(exchange, receive, send, relayed, body)
        pipeline, carried = self.host.pipeline, Carried()
        if pipeline is None:
            exchange.decision = Decision(Path.AGENT, Reason.NOT_READY)
        else:
            query, decision = self._decide(pipeline, data, exchange)
            exchange.decision = decision = await self._disclose(pipeline, decision, exchange)
            if query is not None and decision.calls:
                carried = await self._call_tools(query, exchange, receive)
                decision = exchange.decision
            if query is not None and decision.answer is not None:
                relayed.stream = query.stream
                return await self._answer(exchange, send, decision.answer, query)
        return await self._forward(exchange, receive, send, relayed, body, data, carried)

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
        if self.observing and self._is_stranger(pipeline, exchange) and decision.observed is not None:
            return replace(decision, observed=withhold(decision.observed, Reason.UNVERIFIED_CALLER))
        if not (decision.is_local or decision.calls or exchange.debug):
            return decision
        if await self._may_read(pipeline, exchange):
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

    async def prefetch(self, exchange: Exchange, _receive: Receive, send: Send, relayed: Relayed) -> None:
        """``GET /v1/prefetch/{id}``: the result of a tool that was called while its turn was forwarded."""
        if self.host.execution is None:
            raise NotFound("There is no such result.")
        id_ = exchange.scope["path"].removeprefix(PREFETCH)
        request_id, signature = exchange.header(b"x-request-id"), exchange.header(SIGNATURE_HEADER.encode())
        found = await self.host.execution.collect(id_, request_id, signature, unix_now())
        exchange.spans.mark("tools")
        level = str(Level.PREFETCH)
        if isinstance(found, Failure):
            exchange.calls = (ToolCall(found.tool, level, found.code, found.ms),)
            raise ToolFailed(f"The tool {found.tool} brought no result ({found.code}); call it yourself.")
        exchange.calls = (ToolCall(found.tool, level, "collected", found.ms, found.cached),)
        body = json_bytes({"tool": found.tool, "arguments": found.arguments, "result": found.value})
        await exchange.respond(send, 200, JSON, body)

    def _decide(
        self, pipeline: Pipeline, data: Mapping[str, Any], exchange: Exchange
    ) -> tuple[Query | None, Decision]:
        """The pipeline's decision; a forward if it fails, because a user must not suffer for our fault."""
        try:
            query = Query.of_body(data, pipeline.runtime.bundle.normaliser, self._user(exchange))
            exchange.spans.mark("query")
            return query, pipeline.decide(query, exchange.spans)
        except Exception:
            logger.exception("The request %s could not be decided on, and is forwarded.", exchange.request_id)
            return None, Decision(Path.AGENT, Reason.NOT_READY)

    async def classify(self, exchange: Exchange, receive: Receive, send: Send, _: Relayed) -> None:
        """``POST /v1/classify``: readings and decisions, never an upstream call."""
        body = await read_body(exchange.scope, receive, self.settings.max_body_bytes)
        if self.host.pipeline is None:
            raise NotReady("The bundle is not ready; GET /health/readiness says why.")
        if not await self._may_read(self.host.pipeline, exchange):
            raise Unauthorized("This desk is not public, and nothing vouches for the caller's credential.")
        rows = await classify(self.host.pipeline, parse_object(body))
        exchange.spans.mark("classify")
        result = {"data": rows, "bundle": self.host.label}
        await exchange.respond(send, 200, JSON, json_bytes(result))

    async def models(self, exchange: Exchange, _receive: Receive, send: Send, _: Relayed) -> None:
        """``GET /v1/models``: the upstream's list and our own name; our own name alone without it."""
        ours = {"id": OUR_MODEL, "object": "model", "created": 0, "owned_by": "frontdesk"}
        listed: list[Any] = []
        try:
            request = self.forwarder.request(
                "GET", target_of(exchange.scope), exchange.scope["headers"], self._own_headers(exchange),
                None,
                lend_key=exchange.caller.lent_key,
            )  # fmt: skip
            status, body = await self.forwarder.fetch(request)
            if status in (401, 403):
                await exchange.respond(send, status, JSON, body)
                return
            if status == 200:
                listed = [m for m in json.loads(body)["data"] if m.get("id") != OUR_MODEL]
        except (RequestError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            listed = []  # a client that probes us must not fail because the agent is down
        exchange.spans.mark("upstream")
        body = json_bytes({"object": "list", "data": [ours, *listed]})
        await exchange.respond(send, 200, JSON, body)

    async def liveness(self, exchange: Exchange, _receive: Receive, send: Send, _: Relayed) -> None:
        """200 while the process lives."""
        exchange.spans.mark("health")
        await exchange.respond(send, 200, JSON, b'{"status":"ok"}')

    async def readiness(self, exchange: Exchange, _receive: Receive, send: Send, relayed: Relayed) -> None:
        """200 once the bundle is loaded; else 503 and why (turns are forwarded meanwhile)."""
        exchange.spans.mark("health")
        ready = self.host.pipeline is not None
        state = {"status": "ready" if ready else "bundle_error" if self.host.error else "loading"}
        state |= {"bundle": self.host.label} if ready else {"message": self.host.error or ""}
        relayed.status = 200 if ready else 503
        await exchange.respond(send, relayed.status, JSON, json_bytes(state))

    async def pass_through(
        self,
        exchange: Exchange,
        receive: Receive,
        send: Send,
        relayed: Relayed,
        read: bytes = b"",
        *,
        more: bool = True,
    ) -> None:
        """Any other path under /v1: streamed to the upstream and back, unread.

        ``read``: what of the body was received already; ``more``: whether there is more to receive.
        """
        if exchange.decision is None:
            exchange.decision = Decision(Path.AGENT, Reason.BYPASS)
        ended = asyncio.Event()

        async def after_body() -> Message:
            await ended.wait()
            return await receive()

        content = body_stream(receive, ended, read, more)
        has_body = any(n in (b"content-length", b"transfer-encoding") for n, _ in exchange.scope["headers"])
        if not has_body:
            ended.set()
        target = target_of(exchange.scope)
        request = self.forwarder.request(
            exchange.scope["method"],
            target,
            exchange.scope["headers"],
            self._own_headers(exchange),
            content if has_body else None,
            lend_key=exchange.caller.lent_key,
            untouched=self.observing,
        )
        await self._relay(exchange, request, after_body, send, relayed)

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

    async def _forward(
        self,
        exchange: Exchange,
        receive: Receive,
        send: Send,
        relayed: Relayed,
        body: bytes,
        data: Mapping[str, Any] | None = None,
        carried: Carried = Carried(),
    ) -> None:
        own = self._own_headers(exchange)
        if data is not None:
            body = await self.outbound.body(exchange, body, data, carried)
        if exchange.decision is not None and exchange.decision.reason is not Reason.BYPASS:
            own += self.outbound.hints(exchange, body, carried)
        target = target_of(exchange.scope)
        request = self.forwarder.request(
            "POST", target, exchange.scope["headers"], own, body,
            lend_key=exchange.caller.lent_key, untouched=self.observing,
        )  # fmt: skip
        await self._relay(exchange, request, receive, send, relayed)

    async def _relay(
        self, exchange: Exchange, request: httpx2.Request, receive: Receive, send: Send, relayed: Relayed
    ) -> None:
        def head() -> RawHeaders:
            exchange.spans.mark("upstream")
            return exchange.head()

        await self.forwarder.relay(request, receive, send, head, relayed)

    def _own_headers(self, exchange: Exchange) -> RawHeaders:
        """What we tell the upstream besides hints: nothing where we only observe."""
        told = list(exchange.caller.headers)
        return told if self.observing else [*exchange.trace, *told]

    def _user(self, exchange: Exchange) -> str:
        """Who asks, for a sticky share: the named user, else the credential, else the address."""
        caller = exchange.caller
        if caller.user or self.settings.identity_header:
            return f"{caller.tenant}/{caller.user}" if caller.tenant else caller.user
        client = exchange.scope.get("client") or ("",)
        return exchange.header(b"authorization") or str(client[0])

    def _is_stranger(self, pipeline: Pipeline, exchange: Exchange) -> bool:
        """Whether nobody could vouch for the caller, also if the check URL were asked."""
        bundle, caller = pipeline.runtime.bundle, exchange.caller
        return not (bundle.public or caller.vouched or self.settings.auth_check_url)

    async def _may_read(self, pipeline: Pipeline, exchange: Exchange) -> bool:
        """Whether the caller may get this desk's answers."""
        if pipeline.runtime.bundle.public or exchange.caller.vouched:
            return True
        accepted = await self.identity.accepts(exchange.caller, exchange.scope)
        exchange.spans.mark("auth")
        return accepted
