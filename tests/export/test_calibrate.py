"""Thresholds and bounds against what can be computed by hand."""

import math
import random

import pytest

from edge.normaliser import Lang
from export.calibrate import Scored, answers_to_prove, calibrate, upper_bound
from export.desk import Desk, Risk


def desk(max_wrong: float = 0.01) -> Desk:
    from pathlib import Path

    return Desk(Path(), "d", (Lang.EN, Lang.ZH), (), risk=Risk(max_wrong, 0.95))


def rows(
    right: int, wrong: int = 0, lang: Lang = Lang.EN, low: float = 0.5, high: float = 1.0
) -> list[Scored]:
    rnd = random.Random(1)
    return [Scored(lang, rnd.uniform(low, high), 0.0, False, i < wrong) for i in range(right + wrong)]


def test_the_bound_without_an_error_is_the_closed_form() -> None:
    assert upper_bound(0, 100, 0.95) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert upper_bound(5, 5, 0.95) == 1.0
    assert upper_bound(0, 0, 0.95) == 1.0


def test_the_bound_covers_what_a_binomial_gives() -> None:
    """P(X <= k) at the bound is exactly 1 - confidence: Clopper and Pearson's definition."""
    bound = upper_bound(3, 200, 0.9)
    tail = sum(math.comb(200, i) * bound**i * (1 - bound) ** (200 - i) for i in range(4))
    assert tail == pytest.approx(0.1, abs=1e-9)


def test_answers_to_prove() -> None:
    assert answers_to_prove(0.01, 0.95) == 299
    assert answers_to_prove(0.01, 0.975) == 368
    n = answers_to_prove(0.02, 0.9)
    assert upper_bound(0, n, 0.9) <= 0.02 < upper_bound(0, n - 1, 0.9)


def test_a_language_is_proven_from_its_nth_answer_on() -> None:
    proven = calibrate(desk(), [*rows(368), *rows(367, lang=Lang.ZH)]).thresholds
    assert proven["en"].proven
    assert not proven["zh"].proven
    assert proven["en"].bound <= 0.01 < proven["zh"].bound


def test_the_threshold_keeps_the_errors_below_it_and_lies_in_a_gap() -> None:
    errors = rows(0, 40, low=0.1, high=0.4)
    right = rows(200)
    threshold = calibrate(desk(), [*errors, *right]).thresholds["en"]
    lowest, highest = min(r.confidence for r in right), max(r.confidence for r in errors)
    assert highest < threshold.confidence < lowest
    assert threshold.confidence == pytest.approx((lowest + highest) / 2, abs=1e-6)


def test_rows_of_one_confidence_are_never_split() -> None:
    same = [Scored(Lang.EN, 0.7, 0.0, False, wrong) for wrong in [False] * 50 + [True] * 50]
    threshold = calibrate(desk(), [*same, *rows(100, low=0.8)]).thresholds["en"]
    assert 0.7 < threshold.confidence < 0.81


def test_no_evidence_answers_nothing() -> None:
    threshold = calibrate(desk(), []).thresholds["zh"]
    assert (threshold.confidence, threshold.bound, threshold.proven) == (1.0, 1.0, False)


def test_turns_that_need_context_are_kept_out_by_the_limit() -> None:
    needy = [Scored(Lang.EN, 0.99, 0.6, True, True) for _ in range(20)]
    found = calibrate(desk(), [*rows(200), *needy])
    assert found.max_needs_context_in_dialogue < 0.6
    assert found.thresholds["en"].bound == pytest.approx(upper_bound(0, 200, 0.975), abs=1e-6)
