"""What is let in: framing, size, methods, paths, on raw sockets and with both HTTP parsers."""

import json
import re
import time

import pytest
from servers import RawClient, chunk, completion, json_answer, open_client, post, wait_until

from edge.config import Settings
from edge.stages.admit import stays_below

CHAT = "/v1/chat/completions"
HELLO = b'{"messages":[{"role":"user","content":"hi"}]}'
LIMIT = 2000


@pytest.fixture(scope="module", params=["httptools", "h11"])
def shared_relay(request, start, shared_upstream):
    settings = Settings(max_body_bytes=LIMIT)
    with start(shared_upstream.url, http=request.param, settings=settings) as relay:
        yield relay


def assert_refused(answer, status, code, kind="invalid_request_error", param=None):
    """OpenAI-shaped, with our headers, and nothing of the inside in it."""
    got, fields, body = answer
    assert got == status
    error = json.loads(body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == (kind, param, code)
    assert error["message"]
    assert fields["content-type"] == "application/json"
    assert fields["x-frontdesk-schema"] == "1"
    assert (fields["x-frontdesk-path"], fields["x-frontdesk-reason"]) == ("error", code)
    assert fields["x-request-id"]
    assert re.search(r"dur=\d", fields["server-timing"])
    for inside in (b"Traceback", b".py", b"site-packages"):
        assert inside not in body


# --- framing -----------------------------------------------------------------------------------

NEXT = b"GET /v1/smuggled HTTP/1.1\r\nhost: a\r\n\r\n"
BODY = chunk(HELLO) + b"0\r\n\r\n"


def framed(version, *fields, body=HELLO):
    top = [f"POST {CHAT} HTTP/{version}", *fields, "", ""]
    return "\r\n".join(top).encode() + body


SIZE = f"content-length: {len(HELLO)}"
FRAMING = {
    "no host": framed("1.1", SIZE),
    "two hosts": framed("1.1", "host: a", "host: b", SIZE),
    "the same host twice": framed("1.1", "host: a", "host: a", SIZE),
    "TE on HTTP/1.0": framed("1.0", "host: a", "transfer-encoding: chunked", body=BODY),
    "TE on HTTP/1.0, kept alive": framed(
        "1.0", "host: a", "connection: keep-alive", "transfer-encoding: chunked", body=BODY
    ),
    "CL and TE": framed("1.1", "host: a", SIZE, "transfer-encoding: chunked", body=BODY),
    "TE and CL": framed("1.1", "host: a", "transfer-encoding: chunked", SIZE, body=BODY),
    "CL.TE: the rest is another request": framed(
        "1.1", "host: a", "content-length: 5", "transfer-encoding: chunked", body=b"0\r\n\r\n" + NEXT
    ),
    "TE.CL: the rest is another request": framed(
        "1.1",
        "host: a",
        "content-length: 3",
        "transfer-encoding: chunked",
        body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(NEXT), NEXT),
    ),
    "two lengths": framed("1.1", "host: a", SIZE, "content-length: 3"),
    "a list of lengths": framed("1.1", "host: a", f"content-length: {len(HELLO)}, 3"),
    "length with a sign": framed("1.1", "host: a", f"content-length: +{len(HELLO)}"),
    "negative length": framed("1.1", "host: a", "content-length: -1"),
    "hex length": framed("1.1", "host: a", "content-length: 0x2d"),
    "unknown coding": framed("1.1", "host: a", "transfer-encoding: gzip", body=BODY),
    "chunked not last": framed("1.1", "host: a", "transfer-encoding: chunked, identity", body=BODY),
    "obscured coding": framed("1.1", "host: a", "transfer-encoding: xchunked", SIZE, body=BODY),
    "space before the colon": framed("1.1", "host: a", "transfer-encoding : chunked", SIZE, body=BODY),
    "folded coding": framed("1.1", "host: a", "transfer-encoding:\r\n chunked", SIZE, body=BODY),
    "odd chunk size": framed("1.1", "host: a", "transfer-encoding: chunked", body=b"0x2\r\n{}\r\n0\r\n\r\n"),
    "bare CR": framed("1.1", "host: a\rx: y", SIZE),
    "a NUL in a header": framed("1.1", "host: a", "x: a\0b", SIZE),
}


@pytest.mark.parametrize("request_bytes", FRAMING.values(), ids=FRAMING.keys())
def test_what_two_servers_could_read_differently_is_refused(relay, upstream, request_bytes):
    """400, or closed; and never is a second request found in the body of the first."""
    with RawClient(relay.port) as client:
        client.send(request_bytes)
        client.sock.settimeout(0.3)
        try:
            got = client.read_all()
        except TimeoutError:
            got = client.got
    statuses = re.findall(rb"HTTP/1\.1 (\d{3})", got)
    assert set(statuses) <= {b"400"}, got
    assert not upstream.requests
    assert b"Traceback" not in got


