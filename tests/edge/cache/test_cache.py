"""The tiers together: what serves a question, and what must not."""

import asyncio
import math
from typing import Any

import numpy as np
import pytest
from entries import DIM, NOON, SetClock, entry_of, question_of, vector_of

from edge.cache.cache import Cache
from edge.cache.flights import Flights, Landed
from edge.cache.selector import Selector
from edge.cache.settings import CacheSettings
from edge.normaliser import Lang


class Words:
    """A judge of pairs: the word "not", and every number, must be in both questions."""

    min_similarity = 0.8

    def __init__(self) -> None:
        self.judged: list[tuple[str, str, Lang]] = []

    def apart(self, similarity: float, a: str, b: str, lang: Lang) -> str | None:
        self.judged.append((a, b, lang))
        if ("not" in a.split()) != ("not" in b.split()):
            return "polarity"
        return "number" if [c for c in a if c.isdigit()] != [c for c in b if c.isdigit()] else None


def cache_of(
    mode: str = "semantic", pairs: Any = None, clock: SetClock | None = None, **fields: Any
) -> Cache:
    return Cache(CacheSettings(mode=mode, **fields), (clock or SetClock()).clock, pairs or Words())


def store(cache: Cache, *entries: Any) -> None:
    for entry in entries:
        assert cache.store(entry, cache.mark())


NEAR = {"vector": vector_of(1.0, 0.2)}


def test_the_same_words_need_no_judge() -> None:
    cache = cache_of()
    store(cache, entry_of())
    hit = cache.find(question_of(vector=None), None)
    assert hit is not None
    assert (hit.tier, hit.similarity, hit.entry.text) == ("exact", 1.0, "the answer to which phone")
    assert cache.pairs.judged == []  # type: ignore[union-attr]


def test_a_similar_question_is_served_if_the_judge_says_so() -> None:
    cache = cache_of()
    store(cache, entry_of())
    hit = cache.find(question_of("what phone", **NEAR), None)
    assert hit is not None
    assert (hit.tier, hit.entry.question) == ("semantic", "which phone")
    assert 0.97 < hit.similarity < 1
    assert cache.counts["hits_semantic"] == 1


@pytest.mark.parametrize("asked", ["which phone not", "which phone 2"])
def test_what_differs_is_not_served_however_similar(asked: str) -> None:
    cache = cache_of()
    store(cache, entry_of())
    assert cache.find(question_of(asked), None) is None
    assert sum(count for name, count in cache.counts.items() if name.startswith("apart_")) == 1


def test_the_next_similar_question_serves_where_the_first_differs() -> None:
    cache = cache_of()
    store(cache, entry_of("which phone 2"), entry_of("which phone 1", vector=vector_of(1.0, 0.3)))
    hit = cache.find(question_of("what phone 1"), None)
    assert hit is not None
    assert hit.entry.question == "which phone 1"


@pytest.mark.parametrize(
    ("similarity", "served"), [(0.0, False), (0.7999, False), (0.8001, True), (0.999, True)]
)
def test_the_threshold_is_a_cosine(similarity: float, served: bool) -> None:
    cache = cache_of()
    store(cache, entry_of())
    vector = vector_of(similarity, math.sqrt(1 - similarity**2))
    assert (cache.find(question_of("what phone", vector=vector), None) is not None) is served


def test_a_threshold_of_0_is_one() -> None:
    pairs = Words()
    pairs.min_similarity = 0.0
    cache = cache_of(pairs=pairs)
    store(cache, entry_of())
    assert cache.find(question_of("what phone", vector=vector_of(0.0, 1.0)), None) is not None


def test_a_threshold_that_is_no_number_serves_nothing() -> None:
    pairs = Words()
    pairs.min_similarity = math.nan
    cache = cache_of(pairs=pairs)
    store(cache, entry_of())
    assert cache.find(question_of("what phone"), None) is None


@pytest.mark.parametrize("vector", [None, np.full(DIM, np.nan, np.float32), np.zeros(DIM, np.float32)])
def test_a_question_without_an_embedding_is_known_by_its_words_alone(vector: Any) -> None:
    cache = cache_of()
    store(cache, entry_of(), entry_of("without one", vector=None))
    assert cache.find(question_of("what phone", vector=vector), None) is None
    assert cache.find(question_of("without one", vector=vector), None) is not None


@pytest.mark.parametrize("changed", [{"scope": "another tenant"}, {"vector": vector_of(-1.0)}])
def test_another_scope_and_the_opposite_are_never_served(changed: dict[str, Any]) -> None:
    cache = cache_of()
    store(cache, entry_of())
    assert cache.find(question_of("what phone", **changed), None) is None


