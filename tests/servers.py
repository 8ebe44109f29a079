"""Real servers for tests: uvicorn in a thread, an upstream that follows a script, a raw client.

Nothing here imitates HTTP libraries: what is tested are the bytes on real sockets.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from queue import Queue
from typing import Any, Self

import httpx2
import uvicorn

from edge.telemetry import Served as Event

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "models/demo"

PATIENCE = 10.0  # how long a test waits for what must happen; never how long it usually takes


def wait_until(true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Poll until ``true()``; fail with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.003)


# --- our side: uvicorn -------------------------------------------------------------------------


class Served:
    """A running uvicorn server."""

    def __init__(self, server: uvicorn.Server, port: int) -> None:
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.loop: asyncio.AbstractEventLoop | None = None
        self.own_tasks: set[Any] = set()

    def open_connections(self) -> int:
        """How many client connections the server holds."""
        return len(self.server.server_state.connections)

    def tasks(self) -> list[str]:
        """The asyncio tasks that live in the server besides its own."""

        async def listed() -> list[str]:
            others = asyncio.all_tasks() - self.own_tasks - {asyncio.current_task()}
            return [repr(task) for task in others]

        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(listed(), self.loop).result(PATIENCE)


@contextmanager
def serve(app: Any, http: Any = "httptools") -> Iterator[Served]:
    """Run an ASGI app on a free port; ``http`` is ``httptools`` or ``h11``."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, http=http, log_config=None, access_log=False, lifespan="on")
        served = Served(uvicorn.Server(config), listener.getsockname()[1])

        async def main() -> None:
            served.loop = asyncio.get_running_loop()
            await served.server.serve(sockets=[listener])

        def run() -> None:
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(main())

        thread = threading.Thread(target=run, name="uvicorn")
        thread.start()
        try:
            wait_until(lambda: served.server.started or not thread.is_alive(), "the server's start")
            assert thread.is_alive(), "the server did not start"

            async def now() -> set[Any]:
                return asyncio.all_tasks() - {asyncio.current_task()}

            assert served.loop is not None
            served.own_tasks = asyncio.run_coroutine_threadsafe(now(), served.loop).result(PATIENCE)
            yield served
        finally:
            served.server.should_exit = True
            thread.join(PATIENCE)
        assert not thread.is_alive(), "the server did not stop"


# --- the other side: a scripted upstream -------------------------------------------------------


class Do(Enum):
    """What a script can do besides sending bytes (``bytes``) and waiting (``float``, an event)."""

    STALL = "say nothing more, until the client closes"
    RESET = "close with a TCP reset"
    CLOSE = "close with a TCP FIN"


Step = bytes | float | threading.Event | Do
Script = Sequence[Step]


@dataclass
class Received:
    """One request as the upstream got it."""

    head: bytes
    body: bytes = b""
    complete: bool = False
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def method(self) -> str:
        return self.head.split(b" ", 2)[0].decode()

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The header fields in order, names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = [line.partition(":") for line in lines if line]
        return [(name.lower(), value.strip()) for name, _, value in pairs]

    @property
    def headers(self) -> dict[str, str]:
        """The header fields; each must have come once."""
        fields = self.fields
        assert len(dict(fields)) == len(fields), fields
        return dict(fields)

    def json(self) -> Any:
        return json.loads(self.body)


