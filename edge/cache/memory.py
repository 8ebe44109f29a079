"""The local tier: entries in this process's memory, by their words and by their vectors, within bounds."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from edge.cache.clock import Clock
from edge.cache.entry import Entry
from edge.cache.selector import Selector
from edge.cache.shelf import Shelf


class _Held:
    """An entry in memory; its vector is in its scope's shelf. ``until``: on the clock that only grows."""

    __slots__ = ("entry", "has_vector", "hits", "priority", "size", "until")

    def __init__(self, entry: Entry, until: float) -> None:
        self.entry = entry.without_vector()
        self.has_vector = False
        self.size = entry.size
        self.until = until
        self.hits = 0
        self.priority = 0.0


class Memory:
    """At most ``max_entries`` and ``max_bytes``; beyond, what is expected to save least goes.

    ``changes`` counts what came and went.

    The expected saving is hits × time saved, aged as in GreedyDual with frequency (Cherkasova 1998): every
    hit adds what it saved to the priority of the last entry that had to go, so old fame fades.
    """

    def __init__(self, max_entries: int, max_bytes: int, clock: Clock = Clock()) -> None:
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._shelves: dict[str, Shelf] = {}
        self._order: list[tuple[float, str]] = []
        self._level = 0.0
        self.bytes = 0
        self.evicted = 0
        self.changes = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, id_: str) -> Entry | None:
        """The entry of an id, while it may be served; without its vector."""
        held = self._held.get(id_)
        if held is None:
            return None
        if not self._is_alive(held):
            self.drop(id_)
            return None
        return held.entry

    def nearest(self, scope: str, vector: np.ndarray, count: int) -> list[tuple[float, Entry]]:
        """The entries of a scope that are most similar to a vector and may be served, best first."""
        shelf = self._shelves.get(scope)
        if shelf is None or vector.shape != (shelf.dim,):
            return []
        found = [(likeness, self.get(id_)) for likeness, id_ in shelf.nearest(vector, count)]
        return [(likeness, entry) for likeness, entry in found if entry is not None]

    def used(self, id_: str) -> None:
        """Note a hit."""
        held = self._held.get(id_)
        if held is not None:
            held.hits += 1
            held.priority = self._priority(held)

    def put(self, entry: Entry, seconds: float = math.inf) -> bool:
        """Keep an entry, for at most ``seconds``, in place of one with its id; whether there was room."""
        self.drop(entry.id)
        wall = self._clock.wall()
        left = min(seconds, entry.left(wall))
        if left <= 0 or not entry.is_believed(wall):
            return False
        held = _Held(entry, self._clock.mono() + left)
        if held.size > self._max_bytes:
            return False
        held.priority = self._priority(held)
        self._held[entry.id] = held
        self.changes += 1
        self.bytes += held.size
        if entry.vector is not None:
            shelf = self._shelves.setdefault(entry.scope, Shelf(len(entry.vector)))
            if shelf.dim == len(entry.vector):  # else it is of another space
                shelf.put(entry.id, entry.vector)
                held.has_vector = True
        heapq.heappush(self._order, (held.priority, entry.id))
        self._make_room()
        return entry.id in self._held

    def drop(self, id_: str) -> bool:
        """Forget an entry; whether there was one."""
        held = self._held.pop(id_, None)
        if held is None:
            return False
        self.changes += 1
        self.bytes -= held.size
        shelf = self._shelves.get(held.entry.scope)
        if shelf is not None:
            shelf.remove(id_)
            if not len(shelf):
                del self._shelves[held.entry.scope]
        return True

    def select(self, selector: Selector) -> list[str]:
        """The ids of the entries that a selector means."""
        return [id_ for id_, held in self._held.items() if selector.matches(held.entry)]

    def sweep(self) -> None:
        """Forget what may not be served any more."""
        for id_ in [id_ for id_, held in self._held.items() if not self._is_alive(held)]:
            self.drop(id_)

    def entries(self) -> Iterator[Entry]:
        """Every entry that may be served, with its vector."""
        for id_, held in list(self._held.items()):
            if self._is_alive(held):
                vector = self._shelves[held.entry.scope].vector(id_) if held.has_vector else None
                yield replace(held.entry, vector=vector)

    def by_topic(self) -> dict[str, dict[str, int]]:
        """Entries and hits of each topic."""
        counts: dict[str, dict[str, int]] = {}
        for held in self._held.values():
            count = counts.setdefault(held.entry.topic, {"entries": 0, "hits": 0})
            count["entries"] += 1
            count["hits"] += held.hits
        return counts

    def _is_alive(self, held: _Held) -> bool:
        """On both clocks: one may be put back, the other stands still while the machine sleeps."""
        return self._clock.mono() < held.until and held.entry.left(self._clock.wall()) > 0

    def _priority(self, held: _Held) -> float:
        return self._level + (held.hits + 1) * max(1.0, held.entry.fill_ms)

    def _make_room(self) -> None:
        """Let the least go, be it what came just now."""
        while len(self._held) > self._max_entries or self.bytes > self._max_bytes:
            priority, id_ = heapq.heappop(self._order)
            held = self._held.get(id_)
            if held is None:
                continue
            if held.priority > priority:  # it was used since
                heapq.heappush(self._order, (held.priority, id_))
                continue
            self._level = priority
            self.drop(id_)
            self.evicted += 1
        if len(self._order) > 2 * len(self._held) + 64:  # places of what went by another way
            self._order = [(held.priority, id_) for id_, held in self._held.items()]
            heapq.heapify(self._order)
