"""The shared tier on a real Redis Stack: vectors, purges that everybody hears, and every way to lose it."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entries import DIM, entry_of, question_of, vector_of
from redis_stack import RedisStack

from edge.breaker import Breaker
from edge.cache.cache import Cache
from edge.cache.clock import Clock
from edge.cache.redis_store import RedisStore
from edge.cache.selector import Selector
from edge.cache.settings import CacheSettings
from edge.errors import PurgeIncomplete

ENTRY = b"frontdesk:cache:1:e:"


class Same:
    """A judge to whom only the word "not" makes a difference."""

    min_similarity = 0.8

    def apart(self, similarity: float, a: str, b: str, lang: object) -> str | None:
        return "polarity" if ("not" in a.split()) != ("not" in b.split()) else None


def entry(question: str = "which phone", **fields: Any) -> Any:
    return entry_of(question, **{"stored": time.time(), **fields})


@asynccontextmanager
async def node(
    redis: RedisStack, pairs: Any = None, clock: Clock = Clock(), **settings: Any
) -> AsyncIterator[Cache]:
    """A server's cache that is connected."""
    chosen = CacheSettings(
        **{"mode": "semantic", "redis_url": redis.url, "redis_timeout_ms": 1000, **settings}
    )
    cache = Cache(chosen, clock, pairs or Same())

    async def label() -> str:
        return "demo@1"

    async with cache.running(label):
        await until(lambda: cache.shared.state()["connected"])  # type: ignore[union-attr]
        yield cache


async def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.005)


async def give(cache: Cache, *entries: Any) -> None:
    """Store entries as a turn does."""
    for one in entries:
        mark = cache.mark()
        assert cache.store(one, mark)
        await cache.share(one, mark)


async def ask(cache: Cache, question: Any, max_age: float | None = None, seconds: float = 5.0) -> Any:
    return cache.find(question, max_age) or await cache.find_shared(question, max_age, seconds)


def run(scenario: Callable[..., Awaitable[None]], redis: RedisStack, nodes: int = 2, **settings: Any) -> None:
    """Run a scenario with so many servers on one Redis."""

    async def running() -> None:
        async with AsyncExitStack() as stack:
            await scenario(*[await stack.enter_async_context(node(redis, **settings)) for _ in range(nodes)])

    asyncio.run(running())


# --- what is shared ----------------------------------------------------------------------------


def test_what_one_server_stored_serves_at_another_and_is_kept_there(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        stored = entry()
        await give(a, stored)
        hit = await ask(b, question_of())
        assert (hit.entry, hit.tier, hit.similarity, hit.shared) == (stored, "exact", 1.0, True)
        near = await ask(b, question_of("what phone", vector=vector_of(1.0, 0.2)))
        assert (near.entry, near.tier, near.shared) == (stored, "semantic", False)  # from b's own memory now
        assert b.counts["hits_exact"] == 1

    run(scenario, redis_stack)


def test_a_similar_question_is_found_in_its_scope_alone(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry("mine"), entry("theirs", scope="t" * 32, text="of another tenant"))
        hit = await ask(b, question_of("what phone", vector=vector_of(1.0, 0.2)))
        assert (hit.entry.question, hit.tier, hit.shared) == ("mine", "semantic", True)
        assert await ask(b, question_of("what phone", scope="u" * 32)) is None
        for scope in ("t*", "*", "s}|@scope:{tttttttttttttttttttttttttttttttt", "s | t"):
            assert await ask(b, question_of("what phone", scope=scope)) is None

    run(scenario, redis_stack)


def test_the_judge_and_the_threshold_are_those_of_the_local_tier(redis_stack: RedisStack) -> None:
    rng = np.random.default_rng(1)
    vectors = [vector_of(1.0, *rng.normal(scale=0.25, size=DIM - 1)) for _ in range(60)]

    async def scenario(a: Cache, b: Cache) -> None:
        for i, vector in enumerate(vectors[:20]):
            await give(a, entry(f"phone {'not ' if i % 3 == 0 else ''}{i}", vector=vector))
        served = 0
        for i, vector in enumerate(vectors[20:]):
            question = question_of(f"asked {i}", vector=vector)
            local, shared = a.find(question, None), await b.find_shared(question, None, 5.0)
            assert (local is None) == (shared is None)
            if local is not None and shared is not None:
                assert shared.entry == local.entry
                assert shared.similarity == pytest.approx(local.similarity, abs=1e-5)
                served += 1
        assert 0 < served < 40

    run(scenario, redis_stack)


@pytest.mark.parametrize("mode", ["exact", "semantic"])
def test_words_alone_are_found_without_a_vector(redis_stack: RedisStack, mode: str) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry(vector=None))
        hit = await ask(b, question_of(vector=None))
        assert hit.tier == "exact"
        assert await ask(b, question_of("what phone", vector=None)) is None

    run(scenario, redis_stack, mode=mode)


