"""The endpoints beside chat: models, classify, results that the agent collects, health."""

import json
from typing import Any

from starlette.types import Receive, Send

from edge.access import Access
from edge.classify import classify
from edge.config import Settings
from edge.decision import Level
from edge.errors import NotFound, NotReady, RequestError, ToolFailed, Unauthorized
from edge.exchange import Exchange, unix_now
from edge.forward import Forwarder, Relayed
from edge.hints import SIGNATURE_HEADER
from edge.host import Host
from edge.outbound import Outbound, target_of
from edge.prefetch import PATH as PREFETCH
from edge.results import Failure
from edge.stages.admit import read_body
from edge.telemetry import ToolCall
from edge.wire import json_bytes, parse_object

JSON = b"application/json"
OUR_MODEL = "frontdesk"


class Beside:
    """The request handlers that decide no turn."""

    def __init__(
        self, settings: Settings, host: Host, forwarder: Forwarder, outbound: Outbound, access: Access
    ) -> None:
        self._settings = settings
        self._host = host
        self._forwarder = forwarder
        self._outbound = outbound
        self._access = access

    async def classify(self, exchange: Exchange, receive: Receive, send: Send, _: Relayed) -> None:
        """``POST /v1/classify``: readings and decisions, never an upstream call."""
        body = await read_body(exchange.scope, receive, self._settings.max_body_bytes)
        if self._host.pipeline is None:
            raise NotReady("The bundle is not ready; GET /health/readiness says why.")
        if not await self._access.may_read(self._host.pipeline, exchange):
            raise Unauthorized("This desk is not public, and nothing vouches for the caller's credential.")
        rows = await classify(self._host.pipeline, parse_object(body))
        exchange.spans.mark("classify")
        result = {"data": rows, "bundle": self._host.label}
        await exchange.respond(send, 200, JSON, json_bytes(result))

    async def models(self, exchange: Exchange, _receive: Receive, send: Send, _: Relayed) -> None:
        """``GET /v1/models``: the upstream's list and our own name; our own name alone without it."""
        ours = {"id": OUR_MODEL, "object": "model", "created": 0, "owned_by": "frontdesk"}
        listed: list[Any] = []
        try:
            request = self._forwarder.request(
                "GET", target_of(exchange.scope), exchange.scope["headers"], self._outbound.headers(exchange),
                None,
                lend_key=exchange.caller.lent_key,
            )  # fmt: skip
            status, body = await self._forwarder.fetch(request)
            if status in (401, 403):
                await exchange.respond(send, status, JSON, body)
                return
            if status == 200:
                listed = [m for m in json.loads(body)["data"] if m.get("id") != OUR_MODEL]
        except (RequestError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            listed = []  # a client that probes us must not fail because the agent is down
        exchange.spans.mark("upstream")
        body = json_bytes({"object": "list", "data": [ours, *listed]})
        await exchange.respond(send, 200, JSON, body)

    async def liveness(self, exchange: Exchange, _receive: Receive, send: Send, _: Relayed) -> None:
        """200 while the process lives."""
        exchange.spans.mark("health")
        await exchange.respond(send, 200, JSON, b'{"status":"ok"}')

    async def readiness(self, exchange: Exchange, _receive: Receive, send: Send, relayed: Relayed) -> None:
        """200 once the bundle is loaded; else 503 and why (turns are forwarded meanwhile)."""
        exchange.spans.mark("health")
        ready = self._host.pipeline is not None
        state = {"status": "ready" if ready else "bundle_error" if self._host.error else "loading"}
        state |= {"bundle": self._host.label} if ready else {"message": self._host.error or ""}
        relayed.status = 200 if ready else 503
        await exchange.respond(send, relayed.status, JSON, json_bytes(state))

    async def prefetch(self, exchange: Exchange, _receive: Receive, send: Send, relayed: Relayed) -> None:
        """``GET /v1/prefetch/{id}``: the result of a tool that was called while its turn was forwarded."""
        if self._host.execution is None:
            raise NotFound("There is no such result.")
        id_ = exchange.scope["path"].removeprefix(PREFETCH)
        request_id, signature = exchange.header(b"x-request-id"), exchange.header(SIGNATURE_HEADER.encode())
        found = await self._host.execution.collect(id_, request_id, signature, unix_now())
        exchange.spans.mark("tools")
        level = str(Level.PREFETCH)
        if isinstance(found, Failure):
            exchange.calls = (ToolCall(found.tool, level, found.code, found.ms),)
            raise ToolFailed(f"The tool {found.tool} brought no result ({found.code}); call it yourself.")
        exchange.calls = (ToolCall(found.tool, level, "collected", found.ms, found.cached),)
        body = json_bytes({"tool": found.tool, "arguments": found.arguments, "result": found.value})
        await exchange.respond(send, 200, JSON, body)
