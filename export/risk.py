"""From which confidence on answers keep a stated risk: exact bounds, and tests in an order fixed beforehand.

Take the held-out questions as independent draws from the traffic, n of them answered from a confidence on, k
wrong: the upper bound of the wrong-answer rate is Clopper and Pearson's (1934), the quantile 1 - δ of
Beta(k + 1, n - k).

A threshold that is chosen by looking at the errors is not proven by the bound at that threshold. So the
thresholds are tested in an order that scores alone fix: Learn then Test (Angelopoulos et al. 2021) with
fixed sequences (Maurer et al. 1995), each of which loosens until its first failure and spends its own share
of δ. If surer answers are not more often wrong, the first place that is too loose has at least as many errors
as a binomial of the stated rate, and passes with chance at most its sequence's share. The chance that what
passes breaks the stated rate is at most δ. docs/risk.md has the argument, and what it leaves out.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

# Sequences start at n_min answers, twice, four and eight times as many: one early error ends one sequence.
MAX_STARTS = 4
LOOSEN = 1.05  # how many more answers the next threshold of a sequence lets through
_NEAR = 1.02


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers that thresholds may let through, surest first.

    ``confidence`` float ``[n]``, falling; ``wrong`` bool ``[n]``; ``questions``: how many questions of the
    traffic they are the answers of, forwarded ones counted.
    """

    confidence: np.ndarray
    wrong: np.ndarray
    questions: int

    @classmethod
    def of(cls, confidence: ArrayLike, wrong: ArrayLike, questions: int) -> "Answers":
        """The same from any order."""
        given = np.asarray(confidence, float)
        order = np.argsort(-given, kind="stable")
        return cls(given[order], np.asarray(wrong, bool)[order], questions)

    def __len__(self) -> int:
        return len(self.confidence)

    def cuts(self) -> np.ndarray:
        """After how many answers a threshold can stand: never between two of one confidence."""
        if not len(self):
            return np.zeros(0, int)
        return np.flatnonzero(np.append(self.confidence[1:] < self.confidence[:-1], True)) + 1

    def below(self, answers: int) -> float:
        """The middle between the last confidence let through and the next; after all, the last itself."""
        last = float(self.confidence[answers - 1])
        following = float(self.confidence[answers]) if answers < len(self) else last
        middle = (last + following) / 2
        return middle if middle > following else last  # numbers may be too near for one between them

    def gap(self, answers: int) -> int:
        """Of the places up to 2 % tighter the one in the widest gap: rounding carries few texts across it."""
        cuts = self.cuts()
        near = cuts[(cuts <= answers) & (cuts >= answers / _NEAR)]
        following = np.append(self.confidence, 0.0)[near]
        return int(near[np.argmax(self.confidence[near - 1] - following)])


@dataclass(frozen=True, slots=True)
class Finding:
    """A threshold with its evidence: ``wrong`` of ``answered``, and the upper bound of the rate.

    What is ``proven`` is the stated rate; ``bound`` is that of the one test which the loosest threshold
    passed. Unproven, it is the smallest that any threshold has, a guide.
    """

    confidence: float
    answered: int
    wrong: int
    questions: int
    bound: float
    proven: bool


NOTHING = Finding(1.0, 0, 0, 0, 1.0, proven=False)


@cache
def upper_bound(wrong: int, answered: int, confidence: float) -> float:
    """The exact one-sided upper bound of a rate, ``wrong`` out of ``answered`` seen, at ``confidence``."""
    if wrong >= answered:
        return 1.0
    return float(beta.ppf(confidence, wrong + 1, answered - wrong))