class ScriptedUpstream:
    """A raw asyncio server in a thread. It reads a request and follows the script for it.

    ``script`` is what is done for every request; ``scripts`` are used up first, one a request.
    A script may also be a function of the request.
    """

    def __init__(self) -> None:
        self.script: Script | Callable[[Received], Script] = json_answer(b"{}")
        self.scripts: deque[Script | Callable[[Received], Script]] = deque()
        self.requests: list[Received] = []
        self.open: set[asyncio.StreamWriter] = set()
        self.accepted = 0
        self.port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="upstream")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def reset(self) -> None:
        """Forget what was received and scripted."""
        self.requests.clear()
        self.scripts.clear()
        self.script = json_answer(b"{}")

    def last(self) -> Received:
        """The last request."""
        assert self.requests, "the upstream got no request"
        return self.requests[-1]

    def wait_for(self, count: int = 1, complete: bool = True) -> Received:
        """Wait until ``count`` requests have come; the last of them."""
        wait_until(
            lambda: len(self.requests) >= count and (self.requests[count - 1].complete or not complete),
            f"request {count} at the upstream",
        )
        return self.requests[count - 1]

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                await self._connection(reader, writer)
            finally:
                tasks.discard(task)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open.add(writer)
        received: Received | None = None
        try:
            while True:
                received = None
                head = await reader.readuntil(b"\r\n\r\n")
                received = Received(head[:-4])
                self.requests.append(received)
                await _read_body(received, reader)
                received.complete = True
                if not await self._answer(received, reader, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            if received is not None:
                received.closed.set()
        finally:
            self.open.discard(writer)
            writer.close()

    async def _answer(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Follow the script, until its end or until the client closes; whether to keep the connection."""
        script = self.scripts.popleft() if self.scripts else self.script
        steps = script(received) if callable(script) else script
        acting = asyncio.create_task(_act(steps, writer))
        watching = asyncio.create_task(_until_closed(reader))
        try:
            await asyncio.wait({acting, watching}, return_when=asyncio.FIRST_COMPLETED)
            if acting.done():
                return acting.result()
            received.closed.set()
            return False
        finally:
            acting.cancel()
            watching.cancel()
            await asyncio.gather(acting, watching, return_exceptions=True)


async def _read_body(received: Received, reader: asyncio.StreamReader) -> None:
    headers = dict(received.fields)
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\n"), 16):
            received.body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
    else:
        left = int(headers.get("content-length", "0"))
        while left:
            part = await reader.read(left)
            if not part:
                raise asyncio.IncompleteReadError(b"", left)
            received.body += part
            left -= len(part)


async def _until_closed(reader: asyncio.StreamReader) -> None:
    try:
        got = await reader.read(1)
    except ConnectionError:
        return
    assert not got, "the client sent something while it was being answered"


async def _act(steps: Script, writer: asyncio.StreamWriter) -> bool:
    for step in steps:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif isinstance(step, float):
            await asyncio.sleep(step)
        elif isinstance(step, threading.Event):
            while not step.is_set():
                await asyncio.sleep(0.002)
        elif step is Do.STALL:
            await asyncio.Event().wait()
        elif step is Do.RESET:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif step is Do.CLOSE:
            return False
    return True


# --- what an upstream says ---------------------------------------------------------------------


def head(status: str = "200 OK", *fields: str) -> bytes:
    """A response head."""
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode()


def json_answer(body: bytes, status: str = "200 OK", *fields: str) -> list[Step]:
    """A whole JSON answer."""
    return [head(status, "content-type: application/json", f"content-length: {len(body)}", *fields) + body]


SSE_HEAD = head("200 OK", "content-type: text/event-stream; charset=utf-8", "transfer-encoding: chunked")
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def delta(text: str) -> bytes:
    """A streamed piece of a completion, as an SSE event."""
    data = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
    }
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def completion(text: str = "hello", **message: Any) -> bytes:
    """A whole completion as JSON."""
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, **message},
                    "finish_reason": "stop",
                }
            ],
        },
        ensure_ascii=False,
    ).encode()


# --- clients -------------------------------------------------------------------------------------

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # made once: each client would load all certificates


def open_client(url: str) -> httpx2.Client:
    """A client that follows nothing of the environment."""
    return httpx2.Client(base_url=url, timeout=PATIENCE, trust_env=False, verify=_NO_TLS)


def open_async_client(url: str, connections: int = 100) -> httpx2.AsyncClient:
    """The same, asynchronous."""
    limits = httpx2.Limits(max_connections=connections)
    return httpx2.AsyncClient(
        base_url=url, timeout=3 * PATIENCE, trust_env=False, verify=_NO_TLS, limits=limits
    )


class RawClient:
    """A TCP connection that sends what it is told and keeps every byte that comes back."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def read_until(self, end: bytes) -> bytes:
        """Everything up to the first ``end``; the rest stays in ``got``."""
        while end not in self.got:
            data = self.sock.recv(65536)
            assert data, f"closed before {end!r}: {self.got!r}"
            self.got += data
        before, _, self.got = self.got.partition(end)
        return before + end

    def read_all(self) -> bytes:
        """Everything until the server closes, by FIN or reset."""
        try:
            while data := self.sock.recv(65536):
                self.got += data
        except ConnectionResetError:
            pass
        return self.got

    def response(self) -> tuple[int, dict[str, str], bytes]:
        """One response that has a content-length or chunks: status, fields, body."""
        top = self.read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in top[1:] if line)}
        body = b""
        if fields.get("transfer-encoding") == "chunked":
            while size := int(self.read_until(b"\r\n"), 16):
                body += self._exactly(size)
                self._exactly(2)
            self._exactly(2)
        else:
            body = self._exactly(int(fields["content-length"]))
        return int(top[0].split(" ")[1]), fields, body

    def _exactly(self, size: int) -> bytes:
        while len(self.got) < size:
            data = self.sock.recv(65536)
            assert data, f"closed after {len(self.got)} of {size} bytes"
            self.got += data
        part, self.got = self.got[:size], self.got[size:]
        return part

    def leave(self, abort: bool = False) -> None:
        """Close: with a FIN, or with a reset as a killed process does."""
        if abort:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def post(body: bytes, path: str = "/v1/chat/completions", *fields: str) -> bytes:
    """A POST as bytes."""
    top = [f"POST {path} HTTP/1.1", "host: frontdesk", f"content-length: {len(body)}", *fields, "", ""]
    return "\r\n".join(top).encode() + body


class Relay:
    """Frontdesk on a real server, without a bundle, in front of one upstream."""

    def __init__(self, served: Served, transport: Any, events: Queue[Event]) -> None:
        self.served = served
        self.url = served.url
        self.port = served.port
        self._pool = getattr(transport, "_pool", None)
        self._events = events

    def event(self) -> Event:
        """The next event that the sinks were told."""
        return self._events.get(timeout=PATIENCE)

    def forget(self) -> None:
        """Drop the events so far."""
        while not self._events.empty():
            self._events.get()

    def busy(self) -> list[str]:
        """What is still going on in the server: tasks, and requests in the upstream pool."""
        return [*self.served.tasks(), *map(repr, self._pool._requests if self._pool else ())]

    def wait_idle(self) -> None:
        """Everything that a request started must end once the request has."""
        wait_until(lambda: not self.busy(), "an idle server", 5)
        assert all(c.is_idle() for c in (self._pool.connections if self._pool else ())), self._pool


# ``with start(upstream_url, http="h11", first_byte_timeout=0.3, …) as relay``: without a bundle.
Start = Callable[..., AbstractContextManager[Relay]]
# ``with desk(upstream_url, answering=…) as relay``: with the demo bundle.
Desk = Callable[..., AbstractContextManager[Relay]]
