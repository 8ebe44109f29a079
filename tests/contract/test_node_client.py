"""Node's clients, the openai SDK and plain fetch, against the real server: whole, streamed, cut, retried.

One Node process serves the module (node/client.mjs): a test sends it commands and reads its replies.
"""

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from servers import (
    DONE,
    LAST_CHUNK,
    PATIENCE,
    SSE_HEAD,
    Desk,
    Do,
    Relay,
    ScriptedUpstream,
    Start,
    Step,
    chunk,
    completion,
    delta,
    json_answer,
)

FOLDER = Path(__file__).parent / "node"
QUESTION = "what time do we start?"
MESSAGES = [{"role": "user", "content": "hi 你好 👩‍💻"}]
BODY: dict[str, Any] = {"model": "m", "messages": MESSAGES}


class NodeError(Exception):
    """What a command threw in Node; ``shown`` is the error's fields and the classes it is of."""

    def __init__(self, shown: dict[str, Any]) -> None:
        super().__init__(shown["message"])
        self.shown = shown


class Node:
    """The Node process: commands in, replies out."""

    def __init__(self) -> None:
        self._replies: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["node", "client.mjs"],
            cwd=FOLDER,
            env={"PATH": os.environ["PATH"]},  # no key and no proxy of the developer's
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, name="node's replies")
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reader.join(PATIENCE)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._replies.put(line)
        self._replies.put('{"error": {"message": "Node has ended; its stderr says why"}}')

    def __call__(self, name: str, relay: Relay | None = None, **command: Any) -> Any:
        """Run a command of client.mjs. Raises NodeError with what it threw."""
        assert self._process.stdin is not None
        url = relay.url if relay else None
        self._process.stdin.write(json.dumps({"name": name, "url": url, **command}) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._replies.get(timeout=3 * PATIENCE))
        if "error" in reply:
            raise NodeError(reply["error"])
        return reply["value"]

    def error(self, name: str, relay: Relay | None = None, **command: Any) -> dict[str, Any]:
        """What the command throws."""
        with pytest.raises(NodeError) as caught:
            self(name, relay, **command)
        return caught.value.shown


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    if not (FOLDER / "node_modules/openai").exists():
        pytest.fail("the Node SDK is not installed: run make test, or npm ci in tests/contract/node")
    with Node() as node:
        yield node


@pytest.fixture(scope="module")
def local(desk: Desk) -> Iterator[Relay]:
    """Without an upstream: whatever succeeds was answered here."""
    with desk() as relay:
        yield relay


def asking(text: str = QUESTION, **options: Any) -> dict[str, Any]:
    return {"model": "gpt-x", "messages": [{"role": "user", "content": text}], **options}


def streamed(*events: bytes) -> list[Step]:
    return [SSE_HEAD, *map(chunk, events), chunk(DONE), LAST_CHUNK]


def texts(chunks: list[Any]) -> list[Any]:
    return [c["choices"][0]["delta"].get("content") for c in chunks if c["choices"]]


def events_of(body: str) -> list[Any]:
    """The data of a stream's events; the last must be [DONE]."""
    *events, done, end = body.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


# --- answered here -----------------------------------------------------------------------------


def test_a_whole_local_answer(node: Node, local: Relay) -> None:
    got = node("whole", local, body=asking())
    answer = got["data"]
    assert "9:30" in answer["choices"][0]["message"]["content"]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["model"] == "gpt-x"
    assert answer["usage"]["completion_tokens"] > 10
    assert got["headers"]["x-frontdesk-path"] == "faq"
    assert got["request_id"] == got["headers"]["x-request-id"]


def test_a_streamed_local_answer_with_usage(node: Node, local: Relay) -> None:
    whole = node("whole", local, body=asking())["data"]
    got = node("stream", local, body=asking(stream_options={"include_usage": True}))
    *chunks, last = got["chunks"]
    assert "".join(filter(None, texts(chunks))) == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert all(c["usage"] is None for c in chunks)
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
    assert got["headers"]["x-frontdesk-path"] == "faq"


def test_a_streamed_local_answer_without_usage(node: Node, local: Relay) -> None:
    chunks = node("stream", local, body=asking("公司几点上班？"))["chunks"]
    assert len(chunks) > 3
    assert all(c["choices"] for c in chunks)
    assert not any("usage" in c for c in chunks)


def test_the_helper_joins_a_local_stream(node: Node, local: Relay) -> None:
    final = node("helper", local, body=asking())
    assert "9:30" in final["choices"][0]["message"]["content"]
    assert final["choices"][0]["finish_reason"] == "stop"


