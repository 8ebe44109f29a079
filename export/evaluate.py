"""What a bundle does with held-out questions: answered, wrong, forwarded and why, and how fast."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from edge.bundle import Bundle
from edge.normaliser import Lang
from edge.pipeline import Pipeline
from export.calibrate import answers_of, sample
from export.desk import FOLLOW_UP, OUT_OF_SCOPE, Question
from export.judged import Judged, judge
from export.risk import upper_bound
from export.tool_gates import Gate, calls_of, seen_in

POINTS = 120  # of a curve
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # of questions out of scope
BINS = 10
CONFUSIONS = 12

Answerable = Mapping[str, frozenset[Lang]]


@dataclass(frozen=True, slots=True)
class Stratum:
    """One row of the table. ``answerable``: questions whose topic has an answer here, in their language."""

    lang: str
    kind: str
    questions: int
    answerable: int
    answered: int
    wrong: int


@dataclass(frozen=True, slots=True)
class Point:
    """From a confidence on: ``answered`` questions, ``wrong`` of them, and the upper bound of that rate."""

    confidence: float
    answered: int
    wrong: int
    bound: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The questions that a curve counts, as they are served: ``answered`` of them, ``wrong`` of these."""

    questions: int
    answered: int
    wrong: int
    bound: float


@dataclass(frozen=True, slots=True)
class Mix:
    """Traffic of which ``out_of_scope`` lies out of scope: shares of turns answered, of answers wrong.

    ``bound``: the upper bound of the second, on as many questions as have this mix.
    """

    out_of_scope: float
    answered: float
    wrong: float
    bound: float


@dataclass(frozen=True, slots=True)
class Bin:
    """Questions whose confidence lies in a tenth of [0, 1]: its mean, and the share whose topic was right."""

    questions: int
    confidence: float
    right: float


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic: ``questions`` that ask it, ``found`` of them as the best topic; its answers and wrong ones."""

    topic: str
    questions: int
    found: int
    answered: int
    wrong: int


@dataclass(frozen=True, slots=True)
class Confusion:
    """``count`` questions about ``topic`` whose best topic was ``taken_for``, one of them as an example."""

    topic: str
    taken_for: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class GuardRow:
    """What a guard kept from being answered with the confidence for it, right and wrong answers.

    ``alone``: how many of both no other guard would have stopped.
    """

    name: str
    right: int
    wrong: int
    alone: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Counts by stratum, every wrong answer with its text, reasons of forwards, milliseconds.

    ``missed``: of the forwards by reason, those of questions that stand alone and have an answer here.
    ``exits``: how many questions were read down to each exit. ``samples``, ``curves`` and ``mixes`` are by
    language. ``ms``: 101 quantiles of the time from text to decision. ``tools``: the bundle's gates with what
    these questions say of them.
    """

    strata: tuple[Stratum, ...]
    topic_accuracy: float
    errors: tuple[dict[str, Any], ...]
    reasons: dict[str, int]
    p50_ms: float
    p99_ms: float
    missed: dict[str, int] = field(default_factory=dict)
    exits: dict[str, int] = field(default_factory=dict)
    samples: dict[str, Sample] = field(default_factory=dict)
    curves: dict[str, tuple[Point, ...]] = field(default_factory=dict)
    mixes: dict[str, tuple[Mix, ...]] = field(default_factory=dict)
    reliability: tuple[Bin, ...] = ()
    topics: tuple[TopicRow, ...] = ()
    confusions: tuple[Confusion, ...] = ()
    guards: tuple[GuardRow, ...] = ()
    ms: tuple[float, ...] = ()
    tools: tuple[Gate, ...] = ()

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


def evaluate(
    pipeline: Pipeline,
    questions: Sequence[Question],
    traffic: Mapping[str, float] | None = None,
    confidence: float = 0.95,
) -> Evaluation:
    """Judge every question with the pipeline as it is served.

    ``traffic``: the shares of the strata that curves and mixes hold for; else as the questions are.
    ``confidence``: that of the upper bounds.
    """
    judged = judge(pipeline, questions)
    return summarise(pipeline.runtime.bundle, judged, traffic or {}, confidence)


