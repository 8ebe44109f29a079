"""The commands to a Redis with vector search (Redis Stack, or Redis 8): entries, and what was purged."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edge.cache.entry import Entry, unit_vector
from edge.cache.selector import Selector

PREFIX = "frontdesk:cache:1:"
_ENTRIES, _TAGS, _VECTORS = f"{PREFIX}e:", f"{PREFIX}tags", f"{PREFIX}vectors:"
_GIVEN, _GIVEN_SECONDS = f"{PREFIX}g:", 3600
_PURGED, _CHANNEL = f"{PREFIX}purged", f"{PREFIX}said"
_PING_SECONDS, _SILENT_SECONDS = 5.0, 12.0
_PAGE = 500
_CONNECTIONS = 32

# KEYS: the entry, the time of the last purge. ARGV: that time as the writer knows it, milliseconds, fields.
_PUT = """
if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
# The time of the last purge, set to what the caller knows where the server has lost it.
_SYNC = """
local known = tonumber(redis.call('GET', KEYS[1]) or '0')
if known < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]); return ARGV[1] end
return string.format('%.0f', known)
"""
# A new time of the last purge: it only grows, also where the server's clock is put back.
_BUMP = """
local now = redis.call('TIME')
local next = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') + 1, tonumber(ARGV[1]) + 1,
                      now[1] * 1000 + math.floor(now[2] / 1000))
redis.call('SET', KEYS[1], string.format('%.0f', next))
return string.format('%.0f', next)
"""


@dataclass(frozen=True, slots=True)
class Found:
    """An entry, its similarity in [0, 1], and for how many seconds it is still kept."""

    entry: Entry
    similarity: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Said:
    """What some server has purged; ``purged``: when, "" where only one entry was evicted."""

    selector: Selector
    purged: str


