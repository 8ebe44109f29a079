"""What the client gets when the upstream fails: before its first byte, mid-stream, mid-body."""

import json
import re
import socket
import threading
import time
from contextlib import contextmanager

import httpx2
import pytest
from servers import (
    DONE,
    LAST_CHUNK,
    PATIENCE,
    SSE_HEAD,
    Do,
    RawClient,
    chunk,
    completion,
    delta,
    head,
    json_answer,
    open_client,
    post,
)

CHAT = "/v1/chat/completions"
HELLO = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
PATHS = pytest.mark.parametrize("path", [CHAT, "/v1/responses"])


@pytest.fixture(scope="module", params=["httptools", "h11"])
def shared_relay(request, start, shared_upstream):
    """Both HTTP parsers: how a broken response reaches the client is theirs to do."""
    with start(shared_upstream.url, http=request.param) as relay:
        yield relay


@pytest.fixture(scope="module")
def hasty_relay(start, shared_upstream):
    """One that waits only a moment for the upstream."""
    times = {"first_byte_timeout": 0.4, "idle_timeout": 0.4, "connect_timeout": 0.4}
    with start(shared_upstream.url, **times) as relay:
        yield relay


@pytest.fixture
def hasty(hasty_relay, upstream):
    hasty_relay.forget()
    with open_client(hasty_relay.url) as client:
        client.relay = hasty_relay
        yield client
    hasty_relay.wait_idle()


def assert_error(answer, status, code, reason, path="error", repeatable=False):
    """One of our errors: OpenAI-shaped, with our headers, and without anything of the inside."""
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == code
    assert error["message"]
    assert_no_insides(answer.content)
    assert answer.headers["x-frontdesk-schema"] == "1"
    assert answer.headers["x-frontdesk-path"] == path
    assert answer.headers["x-frontdesk-reason"] == reason
    assert answer.headers["x-request-id"]
    assert re.search(r"dur=\d", answer.headers["server-timing"])
    if status in (502, 503, 504):
        # A turn that the agent may have begun must not be run twice by a client's retries.
        expected = {"retry-after": "1"} if repeatable else {"x-should-retry": "false"}
        shown = {n: answer.headers[n] for n in ("retry-after", "x-should-retry") if n in answer.headers}
        assert shown == expected


def assert_no_insides(body):
    for word in (b"Traceback", b"File ", b".py", b"site-packages", b"httpcore", b"127.0.0.1"):
        assert word not in body


@contextmanager
def once(answer):
    """A port where the first connection gets ``answer`` and a FIN as soon as it has sent something."""

    def serve_one():
        conn, _ = listener.accept()
        with conn:
            conn.recv(65536)
            conn.sendall(answer)
            conn.shutdown(socket.SHUT_WR)
            while conn.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_one)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(PATIENCE)


# --- before the first byte ---------------------------------------------------------------------

BEFORE = {
    "reset": [Do.RESET],
    "closed": [Do.CLOSE],
    "half a head": [b"HTTP/1.1 200 OK\r\ncontent-type: text/ev", Do.CLOSE],
    "half a head, reset": [b"HTTP/1.1 200 OK\r\ncontent-type: text/ev", 0.02, Do.RESET],
    "not HTTP": [b"SSH-2.0-OpenSSH_9.9\r\n\r\n", Do.CLOSE],
    "no status": [b"HTTP/1.1 abc\r\n\r\n", Do.CLOSE],
    "status of another world": [head("999 Odd", "content-length: 0")],
    "an upgrade nobody asked for": [head("101 Switching Protocols", "upgrade: x", "connection: upgrade")],
    "endless head": [b"HTTP/1.1 200 OK\r\nx: " + b"a" * 300_000, Do.STALL],
}


@PATHS
@pytest.mark.parametrize("script", BEFORE.values(), ids=BEFORE.keys())
def test_a_failure_before_the_first_byte_is_a_502(relay, upstream, client, script, path):
    upstream.scripts.append(script)
    reason = "not_ready" if path == CHAT else "bypass"
    answer = client.post(path, content=HELLO)
    assert_error(answer, 502, "upstream_unavailable", reason)
    event = relay.event()
    assert (event.status, event.outcome, event.upstream_status) == (502, "upstream_unavailable", None)
    assert len(upstream.requests) == 1, "what may have been acted on is not sent twice"
    upstream.script = json_answer(b"[1]")
    assert client.post(path, content=HELLO).content == b"[1]"


