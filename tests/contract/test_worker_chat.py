"""The isolate on the wire: answers, forwards with hints, callers, and everything that can go wrong, on real workerd."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from isolates import BUILD, Isolate, workerd
from servers import (
    DEMO,
    DONE,
    LAST_CHUNK,
    PATIENCE,
    SSE_HEAD,
    Do,
    RawClient,
    ScriptedUpstream,
    chunk,
    completion,
    delta,
    head,
    json_answer,
    open_client,
    post,
    wait_until,
)

from edge.bundle import load_bundle
from edge.hints import Seen, parse_hints, parse_keys, verify_hints

KEYS = "2026-12:an-example-secret-of-no-use-to-anybody"
QUESTION = "what time do we start?"
FORWARDED = "订单 1024 到哪了"
ANSWER = next(
    json.loads(line)["text"]
    for line in (DEMO / "answers.jsonl").read_text("utf-8").splitlines()
    if json.loads(line)["topic"] == "staff.working_hours" and json.loads(line)["lang"] == "en"
)


def sent(request_id: str, **options: Any) -> bytes:
    return post(json.dumps(asking(**options)).encode(), "/v1/chat/completions", f"x-request-id: {request_id}")


def asking(text: str = FORWARDED, **options: Any) -> dict[str, Any]:
    return {"model": "frontdesk", "messages": [{"role": "user", "content": text}], **options}


@pytest.fixture(scope="module")
def isolate(shared_upstream: ScriptedUpstream) -> Iterator[Isolate]:
    """One isolate with the demo bundle, an agent, keys for hints and a model of its own."""
    env = {
        "FRONTDESK_UPSTREAM_BASE_URL": shared_upstream.url,
        "FRONTDESK_UPSTREAM_FIRST_BYTE_TIMEOUT": "0.7",
        "FRONTDESK_UPSTREAM_IDLE_TIMEOUT": "0.7",
        "FRONTDESK_HINTS_KEYS": KEYS,
        "MODEL_NAME": "agent-7",
    }
    with workerd(BUILD, env) as isolate:
        with open_client(isolate.url) as client:
            assert client.get("/health/readiness").status_code == 200
        yield isolate


@pytest.fixture
def client(isolate: Isolate, upstream: ScriptedUpstream) -> Iterator[httpx2.Client]:
    with open_client(isolate.url) as client:
        yield client


def chat(client: httpx2.Client, body: dict[str, Any], **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/v1/chat/completions", json=body, headers=named)


def error_of(response: httpx2.Response) -> tuple[int, str, str]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, error["type"], error["code"]


# --- answers -----------------------------------------------------------------------------------


def test_an_answer_is_a_completion(
    client: httpx2.Client, isolate: Isolate, upstream: ScriptedUpstream
) -> None:
    response = chat(client, asking(QUESTION), x_request_id="req-7", x_frontdesk_debug="1")
    data = response.json()
    assert data["choices"][0]["message"] == {"role": "assistant", "content": ANSWER, "refusal": None}
    assert (
        data["usage"]["total_tokens"]
        == data["usage"]["prompt_tokens"] + data["usage"]["completion_tokens"]
        > 20
    )
    assert (data["object"], data["model"]) == ("chat.completion", "frontdesk")
    told = {
        name: response.headers[f"x-frontdesk-{name}"]
        for name in ("schema", "path", "reason", "topic", "confidence")
    }
    assert told == {
        "schema": "1",
        "path": "faq",
        "reason": "exact",
        "topic": "staff.working_hours",
        "confidence": "1.0000",
    }
    assert response.headers["x-request-id"] == "req-7"
    assert "exact;dur=" in response.headers["server-timing"]
    event = isolate.event("req-7")
    assert (event["status"], event["reason"]) == (200, "exact")
    assert QUESTION not in json.dumps(event)
    assert upstream.requests == []


def test_a_streamed_answer(client: httpx2.Client) -> None:
    response = chat(client, asking(QUESTION, stream=True, stream_options={"include_usage": True}))
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = response.text.removesuffix("\n\n").split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == ANSWER
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 20
    assert all(c["usage"] is None for c in chunks[:-1])


def test_the_python_server_writes_the_same_bytes(client: httpx2.Client, desk: Any) -> None:
    """But for id, time and how Python writes what is no text."""
    for options in ({}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}):
        with desk() as relay, open_client(relay.url) as python:
            ours, theirs = (chat(one, asking("公司几点上班？", **options)).text for one in (python, client))
        ids = [json.loads(text.removeprefix("data: ").split("\n")[0]) for text in (ours, theirs)]
        for name in ("id", "created"):
            ours = ours.replace(json.dumps(ids[0][name]), "…")
            theirs = theirs.replace(json.dumps(ids[1][name]), "…")
        assert ours == theirs


# --- forwards ----------------------------------------------------------------------------------


def test_a_forward_carries_the_body_as_it_came_and_signed_hints(
    client: httpx2.Client, isolate: Isolate, upstream: ScriptedUpstream
) -> None:
    upstream.script = json_answer(completion("in Wuhan"), "200 OK", "x-frontdesk-path: forged", "x-own: 1")
    body = json.dumps({**asking(), "model": "m", "n": 12345678901234567890, "x": 1.0}, indent=1).encode()
    sent = {
        "authorization": "Bearer theirs",
        "cookie": "a=b",
        "x-frontdesk-hints": "v=1",
        "x-stainless-retry-count": "0",
    }
    response = client.post("/v1/chat/completions?x=1", content=body, headers=sent)
    assert response.json()["choices"][0]["message"]["content"] == "in Wuhan"
    assert (response.headers["x-frontdesk-path"], response.headers["x-own"]) == ("agent", "1")
    received = upstream.last()
    assert (received.body, received.target) == (body, "/v1/chat/completions?x=1")
    headers = received.headers
    assert (headers["authorization"], headers["accept-encoding"]) == ("Bearer theirs", "identity")
    assert (headers["x-stainless-retry-count"], "cookie" in headers) == ("0", False)
    assert headers["x-request-id"] == response.headers["x-request-id"]
    hints = verify_hints(
        headers["x-frontdesk-hints"], headers["x-frontdesk-signature"], headers["x-request-id"], body,
        parse_keys(KEYS), Seen(), time.time(),
    )  # fmt: skip
    assert (hints.reason, hints.lang, hints.tools) == ("client_options", "zh", ("get_order",))
    assert hints.slots == {"order_id": "1024"}
    assert 0 < (hints.budget_ms or 0) <= 2000
    event = isolate.event(response.headers["x-request-id"])
    assert (event["path"], event["upstream_status"], event["outcome"]) == ("agent", 200, "ok")


def test_hints_are_those_of_the_python_server(
    client: httpx2.Client, upstream: ScriptedUpstream, desk: Any
) -> None:
    """Byte for byte where the scores are equal; the budget alone depends on the clock."""
    texts = [
        FORWARDED,
        "i ordered EX-2041, cancel it and tell me a joke",
        "why",
        "x " * 90,
        "book a room tomorrow at 3pm",
        "когда",
    ]
    with desk(upstream.url) as relay, open_client(relay.url) as python:
        for text in texts:
            pair = []
            for one in (python, client):
                assert chat(one, {**asking(text), "model": "m"}).status_code == 200
                pair.append(upstream.last().headers["x-frontdesk-hints"])
            ours, theirs = (parse_hints(header) for header in pair)
            cut = [
                header.replace(f"budget={h.budget_ms}", "budget")
                for header, h in zip(pair, (ours, theirs), strict=True)
            ]
            if (ours.confidence, ours.top) == (theirs.confidence, theirs.top):
                assert cut[0] == cut[1]
            else:
                assert abs((ours.confidence or 0) - (theirs.confidence or 0)) < 0.08


def test_the_model_is_named_as_the_agent_names_it(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    body = '{"x": 12345678901234567890, "model": "frontdesk", "messages": [{"role": "user", "content": "订单 1024 到哪了"}]}'
    client.post("/v1/chat/completions", content=body.encode())
    assert upstream.last().body.decode() == body.replace('"frontdesk"', '"agent-7"')


def test_bypass_forwards_unread_and_without_hints(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    response = client.post("/v1/chat/completions", content=b"no json", headers={"x-frontdesk-bypass": "1"})
    assert response.headers["x-frontdesk-reason"] == "bypass"
    assert upstream.last().body == b"no json"
    assert "x-frontdesk-hints" not in upstream.last().headers


def test_other_paths_pass_through(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(b'{"data":[]}', "201 Created")
    response = client.post("/v1/files/a%2Fb?x=%20", content=b"\0\1" * 5000)
    assert (response.status_code, response.content) == (201, b'{"data":[]}')
    received = upstream.last()
    assert (received.method, received.target, received.body) == (
        "POST",
        "/v1/files/a%2Fb?x=%20",
        b"\0\1" * 5000,
    )
    assert client.delete("/v1/files/1").status_code == 201
    assert upstream.last().method == "DELETE"
    for status in ("204 No Content", "304 Not Modified"):
        upstream.script = [head(status, "x-own: 1")]
        assert client.get("/v1/files/1").status_code == int(status[:3])
    upstream.script = [head("200 OK", "content-length: 5")]
    assert client.head("/v1/files/1").status_code == 200
    for path in ("/v1/%2e%2e/x", "/v1/a%2f..%2fb", "/x", "/v1"):
        assert error_of(client.get(path)) == (404, "not_found_error", "not_found")
    assert error_of(client.get("/v1/classify"))[0] == 405
    assert error_of(client.get("/v1/prefetch/pf_1")) == (404, "not_found_error", "not_found")


def test_models_are_listed_with_ours(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(b'{"object":"list","data":[{"id":"gpt-x"},{"id":"frontdesk"}]}')
    assert [m["id"] for m in client.get("/v1/models").json()["data"]] == ["frontdesk", "gpt-x"]
    upstream.script = json_answer(b"no json")
    assert [m["id"] for m in client.get("/v1/models").json()["data"]] == ["frontdesk"]
    upstream.script = json_answer(b'{"error":{}}', "401 Unauthorized")
    assert client.get("/v1/models").status_code == 401


def test_the_agents_own_error_passes_byte_for_byte(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    body = b'{ "error": {"message": "theirs"} }'
    upstream.script = json_answer(body, "429 Too Many Requests", "retry-after: 7")
    response = chat(client, asking())
    assert (response.status_code, response.content, response.headers["retry-after"]) == (429, body, "7")


def test_an_encoded_answer_stays_encoded(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    zipped = bytes.fromhex("1f8b08000000000000ffcb48cdc9c90700") + bytes.fromhex("86a61036" + "05000000")
    upstream.script = json_answer(zipped, "200 OK", "content-encoding: gzip")
    with client.stream("POST", "/v1/chat/completions", json=asking()) as response:
        assert response.headers["content-encoding"] == "gzip"
        assert b"".join(response.iter_bytes()) == b"hello"


# --- streams -----------------------------------------------------------------------------------

STREAM = delta("你好 👩‍💻") + b'data: {"choices":[],"usage":{"completion_tokens":3}}\r\n\r\n' + DONE


def test_a_stream_that_comes_byte_by_byte_goes_byte_by_byte(
    client: httpx2.Client, isolate: Isolate, upstream: ScriptedUpstream
) -> None:
    upstream.script = [SSE_HEAD, *(chunk(STREAM[at : at + 1]) for at in range(len(STREAM))), LAST_CHUNK]
    response = chat(client, asking(stream=True))
    assert response.content == STREAM
    event = isolate.event(response.headers["x-request-id"])
    assert (event["completion_tokens"], event["stream"], event["outcome"]) == (3, True, "ok")


def test_each_piece_goes_on_when_it_comes(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    go = threading.Event()
    upstream.script = [SSE_HEAD, chunk(delta("one")), go, chunk(DONE), LAST_CHUNK]
    with client.stream("POST", "/v1/chat/completions", json=asking(stream=True)) as response:
        pieces = response.iter_raw()
        assert next(pieces) == delta("one")
        go.set()
        assert b"".join(pieces) == DONE


@pytest.mark.parametrize(
    ("steps", "start", "code"),
    [
        ([chunk(delta("one")), Do.RESET], delta("one"), "upstream_reset"),
        (
            [chunk(delta("one")), chunk(delta("two")[:30]), Do.CLOSE],
            delta("one") + delta("two")[:30] + b"\n\n",
            "upstream_reset",
        ),
        ([chunk(delta("one")), Do.STALL], delta("one"), "upstream_timeout"),
    ],
)
def test_a_stream_that_breaks_says_so_and_ends(
    client: httpx2.Client,
    isolate: Isolate,
    upstream: ScriptedUpstream,
    steps: list[Any],
    start: bytes,
    code: str,
) -> None:
    upstream.script = [SSE_HEAD, *steps]
    response = chat(client, asking(stream=True))
    got = response.content
    assert got.startswith(start)
    error, rest = got.removeprefix(start).split(b"\n\n", 1)
    assert (json.loads(error.removeprefix(b"data: "))["error"]["code"], rest) == (code, DONE)
    assert isolate.event(response.headers["x-request-id"])["outcome"] == "upstream_failed"


def test_a_stream_that_breaks_after_its_end_is_whole(
    client: httpx2.Client, isolate: Isolate, upstream: ScriptedUpstream
) -> None:
    upstream.script = [SSE_HEAD, chunk(delta("one")), chunk(DONE), Do.RESET]
    response = chat(client, asking(stream=True))
    assert response.content == delta("one") + DONE
    assert isolate.event(response.headers["x-request-id"])["outcome"] == "ok"


@pytest.mark.parametrize("framing", ["content-length: 100", "transfer-encoding: chunked"])
def test_a_whole_answer_that_breaks_cuts_the_connection(
    isolate: Isolate, upstream: ScriptedUpstream, framing: str
) -> None:
    half = b"{half" if "length" in framing else chunk(b"{half")
    upstream.script = [head("200 OK", "content-type: application/json", framing) + half, Do.CLOSE]
    with RawClient(isolate.port) as raw:
        raw.send(sent(framing[:7]))
        got = raw.read_all()
    assert b"{half" in got
    assert b"0\r\n\r\n" not in got
    assert isolate.event(framing[:7])["outcome"] == "upstream_failed"


# --- the agent is not there --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([Do.RESET], (502, "server_error", "upstream_unavailable")),
        ([Do.CLOSE], (502, "server_error", "upstream_unavailable")),
        ([b"no HTTP\r\n\r\n", Do.CLOSE], (502, "server_error", "upstream_unavailable")),
        ([Do.STALL], (504, "timeout", "upstream_timeout")),
    ],
)
def test_an_agent_that_breaks_off_or_is_silent(
    client: httpx2.Client,
    isolate: Isolate,
    upstream: ScriptedUpstream,
    script: list[Any],
    expected: tuple[int, str, str],
) -> None:
    upstream.script = script
    response = chat(client, asking())
    assert error_of(response) == expected
    assert response.headers["x-should-retry"] == "false"
    assert response.headers["x-frontdesk-path"] == "error"
    assert isolate.event(response.headers["x-request-id"])["outcome"] == expected[2]
    assert len(upstream.requests) == 1


def test_an_agent_that_is_down(closed_port: int) -> None:
    env = {"FRONTDESK_UPSTREAM_BASE_URL": f"http://127.0.0.1:{closed_port}/v1", "FRONTDESK_LOG": "off"}
    with workerd(BUILD, env) as isolate, open_client(isolate.url) as client:
        assert error_of(chat(client, asking())) == (502, "server_error", "upstream_unavailable")
        assert chat(client, asking(QUESTION)).headers["x-frontdesk-reason"] == "exact"
        assert [m["id"] for m in client.get("/v1/models").json()["data"]] == ["frontdesk"]
        assert [line for line in isolate.lines.queue if line.startswith("{")] == []


def test_no_agent() -> None:
    with workerd(BUILD) as isolate, open_client(isolate.url) as client:
        response = chat(client, asking())
        assert error_of(response) == (503, "server_error", "upstream_unset")
        assert "FRONTDESK_UPSTREAM_BASE_URL" in response.json()["error"]["message"]
        assert chat(client, asking(QUESTION)).json()["choices"][0]["message"]["content"] == ANSWER


# --- the client leaves -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "until", "status"),
    [
        ([Do.STALL], b"", 499),
        ([SSE_HEAD, chunk(delta("one")), Do.STALL], b"one", 200),
        (
            [head("200 OK", "content-type: application/json", "content-length: 100") + b"{half", Do.STALL],
            b"{half",
            200,
        ),
    ],
    ids=["before the first byte", "mid-stream", "a whole answer"],
)
def test_a_client_that_is_gone_closes_the_upstream(
    isolate: Isolate, upstream: ScriptedUpstream, script: list[Any], until: bytes, status: int
) -> None:
    """By a reset: that a client has only closed its side, workerd sees when it next writes."""
    request_id = f"gone-{len(until)}"
    upstream.script = script
    with RawClient(isolate.port) as raw:
        raw.send(sent(request_id, stream=True))
        received = upstream.wait_for()
        if until:
            raw.read_until(until)
        raw.leave(abort=True)
    assert received.closed.wait(0.5)
    event = isolate.event(request_id)
    assert (event["status"], event["outcome"]) == (status, "client_left")


def test_a_client_that_closes_its_side_mid_stream(isolate: Isolate, upstream: ScriptedUpstream) -> None:
    upstream.script = [SSE_HEAD, *[0.05, chunk(delta("one"))] * 100]
    with RawClient(isolate.port) as raw:
        raw.send(sent("closed", stream=True))
        raw.read_until(b"one")
        raw.leave()
    assert upstream.last().closed.wait(PATIENCE)
    assert isolate.event("closed")["outcome"] == "client_left"


# --- bodies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"), (b"{", "invalid_json"), (b"[]", "invalid_json"), (b"\xff{}", "invalid_json"), (b"{}", "missing_required_parameter"),
        (b'{"messages":[]}', "invalid_type"), (b'{"messages":["x"]}', "invalid_type"), (b'{"messages":[{}],"x":NaN}', "invalid_json"),
        (b'{"messages":[{}],"x":1e999}', "invalid_json"), (b'{"messages":[{}],"x":' + b"9" * 4001 + b"}", "invalid_json"),
        (b'{"messages":[{}],"x":' + b"[" * 2000 + b"]" * 2000 + b"}", "invalid_json"),
    ],
)  # fmt: skip
def test_a_body_that_nobody_can_read(
    client: httpx2.Client, upstream: ScriptedUpstream, body: bytes, code: str
) -> None:
    assert error_of(client.post("/v1/chat/completions", content=body)) == (400, "invalid_request_error", code)
    assert upstream.requests == []


def test_a_body_of_a_megabyte(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    body = json.dumps(asking("年" * 166_000)).encode()
    assert 990_000 < len(body) <= 1_000_000
    response = client.post("/v1/chat/completions", content=body)
    assert response.headers["x-frontdesk-reason"] == "too_long"
    assert upstream.last().body.replace(b"agent-7", b"frontdesk") == body
    over = client.post("/v1/chat/completions", content=body + b" " * 10_000)
    assert error_of(over) == (413, "invalid_request_error", "request_too_large")
    told = client.post(
        "/v1/chat/completions", content=iter([body, b" " * 10_000])
    )  # whose length is not told
    assert error_of(told) == (413, "invalid_request_error", "request_too_large")
    assert len(upstream.requests) == 1


def test_a_compressed_body_is_forwarded_unread(client: httpx2.Client, upstream: ScriptedUpstream) -> None:
    response = client.post(
        "/v1/chat/completions", content=b"\x1f\x8b...", headers={"content-encoding": "gzip"}
    )
    assert response.headers["x-frontdesk-reason"] == "client_options"
    assert (upstream.last().body, upstream.last().headers["content-encoding"]) == (b"\x1f\x8b...", "gzip")


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [({}, "missing_required_parameter", "input"), ({"input": 5}, "invalid_type", "input"), ({"input": [{}]}, "missing_required_parameter", "messages"),
     ({"input": ["x"] * 257}, "invalid_request", "input")],
)  # fmt: skip
def test_classify_says_what_is_wrong(
    client: httpx2.Client, body: dict[str, Any], code: str, param: str
) -> None:
    response = client.post("/v1/classify", json=body)
    assert error_of(response) == (400, "invalid_request_error", code)
    assert response.json()["error"]["param"] == param


# --- answering, callers ------------------------------------------------------------------------


@contextmanager
def configured(upstream: ScriptedUpstream, **env: str) -> Iterator[tuple[Isolate, httpx2.Client]]:
    named = {f"FRONTDESK_{name.upper()}": value for name, value in env.items()}
    with (
        workerd(BUILD, {"FRONTDESK_UPSTREAM_BASE_URL": upstream.url, **named}) as isolate,
        open_client(isolate.url) as client,
    ):
        yield isolate, client


def test_observing_forwards_as_if_nobody_stood_between(upstream: ScriptedUpstream) -> None:
    with configured(upstream, answering="observe", max_body_bytes="2000") as (isolate, client):
        response = chat(client, asking(QUESTION), cookie="a=b", x_frontdesk_debug="1")
        assert response.headers["x-frontdesk-observed"] == "faq;exact"
        headers = upstream.last().headers
        assert headers["cookie"] == "a=b"
        assert [
            name for name in headers if name.startswith(("x-frontdesk", "x-request-id", "traceparent"))
        ] == []
        assert isolate.event(response.headers["x-request-id"])["observed"]["topic"] == "staff.working_hours"
        assert client.post("/v1/chat/completions", content=b"no json").status_code == 200
        big = json.dumps(asking("x" * 9000)).encode()
        for content in (big, iter([big[:3000], big[3000:]])):
            assert (
                client.post("/v1/chat/completions", content=content).headers["x-frontdesk-reason"]
                == "observe"
            )
            assert upstream.last().body == big


def test_answering_off_and_a_share(upstream: ScriptedUpstream) -> None:
    with configured(upstream, answering="off") as (_, client):
        assert chat(client, asking(QUESTION)).headers["x-frontdesk-reason"] == "answering_off"
    with configured(upstream, answering="0.5") as (_, client):
        reasons = [
            chat(client, asking(QUESTION), authorization=f"Bearer {i}").headers["x-frontdesk-reason"]
            for i in range(40)
        ]
        again = [
            chat(client, asking(QUESTION), authorization=f"Bearer {i}").headers["x-frontdesk-reason"]
            for i in range(40)
        ]
    assert reasons == again
    assert {*reasons} == {"exact", "control_group"}


def test_our_own_keys(upstream: ScriptedUpstream) -> None:
    keys = [{"id": "web", "sha256": hashlib.sha256(b"fd_1").hexdigest(), "tenant": "acme"}]
    keys += [{"id": "old", "sha256": hashlib.sha256(b"fd_2").hexdigest(), "valid_until": "2020-01-01"}]
    with configured(upstream, auth="keys", keys=json.dumps(keys), upstream_api_key="agents-own") as (
        isolate,
        client,
    ):
        for given in (
            {},
            {"authorization": "Bearer fd_2"},
            {"authorization": "Bearer no"},
            {"authorization": "Basic fd_1"},
        ):
            response = chat(client, asking(), **given)
            assert error_of(response) == (401, "invalid_request_error", "invalid_api_key")
            assert response.headers["www-authenticate"] == "Bearer"
        response = chat(client, asking(), authorization="bearer fd_1")
        assert response.status_code == 200
        assert upstream.last().headers["authorization"] == "Bearer agents-own"
        assert isolate.event(response.headers["x-request-id"])["tenant"] == "acme"
        assert client.get("/health/readiness").status_code == 200


def test_names_come_from_trusted_proxies_alone(upstream: ScriptedUpstream) -> None:
    """`request.cf` and cf-connecting-ip are Cloudflare's; where they are not, nobody is trusted."""
    cloudflare = {"cf-blob": "{}", "cf-connecting-ip": "10.1.2.3"}
    with configured(upstream, auth="proxy", identity_header="x-user", trusted_proxies="10.0.0.0/8") as (
        _,
        client,
    ):
        for given in (
            {"x-user": "anna"},
            {"x-user": "anna", "cf-connecting-ip": "10.1.2.3"},
            {"x-user": "anna", **cloudflare, "cf-connecting-ip": "11.1.2.3"},
            {"x-user": "anna, bert", **cloudflare},
            {"x-user": "anna", "x_user": "bert", **cloudflare},
            cloudflare,
        ):
            assert client.post("/v1/chat/completions", json=asking(), headers=given).status_code == 401
        assert upstream.requests == []
        named = {"x-user": "anna", **cloudflare}
        assert client.post("/v1/chat/completions", json=asking(), headers=named).status_code == 200
        assert upstream.last().headers["x-user"] == "anna"


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The demo bundle's manifest of a desk that is not public."""
    return {"frontdesk.json": edited(tmp_path_factory.mktemp("private"), public=False)}


