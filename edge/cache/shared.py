"""The tier that several servers share: asked within the budget, left alone when it fails, purged for all."""

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol, TypeVar

import numpy as np

from edge.breaker import Breaker
from edge.cache.entry import Entry
from edge.cache.redis_store import Found, RedisStore, Said
from edge.cache.selector import Selector

logger = logging.getLogger("frontdesk")

# A server that has heard of no purge for so long serves nothing from its own memory.
DEAF_SECONDS = 60.0
# How long what is static stays, so that old bundles' entries go.
_KEPT_SECONDS = 30 * 24 * 3600.0
_PURGE_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_T = TypeVar("_T")


class Heard(Protocol):
    """Told of each purge by whichever server; None: some may have been missed."""

    def __call__(self, selector: Selector | None) -> None:
        """Forget what is meant, and whatever is being filled."""
        ...


class SharedError(Exception):
    """What is shared cannot be asked now."""


class Shared:
    """One store and the way to it. ``timeout`` in seconds: the longest that a turn waits.

    ``purged``: the time of the last purge that this server knows of; None before the store was reached.
    """

    def __init__(
        self, store: RedisStore, timeout: float, heard: Heard, breaker: Breaker | None = None
    ) -> None:
        self._store, self._timeout, self._heard = store, timeout, heard
        self._working: set[asyncio.Task[Any]] = set()
        self._deaf_since: float | None = time.monotonic()
        self._told = False
        self.breaker = breaker or Breaker()
        self.purged: str | None = None

    @property
    def hears(self) -> bool:
        """Whether this server has heard of every purge but maybe those of the last minute."""
        return self._deaf_since is None or time.monotonic() - self._deaf_since < DEAF_SECONDS

    def state(self) -> dict[str, Any]:
        """What an operator wants to know."""
        return {"connected": self._deaf_since is None, "breaker": self.breaker.state}

    async def run(self) -> None:
        """Listen for purges until cancelled, whatever happens to the connection."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with aclosing(self._store.listen()) as heard:
                    async for said in heard:
                        await self._hear(said)
                        pause = _FIRST_PAUSE
            except Exception as exc:
                if not self._told:
                    logger.warning("The shared cache cannot be reached (%s: %s).", type(exc).__name__, exc)
                self._told = True
                if self._deaf_since is None:
                    self._deaf_since = time.monotonic()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def close(self) -> None:
        """Close every connection, once what was begun has ended."""
        if self._working:
            await asyncio.wait(self._working, timeout=_PURGE_SECONDS)
        await self._store.close()

    async def find(
        self, id_: str, scope: str, vector: np.ndarray | None, count: int, seconds: float
    ) -> list[Found]:
        """The entry of an id, or up to ``count`` like a vector, best first, within ``seconds``.

        Raises SharedError, as all below.
        """
        patience = min(seconds, self._timeout)
        return await self._do(self._store.find(id_, scope, vector, count), patience)

    async def put(self, entry: Entry, seconds: float, purged: str) -> bool:
        """Keep an entry for ``seconds`` unless something was purged since ``purged``."""
        kept = await self._do(
            self._store.put(entry, min(seconds, _KEPT_SECONDS), purged), max(self._timeout, 1.0)
        )
        if not kept:
            await self._do(self._sync(), max(self._timeout, 1.0))
        return kept

    async def count(self, selector: Selector) -> int:
        """How many entries a selector means."""
        return await self._do(self._store.count(selector), _PURGE_SECONDS, demanded=True)

    async def purge(self, selector: Selector) -> int:
        """Forget entries, here and on every server; how many there were."""
        work = self._store.purge(selector, self.purged or "0")
        return await self._do(work, _PURGE_SECONDS, demanded=True)

    async def evict(self, id_: str) -> None:
        """Forget one entry, here and on every server."""
        await self._do(self._store.evict(id_), max(self._timeout, 1.0), demanded=True)

    def remember(self, id_: str, record: Mapping[str, str]) -> None:
        """Note which answer a request got, where that can be done; nobody waits for it."""
        self._keep(asyncio.create_task(self._quietly(self._store.remember(id_, record))))

    async def recall(self, id_: str) -> dict[str, str] | None:
        """What was noted of a request."""
        return await self._do(self._store.recall(id_), max(self._timeout, 1.0))

    async def forget(self, id_: str) -> bool:
        """Forget what was noted of a request; whether it was there."""
        return await self._do(self._store.forget(id_), max(self._timeout, 1.0))

    async def _hear(self, said: Said | None) -> None:
        if said is None:
            await self._sync()
            self._deaf_since, self._told = None, False
            return
        if said.purged:
            self.purged = said.purged
        self._heard(said.selector)

    async def _sync(self) -> None:
        """Learn whether purges were missed."""
        last = await self._store.sync(self.purged or "0")
        if self.purged is not None and last != self.purged:
            self._heard(None)
        self.purged = last

    async def _do(self, work: Coroutine[Any, Any, _T], seconds: float, *, demanded: bool = False) -> _T:
        """The result of some work, if it comes in time and the breaker lets it begin.

        What somebody ``demanded`` is tried in any case.
        """
        if not demanded and not self.breaker.enter():
            work.close()
            raise SharedError("left alone after failures")
        task = asyncio.create_task(work)  # of its own, because it must not be cut off half-way
        self._keep(task)
        good = False
        try:
            await asyncio.wait({task}, timeout=seconds)
            if not task.done():
                raise SharedError("no answer in time")
            result = task.result()
            good = True
            return result
        except SharedError:
            raise
        except Exception as exc:
            raise SharedError(f"{type(exc).__name__}: {exc}") from exc
        finally:
            if good:
                self.breaker.succeeded()
            else:
                self.breaker.failed()

    async def _quietly(self, work: Coroutine[Any, Any, Any]) -> None:
        with suppress(SharedError):
            await self._do(work, max(self._timeout, 1.0))

    def _keep(self, task: "asyncio.Task[Any]") -> None:
        self._working.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._working.discard(task)
        if not task.cancelled():
            task.exception()  # of one that nobody waits for any more
