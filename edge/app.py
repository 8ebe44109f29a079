"""The ASGI application: Starlette's lifespan around the endpoints."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx2
from starlette.routing import Router

from edge.config import Settings, load_settings
from edge.endpoints import Endpoints
from edge.forward import Forwarder
from edge.host import Host
from edge.identity import Identity
from edge.sinks.jsonlog import json_log
from edge.telemetry import Sink
from edge.transport import upstream_transport


def create_app(
    settings: Settings | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
    sinks: Sequence[Sink] | None = None,
    host: Host | None = None,
) -> Router:
    """The application. ``uvicorn --factory edge.app:create_app`` reads frontdesk.toml and the environment.

    ``transport``, ``sinks`` and ``host`` are seams for tests and for embedding.
    """
    settings = settings or load_settings()
    if sinks is None:
        sinks = [json_log()] if settings.log == "json" else []
    forwarder = Forwarder(settings.upstream, transport or upstream_transport(settings.upstream))
    shown = host or Host()
    if shown.pipeline is not None:
        shown.equip(shown.pipeline, settings)
    identity = Identity(settings)
    endpoints = Endpoints(settings, shown, forwarder, identity, sinks)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        # In a thread, so that the server accepts, and forwards, from its first moment on.
        loading = None
        if shown.pipeline is None:
            loading = asyncio.create_task(asyncio.to_thread(shown.load, settings))
        yield
        if loading is not None:
            await loading
        await forwarder.close()
        await shown.close()
        await identity.close()

    # The endpoints see every request, also those whose path no route pattern would match.
    return Router(default=endpoints.handle, lifespan=lifespan)
