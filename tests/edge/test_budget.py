"""Budgets: a deadline on a given clock."""

import time

import pytest

from edge.budget import Budget


def test_what_is_left() -> None:
    budget = Budget.of_ms(1500, now=10)
    assert budget.deadline == 11.5
    assert budget.remaining_ms(now=10) == pytest.approx(1500)
    assert budget.remaining_ms(now=11) == pytest.approx(500)


def test_nothing_below_zero() -> None:
    budget = Budget.of_ms(1, now=10)
    assert budget.remaining_ms(now=99) == 0
    assert Budget.of_ms(0, now=10).remaining_ms(now=10) == 0


def test_zero_is_a_time_too() -> None:
    assert Budget.of_ms(1000, now=0).remaining_ms(now=0) == pytest.approx(1000)


def test_the_clock_is_monotonic_time() -> None:
    before = time.monotonic()
    budget = Budget.of_ms(60_000)
    assert before + 60 <= budget.deadline <= time.monotonic() + 60
    assert 0 < budget.remaining_ms() <= 60_000