class RedisStore:
    """Entries are hashes. An index knows their scopes, topics, tags, …; one for each dimension their vectors.

    ``timeout`` in seconds: how long a free connection is waited for. Every method may raise whatever
    redis-py raises. None may be cut off half-way: a connection whose answer was not read would give it to
    the next who asks.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self._client: Any = None
        self._indexed: set[str] = set()

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            with suppress(Exception):
                await self._client.aclose()

    async def find(self, id_: str, scope: str, vector: np.ndarray | None, count: int) -> list[Found]:
        """The entry of an id if it is there, else up to ``count`` of the scope like a vector, best first.

        The first is asked alone, because it is quick however many entries there are.
        """
        async with self._redis().pipeline(transaction=False) as pipe:
            pipe.hmget(_ENTRIES + id_, "entry", "vector")
            pipe.pttl(_ENTRIES + id_)
            (coded, raw), ms = await pipe.execute()
        same = None if coded is None else _entry(coded, raw)
        if same is not None and same.id == id_ and ms > 0:
            return [Found(same, 1.0, ms / 1000)]
        return [] if vector is None else await self._like(scope, vector, count)

    async def _like(self, scope: str, vector: np.ndarray, count: int) -> list[Found]:
        answer = await self._redis().execute_command(
            "FT.SEARCH", await self._vectors(len(vector)),
            f"(@scope:{{{scope}}})=>[KNN {count} @vector $v AS distance]",
            "PARAMS", 2, "v", vector.astype("<f4").tobytes(),
            "RETURN", 3, "distance", "entry", "vector", "SORTBY", "distance", "DIALECT", 2,
        )  # fmt: skip
        similar = [(entry, similarity) for entry, similarity in _similar(answer) if entry.scope == scope]
        if not similar:
            return []
        async with self._redis().pipeline(transaction=False) as pipe:
            for entry, _ in similar:
                pipe.pttl(_ENTRIES + entry.id)
            left = await pipe.execute()
        return [Found(e, s, ms / 1000) for (e, s), ms in zip(similar, left, strict=True) if ms > 0]

    async def put(self, entry: Entry, seconds: float, purged: str) -> bool:
        """Keep an entry for ``seconds``; False and not kept if something was purged since ``purged``."""
        fields: dict[str, str | bytes] = {
            "scope": entry.scope,
            "topic": _digest(entry.topic),
            "tags": ",".join(map(_digest, entry.tags)),
            "data_version": _digest(entry.data_version),
            "entry": json.dumps(entry.without_vector().record()),
        }
        if entry.vector is not None:
            fields["vector"] = entry.vector.astype("<f4").tobytes()
            await self._vectors(len(entry.vector))
        flat = [part for pair in fields.items() for part in pair]
        ms = max(1, int(seconds * 1000))
        return bool(await self._redis().eval(_PUT, 2, _ENTRIES + entry.id, _PURGED, purged, ms, *flat))

    async def count(self, selector: Selector) -> int:
        """How many entries a selector means."""
        if selector.kind == "id":
            return int(await self._redis().exists(_ENTRIES + selector.value))
        await self._index(_TAGS)
        return int((await self._search(selector, 0))[0])

    async def purge(self, selector: Selector, purged: str) -> int:
        """Forget entries and tell every server to; how many there were. ``purged``: the last time known here.

        It is told twice. Before: what is being filled anywhere is not kept. After: what a server took over
        from here meanwhile goes.
        """
        now = (await self._redis().eval(_BUMP, 1, _PURGED, purged)).decode()
        told = json.dumps({"kind": selector.kind, "value": selector.value, "purged": now})
        await self._redis().publish(_CHANNEL, told)
        gone = await self._unlink(selector)
        await self._redis().publish(_CHANNEL, told)
        return gone

    async def evict(self, id_: str) -> None:
        """Forget one entry, and tell every server to."""
        await self._redis().unlink(_ENTRIES + id_)
        await self._redis().publish(_CHANNEL, json.dumps({"kind": "id", "value": id_, "purged": ""}))

    async def remember(self, id_: str, record: Mapping[str, str]) -> None:
        """Note which answer a request got, for an hour; of two requests with one id the first stays."""
        await self._redis().set(_GIVEN + _digest(id_), json.dumps(dict(record)), ex=_GIVEN_SECONDS, nx=True)

    async def recall(self, id_: str) -> dict[str, str] | None:
        """What was noted of a request."""
        told = await self._redis().get(_GIVEN + _digest(id_))
        return None if told is None else {str(n): str(v) for n, v in json.loads(told).items()}

    async def forget(self, id_: str) -> bool:
        """Forget what was noted of a request; whether it was there."""
        return bool(await self._redis().unlink(_GIVEN + _digest(id_)))

    async def sync(self, purged: str) -> str:
        """When the last purge was; ``purged``, as known here, where Redis has lost its memory since."""
        return str((await self._redis().eval(_SYNC, 1, _PURGED, purged)).decode())

    async def listen(self) -> AsyncGenerator[Said | None]:
        """What is purged from now on; first None, as soon as nothing more can be missed."""
        async with self._redis().pubsub() as channel:
            await channel.subscribe(_CHANNEL)
            asked = heard = time.monotonic()
            while True:
                message = await channel.get_message(timeout=1.0)
                now = time.monotonic()
                if message is not None:
                    heard = now
                    if message["type"] == "subscribe":
                        self._indexed.clear()  # it may be another server behind the address
                        await self._index(_TAGS)
                        yield None
                    elif message["type"] == "message":
                        yield _said(json.loads(message["data"]))
                if now - heard > _SILENT_SECONDS:
                    raise ConnectionError("Redis is silent")
                if now - asked > _PING_SECONDS:
                    asked = now
                    await channel.ping()

    def _redis(self) -> Any:  # noqa: ANN401 - redis-py's client
        if self._client is None:
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            pool = BlockingConnectionPool.from_url(
                self._url,
                max_connections=_CONNECTIONS,
                timeout=self._timeout,
                socket_timeout=max(self._timeout, 1.0),
                socket_connect_timeout=max(self._timeout, 1.0),
                protocol=2,  # FT.SEARCH answers in one shape in every version
                retry=Retry(NoBackoff(), 0),
            )
            self._client = Redis.from_pool(pool)
        return self._client

    async def _vectors(self, dim: int) -> str:
        """The index over vectors of a dimension: those of another bundle have one of their own."""
        name = f"{_VECTORS}{dim}"
        kind = ("TYPE", "FLOAT32", "DIM", dim, "DISTANCE_METRIC", "COSINE")
        await self._index(name, "vector", "VECTOR", "FLAT", len(kind), *kind)
        return name

    async def _index(self, name: str, *vector: str | int) -> None:
        """Make an index over the entries, if there is none, and wait until it knows those that are there."""
        if name in self._indexed:
            return
        from redis.exceptions import ResponseError

        fields = ("scope", "TAG", "topic", "TAG", "tags", "TAG", "data_version", "TAG", *vector)
        try:
            await self._redis().execute_command(
                "FT.CREATE", name, "ON", "HASH", "PREFIX", 1, _ENTRIES, "SCHEMA", *fields
            )
        except ResponseError as exc:
            if "already exists" not in str(exc):
                raise
        while True:
            told = await self._redis().execute_command("FT.INFO", name)
            if not int(dict(zip(told[::2], told[1::2], strict=True))[b"indexing"]):
                break
            await asyncio.sleep(0.01)
        self._indexed.add(name)

    async def _search(self, selector: Selector, page: int) -> list[Any]:
        """A count, then up to ``page`` keys."""
        field = "tags" if selector.kind == "tag" else selector.kind
        query = "*" if selector.kind == "all" else f"@{field}:{{{_digest(selector.value)}}}"
        found = await self._redis().execute_command(
            "FT.SEARCH", _TAGS, query, "NOCONTENT", "LIMIT", 0, page, "DIALECT", 2
        )
        return list(found)

    async def _unlink(self, selector: Selector) -> int:
        if selector.kind == "id":
            return int(await self._redis().unlink(_ENTRIES + selector.value))
        await self._index(_TAGS)
        gone, before = 0, None
        while (keys := (await self._search(selector, _PAGE))[1:]) and keys != before:
            gone, before = gone + int(await self._redis().unlink(*keys)), keys
        return gone


def _digest(name: str) -> str:
    """A name as a tag or key that needs no escaping: 32 hexadecimal digits."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _said(told: Mapping[str, Any]) -> Said:
    return Said(Selector(str(told["kind"]), str(told["value"])), str(told["purged"]))


def _entry(coded: bytes, raw: bytes | None) -> Entry | None:
    """The entry of a hash; None for what is none."""
    try:
        entry = Entry.of_record(json.loads(coded))
        return entry if raw is None else replace(entry, vector=unit_vector(np.frombuffer(raw, "<f4")))
    except (ValueError, RecursionError):
        return None


def _similar(answer: list[Any]) -> list[tuple[Entry, float]]:
    """Entries and similarities of an answer of FT.SEARCH: a count, then key and fields by turns."""
    found = []
    for fields in answer[2::2]:
        if not fields:  # it ended while it was searched for
            continue
        told = dict(zip(fields[::2], fields[1::2], strict=True))
        entry = _entry(told.get(b"entry", b""), told.get(b"vector"))
        if entry is not None:
            found.append((entry, min(1.0, max(0.0, 1.0 - float(told[b"distance"])))))
    return found