def summarise(
    bundle: Bundle, judged: Sequence[Judged], traffic: Mapping[str, float], confidence: float
) -> Evaluation:
    """The figures of questions that were judged with a bundle."""
    keys = sorted({(row.question.lang, row.question.kind) for row in judged})
    in_scope = [
        row for row in judged if row.question.topic != OUT_OF_SCOPE and row.decision.topic is not None
    ]
    answerable = answerable_in(bundle)
    exits = Counter(row.decision.reading.exit for row in judged if row.decision.reading)
    ms = np.percentile([row.ms for row in judged], range(101)) if judged else np.zeros(101)
    samples = {str(lang): sample(judged, lang, traffic) for lang in bundle.languages}
    missed = [row for row in judged if _is_answerable(row.question, answerable)]
    return Evaluation(
        strata=tuple(_stratum(lang, kind, judged, answerable) for lang, kind in keys),
        topic_accuracy=sum(r.question.topic == r.decision.topic for r in in_scope) / max(1, len(in_scope)),
        errors=_errors(judged),
        reasons=_reasons(judged),
        p50_ms=float(ms[50]),
        p99_ms=float(ms[99]),
        missed=_reasons(missed),
        exits={str(exit_): count for exit_, count in sorted(exits.items())},
        samples={lang: _sample(rows, confidence) for lang, rows in samples.items()},
        curves={lang: _curve(rows, confidence) for lang, rows in samples.items()},
        mixes={str(lang): _mixes(judged, lang, traffic, confidence) for lang in bundle.languages},
        reliability=_reliability(judged),
        topics=_topics(judged, [topic.id for topic in bundle.topics]),
        confusions=_confusions(judged),
        guards=_guards(judged),
        ms=tuple(map(float, ms)),
        tools=_tools(bundle, samples, confidence),
    )


def answerable_in(bundle: Bundle) -> Answerable:
    """The languages in which each topic of a bundle can be answered here: by a text, or by its tools."""
    return {
        topic.id: frozenset(
            lang
            for lang in bundle.languages
            if (topic.id, lang) in bundle.answers or bundle.is_answered_by_tools(topic, lang)
        )
        for topic in bundle.topics
    }


def _is_answerable(question: Question, answerable: Answerable) -> bool:
    return question.kind != FOLLOW_UP and question.lang in answerable.get(question.topic, ())


def _stratum(lang: str, kind: str, judged: Sequence[Judged], answerable: Answerable) -> Stratum:
    rows = [row for row in judged if (row.question.lang, row.question.kind) == (lang, kind)]
    return Stratum(
        lang=str(lang),
        kind=kind,
        questions=len(rows),
        answerable=sum(_is_answerable(row.question, answerable) for row in rows),
        answered=sum(row.answered for row in rows),
        wrong=sum(row.answered and not row.right for row in rows),
    )


def _reasons(judged: Sequence[Judged]) -> dict[str, int]:
    """Why what is forwarded is, the commonest reason first."""
    return dict(Counter(str(r.decision.reason) for r in judged if not r.answered).most_common())


def _sample(rows: Sequence[Judged], confidence: float) -> Sample:
    answered = sum(row.answered for row in rows)
    wrong = sum(row.answered and not row.right for row in rows)
    return Sample(len(rows), answered, wrong, upper_bound(wrong, answered, confidence))


def _errors(judged: Sequence[Judged]) -> tuple[dict[str, Any], ...]:
    """The wrong local answers, surest first."""
    wrong = sorted((r for r in judged if r.answered and not r.right), key=lambda r: -r.confidence)
    return tuple(
        {
            "text": row.question.text,
            "history": [{"role": turn.role, "content": turn.text} for turn in row.question.history],
            "kind": row.question.kind,
            "lang": str(row.question.lang),
            "topic": row.question.topic,
            "answered_with": row.decision.topic,
            "confidence": row.confidence,
            "exit": row.decision.reading.exit if row.decision.reading else None,
        }
        for row in wrong
    )