@PATHS
def test_a_refused_connection_is_a_502(start, closed_port, path):
    with start(f"http://127.0.0.1:{closed_port}/v1") as relay, open_client(relay.url) as client:
        for _ in range(2):
            answer = client.post(path, content=HELLO)
            assert_error(
                answer,
                502,
                "upstream_unavailable",
                "not_ready" if path == CHAT else "bypass",
                repeatable=True,
            )
        event = relay.event()
        assert (event.status, event.outcome) == (502, "upstream_unavailable")
        assert (event.decision.path, event.upstream_status) == ("error", None)


def test_a_name_that_does_not_resolve_is_a_502(start):
    with start("http://upstream.invalid/v1") as relay, open_client(relay.url) as client:
        assert_error(
            client.post(CHAT, content=HELLO), 502, "upstream_unavailable", "not_ready", repeatable=True
        )


def test_tls_to_a_plain_server_is_a_502(start):
    with (
        once(head("400 Bad Request")) as port,
        start(f"https://127.0.0.1:{port}/v1") as relay,
        open_client(relay.url) as client,
    ):
        assert_error(
            client.post(CHAT, content=HELLO), 502, "upstream_unavailable", "not_ready", repeatable=True
        )


@PATHS
def test_no_upstream_is_a_503_that_says_what_to_set(start, path):
    with start("") as relay, open_client(relay.url) as client:
        answer = client.post(path, content=HELLO)
        assert_error(answer, 503, "upstream_unset", "not_ready" if path == CHAT else "bypass")
        assert "FRONTDESK_UPSTREAM_BASE_URL" in answer.json()["error"]["message"]
        assert client.get("/health/liveness").status_code == 200
        assert client.post("/v1/chat/completions", content=b"{").status_code == 400


@PATHS
def test_silence_before_the_first_byte_is_a_504(hasty, upstream, path):
    upstream.script = [Do.STALL]
    started = time.monotonic()
    answer = hasty.post(path, content=HELLO)
    assert 0.35 < time.monotonic() - started < 3
    assert_error(answer, 504, "upstream_timeout", "not_ready" if path == CHAT else "bypass")
    assert upstream.last().closed.wait(1), "the upstream's connection is closed"
    event = hasty.relay.event()
    assert (event.status, event.outcome) == (504, "upstream_timeout")
    upstream.script = json_answer(b"[1]")
    assert hasty.post(path, content=HELLO).content == b"[1]"


def test_a_connection_that_is_not_accepted_is_a_504(start):
    """A full backlog: the handshake never ends."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        waiting = []
        for _ in range(2):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(deaf.getsockname())
            waiting.append(sock)
        try:
            base = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
            with start(base, connect_timeout=0.3) as relay, open_client(relay.url) as client:
                assert_error(
                    client.post(CHAT, content=HELLO), 504, "upstream_timeout", "not_ready", repeatable=True
                )
        finally:
            for sock in waiting:
                sock.close()


def test_an_upload_that_the_upstream_does_not_take_is_a_504(start):
    """The upstream reads nothing, so that our writing stalls."""
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(5)
        base = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        with (
            start(base, idle_timeout=0.4) as relay,
            open_client(relay.url) as client,
        ):
            answer = client.post("/v1/files", content=b"x" * 20_000_000)
            assert_error(answer, 504, "upstream_timeout", "bypass")


def test_a_refusal_before_the_upload_has_ended_arrives(start):
    """The upstream answers, and closes, while the client is still sending."""
    refusal = b'{"error":{"message":"too large"}}'
    fields = ["content-type: application/json", f"content-length: {len(refusal)}", "connection: close"]
    with (
        once(head("413 Payload Too Large", *fields) + refusal) as port,
        start(f"http://127.0.0.1:{port}/v1") as relay,
        open_client(relay.url) as client,
    ):
        answer = client.post("/v1/files", content=b"x" * 3_000_000)
        assert (answer.status_code, answer.content) == (413, refusal)


# --- mid-stream --------------------------------------------------------------------------------

ONE = delta("one 你好")


def error_events(code):
    """What must follow the upstream's last byte."""
    return re.compile(rb'data: (\{"error": \{.*"code": "%s"\}\})\n\ndata: \[DONE\]\n\n' % code.encode())


