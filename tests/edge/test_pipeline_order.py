"""The order of reasons: of all that speaks against a local answer, the first in the order is given.

The stages are run on readings written by hand, so no router is needed; ``read`` has its own tests.
"""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge.bundle import Bundle, Threshold, Topic
from edge.config import Answering
from edge.decision import Answer, Candidate, Decision, Reading, Reason
from edge.decision import Path as Way
from edge.guards import Guards
from edge.normaliser import Lang, Normaliser
from edge.pairs import PairGuard
from edge.pipeline import STAGES, Pipeline, place
from edge.query import Query, Turn
from edge.router import Router
from edge.slots import SlotFiller
from edge.stages import Case, Runtime
from edge.stages.bypass import bypass
from edge.stages.exact import exact
from edge.stages.guard import guard
from edge.stages.read import read
from edge.stages.route import route
from export.pairs import pair_data
from export.slots import slot_data

TODAY = date(2026, 3, 1)
GUARDS = Guards.of_data(
    {
        "patterns": [
            {"name": "also", "reason": "multi_request", "pattern": "and also", "dialogue": False},
            {"name": "it", "reason": "needs_context", "pattern": "about it", "dialogue": False},
        ],
        "terms": "not|saturday",
        "signals": {"not": "negation", "saturday": "weekday:saturday"},
        "numbers": "(?P<value>[0-9]+)(?P<unit>)",
        "units": {},
        "number_words": {},
        "reasons": {
            "negation": "negation_mismatch",
            "number": "number_mismatch",
            "weekday": "entity_mismatch",
        },
    },
    {"hours": [], "leave": [], "chat": None},
)
TOPICS = (
    Topic("hours", "answer"),
    Topic("leave", "answer", valid_until=date(2026, 2, 28)),
    Topic("chat", "agent"),
)
ANSWERS = {
    (topic, Lang.EN): Answer(topic, Lang.EN, f"The answer on {topic}.", 5) for topic in ("hours", "leave")
}
SLOTS = SlotFiller.of_data({}, slot_data(), Normaliser())
BUNDLE = Bundle(
    folder=Path(),
    name="demo",
    version="1",
    languages=(Lang.EN, Lang.ZH),
    max_tokens=64,
    normaliser=Normaliser(),
    topics=TOPICS,
    thresholds={key: Threshold(0.8, 0.2, True, 0.008, 0.01) for key in ("en", "zh")},
    min_in_scope=0.5,
    max_needs_context=0.5,
    max_needs_context_in_dialogue=0.3,
    public=True,
    answer_unproven=False,
    system_prompts=frozenset({"known"}),
    guards=GUARDS,
    pairs=PairGuard.of_data(pair_data(), SLOTS.calendar, Normaliser()),
    tools={},
    slots=SLOTS,
    answers=ANSWERS,
    exact={"when do you open": "hours", "how much leave": "leave", "tell me": "chat"},
    self_test=(),
    by_id={topic.id: topic for topic in TOPICS},
    answer_topics={answer.text: answer.topic for answer in ANSWERS.values()},
)
SURE = Reading(
    (Candidate("hours", 0.95), Candidate("leave", 0.02)), 0.99, 0.01, 1, np.zeros(2, np.float32), 6
)


def reading(topic: str = "hours", confidence: float = 0.95, second: float = 0.02, **changes: Any) -> Reading:
    return replace(SURE, candidates=(Candidate(topic, confidence), Candidate("other", second)), **changes)


def decide(
    query: Query, found: Reading | None = SURE, bundle: Bundle = BUNDLE, today: date = TODAY
) -> Decision:
    runtime = Runtime(bundle, Router.__new__(Router))  # none of these four stages runs it
    case = bypass(Case(query, today), runtime)
    outcome = exact(case, runtime)
    if isinstance(outcome, Decision):
        return outcome
    return route(guard(replace(outcome, reading=found), runtime), runtime)


