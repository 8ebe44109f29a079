"""What a forwarded turn looks like: its target, its body with the fewest edits, and the hints beside it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.types import Scope

from edge.complexity import complexity_of
from edge.config import Settings
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


def body_of(body: bytes, data: Mapping[str, Any], settings: Settings, carried: Carried) -> bytes:
    """The body as it came, unless its model has another name upstream or results go with it."""
    edits: dict[str, Any] = {}
    model = data.get("model")
    if isinstance(model, str) and model in settings.models:
        edits["model"] = settings.models[model]
    if carried.messages:
        edits["messages"] = [*data["messages"], *carried.messages]
    return edited_body({**data, **edits}) if edits else body


def hint_headers(exchange: Exchange, hints: str, body: bytes, settings: Settings) -> RawHeaders:
    """The hints, and where there are keys their signature, as of a first attempt: none is repeated."""
    headers = [(HINTS_HEADER.encode(), hints.encode())]
    if settings.hints_keys:
        signature = sign_hints(hints, exchange.request_id, body, settings.hints_keys[0], unix_now())
        headers.append((SIGNATURE_HEADER.encode(), signature.encode()))
    return headers


def hints_for(decision: Decision, host: Host, remaining_ms: float, carried: Carried) -> str:
    """What the agent is told of a decision and of what goes with it."""
    reading, topic = decision.reading, None
    if decision.topic is not None and host.pipeline is not None:
        topic = host.pipeline.runtime.bundle.by_id[decision.topic]
    complexity = complexity_of(decision, () if topic is None else topic.tools)
    hints = Hints(
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
        bundle=host.label or None,
        injected=carried.injected,
        prefetch=carried.prefetch,
    )
    return format_hints(hints)
