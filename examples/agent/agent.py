"""Frontdesk's reference central agent: an OpenAI-compatible server over one LLM, real or scripted.

``python examples/agent/agent.py --port 9001`` or
``python -m uvicorn agent:app --app-dir examples/agent --port 9001``.
"""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hints import SIGNATURE_HEADER, Hints, HintsError, Seen, parse_hints, verify_hints
from requestlog import Record, RequestLogMiddleware
from scripted import ScriptedLLM
from settings import Settings, parse_flags
from upstream import UpstreamLLM
from wire import ApiError, Chat, Reply, dumps, parse_body

_TRACE_HEADERS = ("traceparent", "tracestate")


class LLM(Protocol):
    """All that the agent needs of an LLM; your own tool loop fits behind the same three methods."""

    name: str

    async def answer(self, chat: Chat, reply: Reply, record: Record) -> None:
        """Write the answer to ``reply``; cancelled when the client leaves."""

    async def models(self) -> dict[str, Any]:
        """The list for GET /v1/models."""

    async def aclose(self) -> None:
        """Give back what is held open."""


@dataclass(frozen=True, slots=True)
class UntilClientLeaves:
    """An ASGI response that stops the LLM as soon as the client is gone.

    It watches from before the first byte to the last one, of streams and of whole answers alike: a user who
    left while the LLM was still reading the prompt costs as much as one who left in the middle of the answer.
    """

    llm: LLM
    chat: Chat
    record: Record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the LLM and the watch side by side; whichever ends first ends both."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                if not self.record.ended:
                    self.record.client_left = True
                    group.cancel_scope.cancel()

            group.start_soon(watch)
            await self._generate(Reply(send))
            group.cancel_scope.cancel()

    async def _generate(self, reply: Reply) -> None:
        try:
            await self.llm.answer(self.chat, reply, self.record)
            self.record.generation = self.record.generation or "finished"
        except ApiError as error:
            self.record.generation = "failed"
            await reply.json(error.status, error.body())
        except anyio.get_cancelled_exc_class():
            self.record.generation = "cancelled"
            raise


async def chat_completions(request: Request) -> UntilClientLeaves:
    """POST /v1/chat/completions."""
    record: Record = request.scope["record"]
    raw = await _read(request, request.app.state.settings.max_body_bytes)
    trace = {name: request.headers[name] for name in _TRACE_HEADERS if name in request.headers}
    chat = Chat(raw, parse_body(raw), record.request_id, _hints(request, raw, record), trace)
    return UntilClientLeaves(request.app.state.llm, chat, record)


def _hints(request: Request, body: bytes, record: Record) -> Hints | None:
    """The hints that came, if they can be believed; else the log says why not, and the user nothing.

    A header that came twice is joined, as HTTP has it: then its signature does not hold.
    """
    keys, headers, state = request.app.state.settings.hints_keys, request.headers, request.app.state
    if record.hints is None:
        return None
    try:
        if not keys:
            return parse_hints(record.hints)
        signature, request_id = (", ".join(headers.getlist(h)) for h in (SIGNATURE_HEADER, "x-request-id"))
        return verify_hints(record.hints, signature, request_id, body, keys, state.seen, state.clock())
    except HintsError as error:
        record.hints_ignored = error.code
        return None


async def _read(request: Request, limit: int) -> bytes:
    """The body, given up at the limit rather than after it."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise ApiError(413, f"The body is larger than {limit} bytes.", "request_too_large")
    return bytes(body)


async def models(request: Request) -> Response:
    """GET /v1/models."""
    return Response(dumps(await request.app.state.llm.models()), media_type="application/json")


async def liveness(request: Request) -> JSONResponse:
    """The process runs."""
    return JSONResponse({"status": "alive"})


async def readiness(request: Request) -> JSONResponse:
    """Requests are accepted. The LLM is not called: a probe a second should cost no tokens."""
    return JSONResponse({"status": "ready", "llm": request.app.state.llm.name})


async def on_api_error(request: Request, error: Exception) -> Response:
    """Our own errors, in OpenAI's shape."""
    assert isinstance(error, ApiError)  # noqa: S101 - the type Starlette asks for is wider than what comes
    return JSONResponse(error.body(), error.status)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's errors (no such route, wrong method), in OpenAI's shape too."""
    assert isinstance(error, HTTPException)  # noqa: S101
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    kind = "not_found_error" if error.status_code == 404 else None
    message = f"{request.method} {request.url.path}: {error.detail}"
    body = ApiError(error.status_code, message, code, kind=kind).body()
    return JSONResponse(body, error.status_code, headers=error.headers)


def create_app(settings: Settings, clock: Callable[[], float] = time.time) -> Starlette:
    """The agent as an ASGI app: over a real LLM if ``base_url`` is set, else over the scripted one.

    ``clock``: seconds since the epoch, against which signatures expire.
    """
    llm: LLM = UpstreamLLM(settings) if settings.base_url else ScriptedLLM(settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await llm.aclose()

    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health/liveness", liveness),
            Route("/health/readiness", readiness),
        ],
        middleware=[Middleware(RequestLogMiddleware, llm=llm.name)],
        exception_handlers={ApiError: on_api_error, HTTPException: on_http_exception},
        lifespan=lifespan,
    )
    app.state.llm = llm
    app.state.settings = settings
    app.state.clock = clock
    app.state.seen = Seen()
    return app


def main() -> None:
    """Serve from the command line; uvicorn's access log is off because the agent writes its own."""
    flags = parse_flags()
    settings = Settings.from_env(os.environ, vars(flags))
    uvicorn.run(create_app(settings), host=flags.host, port=flags.port, access_log=False)


if __name__ == "__main__":
    main()
else:
    app = create_app(Settings.from_env(os.environ))