def test_fetch_of_a_local_answer(node: Node, local: Relay) -> None:
    whole = node("fetch", local, body=asking())
    assert (whole["status"], whole["headers"]["content-type"]) == (200, "application/json")
    stream = node("fetchText", local, body=asking(stream=True))
    assert stream["headers"]["content-type"] == "text/event-stream; charset=utf-8"
    joined = "".join(filter(None, texts(events_of(stream["body"]))))
    assert joined == whole["body"]["choices"][0]["message"]["content"]


def test_our_model_is_listed_without_an_upstream(node: Node, local: Relay) -> None:
    assert node("models", local) == ["frontdesk"]


# --- forwarded ---------------------------------------------------------------------------------


def test_a_whole_forwarded_answer(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(completion("Grüße 你好"))
    got = node("whole", relay, body=BODY, headers={"openai-beta": "x=1"})
    assert got["data"]["choices"][0]["message"]["content"] == "Grüße 你好"
    assert got["headers"]["x-frontdesk-path"] == "agent"
    received = upstream.last()
    assert received.json() == BODY
    assert got["request_id"] == received.headers["x-request-id"]
    assert received.headers["authorization"] == "Bearer sk-client"
    assert received.headers["user-agent"].startswith("OpenAI/JS")
    assert received.headers["x-stainless-lang"] == "js"
    assert received.headers["openai-beta"] == "x=1"


TEXTS = ["", "Grü", "ße ", "你好", "👩‍💻", "\n\ndata: x"]


def test_a_forwarded_stream(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    usage = b'data: {"id":"c","choices":[],"usage":{"completion_tokens":7}}\n\n'
    upstream.script = streamed(*map(delta, TEXTS), usage)
    got = node("stream", relay, body={**BODY, "stream_options": {"include_usage": True}})
    assert texts(got["chunks"]) == TEXTS
    assert got["chunks"][-1]["usage"] == {"completion_tokens": 7}
    assert upstream.last().json() == {**BODY, "stream": True, "stream_options": {"include_usage": True}}
    assert relay.event().completion_tokens == 7


@pytest.mark.parametrize("name", ["open", "fetchOpen"])
def test_a_forwarded_stream_comes_as_it_is_made(
    node: Node, relay: Relay, upstream: ScriptedUpstream, name: str
) -> None:
    """The upstream says the second word only once the client has the first."""
    first_is_here = threading.Event()
    upstream.script = [SSE_HEAD, chunk(delta("one")), first_is_here, *streamed(delta("two"))[1:]]
    first = node(name, relay, body={**BODY, "stream": True})
    first_is_here.set()
    rest = node("rest")
    if name == "fetchOpen":
        assert first["body"].encode() == delta("one")
        assert rest.encode() == delta("two") + DONE
    else:
        assert texts([first, *rest]) == ["one", "two"]


def test_fetch_of_a_forwarded_answer(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(completion("hello"))
    got = node("fetch", relay, body=BODY, headers={"accept-encoding": "br, gzip"})
    assert got["body"] == json.loads(completion("hello"))
    assert upstream.last().json() == BODY
    upstream.script = streamed(*map(delta, TEXTS))
    body = node("fetchText", relay, body={**BODY, "stream": True})["body"]
    assert texts(events_of(body)) == TEXTS


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "天气",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": True,
    },
}
ARGUMENTS = '{"city": "北京"}'
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
WITH_TOOLS = {
    "model": "m",
    "messages": [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"t": 3.50}'},
    ],
    "tools": [TOOL],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
}


