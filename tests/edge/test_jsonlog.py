"""The JSON log: one line a request, and no text of any message."""

import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from edge.decision import Answer, Decision, GuardHit, Path, Reason
from edge.normaliser import Lang
from edge.sinks.jsonlog import json_log, record
from edge.telemetry import ContextUse, Served

ANSWER = Answer("hours", Lang.ZH, "九点开门", 4)
FAQ = Decision(Path.FAQ, Reason.EXACT, Lang.ZH, topic="hours", answer=ANSWER)


def served(**changes: Any) -> Served:
    event: dict[str, Any] = {
        "request_id": "r1",
        "tenant": "acme",
        "route": "/v1/chat/completions",
        "status": 200,
        "outcome": "ok",
        "stream": True,
        "decision": FAQ,
        "spans": (("admit", 0.12345), ("exact", 0.5)),
        "first_byte_ms": 1.23456,
        "total_ms": 2.34567,
    }
    return Served(**event | changes)


def test_a_line() -> None:
    line = record(served())
    assert datetime.fromisoformat(line.pop("time")).utcoffset() == timedelta(0)
    assert line == {
        "request_id": "r1",
        "tenant": "acme",
        "route": "/v1/chat/completions",
        "status": 200,
        "outcome": "ok",
        "stream": True,
        "total_ms": 2.346,
        "first_byte_ms": 1.235,
        "stages_ms": {"admit": 0.123, "exact": 0.5},
        "upstream_status": None,
        "completion_tokens": None,
        "path": "faq",
        "reason": "exact",
        "topic": "hours",
        "lang": "zh",
        "confidence": 1.0,
        "unproven": False,
    }


def test_without_a_decision() -> None:
    line = record(served(decision=None, first_byte_ms=None))
    assert line["first_byte_ms"] is None
    assert "path" not in line


@pytest.mark.parametrize(
    ("use", "logged"),
    [
        (ContextUse(900, 400), {"before": 900, "after": 400, "unpruned": ""}),
        (ContextUse(None, None, "attachment"), {"before": None, "after": None, "unpruned": "attachment"}),
    ],
)
def test_a_context(use: ContextUse, logged: dict[str, Any]) -> None:
    assert record(served(context=use))["context"] == logged


def test_what_would_have_been() -> None:
    line = record(served(decision=Decision(Path.AGENT, Reason.OBSERVE, observed=FAQ)))
    assert (line["path"], line["confidence"]) == ("agent", None)
    assert (line["observed"]["path"], line["observed"]["topic"]) == ("faq", "hours")


def test_each_event_is_one_line_and_is_flushed() -> None:
    raw = io.BytesIO()
    log = json_log(io.TextIOWrapper(raw, "utf-8", write_through=False))
    log(served(route="/v1/a\nb\u2028"))
    log(served(request_id="r2"))
    lines = raw.getvalue().decode().removesuffix("\n").split("\n")
    assert [json.loads(line)["request_id"] for line in lines] == ["r1", "r2"]


def test_stderr_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    json_log()(served())
    out, err = capsys.readouterr()
    assert (out, json.loads(err)["request_id"]) == ("", "r1")


def test_no_text_of_any_message_gets_in() -> None:
    hit = GuardHit("that", Reason.NEEDS_CONTEXT, "那第二个呢")
    line = json.dumps(record(served(decision=Decision(Path.FAQ, Reason.EXACT, guards=(hit,), answer=ANSWER))))
    assert json.dumps("那第二个呢")[1:-1] not in line
    assert json.dumps(ANSWER.text)[1:-1] not in line