def ask(text: str = "opening time", history: tuple[Turn, ...] = (), **changes: Any) -> Query:
    return replace(Query.of_text(text, BUNDLE.normaliser, history), **changes)


def test_the_stages_stand_in_the_order_of_the_reasons() -> None:
    assert list(STAGES) == [bypass, exact, read, guard, route]


def test_a_sure_reading_is_answered() -> None:
    decision = decide(ask())
    assert (decision.path, decision.reason, decision.topic) == (Way.FAQ, Reason.MATCHED, "hours")
    assert decision.answer == ANSWERS["hours", Lang.EN]
    assert decision.guards == ()


def test_an_example_is_answered_before_any_reading() -> None:
    decision = decide(ask("When do you open?"), None)
    assert (decision.path, decision.reason, decision.confidence) == (Way.FAQ, Reason.EXACT, 1.0)


FORWARDS: list[tuple[Reason, Query, dict[str, Any]]] = [
    (Reason.CLIENT_TOOLS, ask(client_tools=True), {}),
    (Reason.CLIENT_OPTIONS, ask(options=frozenset({"n"})), {}),
    (Reason.CLIENT_OPTIONS, ask(last_is_user=False), {}),
    (Reason.CLIENT_OPTIONS, ask(max_tokens=4), {}),
    (Reason.ATTACHMENT, ask(attachment=True), {}),
    (Reason.SYSTEM_PROMPT, ask(system="unknown"), {}),
    (Reason.UNSUPPORTED_LANGUAGE, ask("何時に開きますか"), {}),
    (Reason.UNSUPPORTED_LANGUAGE, ask("几点"), {"bundle": replace(BUNDLE, languages=(Lang.EN,))}),
    (Reason.MULTI_REQUEST, ask("this and also that"), {}),
    (Reason.NEEDS_CONTEXT, ask("what about it"), {}),
    (Reason.NEEDS_CONTEXT, ask(), {"found": reading(needs_context=0.6)}),
    (Reason.NEEDS_CONTEXT, ask(history=(Turn("user", "x"),)), {"found": reading(needs_context=0.4)}),
    (Reason.RE_ASK, ask(history=(Turn("assistant", "The answer on hours."),)), {}),
    (Reason.OUT_OF_SCOPE, ask(), {"found": reading(in_scope=0.4)}),
    (Reason.LOW_CONFIDENCE, ask(), {"found": reading(confidence=0.79)}),
    (Reason.LOW_MARGIN, ask(), {"found": reading(second=0.9)}),
    (Reason.NEGATION_MISMATCH, ask("not open"), {}),
    (Reason.NUMBER_MISMATCH, ask("open at 7"), {}),
    (Reason.ENTITY_MISMATCH, ask("open saturday"), {}),
    (Reason.UNPROVEN, ask(), {"bundle": replace(BUNDLE, thresholds={})}),
    (Reason.TOPIC_FORWARDS, ask(), {"found": reading("chat")}),
    (Reason.ANSWER_EXPIRED, ask(), {"found": reading("leave")}),
    (Reason.NO_ANSWER_IN_LANGUAGE, ask("几点"), {}),
]

# A language that is not served has neither thresholds nor answers.
FOLLOWS = {Reason.UNSUPPORTED_LANGUAGE: {Reason.UNPROVEN, Reason.NO_ANSWER_IN_LANGUAGE}}


@pytest.mark.parametrize(("reason", "query", "others"), FORWARDS, ids=[reason for reason, *_ in FORWARDS])
def test_each_objection_forwards_alone(reason: Reason, query: Query, others: dict[str, Any]) -> None:
    decision = decide(query, **others)
    assert (decision.path, decision.reason, decision.answer) == (Way.AGENT, reason, None)
    assert {hit.reason for hit in decision.guards} - FOLLOWS.get(reason, set()) == {reason}


