"""Topics that need more examples, by how well they are learnt."""

import math

import numpy as np

from export.advice.conflicts import confusion
from export.advice.judged import Judged
from export.check import MIN_EXAMPLES, Finding
from export.desk import DeskTopic

MAX_RECALL = 0.7
DEVIATIONS = 2.0  # below the median topic; less may be chance
ENOUGH = 100  # examples, from which on more of them are not what a topic lacks
# Misses fall with the count of examples to this power: on the demo desk they were 36, 27 and 21 % of a
# topic's examples with a quarter, a half and all of the others to learn from.
LEARNING = 0.38
ROUND = 5


def find_needs(judged: Judged) -> list[Finding]:
    """The topics that are learnt badly of few examples, the worst first.

    A topic that loses its texts mostly to one other needs no more of them; that is a conflict.
    """
    recall, lost = judged.recall, confusion(judged)
    counts = np.bincount(judged.topic[judged.heard], minlength=len(judged.topics))
    usual = float(np.median(recall))
    found = []
    for number in np.argsort(recall, kind="stable"):
        count = int(counts[number])
        if not MIN_EXAMPLES <= count < ENOUGH or recall[number] >= MAX_RECALL:
            continue  # fewer are told by their count alone
        chance = DEVIATIONS * math.sqrt(usual * (1 - usual) / count)
        if recall[number] > usual - chance or 2 * lost[number].max() >= lost[number].sum():
            continue
        found.append(_finding(judged, int(number), count, float(recall[number]), usual))
    return found


def more_examples(count: int, recall: float, aim: float = MAX_RECALL) -> int:
    """How many more would bring a topic to ``aim``, in fives; at most as many as it has.

    Further the law of learning is not to be trusted.
    """
    factor = min(2.0, ((1 - recall) / (1 - aim)) ** (1 / LEARNING))
    return max(ROUND, ROUND * int(count * (factor - 1) / ROUND + 0.5))


def _finding(judged: Judged, number: int, count: int, recall: float, usual: float) -> Finding:
    topic = judged.topics[number]
    return Finding(
        "advice",
        topic.where,
        f"{topic.id}: {recall:.0%} of its {count} examples are recognised by the others"
        f"{_by_language(judged, topic, number)}, {usual:.0%} are usual in this desk; write about "
        f"{more_examples(count, recall)} more, in words that are not there yet.",
        "learning",
    )


def _by_language(judged: Judged, topic: DeskTopic, number: int) -> str:
    """ ", en 50 %, zh 73 %" where a topic has several languages."""
    shares = []
    for lang in topic.examples:
        rows = [
            row
            for row in np.flatnonzero(judged.heard & (judged.topic == number))
            if judged.examples[row].lang == lang
        ]
        if rows:
            shares.append(f"{lang} {np.mean(judged.said[rows] == number):.0%}")
    return f" ({', '.join(shares)})" if len(shares) > 1 else ""
