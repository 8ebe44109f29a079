"""The local tier: bounds, eviction, both clocks, and embeddings that are none."""

import numpy as np
import pytest
from entries import DIM, NOON, SetClock, entry_of, vector_of

from edge.cache.memory import Memory
from edge.cache.selector import Selector


def memory_of(clock: SetClock | None = None, entries: int = 100, size: int = 10_000_000) -> Memory:
    return Memory(entries, size, (clock or SetClock()).clock)


def test_an_entry_is_found_by_its_words_and_by_its_vector() -> None:
    memory = memory_of()
    kept, other = entry_of("which phone"), entry_of("which laptop", vector=vector_of(0.0, 1.0))
    assert memory.put(kept)
    assert memory.put(other)
    assert memory.get(kept.id) == kept
    near = memory.nearest("s", vector_of(1.0, 0.2), 4)
    assert [entry.question for _, entry in near] == ["which phone", "which laptop"]
    assert near[0][0] == pytest.approx(0.98, abs=0.01)
    assert memory.get("0" * 32) is None
    assert memory.nearest("another scope", vector_of(1.0), 4) == []


def test_similarity_lies_between_0_and_1() -> None:
    memory = memory_of()
    memory.put(entry_of("the opposite", vector=vector_of(-1.0)))
    memory.put(entry_of("the same", vector=vector_of(1.0)))
    assert [likeness for likeness, _ in memory.nearest("s", vector_of(1.0), 4)] == [1.0, 0.0]


def test_putting_an_entry_again_replaces_it() -> None:
    memory = memory_of()
    memory.put(entry_of(text="old"))
    memory.put(entry_of(text="new", vector=vector_of(0.0, 1.0)))
    assert len(memory) == 1
    assert [(round(s, 3), e.text) for s, e in memory.nearest("s", vector_of(0.0, 1.0), 4)] == [(1.0, "new")]
    assert memory.bytes == entry_of(text="new").size


@pytest.mark.parametrize("vector", [np.full(DIM, np.nan), np.zeros(DIM), np.ones(3) / 3**0.5])
def test_a_vector_that_is_none_finds_nothing_that_may_be_served(vector: np.ndarray) -> None:
    memory = memory_of()
    memory.put(entry_of())
    found = memory.nearest("s", vector.astype(np.float32), 4)
    assert not any(similarity >= 0.5 for similarity, _ in found)


def test_a_vector_of_another_dimension_neither_breaks_nor_replaces_what_is_there() -> None:
    memory = memory_of()
    old = entry_of("old", vector=vector_of(1.0))
    new = entry_of("new", vector=np.array([1.0, 0.0], np.float32))
    memory.put(old)
    memory.put(new)
    assert memory.nearest("s", np.array([1.0, 0.0], np.float32), 4) == []
    assert [entry.question for _, entry in memory.nearest("s", vector_of(1.0), 4)] == ["old"]
    assert memory.get(new.id) is not None  # by its words
    assert {entry.question: entry.vector is None for entry in memory.entries()} == {"old": False, "new": True}
    assert memory.drop(new.id)
    assert memory.drop(old.id)
    assert memory.bytes == 0


def test_entries_end_when_they_were_to_end() -> None:
    clock = SetClock()
    memory = memory_of(clock)
    entry = entry_of(expires=NOON + 60)
    memory.put(entry)
    for _ in range(6):
        clock.pass_(9.99)
        assert memory.get(entry.id) is not None
        memory.used(entry.id)  # no hit moves the end
    clock.pass_(0.1)
    assert memory.get(entry.id) is None
    assert len(memory) == 0


@pytest.mark.parametrize("jump", [-1e9, -3600.0, -1.0, 3600.0])
def test_a_wall_clock_that_jumps_prolongs_nothing(jump: float) -> None:
    clock = SetClock()
    memory = memory_of(clock)
    entry = entry_of(expires=NOON + 60)
    memory.put(entry)
    clock.wall += jump
    clock.pass_(60.0)
    assert memory.get(entry.id) is None
    assert memory.nearest("s", vector_of(1.0), 4) == []


def test_a_machine_that_slept_serves_nothing_that_has_ended() -> None:
    clock = SetClock()
    memory = memory_of(clock)
    entry = entry_of(expires=NOON + 60)
    memory.put(entry)
    clock.wall += 61.0  # the other clock stood still
    assert memory.get(entry.id) is None


def test_an_entry_of_the_future_is_not_believed() -> None:
    memory = memory_of()
    assert not memory.put(entry_of(stored=NOON + 3600, expires=NOON + 3660))
    assert memory.put(entry_of(stored=NOON + 1, expires=NOON + 61))  # clocks differ by seconds
    assert not memory.put(entry_of("dead", stored=NOON - 120, expires=NOON - 60))
    assert len(memory) == 1


