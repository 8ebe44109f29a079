"""The rows of ``POST /v1/classify`` and of ``frontdesk ask --json``."""

import asyncio
from collections.abc import Mapping
from typing import Any

from edge.decision import Decision, Filled, Suggestion
from edge.errors import BadRequest
from edge.pipeline import Pipeline
from edge.query import Query
from edge.telemetry import Spans
from edge.wire import check_messages

MAX_INPUTS = 256


async def classify(pipeline: Pipeline, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row an input. ``data``: ``{"input": str | [str] | [{"messages": […]}]}``. Raises BadRequest.

    Other requests are served between two rows.
    """
    value = data.get("input")
    inputs = [value] if isinstance(value, (str, dict)) else value
    if not isinstance(inputs, list) or not inputs:
        raise BadRequest(
            "The field 'input' must be a text, a list of texts, or a list of objects with 'messages'.",
            "input",
            "missing_required_parameter" if value is None else "invalid_type",
        )
    if len(inputs) > MAX_INPUTS:
        raise BadRequest(f"'input' holds {len(inputs)} texts; send at most {MAX_INPUTS}.", "input")
    rows = []
    for item in inputs:
        rows.append(row(pipeline, _query(pipeline, item)))
        await asyncio.sleep(0)
    return rows


def row(pipeline: Pipeline, query: Query) -> dict[str, Any]:
    """The decision on a query, with everything that led to it."""
    spans = Spans()
    return row_of(pipeline.decide(query, spans), spans)


def row_of(decision: Decision, spans: Spans) -> dict[str, Any]:
    """The row of a decision that was made already."""
    reading = decision.reading
    confidence = decision.confidence
    return {
        "path": decision.path,
        "reason": decision.reason,
        "topic": decision.topic,
        "confidence": None if confidence is None else round(confidence, 6),
        "margin": None if reading is None else round(reading.margin, 6),
        "lang": decision.lang,
        "in_scope": None if reading is None else round(reading.in_scope, 6),
        "needs_context": None if reading is None else round(reading.needs_context, 6),
        "exit": None if reading is None else reading.exit,
        "unproven": decision.unproven,
        "candidates": []
        if reading is None
        else [{"topic": c.topic, "confidence": round(c.confidence, 6)} for c in reading.candidates],
        "guards": [{"name": hit.name, "value": hit.value} for hit in decision.guards],
        "tools": [_tool(tool) for tool in decision.tools],
        "observed": _observed(decision),
        "timing_ms": {name: round(ms, 4) for name, ms in spans.spent},
    }


def _tool(tool: Suggestion) -> dict[str, Any]:
    slots = [
        {"name": name, "value": slot.value, "text": slot.text}
        if isinstance(slot, Filled)
        else {"name": name, "missing": slot.reason, "required": slot.required}
        for name, slot in tool.slots.items()
    ]
    return {"name": tool.tool, "slots": slots}


def _observed(decision: Decision) -> dict[str, Any] | None:
    if decision.observed is None:
        return None
    return {"path": decision.observed.path, "reason": decision.observed.reason}


def _query(pipeline: Pipeline, item: object) -> Query:
    normaliser = pipeline.runtime.bundle.normaliser
    if isinstance(item, str):
        return Query.of_text(item, normaliser)
    if isinstance(item, dict):
        check_messages(item)
        return Query.of_body(item, normaliser)
    raise BadRequest("Each element of 'input' must be a text or an object with 'messages'.", "input")
