"""Observing: the agent sees every request as if nobody stood between, and the log says what would be."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from servers import (
    DONE,
    LAST_CHUNK,
    ROOT,
    SSE_HEAD,
    Desk,
    RawClient,
    Received,
    Relay,
    ScriptedUpstream,
    chunk,
    completion,
    delta,
    json_answer,
    post,
)  # fmt: skip

from edge.cli import main
from edge.config import Answering
from edge.observe import read_log, table
from edge.sinks.jsonlog import json_log

OBSERVE = Answering.of("observe")
FAQ = b'{"model":"m",  "messages":[{"role":"user","content":"what time do we start"}], "temperature":1.50}'
# What a connection needs for itself, and differs between any two of them.
_OF_THE_CONNECTION = {"host", "connection"}

REQUESTS = {
    "an FAQ": post(FAQ),
    "every header": post(
        FAQ, "/v1/chat/completions?a=1&b=%E4%BD%A0", "content-type: application/json; charset=utf-8",
        "authorization: Bearer sk-1", "accept-encoding: gzip, br", "cookie: a=b; c=d", "x-custom: 1",
        "x-custom: 2", "user-agent: mine/1.0", "openai-organization: o", "x-request-id: r 1",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-forwarded-for: 192.0.2.1",
    ),
    "no JSON": post(b"{nope"),
    "no UTF-8": post(b'{"messages":[{"role":"user","content":"\xff"}]}'),
    "nothing": post(b""),
    "no messages": post(b'{"model":"m"}'),
    "NaN": post(b'{"messages":[{"role":"user","content":"hi"}],"temperature":NaN}'),
    "tools and parts": post(
        b'{"tools":[{"type":"x"}],"messages":[{"role":"user","content":[{"type":"image_url"}]}],"n":0}'
    ),
    "too deep": post(b'{"messages":' + b"[" * 9_999 + b"]" * 9_999 + b"}"),
    "too large": post(b'{"messages":[{"role":"user","content":"' + b"a" * 30_000 + b'"}]}'),
    "stored completions": b"GET /v1/chat/completions?limit=2 HTTP/1.1\r\nhost: x\r\nx-own: 1\r\n\r\n",
    "a preflight": b"OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: x\r\norigin: https://a.example\r\n\r\n",
    "another path": post(b"\x00\x01", "/v1/audio/x", "content-type: application/octet-stream", "x-own: 1"),
}  # fmt: skip


def seen(received: Received) -> Any:
    """What of a request the agent can see."""
    fields = [f for f in received.fields if f[0] not in _OF_THE_CONNECTION]
    return received.method, received.target, sorted(fields), received.body


@pytest.mark.parametrize("name", REQUESTS)
def test_the_agent_sees_the_request_as_without_frontdesk(
    desk: Desk, shared_upstream: ScriptedUpstream, name: str
) -> None:
    shared_upstream.reset()
    shared_upstream.script = json_answer(completion("agent"))
    with desk(shared_upstream.url, OBSERVE, max_body_bytes=20_000) as relay:
        answers = []
        for port in (shared_upstream.port, relay.port):
            with RawClient(port) as client:
                client.send(REQUESTS[name])
                answers.append(client.response())
    direct, through = shared_upstream.requests
    assert seen(through) == seen(direct)
    assert answers[1][0] == answers[0][0]
    assert answers[1][2] == answers[0][2]


def test_a_chunked_body_over_the_limit_arrives_whole(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    shared_upstream.reset()
    parts = [bytes([65 + i]) * 9_000 for i in range(5)]
    top = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    with desk(shared_upstream.url, OBSERVE, max_body_bytes=20_000) as relay, RawClient(relay.port) as client:
        client.send(top + b"".join(map(chunk, parts)) + LAST_CHUNK)
        assert client.response()[0] == 200
    assert shared_upstream.last().body == b"".join(parts)


def test_the_sdk_sees_the_same_and_so_does_the_agent(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    shared_upstream.reset()
    events = b"".join(chunk(delta(text)) for text in ("云", "雀")) + chunk(DONE) + LAST_CHUNK
    shared_upstream.script = [SSE_HEAD + events]
    texts = []
    with desk(shared_upstream.url, OBSERVE) as relay:
        for url in (shared_upstream.url, f"{relay.url}/v1"):
            with OpenAI(base_url=url, api_key="sk-1") as client:
                messages: Any = [{"role": "user", "content": "公司几点上班"}]
                stream = client.chat.completions.create(model="m", messages=messages, stream=True)
                texts.append("".join(c.choices[0].delta.content or "" for c in stream))
    direct, through = shared_upstream.requests
    assert seen(through) == seen(direct)
    assert texts == ["云雀", "云雀"]


def log_of(relay: Relay, count: int) -> str:
    """The log lines of the last ``count`` requests."""
    out = io.StringIO()
    sink = json_log(out)
    for _ in range(count):
        sink(relay.event())
    return out.getvalue()


def test_the_log_says_what_would_have_been_answered(
    desk: Desk, shared_upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    shared_upstream.reset()
    shared_upstream.script = json_answer(
        b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":40,"total_tokens":43}}'
    )
    questions = ["what time do we start", "公司几点上班？", "write a poem about the sea", "that one", ""]
    with desk(shared_upstream.url, OBSERVE) as relay:
        for question in questions:
            body = json.dumps({"messages": [{"role": "user", "content": question}]}).encode()
            with RawClient(relay.port) as client:
                client.send(post(body))
                assert client.response()[0] == 200
        text = log_of(relay, len(questions))
    file = tmp_path / "log.jsonl"
    file.write_text(
        f"uvicorn says something\n{text}" + '{"route": "/v1/models", "reason": "bypass"}\n', "utf-8"
    )
    command = [sys.executable, "-m", "edge.cli", "observe", str(file), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["turns"], found["local"], found["skipped_lines"]) == (5, 2, 2)
    assert found["topics"] == {"staff.working_hours": 2}
    assert found["by_lang"]["zh"] == {"turns": 1, "local": 1}
    assert sum(found["why_not"].values()) == 3
    assert found["modes"] == {"observe": 5}
    assert found["waited_ms"]["turns"] == 2
    assert 0 < found["waited_ms"]["p50"] <= found["waited_ms"]["p90"]
    for secret in questions[:4]:
        assert secret not in text


def line(**changes: Any) -> dict[str, Any]:
    made = {"path": "faq", "reason": "matched", "topic": "a", "lang": "en", "unproven": True}
    return {
        "route": "/v1/chat/completions", "path": "agent", "reason": "observe", "first_byte_ms": 800.0,
        "completion_tokens": 10, "observed": made,
    } | changes  # fmt: skip


def test_the_counts_by_hand() -> None:
    records = [
        line(),
        line(first_byte_ms=1200.0, completion_tokens=None),
        line(observed={"path": "agent", "reason": "low_confidence", "topic": "b", "lang": None}),
        line(path="faq", reason="exact", topic="c", lang="zh", unproven=False, observed=None),
        line(path="agent", reason="needs_context", topic=None, lang="zh", observed=None),
        line(reason="bypass", observed=None),
        {"route": "/health/liveness"},
        [1],
    ]
    observed = read_log([*map(json.dumps, records), "", "{half"])
    assert observed.as_dict() == {
        "turns": 5,
        "local": 3,
        "local_share": 0.6,
        "unproven": 2,
        "by_lang": {
            "en": {"turns": 2, "local": 2},
            "other": {"turns": 1, "local": 0},
            "zh": {"turns": 2, "local": 1},
        },
        "why_not": {"low_confidence": 1, "needs_context": 1},
        "topics": {"a": 2, "c": 1},
        "modes": {"observe": 3, "decided": 2},
        "waited_ms": {"turns": 2, "p50": 1000.0, "p90": 1160.0},
        "completion_tokens": 10,
        "tools": {},
        "skipped_lines": 4,
    }
    shown = table(observed)
    assert "5 turns, 3 (60.0%)" in shown
    assert "1000 ms" in shown
    assert "low_confidence" in shown


def test_a_log_without_turns_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "log"
    empty.write_text("", "utf-8")
    assert main(["observe", str(empty)]) == 1
    assert "--answering observe" in capsys.readouterr().out
    assert main(["observe", str(tmp_path / "none")]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_on_a_private_desk_strangers_would_not_be_answered(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    shared_upstream.reset()
    with desk(shared_upstream.url, OBSERVE, public=False) as relay:
        with RawClient(relay.port) as client:
            client.send(post(FAQ))
            client.response()
        observed = relay.event().decision
    assert observed is not None
    assert observed.observed is not None
    assert (observed.observed.path, observed.observed.reason) == ("agent", "unverified_caller")


@pytest.mark.parametrize(
    "changes",
    [
        {"first_byte_ms": 10**400, "completion_tokens": -5},
        {"first_byte_ms": True, "completion_tokens": True},
        {"first_byte_ms": "1", "completion_tokens": [1]},
        {"outcome": "upstream_unavailable"},
    ],
)
def test_what_cannot_have_been_measured_is_not_counted(changes: dict[str, Any]) -> None:
    observed = read_log([json.dumps(line(**changes))])
    assert (observed.turns, observed.waited_ms, observed.tokens) == (1, [], 0)
    json.dumps(observed.as_dict(), allow_nan=False)


def test_odd_names_in_a_log_are_shown_harmlessly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"path": "faq", "reason": "matched", "topic": "\x1b[31m\ud800", "lang": "en"}
    log = tmp_path / "log"
    slashed = line(route="/v1/chat/completions/", observed=made)
    log.write_text("\ufeff" + json.dumps(slashed) + "\n" + json.dumps(line(observed=None)), "utf-8")
    assert main(["observe", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "2 turns" in shown
    assert "\x1b" not in shown
    assert "unreadable" in shown
