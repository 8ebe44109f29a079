"""Ways to choose a threshold from judged calibration questions: the shipped one and others beside it.

Each takes a Draw, the stated rate and δ, and gives a threshold, or None where it proves nothing.

- ``shipped``: export.risk as it is: the pooled bound, fixed sequences from up to four starts.
- ``pooled``: the same bound, one sequence from n_min on.
- ``strata``: a bound for each stratum, combined by the traffic. The rate is
  (w₁·a·e + w₂·o + w₃·f) / (w₁·a + w₂·o + w₃·f), with a the answered share in scope, e the error among these
  answers, o and f the answered shares of what must not be answered. It rises with e, o and f and falls with
  a, so four Clopper-Pearson bounds at δ/4 bound it. All questions count, those beyond the traffic's
  proportions, too.
- ``strata_sum``: Σ w·U(wrong) / Σ w·L(answered) over the strata, six bounds at δ/6.
- ``unordered``: the pooled bound looked at everywhere, and the loosest threshold taken that seems to keep it.
- ``observed``: the common practice: the loosest threshold whose errors on the calibration questions are at
  most the stated rate. No bound.

One sequence starts where its bound could first pass, were there no error; with ``strata`` this is later than
n_min, from where it would always fail.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import betaincinv
from scipy.stats import binom

from export.desk import STRATA
from export.risk import LOOSEN, Answers, answers_to_prove, find_threshold

MOST = 10_000  # answers
Three = tuple[float, float, float]  # of the strata
# Right and wrong answers in scope, answers out of scope, answers to follow-ups, at each place of a sequence.
Counts = tuple[np.ndarray, ...]
Bound = Callable[[Counts, Three, Three, float], np.ndarray]


@dataclass(frozen=True, slots=True)
class Draw:
    """``answers``: those of the questions in the traffic's proportions.

    The arrays, surest first, are of the open answers of all questions. ``sizes`` and ``shares``: how many
    questions a stratum has, and its part of the traffic.
    """

    answers: Answers
    strata: np.ndarray
    confidence: np.ndarray
    wrong: np.ndarray
    sizes: Three
    shares: Three


Method = Callable[[Draw, float, float], float | None]


def shipped(draw: Draw, max_wrong: float, delta: float) -> float | None:
    finding = find_threshold(draw.answers, max_wrong, delta)
    return finding.confidence if finding.proven else None


def pooled(draw: Draw, max_wrong: float, delta: float) -> float | None:
    places = sequence(answers_to_prove(max_wrong, 1 - delta), len(draw.answers))
    passes = np.cumsum(draw.answers.wrong)[places - 1] <= allowed(max_wrong, delta)[places]
    return _last(draw.answers, places[: _until_first_failure(passes)])


def unordered(draw: Draw, max_wrong: float, delta: float) -> float | None:
    places = np.arange(1, len(draw.answers) + 1)
    passes = np.cumsum(draw.answers.wrong) <= allowed(max_wrong, delta)[places]
    return _last(draw.answers, places[passes])


def observed(draw: Draw, max_wrong: float, _: float) -> float | None:
    return loosest(draw.answers, max_wrong)


def strata(draw: Draw, max_wrong: float, delta: float) -> float | None:
    return _by_strata(draw, max_wrong, delta, sharp)


def strata_sum(draw: Draw, max_wrong: float, delta: float) -> float | None:
    return _by_strata(draw, max_wrong, delta, plain)


METHODS: dict[str, Method] = {
    one.__name__: one for one in (shipped, pooled, strata, strata_sum, unordered, observed)
}


def loosest(answers: Answers, rate: float) -> float | None:
    """The lowest threshold down to which at most this share of the answers is wrong."""
    places = answers.cuts()
    return _last(answers, places[np.cumsum(answers.wrong)[places - 1] <= rate * places])


def sequence(start: int, total: int) -> np.ndarray:
    """After how many answers the thresholds of a fixed sequence stand."""
    if start > total:
        return np.zeros(0, int)
    steps = int(np.log(total / start) / np.log(LOOSEN)) + 1
    return np.unique((start * LOOSEN ** np.arange(steps)).astype(int))


@cache
def allowed(max_wrong: float, delta: float) -> np.ndarray:
    """How many of n answers may be wrong under the bound, for n from 0 to MOST; -1: not even none.

    The bound is at most ``max_wrong`` where P(X <= wrong) of the binomial with that rate is at most δ.
    """
    return binom.ppf(delta, np.arange(MOST + 1), max_wrong) - 1


def upper(hits: np.ndarray, count: np.ndarray | int, delta: float) -> np.ndarray:
    rest = np.maximum(count - hits, 0)
    return np.where(rest > 0, betaincinv(hits + 1, np.maximum(rest, 1), 1 - delta), 1.0)


def lower(hits: np.ndarray, count: np.ndarray | int, delta: float) -> np.ndarray:
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), count - hits + 1, delta), 0.0)


def sharp(counts: Counts, sizes: Three, shares: Three, delta: float) -> np.ndarray:
    right, wrong, oos, follow_up = counts
    e = upper(wrong, right + wrong, delta / 4)
    a = shares[0] * lower(right + wrong, sizes[0], delta / 4)
    amiss = shares[1] * upper(oos, sizes[1], delta / 4) + shares[2] * upper(follow_up, sizes[2], delta / 4)
    return (a * e + amiss) / (a + amiss)


def plain(counts: Counts, sizes: Three, shares: Three, delta: float) -> np.ndarray:
    right, wrong, oos, follow_up = counts
    over, under = np.zeros(len(right)), np.zeros(len(right))
    pairs = ((wrong, right + wrong), (oos, oos), (follow_up, follow_up))
    for (bad, answered), size, share in zip(pairs, sizes, shares, strict=True):
        over += share * upper(bad, size, delta / 6)
        under += share * lower(answered, size, delta / 6)
    return over / np.maximum(under, 1e-12)


@cache
def earliest(bound: Bound, sizes: Three, shares: Three, max_wrong: float, delta: float) -> int:
    """The fewest answers that prove the rate, all right and in scope; beyond what there is where none do."""

    def passes(answers: int) -> bool:
        none = np.zeros(1, int)
        return bool(bound((none + answers, none, none, none), sizes, shares, delta)[0] <= max_wrong)

    return 1 + bisect_left(range(1, sizes[0] + 1), True, key=passes)


def _by_strata(draw: Draw, max_wrong: float, delta: float, bound: Bound) -> float | None:
    start = earliest(bound, draw.sizes, draw.shares, max_wrong, delta)
    places = sequence(start, min(len(draw.confidence), draw.sizes[0]))
    if not len(places):
        return None
    inside = draw.strata == STRATA[0]
    parts = (inside & ~draw.wrong, inside & draw.wrong, *(draw.strata == name for name in STRATA[1:]))
    counts = tuple(np.cumsum(part)[places - 1] for part in parts)
    kept = places[: _until_first_failure(bound(counts, draw.sizes, draw.shares, delta) <= max_wrong)]
    return _middle(draw.confidence, int(kept[-1])) if len(kept) else None


def _until_first_failure(passes: np.ndarray) -> int:
    return len(passes) if passes.all() else int(np.argmin(passes))


def _last(answers: Answers, places: np.ndarray) -> float | None:
    return answers.below(int(places[-1])) if len(places) else None


def _middle(confidence: np.ndarray, place: int) -> float:
    following = confidence[place] if place < len(confidence) else 0.0
    return float(confidence[place - 1] + following) / 2
