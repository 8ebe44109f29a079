"""What is forwarded, and that it is: target, body with the fewest edits, the hints beside it."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2
from starlette.types import Message, Receive, Scope, Send

from edge.complexity import complexity_of
from edge.config import Settings
from edge.context import Pruner
from edge.decision import Decision, Path, Reason
from edge.exchange import Exchange, unix_now
from edge.execution import Carried
from edge.forward import Forwarder, RawHeaders, Relayed, body_stream
from edge.hints import HINTS_HEADER, SIGNATURE_HEADER, Hints, format_hints, sign_hints
from edge.host import Host
from edge.wire import edited_body


def target_of(scope: Scope) -> str:
    """Path and query below /v1, as they came."""
    raw = scope.get("raw_path") or b""
    path = raw if raw.startswith(b"/v1/") else quote(scope["path"]).encode()
    target = path.decode("latin-1").partition("?")[0].removeprefix("/v1")
    query = scope["query_string"].decode("latin-1")
    return f"{target}?{query}" if query else str(target)


class Outbound:
    """Forwards to one upstream. Where we only observe, nothing but the model is changed."""

    def __init__(self, settings: Settings, host: Host, forwarder: Forwarder) -> None:
        self._settings = settings
        self._host = host
        self._forwarder = forwarder
        self._observing = settings.answering.mode == "observe"
        self._pruner = Pruner(settings.context) if settings.context.on else None

    async def forward(
        self,
        exchange: Exchange,
        receive: Receive,
        send: Send,
        relayed: Relayed,
        body: bytes,
        data: Mapping[str, Any] | None = None,
        carried: Carried = Carried(),
    ) -> None:
        """Forward a chat turn; ``data`` its body where that was read. Raises RequestError, ClientLeft."""
        own = self.headers(exchange)
        if data is not None:
            body = await self.body(exchange, body, data, carried)
        if exchange.decision is not None and exchange.decision.reason is not Reason.BYPASS:
            own += self.hints(exchange, body, carried)
        target = target_of(exchange.scope)
        request = self._forwarder.request(
            "POST", target, exchange.scope["headers"], own, body,
            lend_key=exchange.caller.lent_key, untouched=self._observing,
        )  # fmt: skip
        await self._relay(exchange, request, receive, send, relayed)

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
        request = self._forwarder.request(
            exchange.scope["method"],
            target,
            exchange.scope["headers"],
            self.headers(exchange),
            content if has_body else None,
            lend_key=exchange.caller.lent_key,
            untouched=self._observing,
        )
        await self._relay(exchange, request, after_body, send, relayed)

    def headers(self, exchange: Exchange) -> RawHeaders:
        """What we tell the upstream besides hints: nothing where we only observe."""
        told = list(exchange.caller.headers)
        return told if self._observing else [*exchange.trace, *told]

    async def body(self, exchange: Exchange, body: bytes, data: Mapping[str, Any], carried: Carried) -> bytes:
        """The body as it came, but for the model's name upstream, results that go with it, and its length."""
        edits: dict[str, Any] = {}
        model = data.get("model")
        if isinstance(model, str) and model in self._settings.models:
            edits["model"] = self._settings.models[model]
        if carried.messages:
            edits["messages"] = [*data["messages"], *carried.messages]
        if edits:
            data = {**data, **edits}
            body = edited_body(data)
        if self._pruner is not None and not self._observing:
            body, exchange.context = await self._pruner.prune(
                data, body, self._host.runtime, exchange.budget, len(carried.messages)
            )
            exchange.spans.mark("context")
        return body

    def hints(self, exchange: Exchange, body: bytes, carried: Carried) -> RawHeaders:
        """The hints, and where there are keys their signature, as of a first attempt: none is repeated."""
        if exchange.decision is None or self._observing:
            return []
        hints = format_hints(self._hints(exchange.decision, exchange.budget.remaining_ms(), carried))
        headers = [(HINTS_HEADER.encode(), hints.encode())]
        if self._settings.hints_keys:
            key = self._settings.hints_keys[0]
            signature = sign_hints(hints, exchange.request_id, body, key, unix_now())
            headers.append((SIGNATURE_HEADER.encode(), signature.encode()))
        return headers

    async def _relay(
        self, exchange: Exchange, request: httpx2.Request, receive: Receive, send: Send, relayed: Relayed
    ) -> None:
        def head() -> RawHeaders:
            exchange.spans.mark("upstream")
            return exchange.head()

        await self._forwarder.relay(request, receive, send, head, relayed)

    def _hints(self, decision: Decision, remaining_ms: float, carried: Carried) -> Hints:
        """What the agent is told of a decision and of what goes with it."""
        reading, runtime = decision.reading, self._host.runtime
        topic = None
        if decision.topic is not None and runtime is not None:
            topic = runtime.bundle.by_id[decision.topic]
        complexity = complexity_of(decision, () if topic is None else topic.tools)
        return Hints(
            topic=decision.topic,
            confidence=decision.confidence,
            top=() if reading is None else tuple((c.topic, c.confidence) for c in reading.candidates),
            lang=decision.lang,
            reason=decision.reason,
            tools=() if topic is None else topic.tools,
            complexity=complexity.requests,
            length=complexity.length,
            tier=complexity.tier,
            slots=decision.slots,
            budget_ms=int(remaining_ms),
            bundle=self._host.label or None,
            injected=carried.injected,
            prefetch=carried.prefetch,
        )