def called(*pieces: str) -> list[bytes]:
    """A streamed tool call, its arguments in pieces."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    calls = [first, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    deltas: list[tuple[dict[str, Any], str | None]] = [({"tool_calls": [call]}, None) for call in calls]
    deltas[0][0]["role"] = "assistant"
    deltas.append(({}, "tool_calls"))
    return [
        b"data: %s\n\n"
        % json.dumps(
            base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}, ensure_ascii=False
        ).encode()
        for delta, finish in deltas
    ]


def test_tools(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(completion("", tool_calls=[CALL]))
    got = node("whole", relay, body=WITH_TOOLS)["data"]
    assert got["choices"][0]["message"]["tool_calls"] == [CALL]
    assert upstream.last().json() == WITH_TOOLS


def test_streamed_tools(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = streamed(*called('{"city": ', '"北京"}'))
    chunks = node("stream", relay, body=WITH_TOOLS)["chunks"]
    calls = [c["choices"][0]["delta"]["tool_calls"][0] for c in chunks[:-1]]
    assert "".join(call["function"]["arguments"] for call in calls) == ARGUMENTS
    assert upstream.last().json() == {**WITH_TOOLS, "stream": True}
    final = node("helper", relay, body=WITH_TOOLS)
    assert [c["function"]["arguments"] for c in final["choices"][0]["message"]["tool_calls"]] == [ARGUMENTS]
    assert final["choices"][0]["finish_reason"] == "tool_calls"


def test_tools_forward_what_would_be_answered_here(
    desk: Desk, node: Node, upstream: ScriptedUpstream
) -> None:
    upstream.script = json_answer(completion("", tool_calls=[CALL]))
    with desk(upstream.url) as relay:
        got = node("whole", relay, body=asking(tools=[TOOL]))
    assert got["headers"]["x-frontdesk-reason"] == "client_tools"
    assert got["data"]["choices"][0]["message"]["tool_calls"] == [CALL]
    assert upstream.last().json() == asking(tools=[TOOL])


SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "weather",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "degrees": {"type": "number", "minimum": -1e2}},
            "required": ["city", "degrees"],
            "additionalProperties": False,
        },
    },
}


def test_a_json_schema(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    answer = '{"city": "北京", "degrees": 3.5}'
    upstream.script = json_answer(completion(answer))
    body = {**BODY, "response_format": SCHEMA}
    got = node("whole", relay, body=body)["data"]
    assert got["choices"][0]["message"]["content"] == answer
    assert upstream.last().json() == body
    got = node("parse", relay, body=body)
    assert got["choices"][0]["message"]["content"] == answer
    upstream.script = streamed(delta(answer[:9]), delta(answer[9:]))
    assert "".join(texts(node("stream", relay, body=body)["chunks"])) == answer
    assert upstream.last().json() == {**body, "stream": True}


def test_the_agents_models_are_listed_with_ours(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(b'{"object":"list","data":[{"id":"gpt-x","object":"model"}]}')
    assert node("models", relay) == ["frontdesk", "gpt-x"]


# --- the client leaves -------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "end"), [("open", "abort"), ("open", "leave"), ("fetchOpen", "abort")])
def test_leaving_a_stream_closes_the_upstream(
    node: Node, relay: Relay, upstream: ScriptedUpstream, name: str, end: str
) -> None:
    upstream.script = [SSE_HEAD, chunk(delta("one")), Do.STALL]
    node(name, relay, body={**BODY, "stream": True})
    node(end)
    assert upstream.last().closed.wait(PATIENCE)
    assert relay.event().outcome == "client_left"


def test_aborting_before_the_answer_closes_the_upstream(
    node: Node, relay: Relay, upstream: ScriptedUpstream
) -> None:
    upstream.script = [Do.STALL]
    node("ask", relay, body=BODY)
    received = upstream.wait_for()
    assert "APIUserAbortError" in node.error("abort")["is_a"]
    assert received.closed.wait(PATIENCE)
    event = relay.event()
    assert (event.status, event.outcome) == (499, "client_left")


# --- errors ------------------------------------------------------------------------------------


def assert_ours(error: dict[str, Any], kind: str, status: int, code: str, type_: str) -> None:
    assert kind in error["is_a"]
    assert "APIError" in error["is_a"]
    assert (error["status"], error["code"], error["type"]) == (status, code, type_)
    assert error["request_id"] == error["headers"]["x-request-id"]
    assert error["headers"]["x-frontdesk-path"] == "error"


def test_a_bad_request(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    error = node.error("whole", relay, body={"model": "m", "messages": []}, maxRetries=2)
    assert_ours(error, "BadRequestError", 400, "invalid_type", "invalid_request_error")
    assert error["param"] == "messages"
    assert error["message"].startswith("400 The field 'messages' must be")
    assert relay.event().status == 400
    assert not upstream.requests


@pytest.mark.parametrize("name", ["whole", "stream"])
def test_no_upstream(node: Node, local: Relay, name: str) -> None:
    error = node.error(name, local, body=asking("订单 1024 到哪了"))
    assert_ours(error, "InternalServerError", 503, "upstream_unset", "server_error")


def test_an_upstream_that_is_down(node: Node, start: Start, closed_port: int) -> None:
    with start(f"http://127.0.0.1:{closed_port}/v1") as relay:
        error = node.error("whole", relay, body=BODY)
    assert_ours(error, "InternalServerError", 502, "upstream_unavailable", "server_error")


def test_an_upstream_that_is_silent(node: Node, start: Start, upstream: ScriptedUpstream) -> None:
    upstream.script = [Do.STALL]
    with start(upstream.url, first_byte_timeout=0.3) as relay:
        error = node.error("stream", relay, body=BODY)
    assert_ours(error, "InternalServerError", 504, "upstream_timeout", "timeout")


@pytest.mark.parametrize(
    ("status", "kind"),
    [("401 Unauthorized", "AuthenticationError"), ("429 Too Many Requests", "RateLimitError")],
)
def test_the_upstreams_own_errors(
    node: Node, relay: Relay, upstream: ScriptedUpstream, status: str, kind: str
) -> None:
    body = b'{"error":{"message":"theirs","type":"t","param":"p","code":"c"}}'
    upstream.script = json_answer(body, status, "retry-after: 2")
    error = node.error("whole", relay, body=BODY)
    assert kind in error["is_a"]
    assert (error["status"], error["code"], error["type"], error["param"]) == (int(status[:3]), "c", "t", "p")
    assert error["message"] == f"{status[:3]} theirs"
    assert error["headers"]["retry-after"] == "2"


def test_fetch_of_an_error(node: Node, relay: Relay) -> None:
    got = node("fetch", relay, body={"model": "m"})
    assert (got["status"], got["headers"]["content-type"]) == (400, "application/json")
    error = got["body"]["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == ("missing_required_parameter", "messages")


def test_a_stream_that_breaks_throws(node: Node, relay: Relay, upstream: ScriptedUpstream) -> None:
    """Not retried either, although it may be: the SDK has its first chunk."""
    first_is_here = threading.Event()
    upstream.script = [SSE_HEAD, chunk(delta("one")), first_is_here, Do.RESET]
    first = node("open", relay, body=BODY, maxRetries=2)
    assert texts([first]) == ["one"]
    first_is_here.set()
    error = node.error("rest")
    assert "APIError" in error["is_a"]
    assert (error["code"], error["type"]) == ("upstream_reset", "server_error")
    assert len(upstream.requests) == 1


# --- retries -----------------------------------------------------------------------------------

ERROR = b'{"error":{"message":"theirs","type":"t","param":null,"code":"c"}}'


@pytest.mark.parametrize("name", ["whole", "stream"])
@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_the_sdk_retries_the_upstreams_passing_errors(
    node: Node, relay: Relay, upstream: ScriptedUpstream, status: str, name: str
) -> None:
    upstream.scripts += [json_answer(ERROR, status, "retry-after-ms: 1")]
    whole = name == "whole"
    upstream.script = json_answer(completion("at last")) if whole else streamed(delta("at last"))
    got = node(name, relay, body=BODY, maxRetries=1)
    assert (
        got["data"]["choices"][0]["message"]["content"] if whole else texts(got["chunks"])[0]
    ) == "at last"
    assert [r.headers["x-stainless-retry-count"] for r in upstream.requests] == ["0", "1"]


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_the_sdk_does_not_retry_where_the_upstream_forbids_it(
    node: Node, relay: Relay, upstream: ScriptedUpstream, status: str
) -> None:
    upstream.script = json_answer(ERROR, status, "retry-after-ms: 1", "x-should-retry: false")
    error = node.error("whole", relay, body=BODY, maxRetries=2)
    assert (error["status"], error["headers"]["x-should-retry"]) == (int(status[:3]), "false")
    assert len(upstream.requests) == 1


def test_the_sdk_waits_as_long_as_our_own_errors_say(node: Node, start: Start, closed_port: int) -> None:
    """The agent is down: each try is answered at once, with ``retry-after: 1``."""
    with start(f"http://127.0.0.1:{closed_port}/v1") as relay:
        began = time.monotonic()
        error = node.error("whole", relay, body=BODY, maxRetries=1)
        assert time.monotonic() - began > 0.95
        assert_ours(error, "InternalServerError", 502, "upstream_unavailable", "server_error")
        assert error["headers"]["retry-after"] == "1"
        assert [relay.event().status for _ in "12"] == [502, 502]


def test_the_sdk_does_not_repeat_a_request_that_the_agent_had(
    node: Node, relay: Relay, upstream: ScriptedUpstream
) -> None:
    upstream.scripts += [[Do.RESET]]
    upstream.script = json_answer(completion("a second time"))
    error = node.error("whole", relay, body=BODY, maxRetries=1)
    assert_ours(error, "InternalServerError", 502, "upstream_unavailable", "server_error")
    assert len(upstream.requests) == 1