def _curve(rows: Sequence[Judged], confidence: float) -> tuple[Point, ...]:
    answers = answers_of(rows)
    cuts = answers.cuts()
    if len(cuts) > POINTS:
        cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, POINTS).astype(int))]
    wrong = np.cumsum(answers.wrong)
    return tuple(
        Point(answers.below(n), n, int(wrong[n - 1]), upper_bound(int(wrong[n - 1]), n, confidence))
        for n in map(int, cuts)
    )


def _mixes(
    judged: Sequence[Judged], lang: Lang, traffic: Mapping[str, float], confidence: float
) -> tuple[Mix, ...]:
    """The served thresholds under other shares of questions out of scope; the rest keeps its proportions."""
    strata = Counter(row.question.stratum for row in judged if row.lang is lang)
    shares = traffic or {name: float(count) for name, count in strata.items()}
    inside = {name: share for name, share in shares.items() if name != "out_of_scope" and share}
    if not strata["out_of_scope"] or not inside:
        return ()
    mixes = []
    for part in SHARES:
        mix = {name: share / sum(inside.values()) * (1 - part) for name, share in inside.items()}
        rows = sample(judged, lang, mix | {"out_of_scope": part})
        served = _sample(rows, confidence)
        mixes.append(
            Mix(
                part,
                served.answered / max(1, served.questions),
                served.wrong / max(1, served.answered),
                served.bound,
            )
        )
    return tuple(mixes)


def _reliability(judged: Sequence[Judged]) -> tuple[Bin, ...]:
    """Of every question that was read and stands alone: is the confidence the share that is right?"""
    bins: dict[int, list[Judged]] = defaultdict(list)
    for row in judged:
        if row.decision.reading is not None and not row.question.history:
            bins[min(BINS - 1, int(row.decision.reading.confidence * BINS))].append(row)
    return tuple(
        Bin(
            len(rows),
            sum(row.confidence for row in rows) / len(rows),
            sum(row.right for row in rows) / len(rows),
        )
        for _, rows in sorted(bins.items())
    )


def _topics(judged: Sequence[Judged], topics: Sequence[str]) -> tuple[TopicRow, ...]:
    asked = Counter(row.question.topic for row in judged)
    found = Counter(row.question.topic for row in judged if row.question.topic == row.decision.topic)
    answered = Counter(row.decision.topic for row in judged if row.answered)
    wrong = Counter(row.decision.topic for row in judged if row.answered and not row.right)
    return tuple(TopicRow(t, asked[t], found[t], answered[t], wrong[t]) for t in topics)


def _confusions(judged: Sequence[Judged]) -> tuple[Confusion, ...]:
    """The pairs of topics that are taken for each other most often, in questions that stand alone."""
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in judged:
        asked, said = row.question.topic, row.decision.topic
        if said not in (None, asked) and asked != OUT_OF_SCOPE and not row.question.history:
            pairs[asked, str(said)].append(row.question.text)
    worst = sorted(pairs.items(), key=lambda item: (-len(item[1]), item[0]))[:CONFUSIONS]
    return tuple(Confusion(asked, said, len(texts), texts[0]) for (asked, said), texts in worst)


def _guards(judged: Sequence[Judged]) -> tuple[GuardRow, ...]:
    """What the guards kept from being answered although the confidence would have done."""
    right, wrong, alone = Counter[str](), Counter[str](), Counter[str]()
    for row in judged:
        for name in row.stopped_by:
            (right if row.right else wrong)[name] += 1
            alone[name] += len(row.stopped_by) == 1
    names = sorted({*right, *wrong}, key=lambda name: (-wrong[name], -right[name], name))
    return tuple(GuardRow(name, right[name], wrong[name], alone[name]) for name in names)


def _tools(bundle: Bundle, samples: Mapping[str, Sequence[Judged]], confidence: float) -> tuple[Gate, ...]:
    """The gates of the tools that may be called, counted on the questions that the curves count."""
    topics = {topic.id: topic.tools for topic in bundle.topics}
    rows = [row for some in samples.values() for row in some]
    return seen_in(bundle.tools.values(), bundle.languages, calls_of(rows, topics), confidence)