def test_a_new_bundles_dimension_lives_beside_the_old_one(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        new = np.array([0.6, 0.8], np.float32)
        await give(a, entry("old"), entry("new", vector=new))
        assert (await ask(b, question_of("asked", vector=new))).entry.question == "new"
        assert (await ask(b, question_of("asked", vector=vector_of(1.0)))).entry.question == "old"

    run(scenario, redis_stack)


@pytest.mark.parametrize("vector", [np.full(DIM, np.nan, np.float32), np.zeros(DIM, np.float32)])
def test_a_vector_that_is_none_finds_nothing(redis_stack: RedisStack, vector: np.ndarray) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry())
        assert await ask(b, question_of("what phone", vector=vector)) is None

    run(scenario, redis_stack)


def test_answers_end_everywhere_with_the_writers_clock(redis_stack: RedisStack) -> None:
    async def scenario() -> None:
        behind = Clock(lambda: time.time() - 3600, time.monotonic)
        async with node(redis_stack) as a, node(redis_stack, clock=behind) as b:
            now = time.time()
            await give(a, entry(stored=now - 59.5, expires=now + 0.5))
            mark = b.mark()
            # An entry of an hour ahead is not believed by a clock that lies so far behind.
            assert await ask(b, question_of()) is None
            await a.share(entry(stored=now - 3600, expires=now - 3540.0 + 3600), mark)
            await asyncio.sleep(0.6)
            assert a.find(question_of(), None) is None

    asyncio.run(scenario())


