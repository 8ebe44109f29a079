"""When the client goes, the upstream must stop working: before the first byte, mid-stream, mid-wait."""

import asyncio
import socket
import time

import httpx2
import pytest
from servers import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Do,
    RawClient,
    chunk,
    delta,
    head,
    json_answer,
    open_client,
    post,
    wait_until,
)

CHAT = "/v1/chat/completions"
STREAMED = b'{"stream":true,"messages":[{"role":"user","content":"hi"}]}'
WHOLE = b'{"messages":[{"role":"user","content":"hi"}]}'
SOON = 1.0  # seconds until the upstream must have seen the end

JSON_HEAD = head("200 OK", "content-type: application/json", "content-length: 100")
WINDOWS = {
    # what the client asked, what the upstream sends before it goes on working, what the client reads
    "before the first byte": (STREAMED, [], b"", 499),
    "before the first event": (STREAMED, [SSE_HEAD], b"\r\n\r\n", 200),
    "mid-stream": (STREAMED, [SSE_HEAD, chunk(delta("a")), chunk(delta("b"))], b'"b"', 200),
    "waiting for a whole answer": (WHOLE, [], b"", 499),
    "mid-body of a whole answer": (WHOLE, [JSON_HEAD + b'{"a":'], b'{"a":', 200),
}


@pytest.fixture(scope="module", params=["httptools", "h11"])
def shared_relay(request, start, shared_upstream):
    """Both HTTP parsers tell of a disconnect in their own way."""
    with start(shared_upstream.url, http=request.param) as relay:
        yield relay


