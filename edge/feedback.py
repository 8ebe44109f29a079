"""``POST /v1/feedback``: what users say of answers that were given here. A wrong one leaves the cache."""

import hashlib
from collections import Counter, OrderedDict
from dataclasses import asdict, dataclass

from starlette.types import Receive, Send

from edge.cache.cache import Cache
from edge.config import Settings
from edge.errors import BadRequest, NotFound
from edge.exchange import Exchange
from edge.forward import Relayed
from edge.stages.admit import read_body
from edge.wire import json_bytes, parse_object

VERDICTS = ("right", "wrong")
# Answers that can still be judged; a few hundred bytes each.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Given:
    """An answer that was given. ``entry``: the cache's id of it, "" where it does not come from there."""

    asker: str
    path: str
    topic: str
    entry: str


class Feedback:
    """Remembers the last answers by their request ids, each until its asker has judged it."""

    def __init__(self, settings: Settings, cache: Cache) -> None:
        self._settings = settings
        self._cache = cache
        self._given: OrderedDict[str, _Given] = OrderedDict()
        self.verdicts: Counter[str] = Counter()

    def given(self, exchange: Exchange) -> None:
        """Note an answer of ours, or one of the agent's that is kept from now on."""
        decision, use = exchange.decision, exchange.cache
        if decision is None:
            return
        entry = "" if use is None else use.id
        given = _Given(_asker(exchange), str(decision.path), decision.topic or "", entry)
        # Of two turns with one id neither client can say which it means: the first stays what it was.
        if self._given.setdefault(exchange.request_id, given) is given:
            while len(self._given) > _REMEMBERED:
                self._given.popitem(last=False)
        if entry:
            self._cache.remember(exchange.request_id, asdict(given))

    async def endpoint(self, exchange: Exchange, receive: Receive, send: Send, _: Relayed) -> None:
        """Count a verdict, once, of whoever got the answer; evict what is wrong. Raises RequestError."""
        body = parse_object(await read_body(exchange.scope, receive, self._settings.max_body_bytes))
        request_id, verdict = body.get("request_id"), body.get("verdict")
        if not isinstance(request_id, str) or not request_id:
            raise BadRequest("'request_id' must be the x-request-id of the answer.", "request_id")
        if verdict not in VERDICTS:
            raise BadRequest(f"'verdict' must be one of {', '.join(VERDICTS)}.", "verdict")
        given = await self._take(request_id, _asker(exchange))
        evicted = verdict == "wrong" and bool(given.entry) and await self._cache.evict(given.entry)
        self.verdicts[f"{given.path}_{verdict}"] += 1
        told = {"verdict": verdict, "path": given.path, "topic": given.topic or None, "evicted": evicted}
        exchange.audit = {"action": "feedback", "of": request_id, **told, "entry": given.entry or None}
        await exchange.respond(send, 200, b"application/json", json_bytes({"request_id": request_id, **told}))

    async def _take(self, request_id: str, asker: str) -> _Given:
        """The answer of a request, of whichever server, that nobody can take again. Raises NotFound."""
        given = self._given.get(request_id)
        if given is None and (told := await self._cache.recall(request_id)) is not None:
            given = _Given(**told)
            if given.asker == asker and not await self._cache.forget(request_id):
                given = None  # somebody was quicker
        if given is None or given.asker != asker:
            raise NotFound("There is no such answer of yours: it was judged before, or is too long ago.")
        if self._given.pop(request_id, None) is not None and given.entry:
            await self._cache.forget(request_id)
        return given


def _asker(exchange: Exchange) -> str:
    """Stands for who asks, by name and credential; nothing can be read out of it."""
    caller = exchange.caller
    shown = "\n".join([caller.tenant, caller.user, exchange.header(b"authorization")])
    return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()
