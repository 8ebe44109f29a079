"""Calibration on one half of a set's judged questions, the promise checked on the other, two hundred times.

Halves are drawn anew in every split, each stratum by itself, from as many questions as have the stated mix.
The halves come from one finite set, so what one half has too few of the other has too many: a split is a
harder test than fresh questions would be, and the splits are not independent of each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from risk_methods import loosest
from scipy.stats import binom

from edge.normaliser import Lang
from export.calibrate import calibrate
from export.desk import OUT_OF_SCOPE, Desk
from export.judged import Judged
from export.risk import Answers, find_threshold

SPLITS = 200
OURS = "frontdesk"


@dataclass(frozen=True, slots=True)
class Scores:
    """What a router says of questions: its score, whether its topic is right, whether only a threshold
    can be against an answer."""

    strata: np.ndarray
    score: np.ndarray
    topic_right: np.ndarray
    open: np.ndarray

    @classmethod
    def of_judged(cls, judged: Sequence[Judged]) -> "Scores":
        return cls(
            np.array([row.question.stratum for row in judged]),
            np.array([row.confidence for row in judged]),
            np.array([row.right for row in judged]),
            np.array([row.open for row in judged]),
        )

    @classmethod
    def of_said(cls, gold: Sequence[str], said: Mapping[str, Sequence[Any]]) -> "Scores":
        """Of a peer's answers, none of which a guard holds back."""
        labels = np.array(gold)
        strata = np.where(labels == OUT_OF_SCOPE, "out_of_scope", "in_scope")
        right = np.array(said["labels"]) == labels
        return cls(strata, np.array(said["scores"]), right, np.ones(len(labels), bool))

    def answers(self, rows: np.ndarray) -> Answers:
        kept = rows[self.open[rows]]
        return Answers.of(self.score[kept], ~self.topic_right[kept], len(rows))

    def test(self, rows: np.ndarray, threshold: float | None) -> "Tested":
        """What a threshold does with questions; None answers nothing."""
        if threshold is None:
            return Tested(0, 0, 0, len(rows), int((self.strata[rows] == "in_scope").sum()))
        answered = rows[self.open[rows] & (self.score[rows] >= threshold)]
        inside = self.strata[answered] == "in_scope"
        return Tested(
            len(answered),
            int((~self.topic_right[answered]).sum()),
            int(inside.sum()),
            len(rows),
            int((self.strata[rows] == "in_scope").sum()),
        )


@dataclass(frozen=True, slots=True)
class Tested:
    """Answers on a test half, how many are wrong and how many to questions in scope; questions, and how many
    of these are in scope."""

    answered: int
    wrong: int
    answered_in_scope: int
    questions: int
    in_scope: int

    def rejects(self, max_wrong: float) -> bool:
        """Whether a one-sided exact binomial test at 5 % rejects that the rate is at most ``max_wrong``."""
        return self.wrong > 0 and binom.sf(self.wrong - 1, self.answered, max_wrong) < 0.05


def figures(
    desk: Desk,
    judged: Sequence[Judged],
    own: Scores,
    neighbours: Mapping[str, Scores],
) -> dict[str, Any]:
    """Every way to choose a threshold for the desk's rate and traffic, on the same splits."""
    tested: dict[str, list[Tested]] = {}

    def note(name: str, scores: Scores, rows: np.ndarray, threshold: float | None) -> Tested:
        result = scores.test(rows, threshold)
        tested.setdefault(name, []).append(result)
        return result

    rng = np.random.default_rng(0)
    for _ in range(SPLITS):
        halves = split(own.strata, desk.traffic, rng)
        ours = calibrate(desk, [judged[i] for i in halves[0]]).thresholds[str(Lang.EN)]
        kept = note(OURS, own, halves[1], ours.confidence if ours.proven else None)
        for name, scores in {OURS: own, **neighbours}.items():
            answers = scores.answers(halves[0])
            note(f"{name}, observed rate", scores, halves[1], loosest(answers, desk.risk.max_wrong))
            if name != OURS:
                finding = find_threshold(answers, desk.risk.max_wrong, 1 - desk.risk.confidence)
                note(f"{name}, our bound", scores, halves[1], finding.confidence if finding.proven else None)
            # Looking at the test half, both: what a score can answer where it errs no more often than ours.
            rate = kept.wrong / max(1, kept.answered)
            same = loosest(scores.answers(halves[1]), rate) if kept.answered else None
            note(f"{name}, same risk", scores, halves[1], same)
    counts = [len(half) for half in halves]
    return {
        "calibration": counts[0],
        "test": counts[1],
        "splits": SPLITS,
        "ways": {name: summary(some, desk.risk.max_wrong) for name, some in tested.items()},
    }


def split(
    strata: np.ndarray, mix: Mapping[str, float], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two halves that both have the mix."""
    rows = {name: rng.permutation(np.flatnonzero(strata == name)) for name in mix}
    size = min(len(rows[name]) // 2 / share for name, share in mix.items())
    each = {name: round(size * share) for name, share in mix.items()}
    parts = [[rows[name][: each[name]], rows[name][each[name] : 2 * each[name]]] for name in mix]
    first, second = (np.concatenate(part) for part in zip(*parts, strict=True))
    return first, second


def summary(tested: Sequence[Tested], max_wrong: float) -> dict[str, Any]:
    """Shares of splits, the observed rate of all their answers, and the share of questions answered.

    That share with quartiles, of the questions in scope alone, and over the splits alone that answer any: a
    split in which nothing is proven answers none.
    """
    coverage = [one.answered / one.questions for one in tested]
    answered, wrong = sum(one.answered for one in tested), sum(one.wrong for one in tested)
    return {
        "answering": sum(one.answered > 0 for one in tested) / len(tested),
        "wrong_rate": round(wrong / answered, 5) if answered else None,
        "above": sum(one.wrong > max_wrong * one.answered for one in tested) / len(tested),
        "rejected": sum(one.rejects(max_wrong) for one in tested) / len(tested),
        "coverage": round(float(np.mean(coverage)), 4),
        "quartiles": [round(float(q), 4) for q in np.percentile(coverage, [25, 50, 75])],
        "coverage_where_answering": round(float(np.mean([share for share in coverage if share] or [0.0])), 4),
        "coverage_in_scope": round(
            float(np.mean([one.answered_in_scope / max(1, one.in_scope) for one in tested])), 4
        ),
    }
