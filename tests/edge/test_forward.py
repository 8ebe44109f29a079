"""Forwarding against a real upstream: what goes up, and what comes back, byte for byte."""

import asyncio
import gzip
import json
import re
import threading
from dataclasses import replace

import httpx2
import pytest
from servers import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Do,
    RawClient,
    Received,
    chunk,
    completion,
    delta,
    head,
    json_answer,
    open_async_client,
    open_client,
    post,
    wait_until,
)

from edge.config import Settings

CHAT = "/v1/chat/completions"
HELLO = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


def assert_ours(headers, path="agent", reason="not_ready"):
    """The headers that every answer carries."""
    assert headers["x-frontdesk-schema"] == "1"
    assert headers["x-frontdesk-path"] == path
    assert headers["x-frontdesk-reason"] == reason
    assert headers["x-request-id"]
    assert re.fullmatch(r"[a-z_]+;dur=\d+\.\d{3}(, [a-z_]+;dur=\d+\.\d{3})*", headers["server-timing"])


# --- without a bundle --------------------------------------------------------------------------


def test_without_a_bundle_readiness_says_why_and_turns_are_forwarded(relay, upstream, client):
    wait_until(lambda: client.get("/health/readiness").json()["status"] == "bundle_error", "the load's end")
    ready = client.get("/health/readiness")
    assert ready.status_code == 503
    assert ready.json()["message"]
    live = client.get("/health/liveness")
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    upstream.script = json_answer(completion("hello"))
    answer = client.post(CHAT, content=HELLO)
    assert answer.status_code == 200
    assert answer.content == completion("hello")
    assert_ours(answer.headers)
    event = relay.event()
    assert (event.status, event.outcome, event.upstream_status) == (200, "ok", 200)
    assert event.decision.reason == "not_ready"
    assert client.post("/v1/classify", json={"input": "hi"}).json()["error"]["code"] == "not_ready"


# --- the request -------------------------------------------------------------------------------

