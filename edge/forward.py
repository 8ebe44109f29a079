"""Forwarding: the body as it came, the bytes of the response as they come, nothing kept open."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
from starlette.types import Receive, Send

from edge.cache.recorder import Recorder
from edge.config import Upstream
from edge.errors import RequestError, UpstreamTimeout, UpstreamUnreachable, UpstreamUnset, error_json
from edge.sse import EventReader
from edge.stages.admit import ClientLeft
from edge.wire import SSE_DONE

RawHeaders = list[tuple[bytes, bytes]]
_T = TypeVar("_T")
# Makes our headers of the response, once the upstream's first byte is there.
Head = Callable[[], RawHeaders]

# RFC 9110 section 7.6.1, and what the next hop must decide anew.
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer "
    b"transfer-encoding upgrade".split()
)
_REQUEST_HEADERS = frozenset(
    b"accept accept-language authorization content-encoding content-type idempotency-key openai-beta "
    b"openai-organization openai-project tracestate user-agent".split()
)
_REQUEST_PREFIXES = (b"x-stainless-",)
OWN_PREFIX = b"x-frontdesk-"
# What servers refuse to write in a header value, and h11 lets an upstream send.
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(slots=True)
class Relayed:
    """How a forward went; filled in as it goes, so that it tells the truth when it breaks off."""

    status: int = 0
    started: bool = False
    outcome: str = "ok"
    stream: bool = False
    done: bool = False
    completion_tokens: int | None = None
    recorder: Recorder | None = None


class Forwarder:
    """Sends requests to one upstream."""

    def __init__(self, upstream: Upstream, transport: httpx2.AsyncBaseTransport) -> None:
        self._upstream = upstream
        self._transport = transport
        self._base = httpx2.URL(upstream.base_url) if upstream.base_url else None
        self._timeout = {
            "connect": upstream.connect_timeout,
            "read": upstream.first_byte_timeout,
            "write": upstream.idle_timeout,
            "pool": upstream.connect_timeout,
        }

    def request(
        self,
        method: str,
        target: str,
        client_headers: Sequence[tuple[bytes, bytes]],
        own_headers: Sequence[tuple[bytes, bytes]],
        content: bytes | AsyncIterator[bytes] | None,
        *,
        lend_key: bool = False,
        untouched: bool = False,
    ) -> httpx2.Request:
        """The request to the upstream.

        ``target``: path and query below the base address. ``lend_key``: the server's own key, where it
        has one, takes the place of the client's. ``untouched``: every header goes on but hop-by-hop
        ones and ours, as if nobody stood between.
        """
        if self._base is None:
            raise UpstreamUnset(
                "This turn needs the agent, and no upstream is configured: set FRONTDESK_UPSTREAM_BASE_URL "
                "or base_url under [upstream] in frontdesk.toml."
            )
        dropped = {name for name, _ in own_headers}
        dropped |= _listed(value for name, value in client_headers if name == b"connection")
        if untouched:
            dropped |= _HOP_BY_HOP | {b"host", b"content-length", b"expect"}
        headers = [
            (n, v)
            for n, v in client_headers
            if n not in dropped and (_goes_untouched(n) if untouched else _goes(n))
        ]
        if self._upstream.api_key and lend_key:
            headers = [(n, v) for n, v in headers if n != b"authorization"]
            headers.append((b"authorization", b"Bearer " + self._upstream.api_key.encode()))
        if content is not None and not isinstance(content, bytes):
            headers += [(n, v) for n, v in client_headers if n == b"content-length"]
        if not untouched:
            headers.append((b"accept-encoding", b"identity"))
        headers += own_headers
        url = self._base.copy_with(raw_path=self._base.raw_path.rstrip(b"/") + target.encode("latin-1"))
        return httpx2.Request(
            method, url, headers=headers, content=content, extensions={"timeout": dict(self._timeout)}
        )

    async def relay(
        self, request: httpx2.Request, receive: Receive, send: Send, head: Head, relayed: Relayed
    ) -> None:
        """Send the request and pass the response on; close the upstream as soon as the client goes.

        Raises RequestError and ClientLeft only while nothing has been sent to the client.
        """
        try:
            await unless_gone(receive, self._relay(request, send, head, relayed))
        except ClientLeft:
            if not relayed.started:
                raise
            relayed.outcome = "client_left"

    async def fetch(self, request: httpx2.Request) -> tuple[int, bytes]:
        """Status and whole body of a small answer. Raises RequestError."""
        response = await self._open(request)
        try:
            return response.status_code, await response.aread()
        except httpx2.HTTPError as exc:
            raise UpstreamUnreachable("The upstream broke off its answer.") from exc
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def _open(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._transport.handle_async_request(request)
        except (httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
            raise UpstreamTimeout(
                "No connection to the upstream in time; try again.", repeatable=True
            ) from exc
        except httpx2.TimeoutException as exc:
            raise UpstreamTimeout("The upstream did not answer in time; it may still be at it.") from exc
        except httpx2.TransportError as exc:
            raise UpstreamUnreachable(
                f"The upstream cannot be reached ({type(exc).__name__}); try again later.",
                repeatable=isinstance(exc, httpx2.ConnectError),
            ) from exc

    async def _relay(self, request: httpx2.Request, send: Send, head: Head, relayed: Relayed) -> None:
        response = await self._open(request)
        # From here on a pause is an idle stream, not a late first byte.
        request.extensions["timeout"]["read"] = self._upstream.idle_timeout
        try:
            await self._pass_on(response, send, head, relayed)
        finally:
            await response.aclose()
        # After the upstream's end, because with this the server reports the client as gone.
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self, response: httpx2.Response, send: Send, head: Head, relayed: Relayed) -> None:
        status = response.status_code
        if not 200 <= status <= 599:
            raise UpstreamUnreachable(f"The upstream answered with the status {status}; try again later.")
        relayed.status = status
        relayed.stream = is_events = _is_events(response)
        headers = _response_headers(response, is_events)
        await send({"type": "http.response.start", "status": status, "headers": headers + head()})
        relayed.started = True
        reader, recorder = EventReader(), relayed.recorder
        if recorder is not None:
            raw = [(name.lower(), value) for name, value in response.headers.raw]
            recorder.begin(status, raw, is_events=is_events)
        try:
            async for chunk in response.stream:  # type: ignore[union-attr]
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if recorder is not None:
                    recorder.hear(chunk)
                if is_events:
                    _listen(reader, chunk, relayed)
            if recorder is not None:
                recorder.end(done=relayed.done)
        except httpx2.HTTPError as exc:
            if not relayed.done:
                relayed.outcome = "upstream_failed"
                if not is_events:
                    raise BrokenResponse from exc  # only a cut connection tells the client
                last = _broken_off(reader, exc)
                await send({"type": "http.response.body", "body": last, "more_body": True})


def _goes(name: bytes) -> bool:
    return name in _REQUEST_HEADERS or name.startswith(_REQUEST_PREFIXES)


def _goes_untouched(name: bytes) -> bool:
    # Some servers behind us read an underscore as a hyphen.
    return not name.replace(b"_", b"-").startswith(OWN_PREFIX)


class BrokenResponse(Exception):
    """The upstream broke off a response that cannot carry an error any more."""


async def body_stream(
    receive: Receive, ended: asyncio.Event, read: bytes = b"", more: bool = True
) -> AsyncIterator[bytes]:
    """The request body as it comes, for requests that are passed through unread.

    ``read`` was received before, and ``more`` is to come. ``ended`` is set once no more of it will be
    read, be it that the upstream wants no more.
    """
    try:
        if read:
            yield read
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            if message.get("body"):
                yield message["body"]
            more = message.get("more_body", False)
    finally:
        ended.set()


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
    """What comes of the work. Where the client goes first it is cancelled, and ClientLeft raised."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_until_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _response_headers(response: httpx2.Response, is_events: bool) -> RawHeaders:
    """The upstream's headers without hop-by-hop ones, ours, and those the server sets itself.

    A stream's length is dropped: an error event may have to be appended.
    """
    raw = [(name.lower(), value) for name, value in response.headers.raw]
    dropped = _HOP_BY_HOP | {b"date"} | _listed(value for name, value in raw if name == b"connection")
    if is_events:
        dropped |= {b"content-length"}
    return [
        (name, value)
        for name, value in raw
        if name not in dropped
        and not name.startswith((OWN_PREFIX, b"x-request-id"))
        and not _CONTROL.search(value)
    ]


