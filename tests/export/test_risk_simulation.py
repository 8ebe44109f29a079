"""Thresholds on traffic whose true rate is known: what is proven holds, what is only observed does not.

benchmarks/risk.py does the same at length.
"""

import numpy as np
from scipy.stats import binom

from export.risk import Answers, find_threshold

ALLOWED, DELTA, REPETITIONS = 0.05, 0.05, 200
STRATA = ["in_scope"] * 700 + ["out_of_scope"] * 150 + ["follow_up"] * 150


def draw(rng: np.random.Generator, amiss: float) -> Answers:
    """Half of the questions in scope have a right answer, ``amiss`` of all others a wrong one.

    Confidence tells nothing, so every threshold has the rate 0.3 * amiss / (0.35 + 0.3 * amiss).
    """
    strata = np.array(STRATA)
    opened = rng.random(len(strata)) < np.where(strata == "in_scope", 0.5, amiss)
    return Answers.of(rng.random(opened.sum()), strata[opened] != "in_scope", len(strata))


def loosest_observed(answers: Answers) -> bool:
    """The common practice: whether any threshold seems to keep the rate."""
    places = np.arange(1, len(answers) + 1)
    return bool((np.cumsum(answers.wrong) <= ALLOWED * places).any())


def amiss(rate: float) -> float:
    return 0.35 * rate / (0.3 * (1 - rate))


def test_a_rate_a_hair_too_high_is_proven_no_more_often_than_delta_allows() -> None:
    """The worst case: whatever is proven is broken. The limit is what chance makes of δ once in 1,000 times."""
    rng = np.random.default_rng(1)
    found = [find_threshold(draw(rng, amiss(ALLOWED + 1e-9)), ALLOWED, DELTA) for _ in range(REPETITIONS)]
    assert sum(one.proven for one in found) <= binom.ppf(0.999, REPETITIONS, DELTA)


def test_the_common_practice_breaks_the_rate_far_more_often() -> None:
    rng = np.random.default_rng(1)
    broken = sum(loosest_observed(draw(rng, amiss(ALLOWED + 1e-9))) for _ in range(REPETITIONS))
    assert broken > REPETITIONS / 2


def test_a_quarter_of_the_rate_is_proven_nearly_always() -> None:
    rng = np.random.default_rng(2)
    found = [find_threshold(draw(rng, amiss(ALLOWED / 4)), ALLOWED, DELTA) for _ in range(REPETITIONS)]
    assert sum(one.proven for one in found) > 0.9 * REPETITIONS