def test_others_may_shorten_a_life_and_not_prolong_it() -> None:
    clock = SetClock()
    memory = memory_of(clock)
    short, long = entry_of("short", expires=NOON + 60), entry_of("long", expires=NOON + 60)
    memory.put(short, 5.0)
    memory.put(long, 500.0)
    clock.pass_(6.0)
    assert memory.get(short.id) is None
    assert memory.get(long.id) is not None
    clock.pass_(60.0)
    assert memory.get(long.id) is None


def test_sweeping_gives_memory_back() -> None:
    clock = SetClock()
    memory = memory_of(clock)
    for i in range(50):
        memory.put(entry_of(f"question {i}", expires=NOON + (30 if i % 2 else 90)))
    clock.pass_(60.0)
    memory.sweep()
    assert len(memory) == 25
    assert memory.bytes == sum(entry.size for entry in memory.entries())


def test_no_more_entries_than_may_be() -> None:
    memory = memory_of(entries=10)
    for i in range(100):
        memory.put(entry_of(f"question {i}"))
        assert len(memory) <= 10
    assert memory.evicted == 90


def test_no_more_bytes_than_may_be() -> None:
    limit = 50_000
    memory = memory_of(size=limit)
    for i in range(200):
        memory.put(entry_of(f"question {i}", text="x" * (i * 37 % 4000)))
        assert memory.bytes <= limit
        assert memory.bytes == sum(entry.size for entry in memory.entries())
    assert len(memory) > 5


def test_what_is_larger_than_all_is_not_kept_and_lets_nothing_go() -> None:
    memory = memory_of(size=20_000)
    memory.put(entry_of("small"))
    assert not memory.put(entry_of("large", text="x" * 30_000))
    assert [entry.question for entry in memory.entries()] == ["small"]


def test_what_saves_least_goes_first() -> None:
    memory = memory_of(entries=3)
    for question, ms in (("slow", 9000.0), ("quick", 100.0), ("used", 100.0)):
        memory.put(entry_of(question, fill_ms=ms))
    for _ in range(20):
        memory.used(entry_of("used").id)
    memory.put(entry_of("new", fill_ms=5000.0))
    assert {entry.question for entry in memory.entries()} == {"slow", "used", "new"}


def test_old_fame_fades() -> None:
    memory = memory_of(entries=5)
    famous = entry_of("famous")
    memory.put(famous)
    for _ in range(20):
        memory.used(famous.id)
    for i in range(40):
        memory.put(entry_of(f"question {i}"))
    assert memory.get(famous.id) is not None
    for i in range(40, 200):
        memory.put(entry_of(f"question {i}"))
    assert memory.get(famous.id) is None


def test_refilling_one_question_for_ever_holds_no_memory() -> None:
    memory = memory_of()
    for i in range(5000):
        memory.put(entry_of(text=str(i)))
    assert len(memory) == 1
    assert len(memory._order) < 200


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (Selector("topic", "a"), {"1", "2"}),
        (Selector("tag", "x"), {"1", "3"}),
        (Selector("tag", "agent"), set()),
        (Selector("data_version", "v2"), {"3"}),
        (Selector("data_version", ""), {"1", "2"}),
        (Selector("id", entry_of("2").id), {"2"}),
        (Selector("all"), {"1", "2", "3"}),
    ],
)
def test_selectors_mean_what_they_say(selector: Selector, expected: set[str]) -> None:
    memory = memory_of()
    entries = [
        entry_of("1", topic="a", tags=("x", "y")),
        entry_of("2", topic="a", tags=()),
        entry_of("3", topic="b", tags=("x",), data_version="v2"),
    ]
    for entry in entries:
        memory.put(entry)
    chosen = memory.select(selector)
    assert {entry.question for entry in entries if entry.id in chosen} == expected
    assert len(memory) == 3


def test_many_random_steps_leave_shelves_and_counts_right() -> None:
    rng = np.random.default_rng(0)
    memory = memory_of(entries=60)
    vectors = {str(i): vector_of(*rng.normal(size=DIM)) for i in range(200)}
    for _ in range(3000):
        question = str(rng.integers(200))
        entry = entry_of(question, scope=f"s{int(question) % 3}", vector=vectors[question])
        if rng.random() < 0.3:
            memory.drop(entry.id)
        else:
            memory.put(entry)
    kept = list(memory.entries())
    assert len(kept) == len(memory) <= 60
    assert memory.bytes == sum(entry.size for entry in kept)
    for entry in kept:
        np.testing.assert_array_equal(entry.vector, vectors[entry.question])
        (similarity, found), *_ = memory.nearest(entry.scope, vectors[entry.question], 3)
        assert (round(similarity, 5), found.question) == (1.0, entry.question)
    assert sum(len(shelf) for shelf in memory._shelves.values()) == len(kept)
