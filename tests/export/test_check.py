"""What ``frontdesk check`` says of held-out questions that are nearly a training text or each other."""

from dataclasses import replace
from pathlib import Path

from edge.normaliser import Lang
from edge.query import Turn
from export.check import Finding, check_desk
from export.desk import Desk, DeskTopic, Question

EXAMPLE = "when do you open on a sunday"


def findings(
    calibrate: list[str], test: list[str], examples: tuple[str, ...] = (EXAMPLE,), history: bool = False
) -> list[Finding]:
    """What is said of nearness; the rest of the advice is tested elsewhere."""
    turns = (Turn("user", "hello"),) if history else ()

    def questions(texts: list[str], side: str) -> tuple[Question, ...]:
        return tuple(
            Question(text, "hours", Lang.EN, history=turns, where=f"{side}:{line}")
            for line, text in enumerate(texts, 1)
        )

    topics = (
        DeskTopic("hours", {}, "answer", {Lang.EN: examples}, {Lang.EN: "At 9."}, where="a.yaml:1"),
        DeskTopic("chat", {}, "agent", {Lang.EN: ("write me a letter",)}, {}, where="a.yaml:9"),
    )
    desk = Desk(
        Path(),
        "d",
        (Lang.EN,),
        topics,
        calibrate=questions(calibrate, "calibrate"),
        test=questions(test, "test"),
    )
    return [f for f in check_desk(desk) if "nearly" in f.message]


def test_a_question_that_is_nearly_an_example() -> None:
    [finding] = findings(["when do you open on sundays"], [])
    assert (finding.level, finding.where) == ("warning", "calibrate:1")
    assert finding.message == (
        f"'when do you open on sundays' is nearly {EXAMPLE!r} at a.yaml:1: reword or remove it."
    )


def test_questions_of_both_files_that_are_nearly_the_same() -> None:
    [finding] = findings(["is there parking for my bicycle"], ["is there parking for bicycles"])
    assert (finding.where, "calibrate:1" in finding.message) == ("test:1", True)


def test_every_near_text_is_named() -> None:
    found = findings(["when do you open on sundays"], ["when do you open on any sunday"])
    places = [(f.where, f.message.rpartition(" at ")[2].partition(": ")[0]) for f in found]
    assert sorted(places) == [("calibrate:1", "a.yaml:1"), ("test:1", "a.yaml:1"), ("test:1", "calibrate:1")]


def test_what_is_not_nearness() -> None:
    assert findings(["at what time are you opening"], ["is there parking"]) == []
    # Examples may be near each other, and so may the questions of one file.
    assert findings(["is there parking", "is there any parking"], [], (EXAMPLE, EXAMPLE + "s")) == []
    # The same text is an error of its own, however it is spelled.
    assert findings([EXAMPLE.upper() + "?"], []) == []
    assert findings(["is there parking"], ["Is there parking?"]) == []


def test_follow_ups_are_left_out() -> None:
    assert findings(["and when do you open on sundays"], ["when do you open on sundays"], history=True) == []


# --- what is not sampled ---------------------------------------------------------------------------


def uncalibrated(traffic: dict[str, float], *kinds: tuple[str, Lang]) -> list[str]:
    """What is said of a desk in two languages with one question of each kind."""
    topics = (DeskTopic("hours", {}, "answer", {Lang.EN: (EXAMPLE,)}, {Lang.EN: "At 9."}),)
    questions = tuple(
        Question(f"{n}", "oos" if kind == "out_of_scope" else "hours", lang, kind)
        for n, (kind, lang) in enumerate(kinds)
    )
    desk = Desk(Path(), "d", (Lang.EN, Lang.ZH), topics, traffic=traffic, calibrate=questions)
    return [finding.message for finding in check_desk(desk) if finding.kind == "uncalibrated"]


def test_languages_and_parts_of_the_traffic_without_questions() -> None:
    every = ("in_scope", "out_of_scope", "follow_up")
    both = [(kind, lang) for kind in every for lang in (Lang.EN, Lang.ZH)]
    shares = dict.fromkeys(every, 1.0)
    assert uncalibrated(shares, *both) == []
    assert uncalibrated({}, *both[:4]) == []
    told = uncalibrated({}, *both[:2])
    assert [message.partition(":")[0] for message in told] == [
        f"No calibration question in {lang} is out of scope" for lang in ("en", "zh")
    ]
    assert uncalibrated(shares, *both[:5]) == [
        "'traffic' in desk.yaml has a share of follow_up, and no calibration question in zh is one: "
        "nothing can be proven; write some."
    ]
    assert uncalibrated(shares | {"follow_up": 0}, *both[:5]) == []
    assert uncalibrated(shares, *both[::2]) == [
        "No calibration questions in zh: nothing can be proven, and with `unproven: forward` only "
        "exact texts are answered; write some hundred."
    ]


# --- what is not answered, and not called --------------------------------------------------------------


def told(topic: DeskTopic, *tools: dict[str, object]) -> list[str]:
    """What is said of a desk in two languages with one topic, but for its few examples and questions."""
    desk = Desk(Path("d"), "d", (Lang.EN, Lang.ZH), (topic,), tools)
    return [f.message for f in check_desk(desk) if f.kind in ("answer", "uncalled") and f.level == "warning"]


def tool(name: str, use: str = "answer", **slots: dict[str, object]) -> dict[str, object]:
    return {"name": name, "use": use, "slots": slots}


ORDER = DeskTopic("order", {}, "tool", {}, {}, tools=("get",), template={Lang.EN: "{get.state}"})


def test_what_may_be_answered_and_has_no_text_in_a_language() -> None:
    assert told(DeskTopic("hours", {}, "answer", {}, {Lang.EN: "At 9."})) == [
        "hours has no answer in zh: such turns are forwarded."
    ]
    assert told(ORDER, tool("get")) == [
        "order has no template for get with use: answer in zh: such turns are forwarded."
    ]
    # One of two tools may answer: then the topic has no template in any language.
    both = replace(ORDER, tools=("get", "more"), template={})
    assert told(both, tool("get"), tool("more", "inject")) == [
        f"order has no template for get with use: answer in {lang}: such turns are forwarded."
        for lang in ("en", "zh")
    ]
    assert told(replace(ORDER, template={}), tool("get", "inject")) == []
    assert told(replace(ORDER, route="agent", template={}), tool("get")) == []


def test_tools_that_no_question_can_call() -> None:
    topic = replace(ORDER, template={Lang.EN: "x", Lang.ZH: "x"})
    cities = {"values": {"rome": ["Rome"], "oslo": ["Oslo"]}}
    never = "get is never called: its slot a "
    assert told(topic, tool("get", a={"type": "string"})) == [
        never + "takes any words; give it a pattern, values or a format, or a default."
    ]
    assert told(topic, tool("get", "suggest", a={"type": "string"})) == []
    for fine in ({"required": False}, {"default": "x"}, {"pattern": "[0-9]{4}"}, {"user": True}):
        assert told(topic, tool("get", a={"type": "string", **fine})) == []
    shared = told(topic, tool("get", a=cities, b={**cities, "required": False}))
    assert shared == [
        never + "has no word that another slot has not, too, so that none tells which is meant."
    ]
    assert told(topic, tool("get", a=cities, b={"values": {"rome": ["Rome"]}})) == [
        never.replace(" a ", " b ")
        + "has no word that another slot has not, too, so that none tells which is meant."
    ]
