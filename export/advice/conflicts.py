"""Pairs of topics that the heads confuse with each other."""

import numpy as np

from export.advice.judged import Judged
from export.check import Finding
from export.desk import DeskTopic

# Were the demo desk's misses spread over all pairs of topics by chance, one pair of 2,556 would lose five.
LEAST = 5
LEAST_SHARE = 0.05
FORWARDED = 0.5  # what a lost example weighs where neither topic is answered here: only a hint is wrong
SHOWN = 3


def find_conflicts(judged: Judged) -> list[Finding]:
    """The pairs that lose most to each other; where both are forwarded, a loss counts half."""
    lost = confusion(judged)
    lost = lost + lost.T
    counts = np.bincount(judged.topic[judged.heard], minlength=len(judged.topics))
    pairs = [
        (a, b, int(lost[a, b]), int(counts[a] + counts[b]))
        for a, b in np.argwhere(np.triu(lost, 1) >= LEAST)
        if lost[a, b] >= LEAST_SHARE * (counts[a] + counts[b])
    ]
    pairs.sort(key=lambda pair: -pair[2] / pair[3] * (1.0 if _answered(judged, *pair[:2]) else FORWARDED))
    return [_finding(judged, *pair) for pair in pairs]


def confusion(judged: Judged) -> np.ndarray:
    """How many examples of topic a are taken for topic b, int ``[topics, topics]``; 0 on the diagonal."""
    counts = np.zeros((len(judged.topics),) * 2, np.int64)
    np.add.at(counts, (judged.topic[judged.heard], judged.said[judged.heard]), 1)
    np.fill_diagonal(counts, 0)
    return counts


def _answered(judged: Judged, a: int, b: int) -> bool:
    return bool(judged.topics[a].answerable or judged.topics[b].answerable)


def _finding(judged: Judged, a: int, b: int, lost: int, count: int) -> Finding:
    said, topic = judged.said, judged.topic
    rows = np.flatnonzero(judged.heard & (((topic == a) & (said == b)) | ((topic == b) & (said == a))))
    rows = rows[np.argsort(-judged.probability[rows].max(1), kind="stable")]
    worst = tuple(
        f"{example.where}: {example.text!r} reads like {judged.topics[said[row]].id}"
        for row, example in ((row, judged.examples[row]) for row in rows[:SHOWN])
    )
    first, second = judged.topics[a], judged.topics[b]
    return Finding(
        "advice",
        judged.examples[rows[0]].where,
        f"{first.id} and {second.id}: {lost} of {count} examples are taken for the other. "
        + _remedy(first, second),
        "conflict",
        worst,
    )


def _remedy(first: DeskTopic, second: DeskTopic) -> str:
    if first.answerable and second.answerable:
        return (
            "Users may get the other's answer: write examples of both that show what tells them apart, "
            "or merge them."
        )
    if first.route == second.route:
        return (
            "Both are forwarded, so only the hint may be wrong: merge them unless the agent treats "
            "them differently."
        )
    answered = next((topic for topic in (first, second) if topic.answerable), None)
    if answered is None:
        return (
            "Both are forwarded, but the hint may be wrong: write examples that show what tells them apart."
        )
    other = second if answered is first else first
    return (
        f"{answered.id} is answered here and {other.id} is not: write examples of both that differ only in "
        "what decides it."
    )
