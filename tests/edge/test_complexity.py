"""What the agent is told of a turn's complexity, from decisions and from the demo desk."""

from dataclasses import replace

import numpy as np
import pytest

from edge.complexity import SHORT_TOKENS, Complexity, complexity_of
from edge.decision import Candidate, Decision, GuardHit, Path, Reading, Reason
from edge.pipeline import Pipeline
from edge.query import Query

READING = Reading((Candidate("a", 0.9),), 1.0, 0.0, 0, np.zeros(1, np.float32), tokens=5)
FORWARD = Decision(
    Path.AGENT,
    Reason.TOPIC_FORWARDS,
    "en",
    READING,
    "a",
    guards=(GuardHit("topic_forwards", Reason.TOPIC_FORWARDS, "tool"),),
)


def objecting(reason: Reason) -> Decision:
    return replace(FORWARD, guards=(GuardHit(reason.value, reason, ""), *FORWARD.guards))


def test_one_request_of_a_known_topic_is_for_a_small_model() -> None:
    assert complexity_of(FORWARD, ["get_order"]) == Complexity("single", "short", "small")
    assert complexity_of(FORWARD, []).tier == "small"


def test_two_tools_are_for_a_large_model() -> None:
    assert complexity_of(FORWARD, ["a", "b"]) == Complexity("single", "short", "large")


@pytest.mark.parametrize("reason", [r for r in Reason if r.name.endswith(("MISMATCH", "CONTEXT", "ASK"))])
def test_what_a_guard_doubts_is_for_a_large_model(reason: Reason) -> None:
    assert complexity_of(objecting(reason), []) == Complexity("single", "short", "large")


@pytest.mark.parametrize("reason", [Reason.UNPROVEN, Reason.ANSWER_EXPIRED, Reason.NO_ANSWER_IN_LANGUAGE])
def test_what_is_the_desks_fault_says_nothing_of_the_turn(reason: Reason) -> None:
    assert complexity_of(objecting(reason), []).tier == "small"


def test_length_is_told_in_three_classes() -> None:
    for tokens, length in (
        (1, "short"),
        (SHORT_TOKENS, "short"),
        (SHORT_TOKENS + 1, "medium"),
        (64, "medium"),
    ):
        decision = replace(FORWARD, reading=replace(READING, tokens=tokens))
        assert complexity_of(decision, []).length == length
    unread = replace(objecting(Reason.TOO_LONG), reading=None, topic=None)
    assert complexity_of(unread, []) == Complexity("single", "long", "large")


def test_of_what_was_not_read_nothing_is_told() -> None:
    assert complexity_of(Decision(Path.AGENT, Reason.NOT_READY), []) == Complexity("single", None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("订单 1024 到哪了", Complexity("single", "short", "small")),
        ("how many days off do I have left and when is payday", Complexity("multi", "short", "large")),
        ("write a poem", Complexity("single", "short", "large")),
        ("where is it " * 40, Complexity("single", "long", "large")),
    ],
)
def test_turns_at_the_demo_desk(demo: Pipeline, text: str, expected: Complexity) -> None:
    bundle = demo.runtime.bundle
    body = {"messages": [{"role": "user", "content": text}]}
    decision = demo.decide(Query.of_body(body, bundle.normaliser, ""))
    tools = bundle.by_id[decision.topic].tools if decision.topic else ()
    assert complexity_of(decision, tools) == expected