def test_what_redis_lets_end_ends_where_it_was_taken_over(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        now = time.time()
        await give(a, entry(stored=now - 59.2, expires=now + 0.8))
        assert (await ask(b, question_of())).shared
        assert b.find(question_of(), None) is not None
        await asyncio.sleep(0.9)
        assert await ask(b, question_of()) is None
        assert len(b.memory) == 0

    run(scenario, redis_stack)


def test_max_age_holds_for_what_is_shared(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry(stored=time.time() - 30))
        assert await ask(b, question_of(), max_age=20) is None
        assert await ask(b, question_of("what phone", vector=vector_of(1.0, 0.1)), max_age=20) is None
        assert (await ask(b, question_of(), max_age=40)).shared

    run(scenario, redis_stack)


JUNK: dict[str, Callable[[Any], dict[bytes, bytes]]] = {
    "no JSON": lambda e: {b"entry": b"{half"},
    "no entry": lambda e: {b"entry": b"{}"},
    "nothing": lambda e: {},
    "another question's entry": lambda e: {
        b"entry": json.dumps(entry("another").without_vector().record()).encode(),
        b"vector": vector_of(1.0).tobytes(),
    },
    "another scope's entry": lambda e: {
        b"entry": json.dumps(entry("another", scope="t").without_vector().record()).encode(),
        b"vector": vector_of(1.0).tobytes(),
    },
    "NaN": lambda e: {
        b"entry": json.dumps(e.without_vector().record()).encode(),
        b"vector": np.full(DIM, np.nan, "<f4").tobytes(),
    },
    "half a vector": lambda e: {
        b"entry": json.dumps(e.without_vector().record()).encode(),
        b"vector": vector_of(1.0).tobytes()[:-2],
    },
}


@pytest.mark.parametrize("make", JUNK.values(), ids=JUNK.keys())
def test_junk_in_redis_serves_nobody_and_breaks_nothing(
    redis_stack: RedisStack, make: Callable[[Any], dict[bytes, bytes]]
) -> None:
    async def scenario(b: Cache) -> None:
        wanted = entry("what phone")
        key = ENTRY + wanted.id.encode()
        fields = [part for pair in make(wanted).items() for part in pair]
        redis_stack.command(b"HSET", key, b"scope", b"s", *fields)
        redis_stack.command(b"PEXPIRE", key, b"100000")
        hit = await ask(b, question_of("what phone", vector=vector_of(1.0, 0.1)))
        assert hit is None or hit.entry.question in ("what phone", "another")
        assert hit is None or hit.entry.scope == "s"
        good = entry("a good one", vector=vector_of(0.0, 1.0))
        await give(b, good)
        found = await b.find_shared(question_of("like it", vector=vector_of(0.0, 1.0)), None, 5.0)
        assert found is not None
        assert found.entry == good

    run(scenario, redis_stack, nodes=1)


# --- purges ------------------------------------------------------------------------------------

ODD = "a, b}|{@scope:* \\ 标签 \"'"


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        (Selector("all"), set()),
        (Selector("topic", "a.b-c"), {"2"}),
        (Selector("topic", "a"), {"1", "2", "3"}),
        (Selector("tag", ODD), {"3"}),
        (Selector("tag", "*"), {"1", "2", "3"}),
        (Selector("data_version", ""), {"3"}),
        (Selector("data_version", "v-2"), {"1", "2"}),
        (Selector("id", entry_of("2").id), {"1", "3"}),
    ],
)
def test_a_purge_is_a_purge_on_every_server(
    redis_stack: RedisStack, selector: Selector, left: set[str]
) -> None:
    entries = [
        entry("1", topic="a.b-c", tags=(ODD, "x")),
        entry("2", topic="a_b", tags=(ODD,)),
        entry("3", topic="a.b-c", tags=(), data_version="v-2", vector=None),
    ]

    async def scenario(a: Cache, b: Cache, c: Cache) -> None:
        await give(a, *entries)
        for question in "123":
            assert await ask(b, question_of(question, vector=None)) is not None
        gone = 3 - len(left)
        assert await c.purge(selector, dry_run=True) == {"entries": 0, "shared": gone}
        assert len(b.memory) == 3
        assert await c.purge(selector) == {"entries": 0, "shared": gone}
        await until(lambda: all(cache.counts["purges_heard"] == 2 for cache in (a, b, c)))
        for cache in (a, b, c):
            found = [await ask(cache, question_of(q, vector=None)) for q in "123"]
            assert {hit.entry.question for hit in found if hit is not None} == left

    run(scenario, redis_stack, nodes=3)


def test_a_purge_takes_more_than_a_page(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache) -> None:
        await asyncio.gather(*(a.share(entry(str(i), vector=None), a.mark()) for i in range(20)))
        for i in range(20, 1300):
            await a.share(entry(str(i), vector=None), a.mark())
        assert (await a.purge(Selector("topic", "agent.recommend")))["shared"] == 1300
        assert (await a.purge(Selector("all"), dry_run=True))["shared"] == 0

    run(scenario, redis_stack, nodes=1)


