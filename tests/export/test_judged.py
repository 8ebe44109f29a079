"""What a judged question counts as, by hand and with the demo bundle's own pipeline."""

from dataclasses import replace

import pytest
from judged_rows import row

from edge.bundle import Threshold
from edge.decision import Reason
from edge.normaliser import Lang
from edge.pipeline import Pipeline
from edge.query import Turn
from export.desk import Question
from export.judged import Judged, judge

EXACT = "公司几点上班？"
TOPIC = "staff.working_hours"


def with_threshold(demo: Pipeline, threshold: Threshold, unproven: bool = False) -> Pipeline:
    """The demo under one threshold for everything."""
    keys = {str(lang): threshold for lang in demo.runtime.bundle.languages}
    bundle = replace(demo.runtime.bundle, thresholds=keys, answer_unproven=unproven)
    return Pipeline(replace(demo.runtime, bundle=bundle))


OPEN = Threshold(0.0, 0.0, True, 0.0, 1.0)


def ask(pipeline: Pipeline, text: str, topic: str = TOPIC, lang: Lang = Lang.EN, kind: str = "") -> Judged:
    [judged] = judge(pipeline, [Question(text, topic, lang, kind)])
    return judged


def test_an_exact_text_is_answered_without_a_threshold(demo: Pipeline) -> None:
    judged = ask(demo, EXACT, lang=Lang.ZH)
    assert (judged.answered, judged.right, judged.open) == (True, True, False)
    assert (judged.confidence, judged.stopped_by) == (1.0, frozenset())


def test_the_language_is_the_one_that_is_read() -> None:
    judged = row("几点", "hours", "hours", lang=Lang.ZH)
    labelled = replace(judged, question=replace(judged.question, lang=Lang.EN))
    assert labelled.lang is Lang.ZH
    # What is in no language that is read counts where it is labelled.
    assert replace(labelled, decision=replace(judged.decision, lang=None)).lang is Lang.EN


def test_right_is_the_topic_that_was_asked_and_never_a_follow_up(demo: Pipeline) -> None:
    assert not ask(demo, EXACT, "staff.payday", Lang.ZH).right
    assert not ask(demo, EXACT, "oos", Lang.ZH).right
    assert not ask(demo, EXACT, lang=Lang.ZH, kind="follow_up").right
    assert ask(demo, EXACT, lang=Lang.ZH, kind="near_miss").right


def test_a_question_is_open_where_only_a_threshold_is_against_it(demo: Pipeline) -> None:
    text = "at what hour must i be in the office"
    answered = ask(with_threshold(demo, OPEN), text)
    assert (answered.answered, answered.open, answered.right) == (True, True, True)
    assert 0 < answered.confidence < 1
    for threshold, reason in (
        (replace(OPEN, confidence=1.0), Reason.LOW_CONFIDENCE),
        (replace(OPEN, proven=False), Reason.UNPROVEN),
    ):
        judged = ask(with_threshold(demo, threshold), text)
        assert (judged.answered, judged.open, judged.right) == (False, True, True)
        assert (judged.decision.reason, judged.stopped_by) == (reason, frozenset())
        assert judged.confidence == answered.confidence
    margin = ask(with_threshold(demo, replace(OPEN, margin=1.0)), text)
    assert (margin.decision.reason, margin.open, margin.stopped_by) == (
        Reason.LOW_MARGIN, False, frozenset(),
    )  # fmt: skip


def test_a_guard_is_named_where_it_alone_is_against_an_answer(demo: Pipeline) -> None:
    text = "what time do we start on sunday"
    judged = ask(with_threshold(demo, OPEN), text)
    assert (judged.answered, judged.open) == (False, False)
    assert judged.stopped_by == {hit.name for hit in judged.decision.guards} == {"weekday"}
    # With a threshold against it, too, the guard kept nothing from being answered.
    assert ask(with_threshold(demo, replace(OPEN, confidence=1.0)), text).stopped_by == frozenset()


def test_other_routes_and_unread_texts_are_neither_open_nor_stopped(demo: Pipeline) -> None:
    pipeline = with_threshold(demo, OPEN)
    routed = ask(pipeline, "帮我看看上个月的工资条", "staff.payslip", Lang.ZH)
    assert routed.decision.reason is Reason.TOPIC_FORWARDS
    unread = ask(pipeline, "几点上班" * 40, lang=Lang.ZH)
    assert (unread.decision.reading, unread.confidence) == (None, 0.0)
    by_tools = ask(pipeline, "订单 1024 到哪了", "shop.order_status", Lang.ZH)
    assert (by_tools.answered, by_tools.open, by_tools.right) == (True, True, True)
    for judged in (routed, unread):
        assert (judged.answered, judged.open, judged.stopped_by) == (False, False, frozenset())


def test_questions_are_judged_in_order_with_their_history(demo: Pipeline) -> None:
    text = "at what hour must i be in the office"
    history = (Turn("user", "I am asking about my other job."), Turn("assistant", "Which one is it?"))
    given = [
        Question(text, TOPIC, Lang.EN),
        Question(text, TOPIC, Lang.EN, "follow_up", history),
        Question(EXACT, TOPIC, Lang.ZH),
    ]
    judged = judge(with_threshold(demo, OPEN), iter(given))
    assert [row.question for row in judged] == given
    assert [row.answered for row in judged] == [True, False, True]
    assert judged[1].decision.reason is Reason.NEEDS_CONTEXT
    assert all(row.ms > 0 for row in judged)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.UNSUPPORTED_LANGUAGE,
        Reason.MULTI_REQUEST,
        Reason.NEEDS_CONTEXT,
        Reason.RE_ASK,
        Reason.OUT_OF_SCOPE,
        Reason.NEGATION_MISMATCH,
        Reason.NUMBER_MISMATCH,
        Reason.ENTITY_MISMATCH,
    ],
)
def test_guards_that_stop(reason: Reason) -> None:
    judged = row("q", "hours", "hours", reason=reason, guards=("one", "two"))
    assert (judged.open, judged.stopped_by) == (False, frozenset({"one", "two"}))


@pytest.mark.parametrize(
    "reason", [Reason.LOW_MARGIN, Reason.TOPIC_FORWARDS, Reason.ANSWER_EXPIRED, Reason.NO_ANSWER_IN_LANGUAGE]
)
def test_what_no_threshold_opens_and_no_guard_says(reason: Reason) -> None:
    judged = row("q", "hours", "hours", reason=reason)
    assert (judged.open, judged.stopped_by) == (False, frozenset())