def broken_streams():
    for name, sent, blank in [
        ("after an event", ONE, b""),
        ("after an event, CRLF", ONE.replace(b"\n", b"\r\n"), b""),
        ("after an event, CR", ONE.replace(b"\n", b"\r"), b""),
        ("in a line", ONE + ONE[:30], b"\n\n"),
        ("in a character", ONE + 'data: "你'.encode()[:-1], b"\n\n"),
        ("before the blank line", ONE + ONE[:-1], b"\n\n"),
        ("after CR of a line", ONE + b"data: 1\r", b"\n\n"),
        ("after an event's name", ONE + b"event: error\n", b"\n\n"),
        ("before any byte", b"", b""),
        ("after a comment", ONE + b": ping\n\n", b""),
        ("in [DONE]", ONE + b"data: [DO", b"\n\n"),
    ]:
        for end in ("reset", "closed"):
            yield pytest.param(sent, blank, Do.RESET if end == "reset" else Do.CLOSE, id=f"{end} {name}")


@PATHS
@pytest.mark.parametrize(("sent", "blank", "end"), list(broken_streams()))
def test_a_stream_that_breaks_ends_with_an_error_event(relay, upstream, client, sent, blank, end, path):
    upstream.scripts.append([SSE_HEAD, *([chunk(sent)] if sent else []), 0.03, end])
    answer = client.post(path, content=HELLO)
    assert answer.status_code == 200
    assert answer.content.startswith(sent)
    rest = answer.content[len(sent) :]
    assert rest.startswith(blank)
    match = error_events("upstream_reset").fullmatch(rest[len(blank) :])
    assert match, rest
    assert json.loads(match[1])["error"].keys() == {"message", "type", "param", "code"}
    assert_no_insides(answer.content)
    event = relay.event()
    assert (event.status, event.outcome, event.stream) == (200, "upstream_failed", True)
    upstream.script = json_answer(b"[1]")
    assert client.post(CHAT, content=HELLO).content == b"[1]", "the client's connection can be used again"


@pytest.mark.parametrize("sent", [ONE, ONE + ONE[:30], b""])
def test_a_stream_that_stalls_ends_with_an_error_event(hasty, upstream, sent):
    upstream.script = [SSE_HEAD, *([chunk(sent)] if sent else []), Do.STALL]
    answer = hasty.post(CHAT, content=HELLO)
    blank = b"\n\n" if sent != ONE and sent else b""
    assert answer.content.startswith(sent + blank)
    assert error_events("upstream_timeout").fullmatch(answer.content[len(sent + blank) :])
    assert upstream.last().closed.wait(1)
    assert hasty.relay.event().outcome == "upstream_failed"


def test_a_slow_stream_is_not_a_stalled_one(hasty, upstream):
    """Longer than both limits in all, but never a pause as long as the limit."""
    upstream.script = [SSE_HEAD, *([chunk(ONE), 0.1] * 8), chunk(DONE), LAST_CHUNK]
    answer = hasty.post(CHAT, content=HELLO)
    assert answer.content == ONE * 8 + DONE
    assert hasty.relay.event().outcome == "ok"


def test_the_two_limits_are_each_for_their_own(start, upstream):
    """Until the first byte one, from then on the other."""
    times = {"first_byte_timeout": PATIENCE, "idle_timeout": 0.3}
    with start(upstream.url, **times) as relay, open_client(relay.url) as client:
        upstream.script = [0.6, SSE_HEAD, chunk(ONE), Do.STALL]
        began = time.monotonic()
        answer = client.post(CHAT, content=HELLO)
        assert time.monotonic() - began < 5
        assert error_events("upstream_timeout").fullmatch(answer.content[len(ONE) :])
    times = {"first_byte_timeout": 0.3, "idle_timeout": PATIENCE}
    with start(upstream.url, **times) as relay, open_client(relay.url) as client:
        upstream.script = [SSE_HEAD, 0.6, chunk(ONE), 0.6, chunk(DONE), LAST_CHUNK]
        assert client.post(CHAT, content=HELLO).content == ONE + DONE


@pytest.mark.parametrize("end", [[Do.RESET], [Do.CLOSE], [Do.STALL], [b"nonsense"]])
@pytest.mark.parametrize("done", [DONE, DONE.replace(b"\n", b"\r\n"), b"data:[DONE]\r\r"])
def test_after_done_nothing_is_added(hasty, upstream, end, done):
    upstream.script = [SSE_HEAD, chunk(ONE), chunk(done), 0.03, *end]
    answer = hasty.post(CHAT, content=HELLO)
    assert answer.content == ONE + done
    event = hasty.relay.event()
    assert (event.status, event.outcome) == (200, "ok")


