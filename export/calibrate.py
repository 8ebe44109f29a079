"""Thresholds from held-out questions: from which confidence on a language's topics are answered.

A held-out question is run through the real pipeline with every threshold open; what would then be
answered has a confidence and is right or wrong. The upper bound of the wrong-answer rate among the n
answers above a threshold, k of them wrong, is Clopper and Pearson's (1934): the quantile 1 - δ of
Beta(k + 1, n - k). It holds for questions exchangeable with the held-out ones.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from scipy.stats import beta

from edge.bundle import Threshold
from edge.normaliser import Lang
from edge.pipeline import Pipeline
from export.desk import Desk, Question

# Limits of needs_context that are tried, for turns without and with history.
_NEEDS_CONTEXT_LIMITS = (0.2, 0.3, 0.5, 0.7, 0.9)
MARGIN = 0.05
# What a pipeline is opened with before it is calibrated.
OPEN = Threshold(confidence=0.0, margin=0.0, proven=True, bound=0.0, max_wrong=1.0)


@dataclass(frozen=True, slots=True)
class Scored:
    """A held-out question that only thresholds keep from being answered."""

    lang: Lang
    confidence: float
    needs_context: float
    in_dialogue: bool
    wrong: bool


@dataclass(frozen=True, slots=True)
class Calibration:
    """The thresholds of a bundle, and how far they are proven."""

    thresholds: dict[str, Threshold]
    max_needs_context: float
    max_needs_context_in_dialogue: float


def upper_bound(wrong: int, answered: int, confidence: float) -> float:
    """The exact one-sided upper bound of a rate, ``wrong`` out of ``answered`` seen, at ``confidence``."""
    if wrong >= answered:
        return 1.0
    return float(beta.ppf(confidence, wrong + 1, answered - wrong))


def answers_to_prove(max_wrong: float, confidence: float) -> int:
    """Answers without an error that prove ``max_wrong``: ⌈ln δ / ln(1 - max_wrong)⌉."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - max_wrong))


def score(pipeline: Pipeline, questions: Iterable[Question]) -> list[Scored]:
    """The questions that a pipeline with open thresholds answers."""
    scored = []
    for question in questions:
        decision = pipeline.judge(question.query(pipeline.runtime.bundle.normaliser))
        if decision.answer is not None and decision.reading is not None:
            scored.append(
                Scored(
                    lang=question.lang,
                    confidence=decision.reading.confidence,
                    needs_context=decision.reading.needs_context,
                    in_dialogue=bool(question.history),
                    wrong=decision.topic != question.topic,
                )
            )
    return scored


def calibrate(desk: Desk, scored: Sequence[Scored]) -> Calibration:
    """The limits and thresholds with the smallest provable bounds, δ split over the languages."""
    delta = (1 - desk.risk.confidence) / len(desk.languages)
    best: tuple[float, Calibration] | None = None
    for alone, in_dialogue in product(_NEEDS_CONTEXT_LIMITS, repeat=2):
        kept = [s for s in scored if s.needs_context <= (in_dialogue if s.in_dialogue else alone)]
        thresholds = {
            str(lang): _threshold([s for s in kept if s.lang is lang], desk, 1 - delta)
            for lang in desk.languages
        }
        total = sum(threshold.bound for threshold in thresholds.values())
        if best is None or total < best[0]:
            best = (total, Calibration(thresholds, alone, in_dialogue))
    assert best is not None  # noqa: S101 - the grid is not empty
    return best[1]


def _threshold(scored: Sequence[Scored], desk: Desk, confidence: float) -> Threshold:
    """The threshold with the smallest bound; one that answers nothing where there is no evidence.

    It is put into the middle of a gap between two scores, so that rounding cannot carry a held-out
    question across it.
    """
    ordered = sorted(scored, key=lambda s: -s.confidence)
    best = Threshold(1.0, MARGIN, proven=False, bound=1.0, max_wrong=desk.risk.max_wrong)
    wrong = 0
    for answered, row in enumerate(ordered, 1):
        wrong += row.wrong
        below = ordered[answered].confidence if answered < len(ordered) else 0.0
        if below == row.confidence:
            continue
        bound = upper_bound(wrong, answered, confidence)
        if bound < best.bound:
            best = Threshold(
                confidence=round((row.confidence + below) / 2, 6),
                margin=MARGIN,
                proven=bound <= desk.risk.max_wrong,
                bound=round(bound, 6),
                max_wrong=desk.risk.max_wrong,
            )
    return best