def test_what_was_asked_for_before_a_purge_elsewhere_is_kept_nowhere(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        mark = b.mark()
        await a.purge(Selector("topic", "whatever"))
        late = entry()
        # b may not have heard yet: Redis itself refuses.
        await b.share(late, mark)
        assert b.counts["not_shared"] == 1
        assert await a.find_shared(question_of(), None, 5.0) is None
        await until(lambda: b.counts["purges_heard"] >= 2)
        assert not b.store(late, mark)
        await give(b, late)
        assert (await ask(a, question_of())).shared

    run(scenario, redis_stack)


def test_what_is_on_its_way_from_redis_while_it_is_purged_is_not_served(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry())
        asking = asyncio.create_task(b.find_shared(question_of(), None, 5.0))
        await asyncio.sleep(0)
        b._hear(Selector("all"))
        assert await asking is None
        assert len(b.memory) == 0

    run(scenario, redis_stack)


def test_what_somebody_said_is_wrong_goes_everywhere(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry(), entry("another"))
        await ask(b, question_of())
        assert await b.evict(entry().id)
        await until(lambda: len(a.memory) == 1)
        assert await ask(a, question_of(vector=None)) is None
        assert (await ask(a, question_of("another"))) is not None

    run(scenario, redis_stack)


def test_a_snapshot_of_before_a_purge_is_not_taken_in(redis_stack: RedisStack, tmp_path: Path) -> None:
    path = str(tmp_path / "cache.jsonl")

    async def scenario() -> None:
        async with node(redis_stack, snapshot=path) as a:
            await give(a, entry())
        async with node(redis_stack, snapshot=path) as a:
            await until(lambda: len(a.memory) == 1)
        async with node(redis_stack) as other:
            await other.purge(Selector("all"))
        async with node(redis_stack, snapshot=path) as a:
            await asyncio.sleep(0.3)
            assert len(a.memory) == 0

    asyncio.run(scenario())


# --- losing it ---------------------------------------------------------------------------------


def test_a_dead_redis_costs_a_turn_nothing_and_its_return_costs_nobody(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry(), entry("another"))
        redis_stack.kill()
        start = time.perf_counter()
        for i in range(50):
            assert await ask(b, question_of(f"asked {i}")) is None
        assert time.perf_counter() - start < 2
        assert b.shared is not None
        assert b.shared.breaker.state == "open"
        assert a.find(question_of(), None) is not None  # what is here still serves
        await give(a, entry("stored meanwhile"))
        assert a.find(question_of("stored meanwhile"), None) is not None
        redis_stack.start()
        await until(lambda: a.shared.state()["connected"] and b.shared.state()["connected"])  # type: ignore[union-attr]
        # It came back empty: nobody has purged anything, so what servers hold is still good.
        assert {e.question for e in a.memory.entries()} == {"which phone", "another", "stored meanwhile"}
        assert a.counts["purges_missed"] == b.counts["purges_missed"] == 0
        await asyncio.sleep(1.0)  # the breaker's pause
        await give(a, entry("new"))
        await until(lambda: b.shared.breaker.state == "half_open" or b.shared.breaker.state == "closed")  # type: ignore[union-attr]
        assert (await ask(b, question_of("new", vector=None))).shared

    run(scenario, redis_stack)


def test_a_purge_that_nobody_can_hear_is_told_and_made_again(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry())
        await ask(b, question_of())
        redis_stack.kill()
        await until(lambda: not a.shared.state()["connected"])  # type: ignore[union-attr]
        with pytest.raises(PurgeIncomplete, match="Purge again"):
            await a.purge(Selector("all"))
        assert len(a.memory) == 0
        redis_stack.start()
        await until(lambda: a.shared.state()["connected"] and b.shared.state()["connected"])  # type: ignore[union-attr]
        assert len(b.memory) == 1
        await a.purge(Selector("all"))
        await until(lambda: len(b.memory) == 0)

    run(scenario, redis_stack)


def test_who_missed_a_purge_forgets_everything_on_return(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache, b: Cache) -> None:
        await give(a, entry(), entry("another"))
        await ask(b, question_of(vector=None))
        await ask(b, question_of("another", vector=None))
        # b's line breaks, and a purges before b is back.
        assert b.shared is not None
        store = b.shared._store
        listen = store.listen

        async def silent() -> AsyncIterator[Any]:
            raise ConnectionError("cut")
            yield

        store.listen = silent  # type: ignore[method-assign]
        redis_stack.command(b"CLIENT", b"KILL", b"TYPE", b"pubsub")
        await until(lambda: not b.shared.state()["connected"])  # type: ignore[union-attr]
        await until(lambda: a.shared.state()["connected"])  # type: ignore[union-attr]
        await a.purge(Selector("id", entry().id))
        assert len(b.memory) == 2
        store.listen = listen  # type: ignore[method-assign]
        await until(lambda: b.shared.state()["connected"])  # type: ignore[union-attr]
        assert len(b.memory) == 0
        assert b.counts["purges_missed"] == 1
        assert (await ask(b, question_of("another", vector=None))).shared

    run(scenario, redis_stack)


def test_who_does_not_hear_for_long_serves_nothing_of_its_own(
    redis_stack: RedisStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(a: Cache) -> None:
        await give(a, entry())
        redis_stack.kill()
        await until(lambda: not a.shared.state()["connected"])  # type: ignore[union-attr]
        assert a.find(question_of(), None) is not None
        monkeypatch.setattr("edge.cache.shared.DEAF_SECONDS", 0.2)
        await asyncio.sleep(0.25)
        assert a.find(question_of(), None) is None
        redis_stack.start()
        await until(lambda: a.shared.state()["connected"])  # type: ignore[union-attr]
        assert a.find(question_of(), None) is not None

    run(scenario, redis_stack, nodes=1)


def test_a_redis_that_hangs_is_waited_for_no_longer_than_allowed(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache) -> None:
        await give(a, entry())
        redis_stack.hang()
        try:
            for allowed in (0.02, 0.02, 0.02):
                start = time.perf_counter()
                assert await a.find_shared(question_of("asked"), None, allowed) is None
                assert time.perf_counter() - start < allowed + 0.1
            assert a.shared is not None
            assert a.shared.breaker.state == "open"
            start = time.perf_counter()
            assert await a.find_shared(question_of("asked"), None, 5.0) is None
            assert time.perf_counter() - start < 0.05
        finally:
            redis_stack.hang(False)

    run(scenario, redis_stack, nodes=1)


def test_answers_that_come_too_late_are_not_given_to_the_next_who_asks(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache) -> None:
        a.shared.breaker = Breaker(clock=lambda: math.inf)  # type: ignore[union-attr]
        for i in range(40):
            await a.share(entry(f"q{i}", vector=None), a.mark())

        async def one(i: int) -> None:
            hit = await a.find_shared(question_of(f"q{i}", vector=None), None, 0.001 * (i % 7))
            assert hit is None or hit.entry.question == f"q{i}"

        for _ in range(10):
            await asyncio.gather(*(one(i) for i in range(40)))

    run(scenario, redis_stack, nodes=1)


def test_a_turn_that_is_cut_off_leaves_no_answer_behind(redis_stack: RedisStack) -> None:
    async def scenario(a: Cache) -> None:
        for i in range(20):
            await a.share(entry(f"q{i}", vector=None), a.mark())
        for i in range(200):
            task = asyncio.create_task(a.find_shared(question_of(f"q{i % 20}", vector=None), None, 5.0))
            await asyncio.sleep(0.0002 * (i % 5))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            hit = await a.find_shared(question_of(f"q{(i + 1) % 20}", vector=None), None, 5.0)
            assert hit is None or hit.entry.question == f"q{(i + 1) % 20}"
            a.shared.breaker.succeeded()  # type: ignore[union-attr]

    run(scenario, redis_stack, nodes=1)


def test_a_redis_that_is_not_there_from_the_start_is_told_once_and_tried_again(
    redis_stack: RedisStack, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        redis_stack.kill()
        settings = CacheSettings(mode="semantic", redis_url=redis_stack.url, redis_timeout_ms=200)
        cache = Cache(settings, pairs=Same())

        async def label() -> str:
            return "demo@1"

        async with cache.running(label):
            await asyncio.sleep(0.8)
            await give(cache, entry())
            assert cache.find(question_of(), None) is not None
            redis_stack.start()
            await until(lambda: cache.shared.state()["connected"])  # type: ignore[union-attr]
            assert cache.find(question_of(), None) is not None

    asyncio.run(scenario())
    assert caplog.text.count("cannot be reached") == 1
    assert "answer" not in caplog.text


def test_the_store_speaks_through_a_password(redis_stack: RedisStack) -> None:
    async def scenario() -> None:
        store = RedisStore(f"redis://:wrong@127.0.0.1:{redis_stack.port}/0", 1.0)
        with pytest.raises(Exception, match=r"AUTH|WRONGPASS|password"):
            await store.sync("0")
        await store.close()

    asyncio.run(scenario())