def edited(folder: Path, **changes: Any) -> Path:
    manifest = json.loads((DEMO / "frontdesk.json").read_bytes())
    path = folder / "frontdesk.json"
    path.write_text(json.dumps({**manifest, **changes}), "utf-8")
    return path


def test_a_private_desk_answers_those_that_somebody_vouches_for(
    upstream: ScriptedUpstream, private: dict[str, Path]
) -> None:
    with ScriptedUpstream() as check:
        env = {"FRONTDESK_UPSTREAM_BASE_URL": upstream.url, "FRONTDESK_AUTH_CHECK_URL": check.url}
        with workerd(BUILD, env, private) as isolate, open_client(isolate.url) as client:
            check.scripts += [
                json_answer(b"{}"),
                json_answer(b"{}", "401 Unauthorized"),
                json_answer(b"", "302 Found", "location: /"),
            ]
            reasons = [
                chat(client, asking(QUESTION), authorization=f"Bearer {i}").headers["x-frontdesk-reason"]
                for i in (1, 2, 3, 1)
            ]
            assert reasons == ["exact", "unverified_caller", "unverified_caller", "exact"]
            assert len(check.requests) == 3
            assert check.requests[0].headers["authorization"] == "Bearer 1"
            assert (
                chat(client, asking(QUESTION), x_frontdesk_debug="1").headers["x-frontdesk-reason"]
                == "unverified_caller"
            )
            assert "x-frontdesk-topic" not in chat(client, asking(), x_frontdesk_debug="1").headers
            assert error_of(client.post("/v1/classify", json={"input": "hi"}))[2] == "invalid_api_key"