def _listed(connection: Iterable[bytes]) -> set[bytes]:
    """The header names that ``connection`` fields declare to be for this hop alone."""
    return {name.strip().lower() for value in connection for name in value.split(b",")}


def _is_events(response: httpx2.Response) -> bool:
    """Whether we can read the stream, and add to it: server-sent events, not compressed."""
    kind = response.headers.get("content-type", "").lower()
    return kind.startswith("text/event-stream") and "content-encoding" not in response.headers


def _listen(reader: EventReader, chunk: bytes, relayed: Relayed) -> None:
    for data in reader.feed(chunk):
        if relayed.recorder is not None:
            relayed.recorder.event(data)
        if data == b"[DONE]":
            relayed.done = True
        elif b'"usage"' in data:
            try:
                usage = json.loads(data).get("usage")
            except (ValueError, AttributeError, RecursionError):
                continue
            tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
            if isinstance(tokens, int):
                relayed.completion_tokens = tokens


def _broken_off(reader: EventReader, exc: httpx2.HTTPError) -> bytes:
    """What ends a stream that the upstream broke off: close a half event, say so, be done."""
    error: RequestError = UpstreamUnreachable("The upstream broke off its answer.", code="upstream_reset")
    if isinstance(exc, httpx2.TimeoutException):
        error = UpstreamTimeout("The upstream stopped sending; try again.")
    return (b"\n\n" if reader.mid_event else b"") + b"data: " + error_json(error) + b"\n\n" + SSE_DONE
