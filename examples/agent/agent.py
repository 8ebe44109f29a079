"""Frontdesk's reference central agent: an OpenAI-compatible server over one LLM, real or scripted.

``python examples/agent/agent.py --port 9001`` or
``python -m uvicorn agent:app --app-dir examples/agent --port 9001``.
"""

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module

import anyio
import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from hints import SIGNATURE_HEADER, Hints, HintsError, HintsKey, Seen, parse_hints, verify_hints
from llm import LLM
from loop import Loop
from requestlog import Record, RequestLogMiddleware
from scripted import ScriptedLLM
from settings import Settings, parse_flags
from stats import Stats
from tools import Tool, by_name
from upstream import UpstreamLLM
from wire import ApiError, Chat, Reply, dumps, parse_body

_TOOLS_TIMEOUT = 60.0  # each tool has a stricter one of its own
_TOOLS_LIMITS = httpx2.Limits(keepalive_expiry=4.0)  # many servers close after 5 s: see upstream.py
_TRACE_HEADERS = ("traceparent", "tracestate")


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
    with record.stage("verify"):
        hints, key = _hints(request, raw, record)
    chat = Chat(raw, parse_body(raw), record.request_id, hints, trace, key, _user(request))
    return UntilClientLeaves(request.app.state.llm, chat, record)


def _hints(request: Request, body: bytes, record: Record) -> tuple[Hints | None, HintsKey | None]:
    """The hints that came, if they can be believed, and the key that signed them; else the log says why not.

    A header that came twice is joined, as HTTP has it: then its signature does not hold.
    """
    keys, headers, state = request.app.state.settings.hints_keys, request.headers, request.app.state
    if record.hints is None:
        return None, None
    try:
        if not keys:
            return parse_hints(record.hints), None
        signature, request_id = (", ".join(headers.getlist(h)) for h in (SIGNATURE_HEADER, "x-request-id"))
        hints = verify_hints(record.hints, signature, request_id, body, keys, state.seen, state.clock())
        kid = signature.partition(",")[0].removeprefix("kid=")
        return hints, next(key for key in keys if key.kid == kid)
    except HintsError as error:
        record.hints_ignored = error.code
        return None, None


def _user(request: Request) -> str | None:
    """Who asks, by IDENTITY_HEADER: never by the body. One that came twice names nobody."""
    header = request.app.state.settings.identity_header
    names = request.headers.getlist(header) if header else []
    return names[0] if len(names) == 1 and names[0] else None


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


async def stats(request: Request) -> JSONResponse:
    """GET /stats: route → stage → percentiles in ms."""
    return JSONResponse(request.app.state.stats.shown())


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


def create_app(
    settings: Settings, clock: Callable[[], float] = time.time, tools: Sequence[Tool] | None = None
) -> Starlette:
    """The agent as an ASGI app: over a real LLM if ``base_url`` is set, else over the scripted one.

    ``clock``: seconds since the epoch, against which signatures expire. ``tools``: instead of AGENT_TOOLS.
    """
    model = UpstreamLLM(settings) if settings.base_url else ScriptedLLM(settings)
    if tools is None:
        tools = import_module(settings.tools).TOOLS if settings.tools else ()
    http = httpx2.AsyncClient(timeout=_TOOLS_TIMEOUT, limits=_TOOLS_LIMITS, cookies=_no_cookies())
    named = by_name(tools, settings.tool_delays_ms)
    llm: LLM = Loop(model, named, settings, http)
    recent = Stats()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await llm.aclose()
        await http.aclose()

    routes: list[BaseRoute] = [
        Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        Route("/v1/models", models),
        Route("/stats", stats),
        Route("/health/liveness", liveness),
        Route("/health/readiness", readiness),
    ]
    if settings.demo_tools_key:
        import company
        from company.served import tools_mount

        served = by_name(company.TOOLS, settings.tool_delays_ms)
        routes.append(tools_mount(served, settings.demo_tools_key, http))
    app = Starlette(
        routes=routes,
        middleware=[Middleware(RequestLogMiddleware, llm=llm.name, stats=recent)],
        exception_handlers={ApiError: on_api_error, HTTPException: on_http_exception},
        lifespan=lifespan,
    )
    app.state.llm = llm
    app.state.settings = settings
    app.state.clock = clock
    app.state.seen = Seen()
    app.state.stats = recent
    return app


def _no_cookies() -> CookieJar:
    """Cookies of one user's call must not go with the next one's."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


def main() -> None:
    """Serve from the command line; uvicorn's access log is off because the agent writes its own."""
    flags = parse_flags()
    settings = Settings.from_env(os.environ, vars(flags))
    uvicorn.run(create_app(settings), host=flags.host, port=flags.port, access_log=False)


if __name__ == "__main__":
    main()
else:
    app = create_app(Settings.from_env(os.environ))
