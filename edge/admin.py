"""``/admin``: what the cache holds, and purging it. For operators, who have a token of their own."""

import hmac
from typing import Any

from starlette.types import Receive, Send

from edge.cache.cache import Cache
from edge.cache.selector import Selector
from edge.config import Settings
from edge.errors import BadRequest, NotFound, Unauthorized
from edge.exchange import Exchange
from edge.feedback import Feedback
from edge.forward import Relayed
from edge.stages.admit import read_body
from edge.wire import json_bytes, parse_object

PATH = "/admin/"


class Admin:
    """The request handlers for operators. Without ``admin_token`` there are none."""

    def __init__(self, settings: Settings, cache: Cache, feedback: Feedback) -> None:
        self._settings = settings
        self._cache = cache
        self._feedback = feedback

    async def cache(self, exchange: Exchange, _receive: Receive, send: Send, _: Relayed) -> None:
        """``GET /admin/cache``: what is held, what happened to it, and what users said of answers."""
        self._admit(exchange)
        await self._respond(exchange, send, self._cache.state() | {"feedback": dict(self._feedback.verdicts)})

    async def purge(self, exchange: Exchange, receive: Receive, send: Send, _: Relayed) -> None:
        """``POST /admin/cache/purge``: forget entries, or with ``dry_run: true`` only count them."""
        self._admit(exchange)
        body = parse_object(await read_body(exchange.scope, receive, self._settings.max_body_bytes))
        dry_run = body.get("dry_run", False)
        if not isinstance(dry_run, bool):
            raise BadRequest("'dry_run' must be true or false.", "dry_run", "invalid_purge")
        selector = Selector.of_body(body)
        told: dict[str, Any] = {selector.kind: body[selector.kind], "dry_run": dry_run}
        exchange.audit = {"action": "cache.purge", **told, "outcome": "failed"}
        counts = await self._cache.purge(selector, dry_run=dry_run)
        exchange.audit = {"action": "cache.purge", **told, "outcome": "ok", **counts}
        await self._respond(exchange, send, {**told, **counts})

    def _admit(self, exchange: Exchange) -> None:
        token = self._settings.admin_token
        if not token:
            raise NotFound(f"There is nothing at {exchange.scope['path']}; the API lies under /v1.")
        given = [value for name, value in exchange.scope["headers"] if name == b"authorization"]
        wanted = b"Bearer " + token.encode()
        if len(given) != 1 or not hmac.compare_digest(given[0], wanted):
            raise Unauthorized("This needs 'authorization: Bearer …' with the server's admin_token.")

    @staticmethod
    async def _respond(exchange: Exchange, send: Send, told: dict[str, Any]) -> None:
        exchange.spans.mark("admin")
        await exchange.respond(send, 200, b"application/json", json_bytes(told))