def test_a_refused_framing_closes_the_connection(relay, upstream):
    """What follows in the same packet is not read as a request."""
    with RawClient(relay.port) as client:
        client.send(framed("1.1", "host: a", "host: b", SIZE) + NEXT)
        got = client.read_all()
    assert got.count(b"HTTP/1.1 ") == 1
    assert not upstream.requests


@pytest.mark.parametrize("first", ["405", "404", "400", "413", "413 chunked", "502"])
def test_the_next_request_on_the_connection_works(relay, upstream, first):
    """After an error, pipelined and one after another."""
    requests = {
        "405": b"GET /v1/classify HTTP/1.1\r\nhost: a\r\n\r\n",
        "404": post(HELLO, "/nope"),
        "400": post(b"{"),
        "413": post(b"x" * (LIMIT + 1)),
        "413 chunked": f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        + chunk(b"x" * 1500) * 3
        + b"0\r\n\r\n",
        "502": post(HELLO, CHAT),
    }
    status = int(first[:3])
    for pipelined in (False, True):
        upstream.reset()
        if first == "502":
            upstream.scripts.append([b"nonsense\r\n\r\n"])
        upstream.script = json_answer(completion())
        with RawClient(relay.port) as client:
            if pipelined:
                client.send(requests[first] + post(HELLO))
                assert client.response()[0] == status
            else:
                client.send(requests[first])
                assert client.response()[0] == status
                client.send(post(HELLO))
            answer = client.response()
            assert (answer[0], answer[2]) == (200, completion())
            assert upstream.last().body == HELLO


def test_pipelined_requests_are_answered_in_order(relay, upstream):
    upstream.script = lambda received: [
        0.02 if b"hi 0" in received.body else 0.0,
        *json_answer(completion(received.json()["messages"][0]["content"])),
    ]
    with RawClient(relay.port) as client:
        client.send(b"".join(post(HELLO.replace(b"hi", b"hi %d" % i)) for i in range(5)))
        for i in range(5):
            assert client.response()[2] == completion(f"hi {i}")


def test_http_10_is_answered_and_closed(relay, upstream):
    upstream.script = json_answer(completion())
    with RawClient(relay.port) as client:
        client.send(framed("1.0", "host: a", SIZE))
        assert client.read_all().endswith(completion())


def test_a_head_that_is_no_http_gets_no_insides(relay, upstream):
    for rubbish in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"hello\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"):
        with RawClient(relay.port) as client:
            client.send(rubbish)
            got = client.read_all()
        assert b"Traceback" not in got
        assert re.match(rb"HTTP/1\.1 400", got) or not got
    assert not upstream.requests


