"""A sink that writes one JSON line a request to a text stream. Never any message text."""

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TextIO

from edge.decision import Decision
from edge.telemetry import CacheUse, Served, Sink, ToolCall


def json_log(stream: TextIO | None = None) -> Sink:
    """The sink; writes to stderr unless a stream is given."""
    out = stream or sys.stderr

    def log(event: Served) -> None:
        out.write(json.dumps(record(event), ensure_ascii=False, separators=(",", ":")) + "\n")
        out.flush()

    return log


def record(event: Served) -> dict[str, Any]:
    """The event as a flat JSON object."""
    line: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request_id": event.request_id,
        "tenant": event.tenant or None,
        "route": event.route,
        "status": event.status,
        "outcome": event.outcome,
        "stream": event.stream,
        "total_ms": round(event.total_ms, 3),
        "first_byte_ms": None if event.first_byte_ms is None else round(event.first_byte_ms, 3),
        "stages_ms": {name: round(ms, 3) for name, ms in event.spans},
        "upstream_status": event.upstream_status,
        "completion_tokens": event.completion_tokens,
    }
    if event.tools:
        line["tools"] = [_call(call) for call in event.tools]
    if event.context is not None:
        line["context"] = asdict(event.context)
    if event.cache is not None:
        line["cache"] = _cache(event.cache)
    if event.audit is not None:
        line["audit"] = dict(event.audit)
    if event.decision is not None:
        line |= _decision(event.decision)
        if event.decision.observed is not None:
            line["observed"] = _decision(event.decision.observed)
    return line


def _call(call: ToolCall) -> dict[str, Any]:
    told = {"name": call.tool, "level": call.level, "outcome": call.outcome, "ms": round(call.ms, 3)}
    told |= {"cached": True} if call.cached else {}
    told |= {"template": call.problem} if call.problem else {}
    return told | ({} if call.gain_ms is None else {"gain_ms": round(call.gain_ms, 3)})


def _cache(use: CacheUse) -> dict[str, Any]:
    told = {name: value for name, value in asdict(use).items() if value not in ("", None, False)}
    rounded = {n: round(told[n], places) for n, places in (("similarity", 4), ("age_s", 1)) if n in told}
    return told | rounded


def _decision(decision: Decision) -> dict[str, Any]:
    confidence = decision.confidence
    return {
        "path": decision.path,
        "reason": decision.reason,
        "topic": decision.topic,
        "lang": decision.lang,
        "confidence": None if confidence is None else round(confidence, 4),
        "unproven": decision.unproven,
    }