BODIES = {
    "odd whitespace": b' \n{ "messages" :\t[ {"role":"user","content":"hi"} ] ,\r\n"model":"m" }\n\n',
    "duplicate keys": b'{"model":"a","model":"b","messages":[{"role":"user","role":"user","content":"x"}]}',
    "unknown fields": b'{"messages":[{"role":"oracle","content":null,"z":1}],"x_new":{"deep":[1,null]},"":0}',
    "big numbers": b'{"messages":[{"role":"user","content":"x"}],"seed":123456789012345678901234567890,'
    b'"temperature":1.0000000000000000001,"top_p":1e308,"n":-0.0}',
    "emoji and escapes": '{"messages":[{"content":"你好 👩‍💻 \\ud83d\\ude00 \\/ \\u0000"}]}'.encode(),
    "lone surrogate": b'{"messages":[{"role":"user","content":"\\ud83d"}]}',
    "byte order mark": b'\xef\xbb\xbf{"messages":[{"role":"user","content":"x"}]}',
    "parts": b'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}]}',
    "large": json.dumps({"messages": [{"role": "user", "content": "长" * 150_000}]}).encode(),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_body_goes_up_unchanged(relay, upstream, client, body):
    assert client.post(CHAT, content=body).status_code == 200
    received = upstream.last()
    assert received.body == body
    assert received.headers["content-length"] == str(len(body))
    assert (received.method, received.target) == ("POST", CHAT)


def test_a_chunked_body_goes_up_unchanged(relay, upstream, client):
    assert client.post(CHAT, content=iter([HELLO[:7], HELLO[7:]])).status_code == 200
    assert upstream.last().body == HELLO


def test_a_mapped_model_changes_only_the_model(start, upstream):
    with (
        start(upstream.url, settings=Settings(models={"desk": "gpt-x"})) as relay,
        open_client(relay.url) as client,
    ):
        client.post(CHAT, content=b'{"a":1,"model":"desk","messages":[{"content":"\xe4\xbd\xa0"}],"z":1e2}')
        assert upstream.last().json() == {
            "a": 1,
            "model": "gpt-x",
            "messages": [{"content": "你"}],
            "z": 100.0,
        }


def test_only_allowed_headers_go_up(relay, upstream, client):
    client.post(
        CHAT,
        content=HELLO,
        headers={
            "authorization": "Bearer client",
            "content-type": "application/json; charset=utf-8",
            "openai-organization": "org",
            "idempotency-key": "i",
            "x-stainless-lang": "python",
            "accept-encoding": "gzip, br",
            "cookie": "a=1",
            "x-forwarded-for": "1.2.3.4",
            "forwarded": "for=1.2.3.4",
            "x-real-ip": "1.2.3.4",
            "origin": "https://evil.example",
            "x-api-key": "k",
            "x-frontdesk-hints": "v=1, topic=spoofed",
            "x-frontdesk-signature": "spoofed",
            "x-frontdesk-budget-ms": "5",
            "x-frontdesk-new": "1",
        },
    )
    received = upstream.last()
    assert received.headers.keys() == {
        "host",
        "accept",
        "user-agent",
        "authorization",
        "content-type",
        "content-length",
        "openai-organization",
        "idempotency-key",
        "x-stainless-lang",
        "accept-encoding",
        "x-request-id",
        "traceparent",
        "x-frontdesk-hints",
    }
    assert received.headers["authorization"] == "Bearer client"
    assert received.headers["content-type"] == "application/json; charset=utf-8"
    assert received.headers["accept-encoding"] == "identity"
    assert received.headers["host"] == f"127.0.0.1:{upstream.port}"
    assert "spoofed" not in received.headers["x-frontdesk-hints"]
    assert "reason=not_ready" in received.headers["x-frontdesk-hints"]


def test_bypass_forwards_without_hints(relay, upstream, client):
    answer = client.post(CHAT, content=b"not even JSON", headers={"x-frontdesk-bypass": "1"})
    assert_ours(answer.headers, reason="bypass")
    assert upstream.last().body == b"not even JSON"
    assert not [name for name in upstream.last().headers if name.startswith("x-frontdesk")]


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", "/v1/models"])
def test_our_key_replaces_the_clients(start, upstream, path):
    with start(upstream.url, api_key="sk-ours") as relay, open_client(relay.url) as client:
        method = "GET" if path == "/v1/models" else "POST"
        content = None if path == "/v1/models" else HELLO
        client.request(method, path, content=content, headers={"authorization": "Bearer sk-client"})
        assert upstream.last().headers["authorization"] == "Bearer sk-ours"
        assert b"sk-client" not in upstream.last().head


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
def test_hop_by_hop_and_listed_headers_stay_on_their_side_of_the_request(relay, upstream, path):
    fields = [
        "connection: keep-alive, X-Stainless-Secret",
        "connection: tracestate",
        "x-stainless-secret: 1",
        "x-stainless-open: 1",
        "tracestate: a=b",
        "keep-alive: timeout=5",
        "te: trailers",
        "proxy-authorization: Basic eA==",
        "proxy-connection: keep-alive",
        "trailer: x",
    ]
    with RawClient(relay.port) as client:
        client.send(post(HELLO, path, *fields))
        assert client.response()[0] == 200
    names = upstream.last().headers.keys()
    assert "x-stainless-open" in names
    dropped = {"x-stainless-secret", "tracestate", "keep-alive", "te", "proxy-authorization", "trailer"}
    assert not names & (dropped | {"connection", "proxy-connection", "transfer-encoding"})


def test_hop_by_hop_and_listed_headers_stay_on_their_side_of_the_response(relay, upstream, client):
    upstream.script = json_answer(
        b"{}",
        "200 OK",
        "connection: keep-alive, X-Secret",
        "connection: x-more",
        "x-secret: 1",
        "x-more: 1",
        "keep-alive: timeout=9",
        "proxy-authenticate: Basic",
        "trailer: x",
        "upgrade: h2c",
        "x-frontdesk-path: faq",
        "x-frontdesk-anything: spoofed",
        "x-request-id: theirs",
        "openai-processing-ms: 5",
        "x-ratelimit-remaining-requests: 9",
        "set-cookie: a=1",
        "set-cookie: b=2",
    )
    headers = client.post(CHAT, content=HELLO).headers
    assert_ours(headers)
    assert headers["openai-processing-ms"] == "5"
    assert headers["x-ratelimit-remaining-requests"] == "9"
    assert headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert headers.get_list("x-frontdesk-path") == ["agent"]
    assert headers["x-request-id"] != "theirs"
    assert len(headers.get_list("date")) == 1
    gone = {"x-secret", "x-more", "keep-alive", "proxy-authenticate", "trailer", "upgrade"}
    assert not headers.keys() & (gone | {"x-frontdesk-anything"})


# --- ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", "/v1/models"])
def test_a_request_id_is_made_and_returned(relay, upstream, client, path):
    answers = [client.request("GET" if path == "/v1/models" else "POST", path, content=HELLO) for _ in "12"]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == 2
    assert ids == [received.headers["x-request-id"] for received in upstream.requests]
    assert [relay.event().request_id for _ in "12"] == ids


def test_a_request_id_is_passed_on(relay, upstream, client):
    answer = client.post(CHAT, content=HELLO, headers={"x-request-id": "abc-1.2:3=4_5"})
    assert answer.headers["x-request-id"] == upstream.last().headers["x-request-id"] == "abc-1.2:3=4_5"


@pytest.mark.parametrize("hostile", ["a b", "a" * 129, '"><script>', "a\tb", "a,b", "é", ""])
def test_a_hostile_request_id_is_replaced(relay, upstream, hostile):
    with RawClient(relay.port) as client:
        client.send(post(HELLO, CHAT, f"x-request-id: {hostile}"))
        _, fields, _ = client.response()
    assert re.fullmatch(r"req_[0-9a-f]{24}", fields["x-request-id"])
    assert upstream.last().headers["x-request-id"] == fields["x-request-id"]


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
def test_a_trace_is_passed_on(relay, upstream, client, path):
    client.post(path, content=HELLO, headers={"traceparent": TRACE, "tracestate": "a=b"})
    assert upstream.last().headers["traceparent"] == TRACE
    assert upstream.last().headers["tracestate"] == "a=b"


@pytest.mark.parametrize("hostile", [None, "", "00-xyz-1-01", TRACE + "-more", TRACE.upper()])
def test_a_trace_is_made_where_there_is_none(relay, upstream, client, hostile):
    headers = {} if hostile is None else {"traceparent": hostile}
    client.post(CHAT, content=HELLO, headers=headers)
    made = upstream.last().headers["traceparent"]
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", made)
    assert made != TRACE


# --- the response ------------------------------------------------------------------------------

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}\n\n'
EVENTS = (
    b": a comment\n\n"
    + 'data: {"choices":[{"delta":{"content":"你好👩‍💻"}}]}\n\n'.encode()
    + b'event: x\nid: 1\ndata:{"no":"space"}\n\n'
    + b"data: two\ndata: lines\n\n"
    + USAGE
    + DONE
)