def test_a_new_bundles_dimension_finds_and_breaks_nothing() -> None:
    cache = cache_of()
    store(cache, entry_of())
    other = np.array([0.6, 0.8], np.float32)
    assert cache.find(question_of("what phone", vector=other), None) is None
    store(cache, entry_of("in two dimensions", vector=other))
    assert cache.find(question_of("what phone", **NEAR), None) is not None


@pytest.mark.parametrize(("mode", "pairs"), [("exact", Words()), ("semantic", None)])
def test_without_a_judge_or_the_mode_only_the_same_words_are_the_same(mode: str, pairs: Any) -> None:
    cache = Cache(CacheSettings(mode=mode), SetClock().clock, pairs)
    store(cache, entry_of())
    assert cache.find(question_of("what phone"), None) is None
    assert cache.find(question_of(), None) is not None


@pytest.mark.parametrize(
    ("age", "max_age", "served"), [(9, 10, True), (10, 10, True), (11, 10, False), (0, 0, True)]
)
def test_an_answer_may_be_too_old_for_who_asks(age: float, max_age: float, served: bool) -> None:
    clock = SetClock()
    cache = cache_of(clock=clock)
    store(cache, entry_of())
    clock.pass_(age)
    assert (cache.find(question_of(), max_age) is not None) is served
    assert (cache.find(question_of("what phone", **NEAR), max_age) is not None) is served


def test_hits_count_for_the_entry_that_served() -> None:
    cache = cache_of(max_entries=2)
    store(cache, entry_of("a phone"), entry_of("a laptop", vector=vector_of(0.0, 1.0)))
    for _ in range(5):
        cache.find(question_of("the phone", **NEAR), None)
    store(cache, entry_of("a watch", vector=vector_of(0.0, 0.0, 1.0), fill_ms=1500.0))
    assert {entry.question for entry in cache.memory.entries()} == {"a phone", "a watch"}


def test_nothing_that_was_on_its_way_survives_a_purge() -> None:
    cache = cache_of()
    before = cache.mark()
    asyncio.run(cache.purge(Selector("topic", "another one")))
    assert not cache.store(entry_of(), before)
    assert cache.find(question_of(), None) is None
    assert cache.store(entry_of(), cache.mark())


def test_a_dry_purge_changes_nothing() -> None:
    cache = cache_of()
    store(cache, entry_of())
    before = cache.mark()
    assert asyncio.run(cache.purge(Selector("all"), dry_run=True)) == {"entries": 1}
    assert cache.mark() == before
    assert cache.find(question_of(), None) is not None


def test_the_expected_time_follows_what_was_observed() -> None:
    cache = cache_of()
    assert cache.expected_ms("agent.recommend") is None
    for i, ms in enumerate([1000.0, 2000.0, 2000.0, 2000.0]):
        store(cache, entry_of(str(i), fill_ms=ms))
    expected = cache.expected_ms("agent.recommend")
    assert expected is not None
    assert 1400 < expected < 2000
    assert cache.expected_ms("another") is None


def test_expiry_of_the_future_and_of_the_past_is_not_kept_and_not_told_as_such() -> None:
    cache = cache_of()
    cache.store(entry_of(expires=NOON - 1), cache.mark())
    assert cache.find(question_of(), None) is None
    assert cache.counts["no_room"] == 1


# --- single flight -----------------------------------------------------------------------------


def test_those_who_wait_get_what_landed() -> None:
    async def scenario() -> list[Any]:
        flights = Flights()
        flight = flights.start("a")
        waiting = [asyncio.create_task(flight.wait(5.0)) for _ in range(3)]
        await asyncio.sleep(0)
        assert flights.get("a") is flight
        entry = entry_of()
        flights.land(flight, entry)
        flights.land(flight, Landed.NOTHING)  # what landed has landed
        assert flights.get("a") is None
        return [await task for task in waiting]

    assert asyncio.run(scenario()) == [entry_of()] * 3


def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    async def scenario() -> Any:
        flights = Flights()
        flight = flights.start("a")
        leaving, staying = (asyncio.create_task(flight.wait(5.0)) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        flights.land(flight, Landed.LEFT)
        return await staying

    assert asyncio.run(scenario()) is Landed.LEFT


def test_waiting_has_an_end() -> None:
    async def scenario() -> Any:
        flights = Flights()
        flight = flights.start("a")
        found = [await flight.wait(0.01), await flight.wait(0.0)]
        flights.land(flight, Landed.LEFT)
        return [*found, await flight.wait(0.0)]

    assert asyncio.run(scenario()) == [Landed.NOTHING, Landed.NOTHING, Landed.LEFT]


def test_an_old_flight_does_not_land_for_a_new_one() -> None:
    async def scenario() -> bool:
        flights = Flights()
        old = flights.start("a")
        flights.land(old, Landed.LEFT)
        new = flights.start("a")
        flights.land(old, Landed.NOTHING)
        return flights.get("a") is new

    assert asyncio.run(scenario())
