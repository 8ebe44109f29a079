"""Held-out questions with what the pipeline decides on them."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from edge.decision import Decision, Reason
from edge.normaliser import Lang
from edge.pipeline import Pipeline
from export.desk import FOLLOW_UP, Question

# What keeps a turn from being answered only until a threshold is lower, or proven.
_BY_THRESHOLD = frozenset({Reason.LOW_CONFIDENCE, Reason.UNPROVEN})
_BY_GUARD = frozenset(
    {
        Reason.UNSUPPORTED_LANGUAGE,
        Reason.MULTI_REQUEST,
        Reason.NEEDS_CONTEXT,
        Reason.RE_ASK,
        Reason.OUT_OF_SCOPE,
        Reason.NEGATION_MISMATCH,
        Reason.NUMBER_MISMATCH,
        Reason.ENTITY_MISMATCH,
    }
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A question and the decision on it; ``ms``: how long deciding took."""

    question: Question
    decision: Decision
    ms: float = 0.0

    @property
    def lang(self) -> Lang | None:
        """The language whose thresholds are asked: as read; what is in none is labelled at least."""
        return self.decision.lang or self.question.lang

    @property
    def answered(self) -> bool:
        """Whether it is answered here."""
        return self.decision.is_local

    @property
    def right(self) -> bool:
        """Whether an answer here is, or would be, the right one: to a turn that needs its history none is."""
        return self.decision.topic == self.question.topic and self.question.kind != FOLLOW_UP

    @property
    def open(self) -> bool:
        """Whether it is answered here from some confidence on: nothing but a threshold can be against it."""
        reasons = {hit.reason for hit in self.decision.guards}
        return self.decision.reading is not None and reasons <= _BY_THRESHOLD

    @property
    def stopped_by(self) -> frozenset[str]:
        """The guards without which it would be answered; empty where something else is against it, too."""
        reasons = {hit.reason for hit in self.decision.guards}
        if self.decision.reading is None or not reasons or not reasons <= _BY_GUARD:
            return frozenset()
        return frozenset(hit.name for hit in self.decision.guards)

    @property
    def confidence(self) -> float:
        """The router's confidence in the topic, 1 for an exact text, 0 for what was not read."""
        return self.decision.confidence or 0.0


def judge(pipeline: Pipeline, questions: Iterable[Question]) -> list[Judged]:
    """Every question as the pipeline decides it."""
    judged = []
    for question in questions:
        query = question.query(pipeline.runtime.bundle.normaliser)
        start = time.perf_counter()
        decision = pipeline.judge(query)
        judged.append(Judged(question, decision, (time.perf_counter() - start) * 1000))
    return judged
