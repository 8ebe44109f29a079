"""When a row may leave early: from what the exits say of texts that their heads never saw."""

from collections.abc import Sequence

import numpy as np

from export.compose import NEVER, ExitRules
from export.heads import Heads, Held

# Of the texts that leave at an exit, at most this share would get another topic at the last one, or its topic
# with a confidence lower by more than SLACK. Words alone are soon sure of a near miss: exits that asked only
# for the same topic let more wrong answers through at the same coverage (docs/router.md).
MAX_DISAGREEMENT = 0.01
SLACK = 0.1
# Under these an early reading is never taken, however sure the topic.
MIN_IN_SCOPE = 0.5
MAX_NEEDS_CONTEXT = 0.2


def exit_rules(heads: Sequence[Heads], topics: Sequence[bool], most: float = MAX_DISAGREEMENT) -> ExitRules:
    """Thresholds for every exit but the last.

    ``topics``: which topics may leave early; those whose way needs the sentence embedding may not.
    """
    open_ = np.asarray(topics, bool)
    rows = [np.where(open_, _threshold(early.held, heads[-1].held, most), NEVER) for early in heads[:-1]]
    early = len(heads) - 1
    return ExitRules(
        np.asarray(rows, np.float32).reshape(early, len(open_)),
        np.full(early, MIN_IN_SCOPE, np.float32),
        np.full(early, MAX_NEEDS_CONTEXT, np.float32),
    )


def _threshold(early: Held, last: Held, most: float) -> float:
    """The lowest confidence down to which the share of disagreements is at most ``most``.

    A text that the last exit calls out of scope must not leave as a topic either. The threshold lies in
    the middle between two scores, so that rounding carries no text across it.
    """
    leaving = np.flatnonzero(early.in_scope >= MIN_IN_SCOPE)
    order = leaving[np.argsort(-early.confidence[leaving], kind="stable")]
    agrees = (early.said == last.said) & (last.in_scope >= MIN_IN_SCOPE)
    differs = ~(agrees & (last.confidence >= early.confidence - SLACK))[order]
    share = np.cumsum(differs) / np.arange(1, len(order) + 1)
    scores = early.confidence[order]
    ends = np.append(scores[1:] != scores[:-1], True)  # equal scores leave together or not at all
    kept = np.flatnonzero((share <= most) & ends)
    if not len(kept):
        return NEVER
    count = int(kept[-1]) + 1
    below = scores[count] if count < len(order) else scores[count - 1]
    return float((scores[count - 1] + below) / 2)
