"""Thresholds of a desk from its held-out questions, under the risk that the desk states.

A question is decided by the real pipeline; what only a threshold keeps from being answered has a
confidence and is right or wrong. The questions of a language are cut to the traffic's proportions
(``risk.in_proportion``), and every group of topics gets the loosest threshold that is proven on them
(``risk.find_threshold``); δ is split over the groups.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edge.bundle import Threshold
from edge.normaliser import Lang
from export.desk import Desk, DeskTopic
from export.judged import Judged
from export.risk import Answers, Finding, answers_to_prove, find_threshold, in_proportion

# How far the best topic must lie above the second. Under 0.525 alone is it more than the threshold asks.
MARGIN = 0.05
# Above these probabilities of needing the history a turn is forwarded, without and with history. Chosen once,
# on older questions of the demo desk; no desk's calibration questions move them.
MAX_NEEDS_CONTEXT = 0.7
MAX_NEEDS_CONTEXT_IN_DIALOGUE = 0.2
OPEN = Threshold(confidence=0.0, margin=MARGIN, proven=True, bound=0.0, max_wrong=1.0)


@dataclass(frozen=True, slots=True)
class Cell:
    """Topics that share a threshold and a proof: those of one group and one stated rate, in one language."""

    lang: Lang
    group: str | None
    max_wrong: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The thresholds of a bundle by key, and what each rests on.

    Keys are ``lang``, ``group/lang`` and, for a topic with a rate of its own, ``topic:id/lang``; one without
    any evidence has no threshold. ``delta``: what each cell may spend. ``pooled``: keys whose cells were
    proven together only.
    """

    thresholds: Mapping[str, Threshold]
    findings: Mapping[str, Finding] = field(default_factory=dict)
    delta: float = 0.0
    pooled: frozenset[str] = frozenset()


def opened(desk: Desk) -> Calibration:
    """Thresholds that let everything through: what a pipeline has before it is calibrated."""
    return Calibration(dict.fromkeys(_keys(desk), OPEN))


def calibrate(desk: Desk, judged: Sequence[Judged], guided: Collection[Lang] = frozenset()) -> Calibration:
    """The threshold of every cell.

    ``guided``: languages whose questions are no sample of the traffic, so that nothing is proven by them.
    Parts of the traffic that they lack are left out there.
    """
    keys = _keys(desk)
    cells = sorted(set(keys.values()), key=str)
    delta = share_of_delta(desk)
    there = {(row.lang, row.question.stratum) for row in judged}
    rows = {
        lang: sample(
            judged,
            lang,
            {part: s for part, s in desk.traffic.items() if lang not in guided or (lang, part) in there},
        )
        for lang in desk.languages
    }
    answers = {cell: answers_of(rows[cell.lang], _topics(desk, cell)) for cell in cells}
    found = {cell: find_threshold(answers[cell], cell.max_wrong, delta) for cell in cells}
    together = _pool(answers, delta)
    found |= together
    # What guides has no size in questions of the traffic: how many more would prove is not told of it.
    found = {c: replace(f, proven=False, questions=0) if c.lang in guided else f for c, f in found.items()}
    return Calibration(
        {key: _threshold(found[c], c.max_wrong) for key, c in keys.items() if found[c].answered},
        {key: found[cell] for key, cell in keys.items()},
        delta,
        frozenset(key for key, cell in keys.items() if cell in together),
    )


def share_of_delta(desk: Desk) -> float:
    """The chance of a false proof that each cell may take: all of them together 1 - confidence."""
    return (1 - desk.risk.confidence) / max(1, len(set(_keys(desk).values())))


def sample(judged: Sequence[Judged], lang: Lang, traffic: Mapping[str, float]) -> list[Judged]:
    """The questions of a language in the traffic's proportions."""
    rows = [row for row in judged if row.lang is lang]
    strata = [row.question.stratum for row in rows]
    keys = ["\n".join([row.question.text, *(t.text for t in row.question.history)]) for row in rows]
    return [rows[i] for i in in_proportion(strata, keys, traffic)]


def answers_of(rows: Sequence[Judged], topics: frozenset[str] | None = None) -> Answers:
    """What thresholds may let through of some questions; ``topics``: only what these topics would answer."""
    opened = [row for row in rows if row.open and (topics is None or row.decision.topic in topics)]
    return Answers.of([row.confidence for row in opened], [not row.right for row in opened], len(rows))


def _keys(desk: Desk) -> dict[str, Cell]:
    """The cell of every key that a bundle looks thresholds up by."""
    keys = {}
    for lang in desk.languages:
        for topic in desk.topics:
            if lang in topic.answerable:
                cell = Cell(lang, topic.group, rate_of(desk, topic))
                if topic.max_wrong is not None:
                    keys[f"topic:{topic.id}/{lang}"] = cell
                else:
                    keys[str(lang) if topic.group is None else f"{topic.group}/{lang}"] = cell
    return keys


def rate_of(desk: Desk, topic: DeskTopic) -> float:
    """The stated rate of a topic: its own, else its group's, else the desk's."""
    if topic.max_wrong is not None:
        return topic.max_wrong
    return desk.risk.max_wrong if topic.group is None else desk.groups[topic.group]


def _pool(answers: Mapping[Cell, Answers], delta: float) -> dict[Cell, Finding]:
    """Cells with too few answers to prove anything alone, proven together under the sum of their shares.

    Those of one language and rate: the proof holds for the mix of topics and languages in the file.
    """
    small: dict[tuple[Lang, float], list[Cell]] = defaultdict(list)
    for cell, own in answers.items():
        if 0 < len(own) < answers_to_prove(cell.max_wrong, 1 - delta):
            small[cell.lang, cell.max_wrong].append(cell)
    found: dict[Cell, Finding] = {}
    for (_, rate), cells in small.items():
        rows = [answers[cell] for cell in cells]
        pooled = Answers.of(
            np.concatenate([own.confidence for own in rows]),
            np.concatenate([own.wrong for own in rows]),
            rows[0].questions,
        )
        finding = find_threshold(pooled, rate, delta * len(cells))
        if len(cells) > 1 and finding.proven:
            found |= dict.fromkeys(cells, finding)
    return found


def _topics(desk: Desk, cell: Cell) -> frozenset[str]:
    return frozenset(
        topic.id
        for topic in desk.topics
        if topic.group == cell.group and rate_of(desk, topic) == cell.max_wrong
    )


def _threshold(finding: Finding, max_wrong: float) -> Threshold:
    return Threshold(
        confidence=finding.confidence,
        margin=MARGIN,
        proven=finding.proven,
        bound=round(finding.bound, 6),
        max_wrong=max_wrong,
    )