def test_a_whole_event_over_the_parsers_limit_still_ends_well(relay, upstream, client):
    large = b"data: " + b"x" * 3_000_000
    upstream.script = [SSE_HEAD, chunk(large), 0.03, Do.RESET]
    answer = client.post(CHAT, content=HELLO)
    assert answer.content.startswith(large + b"\n\ndata: ")
    assert error_events("upstream_reset").fullmatch(answer.content[len(large) + 2 :])


# --- mid-body ----------------------------------------------------------------------------------

WHOLE = completion("x" * 500)
CUT = {
    "length": [
        head("200 OK", "content-type: application/json", f"content-length: {len(WHOLE)}") + WHOLE[:99]
    ],
    "chunks": [
        head("200 OK", "content-type: application/json", "transfer-encoding: chunked"),
        chunk(WHOLE[:99]),
    ],
    "no byte of the body": [head("200 OK", "content-type: application/json", "transfer-encoding: chunked")],
    "a compressed stream": [
        head(
            "200 OK",
            "content-type: text/event-stream",
            "content-encoding: gzip",
            "transfer-encoding: chunked",
        ),
        chunk(b"\x1f\x8b\x08"),
    ],
    "an error": [head("500 Internal Server Error", f"content-length: {len(WHOLE)}") + WHOLE[:99]],
    "chunks out of step": [head("200 OK", "transfer-encoding: chunked") + chunk(b"{") + b"zz\r\n"],
}


@pytest.mark.parametrize("end", [Do.RESET, Do.CLOSE], ids=["reset", "closed"])
@pytest.mark.parametrize("script", CUT.values(), ids=CUT.keys())
def test_a_body_that_breaks_off_is_seen_as_broken(relay, upstream, client, script, end):
    """Never a clean short one: there is no other way to tell the client."""
    upstream.script = [*script, 0.03, end]
    with pytest.raises(httpx2.RemoteProtocolError):
        client.post(CHAT, content=HELLO)
    event = relay.event()
    assert (event.outcome, event.stream) == ("upstream_failed", False)
    assert event.status == event.upstream_status == int(script[0].split(b" ")[1])
    upstream.script = json_answer(b"[1]")
    assert client.post(CHAT, content=HELLO).content == b"[1]"


def test_a_body_that_stalls_is_seen_as_broken(hasty, upstream):
    upstream.script = [*CUT["length"], Do.STALL]
    with pytest.raises(httpx2.RemoteProtocolError):
        hasty.post(CHAT, content=HELLO)
    assert upstream.last().closed.wait(1)
    assert hasty.relay.event().outcome == "upstream_failed"


def test_no_trace_of_the_inside_in_a_broken_body(relay, upstream):
    upstream.script = [*CUT["chunks"], 0.03, Do.RESET]
    with RawClient(relay.port) as client:
        client.send(post(HELLO))
        got = client.read_all()
    assert got.split(b"\r\n\r\n", 1)[1] == chunk(WHOLE[:99])
    assert_no_insides(got)


# --- the unforeseen ----------------------------------------------------------------------------


def test_a_header_that_servers_refuse_is_left_out(relay, upstream, client):
    upstream.script = json_answer(b"{}", "200 OK", "x-odd: a\x01b", "x-fine: é")
    answer = client.post(CHAT, content=HELLO)
    assert answer.status_code == 200
    assert "x-odd" not in answer.headers
    assert answer.headers.raw.count((b"x-fine", "é".encode())) == 1


@pytest.mark.parametrize("path", [CHAT, "/v1/responses"])
def test_a_fault_of_ours_is_a_500_without_insides(start, caplog, path):
    class Faulty(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request):
            raise KeyError("the inside of it.py")

    with (
        start("http://upstream.invalid/v1", transport=Faulty()) as relay,
        open_client(relay.url) as client,
    ):
        answer = client.post(path, content=HELLO)
        assert_error(answer, 500, "internal_error", "not_ready" if path == CHAT else "bypass")
        event = relay.event()
        assert (event.status, event.outcome) == (500, "internal_error")
        assert answer.headers["x-request-id"] in caplog.text
