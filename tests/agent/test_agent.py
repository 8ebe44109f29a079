"""The reference agent through real sockets and the real OpenAI SDK."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai
import pytest
from agent import create_app
from hints import Hints
from script import compose
from settings import Settings
from starlette.applications import Starlette
from tokens import split

Serve = Callable[[Settings], AbstractContextManager[str]]
Log = Callable[[int], list[dict[str, Any]]]

AGENT = Path(__file__).parents[2] / "examples" / "agent"
HINTS = 'v=1, topic="refund", confidence=0.412, slots=("10,(24";n=order_id "b";n=x), reason=low_confidence'
EN: Any = [{"role": "user", "content": "How do I get a refund?"}]
ZH: Any = [{"role": "user", "content": "我的订单怎么退货？"}]
# 60 tokens a second: a reply takes about a second, long enough to leave in the middle of it.
SLOW = Settings(prefill_ms_per_token=0, first_token_ms=50, tokens_per_second=60)


@contextmanager
def client_of(url: str, **options: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="client-key", max_retries=0, **options) as client:
        yield client


# --- the scripted LLM ---


def test_whole_answer_restates_question_and_hints(fast: str, log_lines: Log) -> None:
    with client_of(fast) as client:
        headers = {"x-frontdesk-hints": HINTS, "x-request-id": "req-1"}
        answer = client.chat.completions.create(model="any", messages=EN, extra_headers=headers)
    text = answer.choices[0].message.content or ""
    assert text.startswith('[scripted LLM] You asked: "How do I get a refund?".')
    assert "topic refund, reason low_confidence" in text
    assert (answer.model, answer.system_fingerprint) == ("scripted", "scripted")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert 40 <= answer.usage.completion_tokens <= 120
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens

    [line] = log_lines(1)
    assert line["request_id"] == "req-1"
    assert (line["hints"], line["hints_ignored"]) == (HINTS, None)
    assert line["status"] == 200
    assert (line["stream"], line["first_token_ms"]) == (False, None)
    assert (line["client_left"], line["generation"]) == (False, "finished")
    assert line["total_ms"] > 0
    assert "refund?" not in json.dumps(line)


def test_stream_says_what_the_whole_answer_says(fast: str, log_lines: Log) -> None:
    with client_of(fast) as client:
        whole = client.chat.completions.create(model="any", messages=ZH).choices[0].message.content
        chunks = list(client.chat.completions.create(model="any", messages=ZH, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    assert whole is not None
    assert whole.startswith("[scripted LLM] 您问的是：“我的订单怎么退货？”。前台没有附带提示。")
    assert [chunk.choices[0].finish_reason for chunk in chunks][-2:] == [None, "stop"]
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1
    assert all("usage" not in chunk.model_fields_set for chunk in chunks)
    line = log_lines(2)[1]
    assert line["stream"] is True
    assert 0 < line["first_token_ms"] <= line["total_ms"]


def test_include_usage_adds_one_last_chunk(fast: str) -> None:
    with client_of(fast) as client:
        chunks = list(
            client.chat.completions.create(
                model="any", messages=EN, stream=True, stream_options={"include_usage": True}
            )
        )
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == sum(
        bool(chunk.choices[0].delta.content) for chunk in chunks[:-1]
    )
    assert all("usage" in chunk.model_fields_set and chunk.usage is None for chunk in chunks[:-1])


def test_stream_on_the_wire(fast: str) -> None:
    answer = httpx2.post(f"{fast}/v1/chat/completions", json={"messages": ZH, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: ") for event in events[:-1])
    assert "订" in answer.text


@pytest.mark.anyio
async def test_async_streams_run_side_by_side(fast: str) -> None:
    texts: list[str] = []

    async def ask(client: openai.AsyncOpenAI) -> None:
        stream = await client.chat.completions.create(model="any", messages=EN, stream=True)
        texts.append("".join([chunk.choices[0].delta.content or "" async for chunk in stream]))

    async with (
        openai.AsyncOpenAI(base_url=f"{fast}/v1", api_key="k", max_retries=0) as client,
        anyio.create_task_group() as group,
    ):
        for _ in range(20):
            group.start_soon(ask, client)
    assert len(texts) == 20
    assert len(set(texts)) == 1


def test_known_prefix_is_free(run_agent: Serve) -> None:
    settings = Settings(prefill_ms_per_token=2, first_token_ms=0, tokens_per_second=float("inf"))
    first: Any = [{"role": "system", "content": " word" * 100}, *EN]
    second: Any = [*first, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "And then?"}]
    with run_agent(settings) as url, client_of(url) as client:
        cached, took = [], []
        for messages in (first, second, [{"role": "system", "content": "changed"}, *second[1:]]):
            start = time.perf_counter()
            usage = client.chat.completions.create(model="any", messages=messages).usage
            took.append(time.perf_counter() - start)
            assert usage is not None
            assert usage.prompt_tokens_details is not None
            cached.append(usage.prompt_tokens_details.cached_tokens)
    first_tokens = 104 + 4 + len(split(EN[0]["content"]))
    assert cached == [0, first_tokens, 0]
    assert took[0] >= first_tokens * 0.002
    assert took[1] < took[0]


def test_timing_is_as_set(run_agent: Serve) -> None:
    with run_agent(SLOW) as url, client_of(url) as client:
        start = time.perf_counter()
        stream = client.chat.completions.create(model="any", messages=EN, stream=True)
        times = [time.perf_counter() - start for chunk in stream if chunk.choices[0].delta.content]
    assert 0.05 <= times[0] < 0.5
    assert times[-1] >= 0.05 + (len(times) - 1) / 60


def test_max_tokens_cuts(fast: str) -> None:
    with client_of(fast) as client:
        answer = client.chat.completions.create(model="any", messages=EN, max_completion_tokens=5)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


@pytest.mark.parametrize("question", ["", "ok", "退", "word " * 500, "退货" * 500, "\ud800 \U0001f600" * 90])
@pytest.mark.parametrize("hints", [None, Hints(topic="a" * 64, reason="unsupported_language"), Hints()])
@pytest.mark.parametrize("tool", [None, '{"status": "shipped"}' * 50])
def test_reply_length(question: str, hints: Hints | None, tool: str | None) -> None:
    messages = [{"role": "user", "content": question}]
    if tool is not None:
        messages += [{"role": "assistant", "content": ""}, {"role": "tool", "content": tool}]
    reply = compose(messages, hints)
    assert 40 <= len(split(reply)) <= 140
    assert "".join(split(reply)) == reply
    assert ("shipped" in reply) is (tool is not None)


def test_hints_file_is_the_one_of_frontdesk() -> None:
    root = Path(__file__).parents[2]
    assert (root / "examples/agent/hints.py").read_bytes() == (root / "edge/hints.py").read_bytes()


@pytest.mark.parametrize("header", ['topic="open', "(", "v=2", "a" * 8000 + "!"])
def test_unreadable_hints_are_no_hints(fast: str, log_lines: Log, header: str) -> None:
    with client_of(fast) as client:
        answer = client.chat.completions.create(
            model="any", messages=EN, extra_headers={"x-frontdesk-hints": header}
        )
    assert "No hints from the front desk" in (answer.choices[0].message.content or "")
    assert log_lines(1)[0]["hints_ignored"] == "unreadable"


# --- the client leaves ---


def leaves_mid_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(model="any", messages=EN, stream=True)
    for index, _ in enumerate(stream):
        if index == 3:
            stream.close()
            return


def leaves_before_first_byte(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.2).chat.completions.create(model="any", messages=EN, stream=True)


def leaves_whole_answer(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.2).chat.completions.create(model="any", messages=EN)


PATIENT = Settings(prefill_ms_per_token=0, first_token_ms=30_000, tokens_per_second=60)
LEAVING = pytest.mark.parametrize(
    ("leave", "settings"),
    [(leaves_mid_stream, SLOW), (leaves_before_first_byte, PATIENT), (leaves_whole_answer, SLOW)],
)


@LEAVING
def test_generation_stops_when_the_client_leaves(
    run_agent: Serve, log_lines: Log, leave: Callable[[openai.OpenAI], None], settings: Settings
) -> None:
    with run_agent(settings) as url, client_of(url) as client:
        leave(client)
        [line] = log_lines(1)
    assert (line["client_left"], line["generation"]) == (True, "cancelled")
    assert (line["generated_tokens"] or 0) < 40


@LEAVING
def test_upstream_is_closed_when_the_client_leaves(
    run_agent: Serve, log_lines: Log, leave: Callable[[openai.OpenAI], None], settings: Settings
) -> None:
    with (
        run_agent(settings) as llm,
        run_agent(Settings(base_url=f"{llm}/v1")) as url,
        client_of(url) as client,
    ):
        leave(client)
        lines = log_lines(2)
    assert {line["llm"] for line in lines} == {"scripted", "upstream"}
    assert all(line["client_left"] and line["generation"] == "cancelled" for line in lines)
    assert len({line["request_id"] for line in lines}) == 1


def test_client_leaves_while_sending(fast: str, log_lines: Log) -> None:
    with socket.create_connection(("127.0.0.1", int(fast.rsplit(":", 1)[1]))) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{")
        time.sleep(0.1)
    [line] = log_lines(1)
    assert (line["client_left"], line["status"], line["generation"]) == (True, None, None)


# --- BASE_URL ---


def test_base_url_passes_everything_through(run_agent: Serve, fast: str, log_lines: Log) -> None:
    settings = Settings(base_url=f"{fast}/v1", api_key="server-key", model_name="real-model")
    with run_agent(settings) as url, client_of(url) as client:
        headers = {"x-frontdesk-hints": HINTS, "x-request-id": "req-2"}
        whole = client.chat.completions.create(model="any", messages=ZH, extra_headers=headers)
        chunks = list(client.chat.completions.create(model="any", messages=ZH, stream=True))
        assert [model.id for model in client.models.list()] == ["real-model"]
    assert whole.model == "scripted"
    assert "前台没有附带提示" in (whole.choices[0].message.content or "")  # hints stay with the agent
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == whole.choices[0].message.content
    lines = [line for line in log_lines(5) if line["request_id"] == "req-2"]
    assert {line["llm"]: line["hints"] for line in lines} == {"scripted": None, "upstream": HINTS}


def test_upstream_errors_pass_through(run_agent: Serve, fast: str) -> None:
    with run_agent(Settings(base_url=f"{fast}/v1")) as url, client_of(url) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="any", messages=EN, n=2)
        assert [model.id for model in client.models.list()] == ["scripted"]
    assert (caught.value.code, caught.value.param) == ("unsupported_value", "n")


def test_unreachable_upstream(run_agent: Serve, log_lines: Log) -> None:
    with socket.socket() as unused:  # bound but not listening: refuses
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with run_agent(Settings(base_url=f"http://127.0.0.1:{port}/v1")) as url, client_of(url) as client:
            with pytest.raises(openai.InternalServerError) as caught:
                client.chat.completions.create(model="any", messages=EN, stream=True)
            with pytest.raises(openai.InternalServerError):
                client.models.list()
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_unavailable")
    assert log_lines(2)[0]["generation"] == "failed"


@contextmanager
def raw_upstream(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that takes one request, sends these bytes and hangs up; and the request it got."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                request = b""
                while b'"messages"' not in request:
                    request += connection.recv(65536)
                got.append(request)
                connection.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", got
        thread.join(5)


SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def test_stream_that_breaks_ends_with_an_error_event(run_agent: Serve, log_lines: Log) -> None:
    sent = b'data: {"id": 1'  # an event cut in the middle
    broken = SSE_HEAD + b"%x\r\n%s\r\n" % (len(sent), sent)
    with raw_upstream(broken) as (base_url, _), run_agent(Settings(base_url=base_url)) as url:
        answer = httpx2.post(f"{url}/v1/chat/completions", json={"messages": EN, "stream": True})
    first, error, done, rest = answer.content.split(b"\n\n")
    assert (first, done, rest) == (sent, b"data: [DONE]", b"")
    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] == "upstream_unavailable"
    [line] = log_lines(1)
    assert (line["status"], line["generation"], line["client_left"]) == (200, "failed", False)


def test_whole_answer_that_breaks_is_a_502(run_agent: Serve) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    with raw_upstream(head + b'{"id":') as (base_url, _), run_agent(Settings(base_url=base_url)) as url:
        answer = httpx2.post(f"{url}/v1/chat/completions", json={"messages": EN})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unavailable")


def test_bytes_and_headers_both_ways(run_agent: Serve) -> None:
    body = 'data: {"订": 1}\r\rdata:x\r\n\r\n: ping\n\ndata: [DONE]\n\n'.encode()
    head = SSE_HEAD.replace(
        b"\r\n\r\n", b"\r\nretry-after: 3\r\nset-cookie: a=b\r\nx-request-id: theirs\r\n\r\n"
    )
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    sent = b'{"messages": [{"role": "user", "content": "\\u8ba2"}],  "new_field": 1.50}'
    headers = {"x-request-id": "ours", "traceparent": "00-1-2-00", "authorization": "Bearer client"}
    headers |= {"cookie": "c=d", "x-frontdesk-hints": HINTS}
    with (
        raw_upstream(head + pieces + b"0\r\n\r\n") as (base_url, got),
        run_agent(Settings(base_url=base_url, api_key="server-key")) as url,
    ):
        answer = httpx2.post(f"{url}/v1/chat/completions", content=sent, headers=headers)
    assert answer.content == body
    assert (answer.headers["retry-after"], answer.headers["x-request-id"]) == ("3", "ours")
    assert "set-cookie" not in answer.headers
    request = got[0].lower()
    assert got[0].endswith(b"\r\n\r\n" + sent)  # without MODEL_NAME not a byte is changed
    for wanted in (b"x-request-id: ours", b"traceparent: 00-1-2-00", b"bearer server-key", b"identity"):
        assert wanted in request
    for unwanted in (b"bearer client", b"cookie", b"x-frontdesk"):
        assert unwanted not in request


# --- the rest of the wire ---


@pytest.mark.parametrize(
    ("content", "status", "code", "param"),
    [
        (b"{", 400, "invalid_json", None),
        (b"[" * 100_000, 400, "invalid_json", None),
        (b"[]", 400, "invalid_json", None),
        (b"{}", 400, "missing_required_parameter", "messages"),
        (b'{"messages": []}', 400, "invalid_type", "messages"),
        (b'{"messages": [1]}', 400, "invalid_type", "messages"),
        (b'{"messages": [{}], "stream": "yes"}', 400, "invalid_type", "stream"),
        (b'{"messages": [{}], "max_tokens": 0}', 400, "invalid_value", "max_tokens"),
        (b" " * 2000, 413, "request_too_large", None),
    ],
)
def test_errors(run_agent: Serve, content: bytes, status: int, code: str, param: str | None) -> None:
    limit = 1000 if status == 413 else 1_000_000
    with run_agent(Settings(max_body_bytes=limit)) as url:
        answer = httpx2.post(f"{url}/v1/chat/completions", content=content)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)


def test_odd_but_legal_bodies(fast: str) -> None:
    parts = [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    for message in (
        {},
        {"content": None},
        {"role": "user", "content": parts},
        {"role": "user", "content": 1},
    ):
        answer = httpx2.post(f"{fast}/v1/chat/completions", json={"messages": [message]})
        assert answer.status_code == 200
    lone = rb'{"messages": [{"role": "user", "content": "\ud800"}]}'
    answer = httpx2.post(f"{fast}/v1/chat/completions", content=lone)
    assert 'You asked: "?"' in answer.json()["choices"][0]["message"]["content"]


def test_routes_and_request_ids(fast: str, log_lines: Log) -> None:
    with client_of(fast) as client:
        assert [model.id for model in client.models.list()] == ["scripted"]
        with pytest.raises(openai.NotFoundError) as caught:
            client.embeddings.create(model="any", input="x")
    assert caught.value.code == "not_found"
    wrong_method = httpx2.get(f"{fast}/v1/chat/completions", headers={"x-request-id": "not safe!"})
    assert wrong_method.status_code == 405
    assert wrong_method.headers["allow"] == "POST"
    assert wrong_method.json()["error"]["code"] == "method_not_allowed"
    assert len(wrong_method.headers["x-request-id"]) == 32
    assert httpx2.get(f"{fast}/health/liveness").json() == {"status": "alive"}
    assert httpx2.get(f"{fast}/health/readiness").json() == {"status": "ready", "llm": "scripted"}
    assert [line["path"] for line in log_lines(3)] == ["/v1/models", "/v1/embeddings", "/v1/chat/completions"]


def test_unexpected_error_is_openai_shaped(run_agent: Serve, log_lines: Log, monkeypatch: Any) -> None:
    monkeypatch.setattr("scripted.compose", lambda *_: 1 / 0)
    with run_agent(Settings()) as url:
        answer = httpx2.post(
            f"{url}/v1/chat/completions", json={"messages": EN}, headers={"x-request-id": "e"}
        )
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert answer.headers["x-request-id"] == "e"
    assert log_lines(1)[0]["status"] == 500


@pytest.mark.parametrize(
    "command", [[str(AGENT / "agent.py")], ["-m", "uvicorn", "agent:app", "--app-dir", str(AGENT)]]
)
def test_runs_from_the_command_line(command: list[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "SCRIPTED_FIRST_TOKEN_MS": "0", "SCRIPTED_TOKENS_PER_SECOND": "inf"}
    process = subprocess.Popen(
        [sys.executable, *command, "--port", str(port)], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:  # until uvicorn says so
            if "Uvicorn running" in line:
                break
        with client_of(f"http://127.0.0.1:{port}") as client:
            client.chat.completions.create(model="any", messages=EN, extra_headers={"x-request-id": "cli"})
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=10)
    [line] = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert (line["request_id"], line["generation"]) == ("cli", "finished")


def test_settings() -> None:
    env = {
        "BASE_URL": "https://host/v1/",
        "API_KEY": "secret",
        "SCRIPTED_FIRST_TOKEN_MS": "5",
        "MODEL_NAME": "",
    }
    settings = Settings.from_env(env, {"scripted_tokens_per_second": 9.0, "scripted_first_token_ms": None})
    assert settings == Settings("https://host/v1", "secret", None, 0.2, 5.0, 9.0)
    assert "secret" not in repr(settings)
    assert Settings.from_env({}) == Settings()
    keyed = Settings.from_env({"FRONTDESK_HINTS_KEYS": "a:" + "secret" * 6})
    assert [(key.kid, key.secret) for key in keyed.hints_keys] == [("a", b"secret" * 6)]
    assert "secret" not in repr(keyed)
    looped = Settings.from_env(
        {
            "AGENT_TOOLS": "company",
            "IDENTITY_HEADER": "x-user",
            "FRONTDESK_URL": "http://127.0.0.1:8080/v1/",
            "AGENT_FOLD_OVER_TOKENS": "inf",
            "AGENT_MAX_STEPS": "2",
            "DEMO_TOOLS_KEY": "tools-secret",
            "TOOL_DELAYS_MS": "get_order=300, *=100",
        }
    )
    assert looped == Settings(
        tools="company",
        identity_header="x-user",
        frontdesk_url="http://127.0.0.1:8080",
        fold_over_tokens=float("inf"),
        max_steps=2,
        demo_tools_key="tools-secret",
        tool_delays_ms={"get_order": 300.0, "*": 100.0},
    )
    assert "tools-secret" not in repr(looped)
    assert isinstance(create_app(settings), Starlette)
    documented = (AGENT / "README.md").read_text("utf-8")
    source = (AGENT / "settings.py").read_text("utf-8").partition("return cls(")[2]
    for variable in re.findall('"([A-Za-z]+_[A-Za-z_]+)"', source):
        assert f"`{variable.upper()}`" in documented, variable
    for wrong in (
        {"BASE_URL": "host/v1"},
        {"SCRIPTED_FIRST_TOKEN_MS": "soon"},
        {"SCRIPTED_PREFILL_MS_PER_TOKEN": "-1"},
        {"SCRIPTED_TOKENS_PER_SECOND": "0"},
        {"FRONTDESK_HINTS_KEYS": "a:short"},
        {"SCRIPTED_PLANNING_MS": "inf"},
        {"FRONTDESK_URL": "127.0.0.1:8080"},
        {"AGENT_STRONG_CONFIDENCE": "80"},
        {"AGENT_STRONG_CONFIDENCE": "nan"},
        {"AGENT_MAX_STEPS": "0"},
        {"AGENT_MAX_STEPS": "2.5"},
        {"AGENT_PLAN_TIMEOUT_MS": "0"},
        {"AGENT_TOOL_RESULT_TOKENS": "-1"},
        {"AGENT_FOLD_OVER_TOKENS": "nan"},
        {"TOOL_DELAYS_MS": "get_order"},
        {"TOOL_DELAYS_MS": "get_order=soon"},
        {"TOOL_DELAYS_MS": "*=-1"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Settings.from_env(wrong)
