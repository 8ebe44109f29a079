"""Desk advice by the real base student, on a small desk with one fault planted at a time."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_base import few_pools

from edge.errors import DeskError
from edge.normaliser import Lang
from export.advice import advise
from export.advice.asked import Asked, read_asked
from export.advice.gaps import alikeness, find_gaps
from export.advice.judged import Example, Judged, judge
from export.advice.needs import find_needs, more_examples
from export.check import Finding
from export.desk import Desk, DeskTopic
from export.desk_reader import load_desk
from export.encoder import Encoder

ROOT = Path(__file__).parents[2]
PARKING = (
    "where can I park my car", "is there parking under the building", "how much is a parking permit",
    "who do I ask for a parking space", "can I leave my car in the garage overnight", "car park for staff",
    "is the garage open at weekends", "parking for my motorbike", "how do I get a place in the garage",
    "do visitors get a parking space", "the car park is full, where else can I park", "parking card please",
)  # fmt: skip
CANTEEN = (
    "when is lunch served in the canteen", "is there vegetarian food in the canteen", "how much is a canteen meal",
    "can I bring a guest to lunch", "does the canteen serve breakfast", "canteen lunch hours",
    "what do they cook for dinner in the canteen", "how do I pay for my lunch", "is the canteen food halal",
    "where do I eat at noon", "are there vegan dishes at lunch", "can I take food away from the canteen",
)  # fmt: skip
PASSWORD = (
    "I forgot my password", "how do I reset my password", "my account is locked after wrong passwords",
    "change the login password", "password expired and I cannot log in", "reset password for my mailbox",
    "where do I set a new password", "login says wrong password", "unlock my account please",
    "how often must I change my password", "the password reset mail never came", "new password rules",
)  # fmt: skip
PAYDAY = (
    "when do we get paid", "what day is payday", "is my salary paid at the end of the month",
    "salary has not arrived yet, when does it", "which date are wages transferred", "payday this month",
    "when will my first salary be paid", "is the salary paid earlier before holidays",
    "on which day of the month do wages come", "when is the money in my account", "pay date for salaries",
    "do we get paid on the tenth",
)  # fmt: skip
RETURNS = (
    "how do I return a phone I bought", "can I send the headphones back", "what is your return policy",
    "within how many days can I return an item", "the laptop is faulty, I want to return it",
    "do I need the box to return something", "who pays for return shipping", "return an unopened tablet",
    "exchange a broken charger", "I don't like the colour, can I give it back", "start a return",
    "can opened goods be returned",
)  # fmt: skip
TOPICS = {"parking": PARKING, "canteen": CANTEEN, "password": PASSWORD, "payday": PAYDAY, "returns": RETURNS}
PRINTER = (
    "the printer is out of paper", "how do I print in colour", "printer on the second floor is jammed",
    "connect my computer to the printer", "where is the nearest printer", "print double sided",
    "the printer prints blank pages", "scan a page with the printer",
)  # fmt: skip


@pytest.fixture(scope="module")
def base() -> Encoder:
    return Encoder(ROOT / "models/base")


def desk(topics: Mapping[str, tuple[str, ...]] = TOPICS) -> Desk:
    """A desk whose examples stand a line each from line 11 on."""
    return Desk(
        Path(),
        "d",
        (Lang.EN,),
        tuple(
            DeskTopic(
                name,
                {},
                "answer",
                {Lang.EN: texts},
                {Lang.EN: f"About {name}."},
                where=f"{name}.yaml:1",
                places={Lang.EN: tuple(f"{name}.yaml:{line}" for line in range(11, 11 + len(texts)))},
            )
            for name, texts in topics.items()
        ),
    )


def asked(*texts: str) -> list[Asked]:
    return [Asked(text, f"asked.txt:{line}") for line, text in enumerate(texts, 1)]


def gaps(base: Encoder, *texts: str, of: Desk | None = None) -> list[Finding]:
    return find_gaps(judge(of or desk(), base), base, few_pools(), asked(*texts))


def test_a_clean_desk_needs_no_advice(base: Encoder) -> None:
    assert advise(desk(), base) == []


def test_an_example_in_the_wrong_topic(base: Encoder) -> None:
    planted = {**TOPICS, "payday": (*PAYDAY, "my password does not work any more")}
    [finding] = advise(desk(planted), base)
    assert (finding.level, finding.kind, finding.where) == ("advice", "suspect", "payday.yaml:23")
    assert "'my password does not work any more' stands in payday, but reads like password" in finding.message


def test_topics_that_are_one(base: Encoder) -> None:
    halves = {"garage": PARKING[::2], "parking": PARKING[1::2]}
    halves = {name: (*texts, *more) for (name, texts), more in zip(
        halves.items(), (("parking at the office", "my car needs a space", "park here for a day", "a place for my car"),
                         ("office parking", "space for my car", "park for one day here", "somewhere to put my car")),
        strict=True)}  # fmt: skip
    findings = [f for f in advise(desk({**TOPICS, **halves}), base) if f.kind == "conflict"]
    [finding] = findings
    assert "examples are taken for the other" in finding.message
    assert finding.message.startswith("parking and garage: ")
    assert "merge them" in finding.message
    assert len(finding.details) == 3
    assert all("reads like" in detail for detail in finding.details)


def test_the_remedy_depends_on_who_answers(base: Encoder) -> None:
    topics = {**TOPICS, "garage": (*PARKING[::2], "parking at the office", "my car needs a space")}
    forwards = desk(topics)
    forwards = replace(
        forwards,
        topics=tuple(replace(t, route="agent") if t.id == "garage" else t for t in forwards.topics),
    )
    [finding] = [f for f in advise(forwards, base) if f.kind == "conflict"]
    assert "parking is answered here and garage is not" in finding.message


def learnt(recall: float, count: int = 40, taken_for: int = 3) -> list[Finding]:
    """The need of a first topic of four, whose misses go to ``taken_for`` others by turns."""
    topic = np.repeat(np.arange(4), count)
    said = topic.copy()
    said[: round(count * (1 - recall))] = 1 + np.arange(round(count * (1 - recall))) % taken_for
    of = desk(dict(list(TOPICS.items())[:4]))
    examples = tuple(Example("…", number, Lang.EN, "") for number in topic)
    one_hot = np.eye(4)[said] * 0.9 + 0.025
    return find_needs(Judged(of.topics, examples, np.zeros((1, len(topic), 2)), topic, one_hot, topic >= 0))


def test_a_topic_that_is_badly_learnt() -> None:
    [finding] = learnt(0.5)
    assert (finding.kind, finding.where) == ("learning", "parking.yaml:1")
    assert finding.message == (
        "parking: 50% of its 40 examples are recognised by the others, 100% are usual in this desk; "
        "write about 40 more, in words that are not there yet."
    )


def test_what_more_examples_would_not_mend() -> None:
    assert learnt(0.75) == []
    assert learnt(0.5, count=120) == []
    assert learnt(0.5, count=8) == []  # its count says so already
    assert learnt(0.5, taken_for=1) == []  # a conflict


@pytest.mark.parametrize(("count", "recall", "more"), [(44, 0.41, 45), (44, 0.66, 15), (10, 0.69, 5)])
def test_how_many_more(count: int, recall: float, more: int) -> None:
    assert more_examples(count, recall) == more


def test_a_gap_in_what_is_asked(base: Encoder) -> None:
    found = gaps(base, *PRINTER, *PARKING[:3], "tell me a joke", "who is the king of Norway")
    [finding] = [f for f in found if f.kind == "gap"]
    assert "8 questions look alike and fit no topic well" in finding.message
    assert len(finding.details) == 3
    assert all("print" in detail for detail in finding.details)
    assert finding.where in [f"asked.txt:{line}" for line in range(1, 9)]


def test_a_question_that_is_asked_again_and_again(base: Encoder) -> None:
    [finding] = gaps(base, *["How do I print in colour?"] * 6, *CANTEEN[:2])
    assert (finding.kind, finding.where) == ("gap", "asked.txt:1")
    assert finding.message.startswith("6 questions")
    assert len(finding.details) == 1


def test_no_gap_where_everything_is_covered(base: Encoder) -> None:
    assert gaps(base, *PARKING, *CANTEEN, "may I park my car here", "forgot the password, what now") == []


def test_questions_that_a_topic_gets_though_they_are_unlike_its_examples(base: Encoder) -> None:
    unlike = (
        "can I use the same password for two systems",
        "password of the guest account",
        "password for wifi",
    )
    [finding] = gaps(base, *unlike, *unlike, *PASSWORD[:3])
    assert (finding.kind, finding.where) == ("unlike", "password.yaml:1")
    assert finding.message.startswith("6 questions fall to password though unlike its examples")
    assert sorted(finding.details) == sorted(
        f"asked.txt:{line}: {text!r}" for line, text in enumerate(unlike, 1)
    )


def test_desks_too_small_to_judge(base: Encoder) -> None:
    assert advise(desk({"parking": PARKING}), base) == []
    assert gaps(base, "z", of=desk({"a": ("x",), "b": ("y",)})) == []
    assert advise(desk({"a": ("x",), "b": ("y",)}), base) == []


def test_alikeness() -> None:
    assert alikeness(np.eye(3)[:1]) == 1
    assert alikeness(np.eye(3)) == 0
    assert alikeness(np.ones((4, 1))) == pytest.approx(1)


def test_questions_come_as_lines_or_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "asked"
    path.write_text("where is it?\r\n\n 几点 \n", "utf-8")
    assert read_asked(path) == (Asked("where is it?", f"{path}:1"), Asked("几点", f"{path}:3"))
    path.write_text('{"text": "a", "topic": "oos"}\n{"text": "b", "history": [{"role": "user"}]}\n', "utf-8")
    assert read_asked(path) == (Asked("a", f"{path}:1"),)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("\n", "there is no question"),
        ('{"text": "a"}\n{"question": "b"}\n', "asked:2: 'text' must be a text, got None"),
        ('{"text": "a"}\nb\n', "asked:2: not valid JSON"),
    ],
)
def test_question_files_that_are_none(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "asked"
    path.write_text(content, "utf-8")
    with pytest.raises(DeskError, match=says.replace("(", r"\(")):
        read_asked(path)


def test_examples_know_their_lines(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "desk.yaml").write_text("name: d\nlanguages: [en, zh]\n", "utf-8")
    topics = tmp_path / "topics/a.yaml"
    topics.write_text(
        "- id: t\n  route: agent\n  examples:\n    en:\n      - one\n\n      - two\n    zh: [三, 四]\n",
        "utf-8",
    )
    [topic] = load_desk(tmp_path).topics
    assert [topic.where_of(Lang.EN, place) for place in (0, 1)] == [f"{topics}:5", f"{topics}:7"]
    assert topic.where_of(Lang.ZH, 1) == f"{topics}:8"
    assert topic.where_of(Lang.ZH, 9) == f"{topics}:1"