def answers_to_prove(max_wrong: float, confidence: float) -> int:
    """Answers without an error that prove ``max_wrong``: n_min = ⌈ln δ / ln(1 - max_wrong)⌉."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - max_wrong))


def find_threshold(answers: Answers, max_wrong: float, delta: float) -> Finding:
    """The loosest threshold that is proven to keep ``max_wrong`` at confidence 1 - ``delta``.

    Where none is, the one of the smallest bound, unproven; one that answers nothing where there is no answer.
    """
    starts = _starts(len(answers), max_wrong, delta)
    wrong = np.cumsum(answers.wrong)
    loosest, kept = 0, 1.0
    for start in starts:
        for place in _sequence(answers, start):
            bound = upper_bound(int(wrong[place - 1]), place, 1 - delta / len(starts))
            if bound > max_wrong:
                break
            if place > loosest:
                loosest, kept = place, bound
    if not loosest:
        return _least_bound(answers, delta)
    place = answers.gap(loosest)
    return _finding(answers, place, int(wrong[place - 1]), kept, proven=True)


def _starts(total: int, max_wrong: float, delta: float) -> list[int]:
    """Where the sequences start; fewer starts need fewer answers each, so their number is settled first."""
    for count in range(MAX_STARTS, 1, -1):
        first = answers_to_prove(max_wrong, 1 - delta / count)
        starts = [first << i for i in range(count)]
        if starts[-1] <= total:
            return starts
    first = answers_to_prove(max_wrong, 1 - delta)
    return [first] if first <= total else []


def _sequence(answers: Answers, start: int) -> list[int]:
    """The places of a sequence's thresholds, looser and looser, down to all answers."""
    cuts = answers.cuts()
    total = len(answers)
    places: list[int] = []
    aim = float(start)
    while aim < total:
        place = int(cuts[np.searchsorted(cuts, aim)])
        if not places or place > places[-1]:
            places.append(place)
        aim = max(aim * LOOSEN, aim + 1)
    return places if places and places[-1] == total else [*places, total]


def _least_bound(answers: Answers, delta: float) -> Finding:
    places = answers.cuts()
    wrong = np.cumsum(answers.wrong)[places - 1]
    some = wrong < places
    if not some.any():
        return NOTHING
    places, wrong = places[some], wrong[some]
    bounds = beta.ppf(1 - delta, wrong + 1, places - wrong)
    least = int(np.argmin(bounds))
    return _finding(answers, int(places[least]), int(wrong[least]), float(bounds[least]), proven=False)


def _finding(answers: Answers, place: int, wrong: int, bound: float, *, proven: bool) -> Finding:
    return Finding(answers.below(place), place, wrong, answers.questions, bound, proven)


def questions_to_prove(finding: Finding, max_wrong: float, delta: float) -> int | None:
    """About how many more questions of the same traffic would prove ``max_wrong``, if errors stay as rare.

    None where that cannot be said: nothing is answered, no questions of the traffic were judged, or errors
    are not rarer than ``max_wrong``.
    """
    if finding.proven:
        return 0
    if not finding.questions:
        return None
    delta /= MAX_STARTS
    if not finding.answered or finding.wrong / finding.answered >= max_wrong:
        return None
    low, high = 1.0, 2.0
    while upper_bound(round(finding.wrong * high), round(finding.answered * high), 1 - delta) > max_wrong:
        low, high = high, high * 2
        if high > 2**12:
            return None
    while high - low > 0.01:
        middle = (low + high) / 2
        bound = upper_bound(round(finding.wrong * middle), round(finding.answered * middle), 1 - delta)
        low, high = (middle, high) if bound > max_wrong else (low, middle)
    return math.ceil(finding.questions * (high - 1))


def in_proportion(strata: Sequence[str], keys: Sequence[str], shares: Mapping[str, float]) -> list[int]:
    """The places of as many rows as have the strata in the proportions of ``shares``, else as many as can be.

    Which rows of a stratum stay is settled by the hash of their ``keys``: by no score and by no label. A
    stratum that has a share and no row leaves nothing: such traffic was not sampled. Shares of 0 and strata
    that ``shares`` lacks are left out; with no shares at all everything stays.
    """
    if not shares:
        return list(range(len(strata)))
    total = sum(shares.values())
    rows = {name: [i for i, stratum in enumerate(strata) if stratum == name] for name in shares}
    size = min(len(rows[name]) * total / share for name, share in shares.items() if share > 0)
    kept = []
    for name, share in shares.items():
        ordered = sorted(rows[name], key=lambda i: hashlib.sha256(keys[i].encode()).digest())
        # A hair less than the share, so that rounding adds no row; what is rare is rounded up, to be there.
        kept += ordered[: math.ceil(size * share / total - 1e-9)]
    return sorted(kept)
