"""Examples that may stand in the wrong topic.

Confident learning (Northcutt, Jiang and Chuang 2021, https://arxiv.org/abs/1911.00068): an example is
suspect if heads that did not see it give another topic a probability that reaches the mean probability with
which that topic's own examples are recognised. Alone this names every seventh example of the demo desk, most
of them rightly where they are; so the example must also be a stranger in its own topic, by its probability
there and by its neighbours. docs/desk.md says what is found, and how often rightly.
"""

import numpy as np

from export.advice.judged import Judged
from export.check import Finding

# Chosen on wrong labels planted in the demo desk at random.
MAX_OWN = 0.01
ENOUGH = 0.5  # a probability of another topic that suffices, however sure that topic is of its own
STRANGE = -3.0  # standard deviations below the topic's other examples, in log probability
LEAST_SPREAD = 0.5
NEIGHBOURS = 10
LEAST_EXAMPLES = 5  # of a topic, to say what is strange there


def find_suspects(judged: Judged) -> list[Finding]:
    """The suspect examples, the least probable first."""
    rows = suspect_rows(judged)
    return [_finding(judged, int(row)) for row in rows]


def suspect_rows(judged: Judged) -> np.ndarray:
    """The rows of the suspect examples, int, the least probable in their own topic first."""
    topic, own = judged.topic, judged.own
    others = judged.probability.copy()
    others[np.arange(len(topic)), topic] = -1.0
    other = others.argmax(1)
    counts = np.bincount(topic, minlength=len(judged.topics))
    usual = np.bincount(topic, own, minlength=len(judged.topics)) / np.maximum(counts, 1)
    confident = others.max(1) >= np.minimum(usual[other], ENOUGH)
    strange = _strangeness(own, topic) <= STRANGE
    rows = np.flatnonzero(judged.heard & confident & strange & (own <= MAX_OWN))
    rows = rows[~_has_kin(judged, rows)]
    return np.asarray(rows[np.argsort(own[rows], kind="stable")])


def _strangeness(own: np.ndarray, topic: np.ndarray) -> np.ndarray:
    """How many standard deviations each example's log probability lies above the topic's other examples'.

    The example itself is left out of mean and deviation: in a topic of ten it would hide itself.
    """
    logs = np.log(np.maximum(own, 1e-12))
    out = np.zeros(len(own))
    for number in np.unique(topic):
        rows = np.flatnonzero(topic == number)
        rest = len(rows) - 1
        if rest < LEAST_EXAMPLES:
            continue
        values = logs[rows]
        mean = (values.sum() - values) / rest
        variance = np.maximum(((values**2).sum() - values**2) / rest - mean**2, 0.0)
        out[rows] = (values - mean) / np.maximum(np.sqrt(variance), LEAST_SPREAD)
    return out


def _has_kin(judged: Judged, rows: np.ndarray) -> np.ndarray:
    """Whether an example of its own topic is among the nearest of each row, bool ``[rows]``."""
    x = judged.embeddings[-1]
    nearness = x[rows] @ x.T
    nearness[np.arange(len(rows)), rows] = -np.inf
    nearest = np.argsort(-nearness, axis=1)[:, :NEIGHBOURS]
    return np.asarray((judged.topic[nearest] == judged.topic[rows][:, None]).any(1))


def _finding(judged: Judged, row: int) -> Finding:
    example = judged.examples[row]
    own, other = judged.topics[judged.topic[row]], judged.topics[judged.said[row]]
    return Finding(
        "advice",
        example.where,
        f"{example.text!r} stands in {own.id}, but reads like {other.id} (by the other examples, "
        f"{judged.probability[row].max():.0%} sure): move it if it was misplaced; if not, write two or three "
        "more of its sort.",
        "suspect",
    )