def test_a_wrong_setting_is_told_in_the_log_alone() -> None:
    with workerd(BUILD, {"FRONTDESK_BUDGET_MS": "soon"}) as isolate, open_client(isolate.url) as client:
        assert error_of(chat(client, asking(QUESTION))) == (500, "server_error", "bad_config")
        wait_until(lambda: any("FRONTDESK_BUDGET_MS" in line for line in isolate.lines.queue), "the log")


# --- bundles, and the first request ------------------------------------------------------------


@pytest.mark.parametrize("name", ["answers.jsonl", "tokenizer.json", "model_quantized.onnx"])
def test_an_altered_file_is_refused_and_everything_forwarded(
    upstream: ScriptedUpstream, tmp_path: Path, name: str
) -> None:
    [file] = DEMO.rglob(name)
    altered = tmp_path / name
    altered.write_bytes(file.read_bytes()[:-1] + b" ")
    with (
        workerd(BUILD, {"FRONTDESK_UPSTREAM_BASE_URL": upstream.url}, {name: altered}) as isolate,
        open_client(isolate.url) as client,
    ):
        assert chat(client, asking(QUESTION)).headers["x-frontdesk-reason"] == "not_ready"
        ready = client.get("/health/readiness")
        assert (ready.status_code, ready.json()["status"]) == (503, "bundle_error")
        assert f"{name} is not the file that frontdesk.json describes" in ready.json()["message"]
        assert error_of(client.post("/v1/classify", json={"input": "hi"})) == (
            503,
            "server_error",
            "not_ready",
        )
        assert any("cannot be used" in line for line in isolate.lines.queue)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema_version": 3}, "has schema_version 3"),
        ({"max_tokens": 0}, "'max_tokens'"),
        ({"lang_rule": {"han_share": 0.2}}, "lang_rule.other_share must be a number from 0 to 1"),
        ({"limits": {"min_in_scope": None}}, "limits.min_in_scope must be a number from 0 to 1"),
        ({"files": {}}, "does not list"),
        ({"topics": []}, "there is no answer topic"),
        ({"self_test": []}, "no self-test"),
    ],
)
def test_a_manifest_that_would_weaken_the_guards_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with (
        workerd(BUILD, {}, {"frontdesk.json": edited(tmp_path, **changes)}) as isolate,
        open_client(isolate.url) as client,
    ):
        ready = client.get("/health/readiness")
        assert ready.status_code == 503
        assert said in ready.json()["message"]


