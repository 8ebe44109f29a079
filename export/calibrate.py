"""Thresholds of a desk from its held-out questions, under the risk that the desk states.

A question is decided by the real pipeline; what only a threshold keeps from being answered has a
confidence and is right or wrong. The questions of a language are cut to the traffic's proportions
(``risk.in_proportion``), and every group of topics gets the loosest threshold that is proven on them
(``risk.find_threshold``); δ is split over the groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edge.bundle import Threshold
from edge.normaliser import Lang
from export.desk import Desk
from export.judged import Judged
from export.risk import Answers, Finding, answers_to_prove, find_threshold, in_proportion

# How far the best topic must lie above the second. Under 0.525 alone is it more than the threshold asks.
MARGIN = 0.05
# Above these probabilities of needing the history a turn is forwarded, without and with history. They were
# chosen on the demo desk's first calibration questions, before those that its rate is proven on were written.
MAX_NEEDS_CONTEXT = 0.7
MAX_NEEDS_CONTEXT_IN_DIALOGUE = 0.2
OPEN = Threshold(confidence=0.0, margin=MARGIN, proven=True, bound=0.0, max_wrong=1.0)


@dataclass(frozen=True, slots=True)
class Cell:
    """Topics that share a threshold: a group's, in one language, under one stated rate.

    A topic with a stricter rate of its own is answered from where its whole group keeps that rate.
    """

    lang: Lang
    group: str | None
    max_wrong: float

    @property
    def name(self) -> str:
        """The key of the group: ``zh``, ``finance/zh``."""
        return str(self.lang) if self.group is None else f"{self.group}/{self.lang}"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The thresholds of a bundle by key, and what each rests on.

    Keys are ``lang``, ``group/lang`` and, for a topic with a rate of its own, ``topic:id/lang``.
    """

    thresholds: Mapping[str, Threshold]
    findings: Mapping[str, Finding] = field(default_factory=dict)
    delta: float = 0.0


def opened(desk: Desk) -> Calibration:
    """What a pipeline judges the calibration questions with: only margin and guards keep an answer back."""
    return Calibration(dict.fromkeys(_keys(desk), OPEN))


def calibrate(desk: Desk, judged: Sequence[Judged]) -> Calibration:
    """The threshold of every topic group in every language."""
    keys = _keys(desk)
    cells = sorted(set(keys.values()), key=lambda cell: (cell.name, -cell.max_wrong))
    delta = (1 - desk.risk.confidence) / len(cells)
    found = _find(desk, cells, delta, judged)
    return Calibration(
        {key: _threshold(found[cell], cell.max_wrong) for key, cell in keys.items()},
        {key: found[cell] for key, cell in keys.items()},
        delta,
    )


def sample(judged: Sequence[Judged], lang: Lang, traffic: Mapping[str, float]) -> list[Judged]:
    """The questions of a language in the traffic's proportions."""
    rows = [row for row in judged if row.question.lang is lang]
    strata = [row.question.stratum for row in rows]
    keys = ["\n".join([row.question.text, *(t.text for t in row.question.history)]) for row in rows]
    return [rows[i] for i in in_proportion(strata, keys, traffic)]


def answers_of(rows: Sequence[Judged], topics: frozenset[str] | None = None) -> Answers:
    """What thresholds may let through of some questions; ``topics``: only what these topics would answer."""
    opened = [row for row in rows if row.open and (topics is None or row.decision.topic in topics)]
    return Answers.of([row.confidence for row in opened], [not row.right for row in opened], len(rows))


def _keys(desk: Desk) -> dict[str, Cell]:
    """The cell of every key that a bundle looks thresholds up by."""
    groups = {topic.group for topic in desk.topics if topic.route == "answer"} or {None}
    keys = {}
    for lang in desk.languages:
        for group in sorted(groups, key=str):
            rate = desk.risk.max_wrong if group is None else desk.groups.get(group, desk.risk.max_wrong)
            cell = Cell(lang, group, rate)
            keys[cell.name] = cell
        for topic in desk.topics:
            if topic.route == "answer" and topic.max_wrong is not None:
                keys[f"topic:{topic.id}/{lang}"] = Cell(lang, topic.group, topic.max_wrong)
    return keys


def _find(desk: Desk, cells: Sequence[Cell], delta: float, judged: Sequence[Judged]) -> dict[Cell, Finding]:
    """Cells with too few answers to prove anything alone are tried together, under the sum of their δ."""
    rows = {lang: sample(judged, lang, desk.traffic) for lang in desk.languages}
    answers = {cell: answers_of(rows[cell.lang], _topics(desk, cell.group)) for cell in cells}
    found = {cell: find_threshold(answers[cell], cell.max_wrong, delta) for cell in cells}
    for rate in {cell.max_wrong for cell in cells}:
        small = [
            cell
            for cell in cells
            if cell.max_wrong == rate and 0 < len(answers[cell]) < answers_to_prove(rate, 1 - delta)
        ]
        if len(small) > 1:
            pooled = sum((answers[cell] for cell in small[1:]), answers[small[0]])
            together = find_threshold(pooled, rate, delta * len(small))
            if together.proven:
                found |= dict.fromkeys(small, together)
    return found


def _topics(desk: Desk, group: str | None) -> frozenset[str]:
    return frozenset(topic.id for topic in desk.topics if topic.group == group)


def _threshold(finding: Finding, max_wrong: float) -> Threshold:
    return Threshold(
        confidence=finding.confidence,  # not rounded: the gap that it lies in may be narrow
        margin=MARGIN,
        proven=finding.proven,
        bound=round(finding.bound, 6),
        max_wrong=max_wrong,
    )
