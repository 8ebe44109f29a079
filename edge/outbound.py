"""What a forwarded turn looks like: its target, its body with the fewest edits, and the hints beside it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.types import Scope

from edge.complexity import complexity_of
from edge.config import Settings
from edge.context import Pruner
from edge.decision import Decision
from edge.exchange import Exchange, unix_now
from edge.execution import Carried
from edge.forward import RawHeaders
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
    """Makes what is forwarded of turns that were read. Where we only observe, nothing but the model."""

    def __init__(self, settings: Settings, host: Host) -> None:
        self._settings = settings
        self._host = host
        self._observing = settings.answering.mode == "observe"
        self._pruner = Pruner(settings.context) if settings.context.on else None

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