def framed(parts):
    return [SSE_HEAD, *(chunk(part) for part in parts if part), LAST_CHUNK]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_a_stream_split_at_every_byte_arrives_exact(relay, upstream, client, end):
    events = EVENTS.replace(b"\n", end)
    splits = [[events[:at], events[at:]] for at in range(1, len(events))]
    splits.append([events[at : at + 1] for at in range(len(events))])
    for parts in splits:
        upstream.script = framed(parts)
        with client.stream("POST", CHAT, content=HELLO) as answer:
            assert b"".join(answer.iter_raw()) == events
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        event = relay.event()
        assert (event.stream, event.outcome, event.completion_tokens) == (True, "ok", 7)
    assert_ours(answer.headers)


def test_an_answer_split_at_every_byte_arrives_exact(relay, upstream, client):
    body = '{"a": "你好👩‍💻",\r\n "b": "data: [DONE]\\n\\n"}'.encode()
    kinds = [
        [head("200 OK", "content-type: application/json", f"content-length: {len(body)}")],
        [head("200 OK", "content-type: application/json", "transfer-encoding: chunked")],
    ]
    for at in range(1, len(body)):
        upstream.script = [*kinds[0], body[:at], 0.001, body[at:]]
        assert client.post(CHAT, content=HELLO).content == body
        upstream.script = [*kinds[1], chunk(body[:at]), chunk(body[at:]), LAST_CHUNK]
        assert client.post(CHAT, content=HELLO).content == body