def test_a_topic_without_a_text_in_the_language_is_forwarded(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    lines = (DEMO / "answers.jsonl").read_text("utf-8").splitlines()
    left = [
        line for line in lines if not ('"staff.working_hours"' in line and json.loads(line)["lang"] == "en")
    ]
    answers = tmp_path / "answers.jsonl"
    answers.write_text("\n".join(left), "utf-8")
    files = json.loads((DEMO / "frontdesk.json").read_bytes())["files"]
    files["answers.jsonl"] = hashlib.sha256(answers.read_bytes()).hexdigest()
    replaced = {"answers.jsonl": answers, "frontdesk.json": edited(tmp_path, files=files)}
    with (
        workerd(BUILD, {"FRONTDESK_UPSTREAM_BASE_URL": upstream.url}, replaced) as isolate,
        open_client(isolate.url) as client,
    ):
        for text, reason in (
            ("when does the working day begin", "no_answer_in_language"),
            ("公司几点上班？", "exact"),
        ):
            assert chat(client, asking(text)).headers["x-frontdesk-reason"] == reason


def test_first_requests_at_once_are_all_answered(upstream: ScriptedUpstream) -> None:
    with configured(upstream) as (isolate, _):

        def ask(i: int) -> str:
            with open_client(isolate.url) as client:
                return str(
                    chat(client, asking(QUESTION if i % 2 else "公司几点上班？")).headers[
                        "x-frontdesk-reason"
                    ]
                )

        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(ask, range(6))) == ["exact"] * 6


def test_a_first_request_without_time_to_wait_is_forwarded(upstream: ScriptedUpstream) -> None:
    with configured(upstream) as (_, client):
        hurried = chat(client, asking(QUESTION), x_frontdesk_budget_ms="300")
        assert (hurried.status_code, hurried.headers["x-frontdesk-reason"]) == (200, "not_ready")
        assert parse_hints(upstream.last().headers["x-frontdesk-hints"]).reason == "not_ready"
        # Its turn over, the bundle is loaded for those that come after.
        wait_until(
            lambda: (
                chat(client, asking(QUESTION), x_frontdesk_budget_ms="300").headers["x-frontdesk-reason"]
                == "exact"
            ),
            "the load",
        )


def test_a_first_request_that_is_given_up_leaves_a_bundle_that_loads(upstream: ScriptedUpstream) -> None:
    with configured(upstream) as (isolate, client):
        with RawClient(isolate.port) as raw:
            raw.send(post(json.dumps(asking(QUESTION)).encode()))
            raw.leave(abort=True)
        assert chat(client, asking(QUESTION)).headers["x-frontdesk-reason"] == "exact"


def test_the_bundle_of_the_tests_is_the_demo() -> None:
    assert load_bundle(DEMO).public
