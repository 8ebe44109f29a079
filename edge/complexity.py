"""How much a forwarded turn asks of the agent, as far as the decision tells: rules, not a measurement."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edge.decision import Decision, Reading, Reason

# The most router tokens of a short text. What the router can read is medium, what it cannot is long.
SHORT_TOKENS = 16
# These tell why the edge does not answer a turn, and nothing of how hard it is.
_EASY = frozenset(
    {
        Reason.TOPIC_FORWARDS,
        Reason.UNPROVEN,
        Reason.ANSWER_EXPIRED,
        Reason.NO_ANSWER_IN_LANGUAGE,
        Reason.SLOT_MISSING,
    }
)


@dataclass(frozen=True, slots=True)
class Complexity:
    """``length`` is that of the last user turn; None where nothing is known of it, as for ``tier``."""

    requests: Literal["single", "multi"]
    length: Literal["short", "medium", "long"] | None
    tier: Literal["small", "large"] | None


def complexity_of(decision: Decision, tools: Sequence[str]) -> Complexity:
    """The complexity of a turn whose topic declares ``tools``.

    A small model is suggested for one request of a known topic that needs one tool at most and that no
    guard, confidence or option speaks against; in doubt a large one.
    """
    reasons = {hit.reason for hit in decision.guards}
    hard = bool(reasons - _EASY) or len(tools) > 1
    return Complexity(
        requests="multi" if Reason.MULTI_REQUEST in reasons else "single",
        length="long" if Reason.TOO_LONG in reasons else _length(decision.reading),
        tier="large" if hard else None if decision.topic is None else "small",
    )


def _length(reading: Reading | None) -> Literal["short", "medium"] | None:
    if reading is None:
        return None
    return "short" if reading.tokens <= SHORT_TOKENS else "medium"
