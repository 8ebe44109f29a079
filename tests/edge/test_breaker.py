"""The circuit breaker: opens after failures in a row, lets one try, and takes longer pauses."""

import pytest

from edge.breaker import Breaker


class At:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def at() -> At:
    return At()


@pytest.fixture
def breaker(at: At) -> Breaker:
    return Breaker(at, lambda: 0.5)  # pauses as they are stated


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        assert breaker.enter()
        breaker.failed()


def test_it_opens_after_three_failures_in_a_row(breaker: Breaker) -> None:
    fail(breaker, 2)
    assert breaker.enter()
    breaker.succeeded()
    fail(breaker, 2)
    assert breaker.state == "closed"
    fail(breaker)
    assert (breaker.state, breaker.enter()) == ("open", False)


def test_after_the_pause_one_tries_alone(breaker: Breaker, at: At) -> None:
    fail(breaker, 3)
    at.now = 0.49
    assert not breaker.enter()
    at.now = 0.5
    assert breaker.state == "half_open"
    assert [breaker.enter() for _ in range(100)] == [True] + [False] * 99
    breaker.succeeded()
    assert [breaker.enter() for _ in range(100)] == [True] * 100


def test_each_failed_try_doubles_the_pause_up_to_a_limit(breaker: Breaker, at: At) -> None:
    fail(breaker, 3)
    pauses = []
    for _ in range(9):
        start = at.now
        while not breaker.enter():
            at.now += 0.5
        breaker.failed()
        pauses.append(at.now - start)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    at.now += 30
    assert breaker.enter()
    breaker.succeeded()
    fail(breaker, 3)
    at.now += 0.5
    assert breaker.enter()


def test_those_who_began_before_it_opened_do_not_prolong_the_pause(breaker: Breaker, at: At) -> None:
    for _ in range(50):
        assert breaker.enter()
    for _ in range(50):
        breaker.failed()
    at.now = 0.5
    assert breaker.enter()


def test_pauses_vary_by_half(at: At) -> None:
    for chance, pause in ((0.0, 0.375), (1.0, 0.625)):
        breaker = Breaker(at, lambda chance=chance: chance)  # type: ignore[misc]
        at.now = 0.0
        fail(breaker, 3)
        at.now = pause - 0.001
        assert not breaker.enter()
        at.now = pause
        assert breaker.enter()
