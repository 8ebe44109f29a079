"""What is called for a query, and what speaks against it, on readings written by hand."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from toolkit import ORDER, ORDER_EN, with_tools

from edge.decision import Candidate, Decision, Filled, Level, Missing, Reading, Reason, Suggestion
from edge.decision import Path as Way
from edge.normaliser import Lang
from edge.pipeline import Pipeline
from edge.query import Query
from edge.stages import Case, Runtime
from edge.stages.guard import guard
from edge.stages.route import route

TODAY = date(2026, 3, 1)
ORDERS, EXPENSES = "shop.order_status", "staff.expense_status"
TEMPLATES = {
    ORDERS: {Lang.EN: ORDER_EN, Lang.ZH: ORDER},
    EXPENSES: {Lang.EN: "You have {get_expense_status.count} claims."},
}


@pytest.fixture(scope="module")
def runtime(demo: Pipeline) -> Runtime:
    """The demo with two tools that answer; no example of their topics has a signal."""
    called = {"get_order": {"use": Level.ANSWER}, "get_expense_status": {"use": Level.ANSWER}}
    bundle = with_tools(called, TEMPLATES)(demo.runtime.bundle)
    allowed = {**bundle.guards.allowed, ORDERS: frozenset[str](), EXPENSES: frozenset[str]()}
    bundle = replace(bundle, guards=replace(bundle.guards, allowed=allowed))
    return replace(demo.runtime, bundle=bundle, callable=bundle.called)


def decide(runtime: Runtime, text: str, topic: str = ORDERS, confidence: float = 0.9) -> Decision:
    query = Query.of_text(text, runtime.bundle.normaliser)
    candidates = (Candidate(topic, confidence), Candidate("agent.write", 0.01))
    reading = Reading(candidates, 0.9, 0.1, 4, np.zeros(2, np.float32), 9)
    return route(guard(Case(query, TODAY, reading), runtime), runtime)


@pytest.mark.parametrize(
    "text",
    ["where is order 77410", "77410 到哪了", "order no 20881, has it shipped", "单号６６０４１，查一下"],
)
def test_the_value_of_a_slot_is_no_objection(runtime: Runtime, text: str) -> None:
    decision = decide(runtime, text)
    assert decision.guards == ()
    assert (decision.path, decision.reason) == (Way.TOOL, Reason.MATCHED)
    assert [call.level for call in decision.calls] == [Level.ANSWER]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("where is order 77410, the 6 headsets", Reason.NUMBER_MISMATCH),
        ("cancel order 77410", Reason.NEGATION_MISMATCH),
        ("why has order 77410 not been sent", Reason.NEGATION_MISMATCH),
        ("where is my order", Reason.SLOT_MISSING),
        ("where is order 77410 or 88120", Reason.NUMBER_MISMATCH),
    ],
)
def test_whatever_else_it_says_still_is(runtime: Runtime, text: str, reason: Reason) -> None:
    decision = decide(runtime, text)
    assert (decision.path, decision.reason, decision.calls) == (Way.AGENT, reason, ())


def test_numbers_in_a_question_for_a_curated_answer_are_objections_whatever_its_tools(
    runtime: Runtime,
) -> None:
    topics = tuple(replace(t, route="answer") if t.id == ORDERS else t for t in runtime.bundle.topics)
    bundle = replace(runtime.bundle, topics=topics, by_id={topic.id: topic for topic in topics})
    decision = decide(replace(runtime, bundle=bundle), "where is order 77410")
    assert decision.reason is Reason.NUMBER_MISMATCH
    assert decision.tools[0].values == {"order_id": "77410"}


def test_an_optional_slot_may_be_left_out_but_not_guessed(runtime: Runtime) -> None:
    assert decide(runtime, "has my expense claim been paid", EXPENSES).path is Way.TOOL
    doubtful = decide(runtime, "has claim 20391 or 20392 been paid", EXPENSES)
    assert (doubtful.path, doubtful.calls) == (Way.AGENT, ())


@pytest.mark.parametrize(
    ("slot", "complete"),
    [
        (Filled("1024", "1024"), True),
        (Missing("caller"), True),
        (Missing("not_said", required=False), True),
        (Missing("free_text", required=False), True),
        (Missing("not_said"), False),
        (Missing("free_text"), False),
        (Missing("ambiguous"), False),
        (Missing("ambiguous", required=False), False),
        (Missing("invalid", required=False), False),
    ],
)
def test_a_suggestion_is_complete_where_nothing_is_in_doubt(slot: Filled | Missing, complete: bool) -> None:
    assert Suggestion("get", {"a": slot, "b": Filled("1", "1")}).is_complete is complete


def test_after_its_last_day_a_topic_is_not_answered_by_its_tools(runtime: Runtime) -> None:
    topics = tuple(
        replace(t, valid_until=date(2026, 2, 28)) if t.id == ORDERS else t for t in runtime.bundle.topics
    )
    bundle = replace(runtime.bundle, topics=topics, by_id={topic.id: topic for topic in topics})
    decision = decide(replace(runtime, bundle=bundle), "where is order 77410")
    assert (decision.path, decision.reason, decision.calls) == (Way.AGENT, Reason.ANSWER_EXPIRED, ())
