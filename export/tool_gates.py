"""From which confidence on a tool is the right one: what it may be called for before an answer is sure.

A gate is found as a threshold is (``risk.find_threshold``), from the calls that the real pipeline would make
on the calibration questions, in the traffic's proportions. Tools with too few calls to prove anything alone
are tried together, as groups of topics are: what is proven then holds for all of them together only.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edge.decision import Level, Reason
from edge.normaliser import Lang
from edge.tools import Tool
from export.calibrate import sample
from export.desk import FOLLOW_UP, Desk
from export.judged import Judged
from export.risk import Answers, Finding, answers_to_prove, find_threshold, upper_bound
from export.tools import use_of

# How often a called tool must be the right one, at least. A prefetch that nobody collects costs one call, and
# one that is collected saves about as much of a user's waiting: it pays from even odds on. What is injected
# the agent's model reads as if it had asked for it, and cannot leave: nine in ten must be right.
PRECISION = {Level.PREFETCH: 0.5, Level.INJECT: 0.9}
DELTA = 0.05  # of each gate by itself: a wrong one wastes calls, and no answer rests on it

Called = Mapping[tuple[str, Lang], tuple[tuple[float, bool], ...]]


@dataclass(frozen=True, slots=True)
class Gate:
    """The calls of a tool in one language from a confidence on, ``right`` of ``called``.

    ``confidence`` is None where no gate is proven; the counts then are of all calls that there might be.
    ``bound``: the lower bound of the share that is right; ``pooled``: proven together with other tools only.
    """

    tool: str
    level: str
    lang: str
    confidence: float | None
    called: int
    right: int
    bound: float
    pooled: bool = False

    @property
    def precision(self) -> float | None:
        """The share that is right; None without a call."""
        return self.right / self.called if self.called else None


def gates(desk: Desk, judged: Sequence[Judged], guided: Collection[Lang] = ()) -> tuple[Gate, ...]:
    """A gate for each tool, language and level that its ``use`` allows; unproven in ``guided`` languages.

    ``judged``: the calibration questions as an opened pipeline decides them, which calls what may be called.
    A level's gate is never below that of the level before, and without that one there is none.
    """
    topics = {topic.id: topic.tools for topic in desk.topics}
    uses = {tool["name"]: Level.of(use_of(tool)) for tool in desk.tools}
    found: dict[tuple[str, Lang, Level], Gate] = {}
    for lang in desk.languages:
        called = calls_of([] if lang in guided else sample(judged, lang, desk.traffic), topics)
        least: dict[str, float | None] = dict.fromkeys(uses, 0.0)
        for level, precision in PRECISION.items():
            own = {name: _answers(called.get((name, lang), ())) for name in uses if uses[name] >= level}
            together = _pool(own, precision)
            for name, answers in own.items():
                finding = together.get(name) or find_threshold(answers, 1 - precision, DELTA)
                gate = _gate(finding, answers, least[name])
                found[name, lang, level] = Gate(
                    name, str(level), str(lang), *gate, pooled=gate[0] is not None and name in together
                )
                least[name] = gate[0]
    return tuple(
        found[name, lang, level]
        for name in uses
        for lang in desk.languages
        for level in PRECISION
        if uses[name] >= level
    )


def calls_of(judged: Sequence[Judged], tools: Mapping[str, Collection[str]]) -> Called:
    """(confidence, right) of every call by tool and language. ``tools``: those of each topic.

    Right is a tool of the topic that is asked about; to a turn that needs its history none is. Of a turn with
    several requests nothing is counted: a question names one topic.
    """
    found: dict[tuple[str, Lang], list[tuple[float, bool]]] = defaultdict(list)
    for row in judged:
        if any(hit.reason is Reason.MULTI_REQUEST for hit in row.decision.guards) or row.lang is None:
            continue
        own = tools.get(row.question.topic, ()) if row.question.kind != FOLLOW_UP else ()
        for call in row.decision.calls:
            name = call.suggestion.tool
            found[name, row.lang].append((call.confidence, name in own))
    return {key: tuple(calls) for key, calls in found.items()}


def seen_in(
    tools: Iterable[Tool], languages: Sequence[Lang], called: Called, confidence: float
) -> tuple[Gate, ...]:
    """The gates of a bundle's tools with the calls from each on; bounds hold at ``confidence``."""
    found = []
    for tool in tools:
        for lang in languages:
            for level in (level for level in PRECISION if tool.use >= level):
                gate = tool.gates.get((level, lang))
                calls = called.get((tool.name, lang), ())
                passed = [right for sure, right in calls if gate is not None and sure >= gate]
                right, count = sum(passed), len(passed)
                bound = 1 - upper_bound(count - right, count, confidence)
                found.append(Gate(tool.name, str(level), str(lang), gate, count, right, bound))
    return tuple(found)