def test_each_event_arrives_before_the_next_is_sent(relay, upstream, client):
    gates = [threading.Event() for _ in range(3)]
    upstream.script = [
        SSE_HEAD,
        *(step for i, gate in enumerate(gates) for step in (chunk(delta(str(i))), gate)),
        chunk(DONE),
        LAST_CHUNK,
    ]
    with client.stream("POST", CHAT, content=HELLO) as answer:
        pieces = answer.iter_raw()
        for i, gate in enumerate(gates):
            assert next(pieces) == delta(str(i))
            gate.set()
        assert b"".join(pieces) == DONE


def test_a_stream_with_a_length_loses_it(relay, upstream, client):
    upstream.script = [
        head("200 OK", "content-type: Text/Event-Stream", f"content-length: {len(EVENTS)}") + EVENTS
    ]
    answer = client.post(CHAT, content=HELLO)
    assert answer.content == EVENTS
    assert "content-length" not in answer.headers


def test_a_compressed_answer_passes_untouched(relay, upstream, client):
    packed = gzip.compress(completion("x" * 1000))
    upstream.script = json_answer(packed, "200 OK", "content-encoding: gzip")
    with client.stream("POST", CHAT, content=HELLO) as answer:
        assert b"".join(answer.iter_raw()) == packed
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-length"] == str(len(packed))


def test_an_answer_that_ends_with_the_connection(relay, upstream, client):
    """Without length and chunks, the end of the connection is the end of the body."""
    body = b"some text, not JSON"
    upstream.script = [head("200 OK", "content-type: text/plain", "connection: close") + body, Do.CLOSE]
    for _ in range(20):
        answer = client.post(CHAT, content=HELLO)
        assert (answer.status_code, answer.content) == (200, body)
        event = relay.event()
        assert (event.status, event.outcome) == (200, "ok")


def test_a_kept_connection_that_the_upstream_has_closed_is_not_used(relay, upstream, client):
    upstream.script = [*json_answer(b"{}"), Do.CLOSE]
    for _ in range(5):
        assert client.post(CHAT, content=HELLO).status_code == 200
        wait_until(lambda: not upstream.open, "the upstream's close")


@pytest.mark.parametrize(
    ("status", "fields", "body"),
    [
        ("500 Internal Server Error", ["x-should-retry: false"], b'{"error": {"message":"boom",  "z":1}}\n'),
        ("429 Too Many Requests", ["retry-after: 17", "retry-after-ms: 17000"], b'{"error":{"code":"rl"}}'),
        ("400 Bad Request", [], b'{"error":{"message":"\xe4\xbd\xa0"}}'),
        ("401 Unauthorized", ["www-authenticate: Bearer"], b"no"),
        ("404 Not Found", [], b"<html>not JSON</html>"),
        ("503 Service Unavailable", ["retry-after: 3"], b""),
        ("529 Site Overloaded", [], b"{}"),
    ],
)
def test_an_upstream_error_passes_byte_for_byte(relay, upstream, client, status, fields, body):
    upstream.script = json_answer(body, status, *fields)
    answer = client.post(CHAT, content=HELLO)
    assert answer.status_code == int(status[:3])
    assert answer.content == body
    for line in fields:
        name, _, value = line.partition(": ")
        assert answer.headers.get_list(name) == [value]
    assert_ours(answer.headers)
    event = relay.event()
    assert (event.status, event.upstream_status, event.outcome) == (
        answer.status_code,
        answer.status_code,
        "ok",
    )


def test_an_interim_response_is_not_the_answer(relay, upstream, client):
    upstream.script = [head("103 Early Hints", "link: </x>"), *json_answer(b'{"final":1}')]
    answer = client.post(CHAT, content=HELLO)
    assert (answer.status_code, answer.content) == (200, b'{"final":1}')
    assert "link" not in answer.headers


# --- the other paths ---------------------------------------------------------------------------


