"""The cache as a whole: looks for an answer tier by tier, and keeps what was found worth keeping."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edge.cache.clock import Clock
from edge.cache.entry import Entry
from edge.cache.flights import Flights
from edge.cache.memory import Memory
from edge.cache.redis_store import RedisStore
from edge.cache.selector import Selector
from edge.cache.settings import CacheSettings
from edge.cache.shared import Shared, SharedError
from edge.cache.snapshot import Snapshot
from edge.errors import PurgeIncomplete
from edge.normaliser import Lang

logger = logging.getLogger("frontdesk")

# How many of the most similar questions are compared word by word.
CANDIDATES = 4
_HOUSEKEEPING_SECONDS = 60.0
# Tenths of a second that a warm start waits to learn what was purged meanwhile.
_SYNC_TRIES = 50
# How far a new time moves the mean of a topic's.
_NEW_SHARE = 0.2


class Pairs(Protocol):
    """Judges whether two questions share their answer.

    ``min_similarity``: the least cosine, clipped to [0, 1], at which they may.
    """

    @property
    def min_similarity(self) -> float:
        """The threshold."""
        ...

    def apart(self, similarity: float, a: str, b: str, lang: Lang) -> str | None:
        """Why two questions need two answers, in snake_case; None where one will do.

        ``a`` and ``b``: as ``Normaliser.typed`` gives them; ``similarity``: of their embeddings.
        """
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, in one scope. ``normal``: its reading form; ``typed``: the same with its capitals.

    ``vector``: its embedding, None where it has none.
    """

    id: str
    scope: str
    normal: str = field(repr=False)
    typed: str = field(repr=False)
    lang: Lang
    topic: str
    tags: tuple[str, ...]
    bundle: str
    volatility: str
    vector: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Hit:
    """An answer that serves a question. ``similarity``: of the two questions; 1 for the same words.

    ``tier``: ``exact`` or ``semantic``; ``shared``: it came from what several servers share.
    """

    entry: Entry
    similarity: float
    tier: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment, told by purges: what was asked for before one is not kept after it."""

    generation: int
    purged: str | None


class Cache:
    """The tiers of one process. Not for two threads at once."""

    def __init__(self, settings: CacheSettings, clock: Clock = Clock(), pairs: Pairs | None = None) -> None:
        self.settings = settings
        self.clock = clock
        self.pairs = pairs
        self.memory = Memory(settings.max_entries, settings.max_bytes, clock)
        self.snapshot = Snapshot(Path(settings.snapshot), self.memory) if settings.snapshot else None
        self.shared: Shared | None = None
        if settings.redis_url:
            seconds = settings.redis_timeout_ms / 1000
            self.shared = Shared(RedisStore(settings.redis_url, seconds), seconds, self._hear)
        self.flights = Flights()
        self.counts: Counter[str] = Counter()
        self._generation = 0
        self._fill_ms: dict[str, float] = {}

    @asynccontextmanager
    async def running(self, label: Callable[[], Awaitable[str]]) -> AsyncIterator[None]:
        """Around serving: takes in what was kept over a restart, hears of others' purges, keeps house.

        ``label``: of the bundle, as soon as that is known.
        """
        if self.settings.mode == "off":
            yield
            return
        tasks = [asyncio.create_task(self._keep(label))]
        if self.shared is not None:
            tasks.append(asyncio.create_task(self.shared.run()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._save()
            if self.shared is not None:
                await self.shared.close()

    def mark(self) -> Mark:
        """Now; to be taken before the agent is asked."""
        return Mark(self._generation, None if self.shared is None else self.shared.purged)

    def find(self, question: Question, max_age: float | None) -> Hit | None:
        """The answer to a question from this process's memory, no older than ``max_age`` seconds."""
        if self.shared is not None and not self.shared.hears:
            return None  # others may have purged it
        hit = self._exact(question, max_age) or self._semantic(question, max_age)
        if hit is not None:
            self.memory.used(hit.entry.id)
            self.counts[f"hits_{hit.tier}"] += 1
        return hit

    async def find_shared(self, question: Question, max_age: float | None, seconds: float) -> Hit | None:
        """The same from what several servers share, within ``seconds``; it is kept here from now on."""
        if self.shared is None:
            return None
        before = self._generation
        vector = None if self._judge is None else question.vector
        try:
            found = await self.shared.find(question.id, question.scope, vector, CANDIDATES, seconds)
        except SharedError:
            self.counts["shared_failed"] += 1
            return None
        if before != self._generation:  # it may have been purged while it was on its way
            return None
        for one in found:
            if one.entry.id == question.id:
                tier = "exact"
            elif self._judge is not None and one.similarity >= self._judge.min_similarity:
                tier = "semantic"
            else:
                return None
            alive = one.entry.is_believed(self.clock.wall())
            same = tier == "exact" or self._serves(question, one.entry, one.similarity)
            if alive and same and self._is_young(one.entry, max_age):
                self.memory.put(one.entry, one.seconds)
                self.counts[f"hits_{tier}"] += 1
                return Hit(one.entry, one.similarity, tier, shared=True)
        return None

    def store(self, entry: Entry, mark: Mark) -> bool:
        """Keep an answer where there is room; False where it may not be shared with anybody.

        That is one that was asked for before a purge.
        """
        if mark.generation != self._generation:
            self.counts["purged_while_filled"] += 1
            return False
        mean = self._fill_ms.get(entry.topic, entry.fill_ms)
        self._fill_ms[entry.topic] = mean + _NEW_SHARE * (entry.fill_ms - mean)
        kept = self.memory.put(entry)
        self.counts["stored" if kept else "no_room"] += 1
        return True

    async def share(self, entry: Entry, mark: Mark) -> None:
        """Give an answer that was stored to the other servers, if there are any."""
        if self.shared is None or mark.purged is None:
            return
        seconds = entry.left(self.clock.wall())
        try:
            kept = seconds > 0 and await self.shared.put(entry, seconds, mark.purged)
        except SharedError:
            kept = False
        self.counts["shared" if kept else "not_shared"] += 1

    def expected_ms(self, topic: str) -> float | None:
        """How long the agent takes for a whole answer on a topic; None before the first."""
        return self._fill_ms.get(topic)

    async def purge(self, selector: Selector, *, dry_run: bool = False) -> dict[str, int]:
        """Forget the entries that a selector means, and whatever is being filled; how many there were.

        Raises PurgeIncomplete where they may still be elsewhere.
        """
        counts = {"entries": len(self.memory.select(selector))}
        problem = None if dry_run else self._forget(selector)
        self.counts["purged"] += 0 if dry_run else counts["entries"]
        if self.shared is not None:
            try:
                if dry_run:
                    counts["shared"] = await self.shared.count(selector)
                else:
                    counts["shared"] = await self.shared.purge(selector)
            except SharedError as exc:
                problem = f"what the servers share could not be reached ({exc})"
        if problem is not None:
            raise PurgeIncomplete(f"Purged in this server's memory, but {problem}. Purge again.")
        return counts

    async def evict(self, id_: str) -> bool:
        """Forget one entry, because somebody said that it is wrong; whether it is gone everywhere."""
        self.counts["evicted_as_wrong"] += 1
        problem = self._forget(Selector("id", id_))
        if self.shared is not None:
            try:
                await self.shared.evict(id_)
            except SharedError as exc:
                problem = str(exc)
        if problem is not None:
            logger.warning("The entry %s was judged wrong and may come back: %s.", id_, problem)
        return problem is None

    def remember(self, request_id: str, record: Mapping[str, str]) -> None:
        """Let the other servers know which answer a request got, if there are any."""
        if self.shared is not None:
            self.shared.remember(request_id, record)

    async def recall(self, request_id: str) -> dict[str, str] | None:
        """What some server has let the others know of a request."""
        try:
            return None if self.shared is None else await self.shared.recall(request_id)
        except SharedError:
            return None

    async def forget(self, request_id: str) -> bool:
        """Take back what the others know of a request; whether they knew, so that only one may act on it."""
        try:
            return self.shared is not None and await self.shared.forget(request_id)
        except SharedError:
            return False

    def state(self) -> dict[str, Any]:
        """What is held and what happened, as JSON can hold it. No text of anybody's."""
        settings, memory = self.settings, self.memory
        return {
            "mode": settings.mode,
            "data_version": settings.data_version,
            "entries": len(memory),
            "max_entries": settings.max_entries,
            "bytes": memory.bytes,
            "max_bytes": settings.max_bytes,
            "evicted": memory.evicted,
            "on_their_way": len(self.flights),
            "counts": dict(sorted(self.counts.items())),
            "topics": dict(sorted(memory.by_topic().items())),
            "shared": None if self.shared is None else self.shared.state(),
        }

    @property
    def _judge(self) -> Pairs | None:
        """What judges two questions; None: only the same words are the same question."""
        return self.pairs if self.settings.mode == "semantic" else None

    def _exact(self, question: Question, max_age: float | None) -> Hit | None:
        entry = self.memory.get(question.id)
        return Hit(entry, 1.0, "exact") if entry is not None and self._is_young(entry, max_age) else None

    def _semantic(self, question: Question, max_age: float | None) -> Hit | None:
        if self._judge is None or question.vector is None:
            return None
        for similarity, entry in self.memory.nearest(question.scope, question.vector, CANDIDATES):
            if not similarity >= self._judge.min_similarity:  # neither is NaN similar to anything
                return None
            if self._serves(question, entry, similarity) and self._is_young(entry, max_age):
                return Hit(entry, similarity, "semantic")
        return None

    def _serves(self, question: Question, entry: Entry, similarity: float) -> bool:
        """Whether nothing in the words of two similar questions says that they need two answers."""
        if self._judge is None or entry.scope != question.scope:
            return False
        apart = self._judge.apart(similarity, question.typed, entry.typed, question.lang)
        if apart is not None:
            self.counts[f"apart_{apart}"] += 1
        return apart is None

    def _hear(self, selector: Selector | None) -> None:
        """Another server purged; None: something, and this one did not hear what."""
        self.counts["purges_heard" if selector is not None else "purges_missed"] += 1
        problem = self._forget(selector or Selector("all"))
        if problem is not None:
            logger.warning("Entries that another server purged come back with a restart: %s.", problem)

    def _forget(self, selector: Selector) -> str | None:
        """Forget entries in this process and its file, and what is being filled; what of it went wrong."""
        self._generation += 1
        for id_ in self.memory.select(selector):
            self.memory.drop(id_)
        try:
            if self.snapshot is not None:
                self.snapshot.forget()
        except OSError as exc:
            return f"the snapshot cannot be removed ({exc.strerror})"
        return None

    async def _keep(self, label: Callable[[], Awaitable[str]]) -> None:
        bundle = await label()
        if self.snapshot is not None:
            for _ in range(_SYNC_TRIES):
                if self.shared is None or self.shared.purged is not None:
                    break
                await asyncio.sleep(0.1)
            version = self.settings.data_version
            await self.snapshot.load(bundle=bundle, data_version=version, stamp=self._stamp)
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            self.memory.sweep()
            await self._save()

    @property
    def _stamp(self) -> str:
        """Which purges a snapshot knows of."""
        return "" if self.shared is None else f"purged {self.shared.purged}"

    async def _save(self) -> None:
        if self.snapshot is not None:
            await self.snapshot.save(self._stamp)

    def _is_young(self, entry: Entry, max_age: float | None) -> bool:
        return entry.age(self.clock.wall()) <= (math.inf if max_age is None else max_age)