def test_a_websocket_is_refused(relay, upstream, caplog):
    fields = [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    top = "\r\n".join(["GET /v1/realtime HTTP/1.1", "host: a", *fields, "", ""]).encode()
    with RawClient(relay.port) as client:
        client.send(top)
        assert client.read_until(b"\r\n").startswith(b"HTTP/1.1 403")
    assert "Traceback" not in caplog.text
    assert not upstream.requests


# --- size --------------------------------------------------------------------------------------


def sized(size):
    """A valid chat body of this many bytes."""
    return HELLO.replace(b"hi", b"h" * (size - len(HELLO) + 2))


def chunked(body, step=500, path=CHAT):
    top = f"POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return top + b"".join(chunk(body[at : at + step]) for at in range(0, len(body), step)) + b"0\r\n\r\n"


@pytest.mark.parametrize("encode", [post, chunked], ids=["length", "chunked"])
@pytest.mark.parametrize("path", [CHAT, "/v1/classify"])
def test_a_body_over_the_limit_is_a_413(relay, upstream, encode, path):
    with RawClient(relay.port) as client:
        client.send(encode(sized(LIMIT + 1), path=path))
        assert_refused(client.response(), 413, "request_too_large")
    assert not upstream.requests
    event = relay.event()
    assert (event.status, event.outcome) == (413, "request_too_large")


@pytest.mark.parametrize("encode", [post, chunked], ids=["length", "chunked"])
def test_a_body_of_the_limit_is_taken(relay, upstream, encode):
    with RawClient(relay.port) as client:
        client.send(encode(sized(LIMIT)))
        assert client.response()[0] == 200
    assert upstream.last().body == sized(LIMIT)


def test_a_declared_length_over_the_limit_is_refused_before_the_body(relay, upstream):
    with RawClient(relay.port) as client:
        client.send(f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 9999999999\r\n\r\n".encode())
        assert_refused(client.response(), 413, "request_too_large")


def test_an_endless_chunked_body_is_refused_before_its_end(relay, upstream):
    with RawClient(relay.port) as client:
        client.send(f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        for _ in range(5):
            client.send(chunk(b"x" * 1000))
        assert_refused(client.response(), 413, "request_too_large")


@pytest.mark.parametrize("encode", [post, chunked], ids=["length", "chunked"])
def test_a_slow_body_is_waited_for(relay, upstream, encode):
    data = encode(HELLO) if encode is post else chunked(HELLO, step=9)
    with RawClient(relay.port) as client:
        for at in range(0, len(data), 17):
            client.send(data[at : at + 17])
            time.sleep(0.005)
        assert client.response()[0] == 200
    assert upstream.last().body == HELLO


def test_a_client_may_ask_before_it_sends(relay, upstream):
    with RawClient(relay.port) as client:
        request = post(HELLO, CHAT, "expect: 100-continue")
        client.send(request[: -len(HELLO)])
        assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        client.send(HELLO)
        assert client.response()[0] == 200
    assert "expect" not in upstream.last().headers


# --- content -----------------------------------------------------------------------------------

BAD = {
    "empty": (b"", "invalid_json", None),
    "half": (b'{"messages":', "invalid_json", None),
    "trailing": (HELLO + b"x", "invalid_json", None),
    "not UTF-8": (b'{"messages":[{"content":"\xff"}]}', "invalid_json", None),
    "deep": (b'{"messages":[' + b"[" * 1900, "invalid_json", None),
    "list": (b"[1]", "invalid_json", None),
    "text": (b'"hi"', "invalid_json", None),
    "null": (b"null", "invalid_json", None),
    "no messages": (b"{}", "missing_required_parameter", "messages"),
    "null messages": (b'{"messages":null}', "missing_required_parameter", "messages"),
    "no message": (b'{"messages":[]}', "invalid_type", "messages"),
    "messages no list": (b'{"messages":{"role":"user"}}', "invalid_type", "messages"),
    "message no object": (b'{"messages":["hi"]}', "invalid_type", "messages"),
}


@pytest.mark.parametrize(("body", "code", "param"), BAD.values(), ids=BAD.keys())
def test_a_body_that_nothing_could_read_is_a_400(relay, upstream, body, code, param):
    with RawClient(relay.port) as client:
        client.send(post(body))
        assert_refused(client.response(), 400, code, param=param)
    assert not upstream.requests
    event = relay.event()
    assert (event.status, event.outcome, event.upstream_status) == (400, code, None)


# --- paths and methods -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/",
        "/v1",
        "/v1x/files",
        "/v2/chat/completions",
        "/v1/../x",
        "/v1/..",
        "/v1/%2e%2e/x",
        "/v1/%2E%2e/x",
        "/v1/.%2e/x",
        "/v1/files/..%2f..%2fx",
        "/v1/./files",
        "/v1/files/%2e",
        "/health",
        "/health/liveness/",
        "/docs",
    ],
)
def test_a_path_that_is_not_ours_is_a_404(relay, upstream, path):
    with RawClient(relay.port) as client:
        client.send(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        assert_refused(client.response(), 404, "not_found", "not_found_error")
    assert not upstream.requests


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("TRACE", CHAT),
        ("CONNECT", "/v1/embeddings"),
        ("DELETE", "/v1/classify"),
        ("GET", "/v1/classify"),
        ("POST", "/health/liveness"),
    ],
)
def test_a_method_that_the_path_does_not_take_is_a_405(relay, upstream, method, path):
    with RawClient(relay.port) as client:
        client.send(f"{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n".encode())
        assert_refused(client.response(), 405, "method_not_allowed")
    assert not upstream.requests


def test_health_takes_head_and_is_no_event(relay, upstream):
    with open_client(relay.url) as client:
        assert client.head("/health/liveness").status_code == 200
        assert client.head("/health/readiness").status_code == 503
        client.get("/nope")
    assert relay.event().route == "/nope"


def test_nothing_is_left(relay, upstream):
    relay.wait_idle()
    wait_until(lambda: relay.served.open_connections() == 0, "the clients' connections to be gone")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../x",
        "/v1/./x",
        "/v1/..;/admin",
        "/v1/.;a=b/x",
        "/v1/..\\admin",
        "/v1/a\\..\\b",
        "/v1/..\0/admin",
    ],
)
def test_a_path_that_some_server_takes_for_another_is_not_passed_on(path: str) -> None:
    assert not stays_below(path)


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/files/a..b", "/v1/x;y=1", "/v1//x", "/v1/...", "/v1/x\0", "/v1/文件"]
)
def test_other_paths_are(path: str) -> None:
    assert stays_below(path)