@pytest.mark.parametrize("path", [CHAT, "/v1/responses"])
@pytest.mark.parametrize("abort", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize(("body", "sent", "read", "status"), WINDOWS.values(), ids=WINDOWS.keys())
def test_the_upstream_is_closed_at_once(relay, upstream, path, abort, body, sent, read, status):
    upstream.script = [*sent, Do.STALL]
    client = RawClient(relay.port)
    client.send(post(body, path))
    received = upstream.wait_for()
    if read:
        client.read_until(read)
    assert not received.closed.is_set()
    client.leave(abort)
    assert received.closed.wait(SOON), "the upstream still works for nobody"
    event = relay.event()
    assert (event.status, event.outcome) == (status, "client_left")
    assert event.upstream_status == (200 if sent else None)
    relay.wait_idle()
    wait_until(lambda: relay.served.open_connections() == 0, "the client's connection to be gone")
    with open_client(relay.url) as other:
        upstream.script = json_answer(b"[1]")
        assert other.post(path, content=WHOLE).content == b"[1]"


def test_a_steady_stream_is_closed_too(relay, upstream):
    """The upstream sends all the time, and never pauses long enough to be asked whether anyone reads."""
    upstream.script = [SSE_HEAD, *([chunk(delta("x")), 0.002] * 5000)]
    client = RawClient(relay.port)
    client.send(post(STREAMED))
    received = upstream.wait_for()
    client.read_until(b'"x"')
    client.leave()
    assert received.closed.wait(SOON)
    assert relay.event().outcome == "client_left"


def test_a_client_that_reads_nothing_and_leaves(relay, upstream):
    """Back pressure holds the upstream; leaving frees it."""
    large = chunk(b"data: " + b"x" * 65_000 + b"\n\n")
    upstream.script = [SSE_HEAD, *([large] * 400), Do.STALL]
    client = RawClient(relay.port)
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.send(post(STREAMED))
    received = upstream.wait_for()
    client.read_until(b"xxx")
    assert not received.closed.wait(0.2), "the upstream is held, not cut"
    client.leave()
    assert received.closed.wait(SOON)
    assert relay.event().outcome == "client_left"


def test_a_client_that_reads_slowly_gets_everything(relay, upstream):
    large = b"data: " + b"x" * 65_000 + b"\n\n"
    upstream.script = [SSE_HEAD, *([chunk(large)] * 100), chunk(DONE), LAST_CHUNK]
    with RawClient(relay.port) as client:
        client.send(post(STREAMED))
        assert upstream.wait_for()
        time.sleep(0.2)
        assert client.response()[2] == large * 100 + DONE
    assert relay.event().outcome == "ok"


@pytest.mark.parametrize("abort", [False, True], ids=["FIN", "RST"])
def test_leaving_within_ones_own_body(relay, upstream, abort):
    client = RawClient(relay.port)
    client.send(post(WHOLE)[:-5])
    wait_until(lambda: relay.served.open_connections() == 1, "the connection")
    client.leave(abort)
    event = relay.event()
    assert (event.status, event.outcome) == (499, "client_left")
    assert not upstream.requests


@pytest.mark.parametrize("framing", ["content-length: 100000", "transfer-encoding: chunked"])
@pytest.mark.parametrize("abort", [False, True], ids=["FIN", "RST"])
def test_leaving_within_an_upload(relay, upstream, abort, framing):
    part = b"x" * 500
    client = RawClient(relay.port)
    top = f"POST /v1/files HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n".encode()
    client.send(top + (chunk(part) if "chunked" in framing else part))
    received = upstream.wait_for(complete=False)
    wait_until(lambda: received.body == part, "the first part at the upstream")
    client.leave(abort)
    assert received.closed.wait(SOON)
    assert not received.complete, "a half upload must not look like a whole one"
    event = relay.event()
    assert (event.status, event.outcome) == (499, "client_left")


def test_leaving_after_the_answer_is_not_leaving(relay, upstream):
    upstream.script = json_answer(b"[1]")
    with RawClient(relay.port) as client:
        client.send(post(WHOLE))
        assert client.response()[2] == b"[1]"
    event = relay.event()
    assert (event.status, event.outcome) == (200, "ok")


def test_half_a_close_is_leaving(relay, upstream):
    """A client that shuts its side down cannot be told from one that has gone."""
    upstream.script = [Do.STALL]
    with RawClient(relay.port) as client:
        client.send(post(WHOLE))
        received = upstream.wait_for()
        client.sock.shutdown(socket.SHUT_WR)
        assert received.closed.wait(SOON)


def test_many_that_leave_leave_nothing_behind(relay, upstream):
    upstream.script = [SSE_HEAD, chunk(delta("a")), Do.STALL]
    clients = [RawClient(relay.port) for _ in range(40)]
    for client in clients:
        client.send(post(STREAMED))
    for client in clients:
        client.read_until(b'"a"')
    for index, client in enumerate(clients):
        client.leave(abort=index % 2 == 0)
    for received in list(upstream.requests):
        assert received.closed.wait(SOON)
    assert {relay.event().outcome for _ in clients} == {"client_left"}
    relay.wait_idle()
    assert relay.served.open_connections() == 0
    wait_until(lambda: not upstream.open, "the upstream's connections to be gone")


def test_leaving_while_the_connection_is_being_made(start):
    """The handshake with the upstream never ends; the client does not wait for that."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        waiting = [socket.socket() for _ in range(2)]
        try:
            for sock in waiting:
                sock.setblocking(False)
                sock.connect_ex(deaf.getsockname())
            with start(f"http://127.0.0.1:{deaf.getsockname()[1]}/v1", connect_timeout=30) as relay:
                for request in (post(WHOLE), b"GET /v1/files HTTP/1.1\r\nhost: a\r\n\r\n"):
                    client = RawClient(relay.port)
                    client.send(request)
                    wait_until(lambda: relay.busy(), "the request")
                    client.leave()
                    event = relay.event()
                    assert (event.status, event.outcome) == (499, "client_left")
                    relay.wait_idle()
        finally:
            for sock in waiting:
                sock.close()


def test_an_upstream_that_is_slow_to_close_is_no_client_that_left(start, upstream):
    """The server calls the client gone once the answer is whole; by then the upstream must be closed."""

    class Slow(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request):
            response = await super().handle_async_request(request)
            close = response.stream.aclose

            async def close_slowly():
                await asyncio.sleep(0.05)
                await close()

            response.stream.aclose = close_slowly
            return response

    with start(upstream.url, transport=Slow(verify=False)) as relay, open_client(relay.url) as client:
        for script in (json_answer(b"[1]"), [SSE_HEAD, chunk(DONE), LAST_CHUNK]):
            upstream.script = script
            assert client.post(CHAT, content=WHOLE).status_code == 200
            event = relay.event()
            assert (event.status, event.outcome) == (200, "ok")
            relay.wait_idle()