def test_embeddings_pass_through(relay, upstream, client):
    body = b'{ "input" : "x", "messages": "not ours to judge" }'
    upstream.script = json_answer(b'{"data": []}')
    answer = client.post("/v1/embeddings", content=body, headers={"content-type": "application/json"})
    assert answer.content == b'{"data": []}'
    received = upstream.last()
    assert (received.method, received.target, received.body) == ("POST", "/v1/embeddings", body)
    assert received.headers["content-type"] == "application/json"
    assert received.headers["content-length"] == str(len(body))
    assert_ours(answer.headers, reason="bypass")
    event = relay.event()
    assert (event.route, event.status, event.outcome) == ("/v1/embeddings", 200, "ok")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/files?x=1"),
        ("GET", "/v1/files?a=%20b&a=&c=%E4%BD%A0&d=[1]|2&e='f'"),
        ("GET", "/v1/files/a%2Fb%20c/content"),
        ("GET", "/v1/files//double"),
        ("GET", "/v1/files/~a!$&'()*+,;=:@b"),
        ("DELETE", "/v1/files/f-1"),
        ("PATCH", "/v1/x"),
        ("PUT", "/v1/x"),
    ],
)
def test_method_path_and_query_pass_as_they_came(relay, upstream, method, target):
    upstream.script = json_answer(b"[1]")
    with RawClient(relay.port) as client:
        client.send(f"{method} {target} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        assert client.response()[::2] == (200, b"[1]")
    received = upstream.last()
    assert (received.method, received.target, received.body) == (method, target, b"")


def test_head_passes_through(relay, upstream, client):
    upstream.script = [head("200 OK", "content-length: 5", "x-a: 1")]
    answer = client.head("/v1/files/a")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "5", b"")
    assert relay.event().outcome == "ok"


def test_a_response_without_a_body(relay, upstream, client):
    upstream.script = [head("204 No Content", "x-a: 1")]
    answer = client.delete("/v1/files/a")
    assert (answer.status_code, answer.headers["x-a"], answer.content) == (204, "1", b"")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_upload_is_streamed_and_may_be_larger_than_a_chat(relay, upstream, framing):
    """The first part is at the upstream before the last one has been sent."""
    parts = [bytes([65 + i]) * 300_000 for i in range(5)]
    size = sum(map(len, parts))
    field = f"content-length: {size}" if framing == "length" else "transfer-encoding: chunked"
    top = f"POST /v1/files HTTP/1.1\r\nhost: a\r\ncontent-encoding: gzip\r\n{field}\r\n\r\n".encode()
    wrap = chunk if framing == "chunked" else bytes
    with RawClient(relay.port) as client:
        client.send(top + wrap(parts[0]))
        received = upstream.wait_for(1, complete=False)
        wait_until(lambda: len(received.body) >= 250_000, "the first part at the upstream")
        for part in parts[1:]:
            client.send(wrap(part))
        if framing == "chunked":
            client.send(LAST_CHUNK)
        assert client.response()[0] == 200
    assert received.body == b"".join(parts)
    assert received.headers.get("content-length") == (str(size) if framing == "length" else None)
    assert received.headers["content-encoding"] == "gzip"


def test_a_passed_through_stream_arrives_as_it_comes(relay, upstream, client):
    gate = threading.Event()
    upstream.script = [SSE_HEAD, chunk(b"event: a\ndata: 1\n\n"), gate, chunk(b"data: 2\n\n"), LAST_CHUNK]
    with client.stream("POST", "/v1/responses", content=b"{}") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"event: a\ndata: 1\n\n"
        gate.set()
        assert b"".join(pieces) == b"data: 2\n\n"


@pytest.mark.parametrize("base", ["", "/v1", "/deep/er/v1/"])
def test_the_base_address_may_have_any_path(start, upstream, base):
    with (
        start(f"http://127.0.0.1:{upstream.port}{base}") as relay,
        open_client(relay.url) as client,
    ):
        client.post(CHAT, content=HELLO)
        assert upstream.last().target == f"{base.rstrip('/')}/chat/completions"
        client.get("/v1//evil.example/x?y=1")
        assert upstream.last().target == f"{base.rstrip('/')}//evil.example/x?y=1"
        assert upstream.last().headers["host"] == f"127.0.0.1:{upstream.port}"


# --- models ------------------------------------------------------------------------------------

OURS = {"id": "frontdesk", "object": "model", "created": 0, "owned_by": "frontdesk"}