def merged(found: Iterable[Gate]) -> tuple[Gate, ...]:
    """For tables: levels of one tool and language that differ in nothing else are one row."""
    rows: list[Gate] = []
    for gate in found:
        if rows and replace(rows[-1], level=gate.level) == gate:
            rows[-1] = replace(rows[-1], level=f"{rows[-1].level}, {gate.level}")
        else:
            rows.append(gate)
    return tuple(rows)


def gate_entry(found: Sequence[Gate], tool: Mapping[str, Any], languages: Sequence[Lang]) -> dict[str, Any]:
    """``gates`` and ``precision`` of a manifest's tool: a confidence, and counts, by level and language."""
    own = {(gate.level, gate.lang): gate for gate in found if gate.tool == tool["name"]}
    entry: dict[str, Any] = {"gates": {}, "precision": {}}
    for level in map(str, PRECISION):
        by_lang = {str(lang): own.get((level, str(lang))) for lang in languages}
        entry["gates"][level] = {lang: gate and gate.confidence for lang, gate in by_lang.items()}
        entry["precision"][level] = {
            lang: {"called": gate.called if gate else 0, "right": gate.right if gate else 0}
            for lang, gate in by_lang.items()
        }
    return entry


def opened_gates(desk: Desk) -> tuple[Gate, ...]:
    """Gates that let everything through that ``use`` allows: what a pipeline has before it is calibrated."""
    return tuple(
        Gate(tool["name"], str(level), str(lang), 0.0, 0, 0, 0.0)
        for tool in desk.tools
        for level in PRECISION
        if Level.of(use_of(tool)) >= level
        for lang in desk.languages
    )


def _answers(calls: Sequence[tuple[float, bool]]) -> Answers:
    return Answers.of([sure for sure, _ in calls], [not right for _, right in calls], len(calls))


def _pool(answers: Mapping[str, Answers], precision: float) -> dict[str, Finding]:
    """The one finding of the tools with too few calls to prove anything alone, where it proves something."""
    least = answers_to_prove(1 - precision, 1 - DELTA)
    small = {name: own for name, own in answers.items() if 0 < len(own) < least}
    if len(small) < 2:
        return {}
    confidence = np.concatenate([own.confidence for own in small.values()])
    wrong = np.concatenate([own.wrong for own in small.values()])
    finding = find_threshold(Answers.of(confidence, wrong, len(wrong)), 1 - precision, DELTA)
    return dict.fromkeys(small, finding) if finding.proven else {}


def _gate(finding: Finding, own: Answers, least: float | None) -> tuple[float | None, int, int, float]:
    """The gate, how many are called from it on, right ones, and the lower bound; else those of all calls."""
    gate = max(finding.confidence, least) if finding.proven and least is not None else None
    wrong = own.wrong if gate is None else own.wrong[own.confidence >= gate]
    count, errors = len(wrong), int(wrong.sum())
    bound = upper_bound(errors, count, 1 - DELTA) if gate is None else finding.bound
    return gate, count, count - errors, round(1 - bound, 6)
