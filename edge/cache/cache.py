"""The cache as a whole: looks for an answer tier by tier, and keeps what was found worth keeping."""

import asyncio
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edge.cache.clock import Clock
from edge.cache.entry import Entry
from edge.cache.flights import Flights
from edge.cache.memory import Memory
from edge.cache.selector import Selector
from edge.cache.settings import CacheSettings
from edge.cache.snapshot import Snapshot
from edge.errors import PurgeIncomplete
from edge.normaliser import Lang

# How many of the most similar questions are compared word by word.
CANDIDATES = 4
_HOUSEKEEPING_SECONDS = 60.0
# How far a new time moves the mean of a topic's.
_NEW_SHARE = 0.2


class Pairs(Protocol):
    """Judges whether two questions share their answer; part of a bundle.

    ``min_similarity``: the least cosine, clipped to [0, 1], at which they may.
    """

    @property
    def min_similarity(self) -> float:
        """The threshold."""
        ...

    def differs(self, a: str, b: str, lang: Lang) -> str | None:
        """The first thing in which two questions, in their reading forms, differ; None: in nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, in one scope. ``normal``: its reading form; ``vector``: None where it has none."""

    id: str
    scope: str
    normal: str = field(repr=False)
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


class Cache:
    """The tiers of one process. Not for two threads at once."""

    def __init__(self, settings: CacheSettings, clock: Clock = Clock(), pairs: Pairs | None = None) -> None:
        self.settings = settings
        self.clock = clock
        self.pairs = pairs
        self.memory = Memory(settings.max_entries, settings.max_bytes, clock)
        self.snapshot = Snapshot(Path(settings.snapshot), self.memory) if settings.snapshot else None
        self.flights = Flights()
        self.counts: Counter[str] = Counter()
        self.generation = 0
        self._fill_ms: dict[str, float] = {}

    async def run(self, bundle: str) -> None:
        """Take in what was kept over a restart, then keep house until cancelled. ``bundle``: its label."""
        if self.snapshot is not None:
            await self.snapshot.load(bundle=bundle, data_version=self.settings.data_version)
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            self.memory.sweep()
            if self.snapshot is not None:
                await self.snapshot.save()

    async def close(self) -> None:
        """Keep what is there for the next start."""
        if self.snapshot is not None:
            await self.snapshot.save()

    def find(self, question: Question, max_age: float | None) -> Hit | None:
        """The answer to a question from this process's memory, no older than ``max_age`` seconds."""
        hit = self._exact(question, max_age) or self._semantic(question, max_age)
        if hit is not None:
            self.memory.used(hit.entry.id)
            self.counts[f"hits_{hit.tier}"] += 1
        return hit

    def store(self, entry: Entry, generation: int) -> bool:
        """Keep an answer where there is room; False where it may not be shared with anybody.

        That is one that was asked for before a purge, which ``generation`` tells.
        """
        if generation != self.generation:
            self.counts["purged_while_filled"] += 1
            return False
        mean = self._fill_ms.get(entry.topic, entry.fill_ms)
        self._fill_ms[entry.topic] = mean + _NEW_SHARE * (entry.fill_ms - mean)
        kept = self.memory.put(entry)
        self.counts["stored" if kept else "no_room"] += 1
        return True

    def expected_ms(self, topic: str) -> float | None:
        """How long the agent takes for a whole answer on a topic; None before the first."""
        return self._fill_ms.get(topic)

    async def purge(self, selector: Selector, *, dry_run: bool = False) -> dict[str, int]:
        """Forget the entries that a selector means, and whatever is on its way; how many there were."""
        ids = self.memory.select(selector)
        if not dry_run:
            self.generation += 1
            for id_ in ids:
                self.memory.drop(id_)
            self.counts["purged"] += len(ids)
            self._forget_file()
        return {"entries": len(ids)}

    async def evict(self, id_: str) -> bool:
        """Forget one entry, because somebody said that it is wrong; whether there was one."""
        gone = self.memory.drop(id_)
        self.counts["evicted_as_wrong"] += gone
        self._forget_file()
        return gone

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
        }

    def _exact(self, question: Question, max_age: float | None) -> Hit | None:
        entry = self.memory.get(question.id)
        return Hit(entry, 1.0, "exact") if entry is not None and self._is_young(entry, max_age) else None

    def _semantic(self, question: Question, max_age: float | None) -> Hit | None:
        pairs = self.pairs
        if pairs is None or question.vector is None or self.settings.mode != "semantic":
            return None
        for similarity, entry in self.memory.nearest(question.scope, question.vector, CANDIDATES):
            if not similarity >= pairs.min_similarity:  # neither is NaN similar to anything
                return None
            if self.serves(question, entry, pairs) and self._is_young(entry, max_age):
                return Hit(entry, similarity, "semantic")
        return None

    def serves(self, question: Question, entry: Entry, pairs: Pairs) -> bool:
        """Whether nothing in the words of two similar questions says that they need two answers."""
        if entry.scope != question.scope:
            return False
        differs = pairs.differs(question.normal, entry.question, question.lang)
        if differs is not None:
            self.counts[f"differs_{differs}"] += 1
        return differs is None

    def _forget_file(self) -> None:
        """Remove what a restart would bring back. Raises PurgeIncomplete."""
        if self.snapshot is not None:
            try:
                self.snapshot.forget()
            except OSError as exc:
                raise PurgeIncomplete(
                    f"The entries are gone from memory, and come back with a restart: the snapshot cannot be "
                    f"removed ({exc.strerror}). Remove it and purge again."
                ) from exc

    def _is_young(self, entry: Entry, max_age: float | None) -> bool:
        return entry.age(self.clock.wall()) <= (math.inf if max_age is None else max_age)
