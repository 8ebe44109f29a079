"""What a bundle does with held-out questions: answered, wrong, forwarded and why, and how fast."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from edge.decision import Decision
from edge.pipeline import Pipeline
from export.desk import OUT_OF_SCOPE, Question

WORST = 10  # errors that the table shows


@dataclass(frozen=True, slots=True)
class Stratum:
    """One row of the table. ``answerable``: questions whose topic has a curated answer."""

    lang: str
    kind: str
    questions: int
    answerable: int
    answered: int
    wrong: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Counts by stratum, every wrong answer with its text, reasons of forwards, milliseconds.

    ``exits``: how many questions were read down to each exit.
    """

    strata: tuple[Stratum, ...]
    topic_accuracy: float
    errors: tuple[dict[str, Any], ...]
    reasons: dict[str, int]
    p50_ms: float
    p99_ms: float
    exits: dict[str, int] = field(default_factory=dict)

    def total(self, lang: str | None = None) -> Stratum:
        """All kinds together, of one language or of both."""
        rows = [s for s in self.strata if lang is None or s.lang == lang]
        return Stratum(
            lang or "all",
            "all",
            sum(s.questions for s in rows),
            sum(s.answerable for s in rows),
            sum(s.answered for s in rows),
            sum(s.wrong for s in rows),
        )

    def as_dict(self) -> dict[str, Any]:
        """For evaluation.json and ``--json``."""
        return asdict(self)


def evaluate(pipeline: Pipeline, questions: Sequence[Question]) -> Evaluation:
    """Judge every question with the pipeline as it is served."""
    bundle = pipeline.runtime.bundle
    decisions: list[Decision] = []
    times: list[float] = []
    for question in questions:
        start = time.perf_counter()
        decisions.append(pipeline.judge(question.query(bundle.normaliser)))
        times.append((time.perf_counter() - start) * 1000)
    judged = list(zip(questions, decisions, strict=True))
    keys = sorted({(q.lang, q.kind) for q in questions})
    in_scope = [(q, d) for q, d in judged if q.topic != OUT_OF_SCOPE and d.topic is not None]
    answerable = {topic.id for topic in bundle.topics if topic.route == "answer"}
    return Evaluation(
        strata=tuple(_stratum(lang, kind, judged, answerable) for lang, kind in keys),
        topic_accuracy=sum(q.topic == d.topic for q, d in in_scope) / max(1, len(in_scope)),
        errors=_errors(judged),
        reasons=dict(Counter(str(d.reason) for _, d in judged if d.answer is None).most_common()),
        exits={
            str(exit_): count
            for exit_, count in sorted(Counter(d.reading.exit for d in decisions if d.reading).items())
        },
        p50_ms=float(np.percentile(times, 50)) if times else 0.0,
        p99_ms=float(np.percentile(times, 99)) if times else 0.0,
    )


def table(evaluation: Evaluation) -> str:
    """The evaluation as text for a terminal."""
    head = f"{'lang':<5}{'kind':<14}{'questions':>10}{'answerable':>12}{'answered':>10}{'wrong':>7}"
    lines = [head, "-" * len(head)]
    langs = sorted({s.lang for s in evaluation.strata})
    rows = [*evaluation.strata, *(evaluation.total(lang) for lang in langs), evaluation.total()]
    lines += [
        f"{s.lang:<5}{s.kind:<14}{s.questions:>10}{s.answerable:>12}{s.answered:>10}{s.wrong:>7}"
        for s in rows
    ]
    lines.append("")
    lines.append(f"topic accuracy in scope  {evaluation.topic_accuracy:.1%}")
    lines.append(f"text → decision          p50 {evaluation.p50_ms:.2f} ms, p99 {evaluation.p99_ms:.2f} ms")
    left = ", ".join(f"{exit_}: {count}" for exit_, count in evaluation.exits.items())
    lines.append(f"read down to layer       {left}")
    reasons = ", ".join(f"{reason} {count}" for reason, count in evaluation.reasons.items())
    lines.append(f"forwarded because        {reasons}")
    if evaluation.errors:
        lines.append("wrong, surest first")
    lines += [
        f"  {e['confidence']:.3f}  {e['text']!r} ({e['lang']} {e['kind']}) is {e['topic']}, "
        f"got {e['answered_with']}"
        for e in evaluation.errors[:WORST]
    ]
    if len(evaluation.errors) > WORST:
        lines.append(f"  … and {len(evaluation.errors) - WORST} more (--json has all)")
    return "\n".join(lines)


def _stratum(
    lang: str, kind: str, judged: Sequence[tuple[Question, Decision]], answerable: set[str]
) -> Stratum:
    rows = [(q, d) for q, d in judged if (q.lang, q.kind) == (lang, kind)]
    answered = [(q, d) for q, d in rows if d.answer is not None]
    return Stratum(
        lang=str(lang),
        kind=kind,
        questions=len(rows),
        answerable=sum(q.topic in answerable for q, _ in rows),
        answered=len(answered),
        wrong=sum(d.topic != q.topic for q, d in answered),
    )


def _errors(judged: Sequence[tuple[Question, Decision]]) -> tuple[dict[str, Any], ...]:
    """The wrong local answers, surest first."""
    wrong = [_error(q, d) for q, d in judged if d.answer is not None and d.topic != q.topic]
    return tuple(sorted(wrong, key=lambda error: -error["confidence"]))


def _error(question: Question, decision: Decision) -> dict[str, Any]:
    return {
        "text": question.text,
        "history": [turn.text for turn in question.history],
        "kind": question.kind,
        "lang": str(question.lang),
        "topic": question.topic,
        "answered_with": decision.topic,
        "confidence": decision.confidence,
    }
