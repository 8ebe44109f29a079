"""Any chat body: answered here as OpenAI would, forwarded byte for byte, or refused. Nothing else."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import event
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.shared import ErrorObject
from servers import LAST_CHUNK, SSE_HEAD, Desk, ScriptedUpstream, chunk, json_answer
from spelled import PLACES, Chat, Hold, chats, cut
from wires import Response, Wire, request

from edge.pipeline import Pipeline
from edge.query import Query

UPSTREAMS = st.tuples(
    st.sampled_from(["json", "events"]),
    st.sampled_from(["200 OK", "201 Created", "400 Bad Request", "429 Slow Down", "500 Oops"]),
    st.binary(max_size=60),
    PLACES,
)


@pytest.fixture(scope="module")
def questions(demo: Pipeline) -> st.SearchStrategy[str]:
    """The listed questions of the demo that are answered as they stand."""
    normaliser = demo.runtime.bundle.normaliser
    listed = sorted(demo.runtime.bundle.exact)
    listed = [q for q in listed if demo.judge(Query.of_text(q, normaliser)).reason == "exact"]
    return st.integers(0, len(listed) - 1).map(lambda place: listed[place])  # their repr would be long


def test_any_chat_body(
    hold: Hold, desk: Desk, demo: Pipeline, upstream: ScriptedUpstream, questions: st.SearchStrategy[str]
) -> None:
    texts = {answer.text for answer in demo.runtime.bundle.answers.values()}
    seen: Counter[str] = Counter()

    def rule(given: tuple[Chat, tuple[str, str, bytes, list[int]], list[int] | None]) -> None:
        chat, (kind, status, said, places), pieces = given
        upstream.requests.clear()
        if kind == "json":
            upstream.script = json_answer(said, status)
        else:
            upstream.script = [SSE_HEAD, *map(chunk, cut(said, places)), LAST_CHUNK]
            status = "200"
        parts = None if pieces is None else cut(chat.body, pieces)
        response = wire.ask(request(chat.body, parts))
        path, reason = response.one("x-frontdesk-path"), response.one("x-frontdesk-reason")
        assert reason != "not_ready", "the pipeline failed"
        if path == "error":
            assert_refused(response, reason)
            assert upstream.requests == []
            assert chat.verdict in ("invalid", "open")
            outcome = "refused"
        elif path == "faq":
            assert upstream.requests == []
            assert chat.verdict in ("local", "open")
            outcome = assert_local(response, json.loads(chat.body.decode("utf-8-sig")), texts)
        else:
            assert path == "agent"
            assert chat.verdict in ("valid", "open")
            [received] = upstream.requests
            assert received.body == chat.body
            assert (response.status, response.body) == (int(status.split()[0]), said)
            outcome = "forwarded"
        event(f"{outcome} {reason}")
        seen[outcome] += 1

    with desk(upstream.url) as relay, Wire(relay.port) as wire:
        hold(rule, st.tuples(chats(questions), UPSTREAMS, st.none() | PLACES), 300)
    assert seen.keys() == {"refused", "forwarded", "whole", "streamed", "streamed with usage"}
    assert min(seen.values()) >= 5, seen


def assert_refused(response: Response, reason: str) -> None:
    """An error as OpenAI has it."""
    assert response.status == 400
    assert response.one("content-type") == "application/json"
    body = json.loads(response.body)
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    error = ErrorObject.model_validate(body["error"], strict=True)
    assert (error.type, error.code) == ("invalid_request_error", reason)
    assert error.param == (None if reason == "invalid_json" else "messages")


def assert_local(response: Response, asked: Any, texts: set[str]) -> str:
    """A completion as OpenAI has it, in the form that was asked for, of a curated text."""
    assert response.status == 200
    assert asked["messages"][-1]["role"] == "user"
    model = asked.get("model") or ""
    if asked.get("stream") is not True:
        assert response.one("content-type") == "application/json"
        completion = ChatCompletion.model_validate(_read(response.body, model), strict=True)
        [choice] = completion.choices
        assert (choice.message.role, choice.finish_reason) == ("assistant", "stop")
        assert choice.message.content in texts
        assert completion.usage is not None
        assert completion.usage.completion_tokens > 0
        return "whole"
    assert (response.one("content-type") or "").startswith("text/event-stream")
    *events, done, rest = response.body.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    data = [_read(e.removeprefix(b"data: "), model) for e in events]
    chunks = [ChatCompletionChunk.model_validate(d, strict=True) for d in data]
    usage = (asked.get("stream_options") or {}).get("include_usage") is True
    if usage:
        last = chunks.pop()
        assert last.choices == []
        assert last.usage is not None
        assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens
    assert all(c.usage is None and len(c.choices) == 1 for c in chunks)
    assert usage or not any("usage" in d for d in data)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) in texts
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert len({(c.id, c.created) for c in chunks}) == 1
    return "streamed with usage" if usage else "streamed"


def _read(body: bytes, model: str) -> Any:
    """JSON that names the model asked for; without it, because pydantic takes no lone surrogates."""
    data = json.loads(body)
    assert data["model"] == model
    return data | {"model": "m"}