def test_models_are_the_upstreams_and_ours(relay, upstream, client):
    theirs = {"id": "gpt-x", "object": "model", "new": [1]}
    upstream.script = json_answer(json.dumps({"data": [theirs, {"id": "frontdesk"}]}).encode())
    answer = client.get("/v1/models")
    assert answer.json() == {"object": "list", "data": [OURS, theirs]}
    assert upstream.last().target == "/v1/models"
    assert answer.headers["x-frontdesk-schema"] == "1"
    assert answer.headers["x-request-id"] == upstream.last().headers["x-request-id"]
    assert client.head("/v1/models").status_code == 200
    assert client.get("/v1/models/gpt-x").status_code == 200
    assert upstream.last().target == "/v1/models/gpt-x"


@pytest.mark.parametrize(
    "script",
    [
        json_answer(b"<html>hello</html>"),
        json_answer(b"\xff\xfe"),
        json_answer(b"[1]"),
        json_answer(b'{"data":[1]}'),
        json_answer(b'{"data":null}'),
        json_answer(b"[" * 100_000),
        json_answer(b'{"data":[{"id":"a"}]}', "500 Internal Server Error"),
        json_answer(b"nonsense", "200 OK", "content-encoding: gzip"),
        [head("200 OK", "content-length: 50") + b"{", Do.CLOSE],
        [Do.CLOSE],
        [Do.RESET],
        [b"SSH-2.0-x\r\n", Do.CLOSE],
    ],
)
def test_models_are_ours_alone_where_the_upstream_fails(relay, upstream, client, script):
    upstream.script = script
    answer = client.get("/v1/models")
    assert (answer.status_code, answer.json()) == (200, {"object": "list", "data": [OURS]})


def test_models_are_ours_alone_where_the_upstream_is_down(start, closed_port):
    for base in ("", f"http://127.0.0.1:{closed_port}/v1"):
        with start(base) as relay, open_client(relay.url) as client:
            answer = client.get("/v1/models")
            assert (answer.status_code, answer.json()["data"]) == (200, [OURS])


# --- many at once ------------------------------------------------------------------------------


def test_fifty_streams_at_once_stay_intact(relay, upstream):
    def script(received: Received):
        name = received.json()["user"]
        steps = [SSE_HEAD]
        for i in range(20):
            event = delta(f"{name}:{i}:{'长' * (i % 7)}")
            half = len(event) * (i + 1) // 21
            steps += [chunk(event[:half]) if half else b"", 0.002, chunk(event[half:])]
        return [*steps, chunk(DONE), LAST_CHUNK]

    upstream.script = script

    async def one(client: httpx2.AsyncClient, name: str):
        body = {"user": name, "stream": True, "messages": [{"role": "user", "content": name}]}
        got = b""
        async with client.stream("POST", CHAT, json=body) as answer:
            async for piece in answer.aiter_raw():
                got += piece
        return got

    async def main():
        async with open_async_client(relay.url) as client:
            return await asyncio.gather(*(one(client, f"u{n}") for n in range(50)))

    for n, got in enumerate(asyncio.run(main())):
        expected = b"".join(delta(f"u{n}:{i}:{'长' * (i % 7)}") for i in range(20)) + DONE
        assert got == expected
    assert {relay.event().outcome for _ in range(50)} == {"ok"}
    relay.wait_idle()
    wait_until(lambda: relay.served.open_connections() == 0, "the clients' connections to be gone")


def test_after_all_this_nothing_is_left(start, upstream):
    """Once the server has stopped, it holds no connection to the upstream either."""
    before = set(upstream.open)
    with start(upstream.url) as relay, open_client(relay.url) as client:
        for _ in range(3):
            client.post(CHAT, content=HELLO)
        assert len(set(upstream.open) - before) == 1, "the connection is kept and used again"
        relay.wait_idle()
    wait_until(lambda: set(upstream.open) <= before, "the upstream connections to be closed")


def test_limits_are_the_settings(start, upstream):
    """More turns than connections wait for one; none fails."""
    upstream.script = [0.02, *json_answer(b"{}")]
    before = upstream.accepted
    with start(upstream.url, max_connections=2, settings=replace(Settings(), budget_ms=5)) as relay:

        async def main():
            async with open_async_client(relay.url) as client:
                return await asyncio.gather(*(client.post(CHAT, content=HELLO) for _ in range(10)))

        assert [answer.status_code for answer in asyncio.run(main())] == [200] * 10
    assert upstream.accepted - before <= 2