def test_the_first_of_many_objections_is_the_reason_until_it_is_gone() -> None:
    everything = {"client_tools": True, "options": frozenset({"n"}), "attachment": True, "system": "unknown"}
    text = "about it and also not 7 saturday"
    history = (Turn("assistant", "The answer on leave."),)
    poor = reading("leave", 0.5, 0.4, in_scope=0.1, needs_context=0.9)
    query = ask(text, history, **everything)
    decision = decide(query, poor)
    given = [hit.reason for hit in decision.guards]
    expected = [
        Reason.CLIENT_TOOLS,
        Reason.CLIENT_OPTIONS,
        Reason.ATTACHMENT,
        Reason.SYSTEM_PROMPT,
        Reason.MULTI_REQUEST,
        Reason.NEEDS_CONTEXT,
        Reason.RE_ASK,
        Reason.OUT_OF_SCOPE,
        Reason.LOW_CONFIDENCE,
        Reason.LOW_MARGIN,
        Reason.NEGATION_MISMATCH,
        Reason.NUMBER_MISMATCH,
        Reason.ENTITY_MISMATCH,
        Reason.ANSWER_EXPIRED,
    ]
    assert sorted(set(given), key=list(Reason).index) == expected
    assert decision.reason is Reason.CLIENT_TOOLS
    steps = [
        ({"client_tools": False}, Reason.CLIENT_OPTIONS),
        ({"options": frozenset()}, Reason.ATTACHMENT),
        ({"attachment": False}, Reason.SYSTEM_PROMPT),
        ({"system": "known"}, Reason.MULTI_REQUEST),
        ({"normal": "about it not 7"}, Reason.NEEDS_CONTEXT),
    ]
    for change, reason in steps:
        query = replace(query, **change)
        assert decide(query, poor).reason is reason


def test_an_objection_takes_the_exact_answer_too_but_what_was_read_is_kept() -> None:
    decision = decide(ask("When do you open?", attachment=True))
    assert (decision.reason, decision.reading, decision.topic) == (Reason.ATTACHMENT, SURE, "hours")


@pytest.mark.parametrize("text", ["how much leave", "tell me"])
def test_an_exact_text_without_a_valid_answer_goes_on(text: str) -> None:
    exact_only = replace(BUNDLE, exact={text: "leave"})
    assert decide(ask(text), reading("leave"), exact_only).reason is Reason.ANSWER_EXPIRED


def test_an_exact_text_asked_again_is_a_re_ask() -> None:
    history = (Turn("assistant", " The answer on hours.\n"),)
    assert decide(ask("when do you open", history)).reason is Reason.RE_ASK
    other = (Turn("assistant", "The answer on leave."),)
    assert decide(ask("when do you open", other)).reason is Reason.MATCHED


def test_an_answer_holds_to_the_end_of_its_last_day() -> None:
    assert decide(ask(), reading("leave"), today=date(2026, 2, 28)).reason is Reason.MATCHED


STRICT = Threshold(0.97, 0.2, True, 0.001, 0.002)
LAX = Threshold(0.5, 0.2, True, 0.04, 0.05)


def grouped(group: str | None, **thresholds: Threshold) -> Bundle:
    """The bundle with ``hours`` in a group; keys are spelt with ``_`` for what no name can hold."""
    topic = replace(TOPICS[0], group=group)
    keys = {key.replace("__", ":").replace("_", "/"): value for key, value in thresholds.items()}
    return replace(BUNDLE, by_id={**BUNDLE.by_id, "hours": topic}, thresholds=keys)


@pytest.mark.parametrize(
    ("bundle", "reason"),
    [
        (grouped(None, en=LAX, topic__hours_en=STRICT), Reason.LOW_CONFIDENCE),
        (grouped(None, en=LAX, topic__leave_en=STRICT), Reason.MATCHED),
        (grouped(None, en=LAX, topic__hours_zh=STRICT), Reason.MATCHED),
        (grouped(None, en=LAX, finance_en=STRICT), Reason.MATCHED),
        (grouped("finance", en=LAX, finance_en=STRICT), Reason.LOW_CONFIDENCE),
        (grouped("finance", en=STRICT, finance_en=LAX), Reason.MATCHED),
        (grouped("finance", finance_en=LAX, topic__hours_en=STRICT), Reason.LOW_CONFIDENCE),
        # A group without a threshold is not answered under another's.
        (grouped("finance", en=LAX), Reason.UNPROVEN),
        (grouped("finance", en=LAX, finance_zh=LAX, shop_en=LAX), Reason.UNPROVEN),
        (grouped(None, zh=LAX, finance_en=LAX), Reason.UNPROVEN),
    ],
)
def test_a_topic_has_its_own_threshold_or_its_groups_or_its_languages(bundle: Bundle, reason: Reason) -> None:
    assert decide(ask(), bundle=bundle).reason is reason


def test_unproven_is_said_of_the_threshold_that_counts() -> None:
    unproven = replace(LAX, proven=False)
    own = replace(grouped("finance", finance_en=LAX, topic__hours_en=unproven), answer_unproven=True)
    assert decide(ask(), bundle=own).unproven
    group = replace(grouped("finance", finance_en=LAX, en=unproven), answer_unproven=True)
    assert not decide(ask(), bundle=group).unproven


def test_a_topic_without_an_answer_needs_no_threshold() -> None:
    chat = replace(TOPICS[2], group="talk")
    bundle = replace(BUNDLE, by_id={**BUNDLE.by_id, "chat": chat})
    decision = decide(ask(), reading("chat"), bundle)
    assert [hit.reason for hit in decision.guards] == [Reason.TOPIC_FORWARDS]


def test_a_threshold_is_passed_by_what_equals_it() -> None:
    assert decide(ask(), reading(confidence=0.8, second=0.5)).reason is Reason.MATCHED


def test_unproven() -> None:
    loose = {"en": Threshold(0.8, 0.2, False, 0.05, 0.01)}
    forwards = replace(BUNDLE, thresholds=loose)
    decision = decide(ask(), bundle=forwards)
    assert decision.reason is Reason.UNPROVEN
    assert [hit.value for hit in decision.guards] == ["not proven for 0.01"]
    answered = decide(ask(), bundle=replace(forwards, answer_unproven=True))
    assert (answered.reason, answered.unproven) == (Reason.MATCHED, True)
    assert decide(ask()).unproven is False


def test_any_system_prompt_where_the_desk_allows_any() -> None:
    assert decide(ask(system="unknown"), bundle=replace(BUNDLE, system_prompts=None)).reason is Reason.MATCHED


@pytest.mark.parametrize(
    ("answering", "reason", "observed"),
    [
        (Answering.of("on"), Reason.EXACT, None),
        (Answering.of("off"), Reason.ANSWERING_OFF, Reason.EXACT),
        (Answering.of("observe"), Reason.OBSERVE, Reason.EXACT),
        (Answering.of(0), Reason.CONTROL_GROUP, Reason.EXACT),
        (Answering.of(1), Reason.EXACT, None),
    ],
)
def test_the_grey_release(answering: Answering, reason: Reason, observed: Reason | None) -> None:
    pipeline = Pipeline(Runtime(BUNDLE, Router.__new__(Router)), answering, lambda: TODAY)
    decision = pipeline.decide(ask("when do you open", identity="alice"))
    assert decision.reason is reason
    assert (decision.answer is None) is (observed is not None)
    assert (decision.observed.reason if decision.observed else None) is observed


def test_a_share_is_sticky_and_about_right() -> None:
    places = [place(f"user-{n}") for n in range(2000)]
    assert places == [place(f"user-{n}") for n in range(2000)]
    assert all(0 <= where < 1 for where in places)
    assert 0.22 < sum(where < 0.25 for where in places) / 2000 < 0.28
    assert 0 <= place("\ud800") < 1
