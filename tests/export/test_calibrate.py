"""Which questions and which δ a threshold rests on: languages, groups, stricter topics, strata."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from judged_rows import row
from tiny_base import few_pools, write_desk

from edge.decision import Reason
from edge.normaliser import Lang
from edge.query import Turn
from export.calibrate import MARGIN, answers_of, calibrate, opened, sample
from export.desk import Desk, DeskTopic, Risk
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.judged import Judged
from export.risk import NOTHING, answers_to_prove, upper_bound
from export.train import train_desk

EN, ZH = Lang.EN, Lang.ZH
RATE = 0.05
ANSWERS = {EN: "text", ZH: "text"}


def desk(
    topics: Mapping[str, Mapping[str, object]] | None = None,
    languages: Sequence[Lang] = (EN, ZH),
    traffic: Mapping[str, float] | None = None,
    **groups: float,
) -> Desk:
    """A desk that states 5 % at 95 %; its topics are answered where they do not say otherwise."""
    made = tuple(
        replace(DeskTopic(id_, {}, "answer", {}, ANSWERS), **changes)  # type: ignore[arg-type]
        for id_, changes in (topics or {"hours": {}, "chat": {"route": "agent"}}).items()
    )
    return Desk(
        Path(), "d", tuple(languages), made, risk=Risk(RATE, 0.95), traffic=traffic or {}, groups=groups
    )


def rows(
    right: int,
    wrong: int = 0,
    topic: str = "hours",
    lang: Lang = EN,
    low: float = 0.5,
    high: float = 1.0,
    kind: str = "in_scope",
) -> list[Judged]:
    """Answers spread evenly between two confidences, the wrong ones the least sure. Texts tell them apart."""
    count = right + wrong
    asked = "oos" if kind == "out_of_scope" else topic
    return [
        row(
            f"{kind} {topic} {lang} {low} {n}",
            asked if n < right else ("oos" if asked != "oos" else "hours"),
            topic,
            high - (high - low) * (n + 1) / (count + 1),
            lang=lang,
            kind=kind if n < right else "out_of_scope",
        )
        for n in range(count)
    ]


def least(cells: int, rate: float = RATE) -> int:
    """Answers without an error that prove a rate where δ is split over so many cells."""
    return answers_to_prove(rate, 1 - 0.05 / cells)


GROUPED = {"hours": {}, "pay": {"group": "finance"}, "tax": {"group": "finance"}}

# --- keys and δ ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topics", "keys"),
    [
        ({"hours": {}}, "en zh"),
        (GROUPED, "en finance/en finance/zh zh"),
        ({"pay": {"group": "finance"}}, "finance/en finance/zh"),
        # A group without an answer has nothing to prove.
        ({"hours": {}, "chat": {"route": "agent", "group": "talk", "max_wrong": 0.001}}, "en zh"),
        ({"chat": {"route": "agent"}}, ""),
        ({"hours": {"max_wrong": 0.01}, "post": {}}, "en topic:hours/en topic:hours/zh zh"),
        # A group whose only topic is stricter has no other answers.
        ({"pay": {"group": "finance", "max_wrong": 0.01}}, "topic:pay/en topic:pay/zh"),
    ],
)
def test_every_group_and_stricter_topic_has_a_key_in_every_language(
    topics: Mapping[str, Mapping[str, object]], keys: str
) -> None:
    made = desk(topics, finance=RATE)
    found = calibrate(made, [])
    assert sorted(found.findings) == sorted(opened(made).thresholds) == keys.split()
    # Without a question no key has evidence, nor a threshold.
    assert found.thresholds == {}
    assert all(finding == NOTHING for finding in found.findings.values())


def test_a_desk_is_opened_with_the_margin_that_it_is_served_with() -> None:
    made = desk(GROUPED, finance=RATE)
    for threshold in opened(made).thresholds.values():
        assert (threshold.confidence, threshold.margin, threshold.proven) == (0.0, MARGIN, True)
    assert calibrate(made, rows(100)).thresholds["en"].margin == MARGIN


@pytest.mark.parametrize(
    ("topics", "languages", "cells"),
    [
        ({"hours": {}}, (EN,), 1),
        ({"hours": {}}, (EN, ZH), 2),
        (GROUPED, (EN, ZH), 4),
        ({"hours": {"max_wrong": 0.01}, "post": {}}, (EN,), 2),
        # Two topics of one rate in one group share a threshold, and the δ of it.
        ({"hours": {"max_wrong": 0.01}, "post": {"max_wrong": 0.01}}, (EN,), 1),
        ({"hours": {"max_wrong": 0.01}, "post": {"max_wrong": 0.02}}, (EN,), 2),
        ({"hours": {"max_wrong": RATE}, "post": {}}, (EN,), 1),
    ],
)
def test_delta_is_split_over_what_has_a_threshold_of_its_own(
    topics: Mapping[str, Mapping[str, float]], languages: Sequence[Lang], cells: int
) -> None:
    made = desk(topics, languages, finance=RATE)
    assert calibrate(made, []).delta == pytest.approx(0.05 / cells)
    key = "topic:hours/en" if topics["hours"] else "en"
    answers = least(cells, topics["hours"].get("max_wrong", RATE))
    assert calibrate(made, rows(answers)).thresholds[key].proven
    assert not calibrate(made, rows(answers - 1)).thresholds[key].proven


# --- languages and groups --------------------------------------------------------------------------


def test_a_language_is_proven_by_its_own_questions() -> None:
    found = calibrate(desk(), [*rows(least(2)), *rows(10, 20, lang=ZH)])
    assert found.thresholds["en"].proven
    assert not found.thresholds["zh"].proven
    assert found.thresholds["en"].bound <= RATE < found.thresholds["zh"].bound
    assert (found.findings["en"].questions, found.findings["zh"].questions) == (least(2), 30)


def test_the_language_is_the_one_whose_threshold_is_asked() -> None:
    """A question that is labelled Chinese and read as English counts where it would be answered."""
    read = [replace(r, question=replace(r.question, lang=ZH)) for r in rows(least(2))]
    found = calibrate(desk(), read)
    assert found.thresholds["en"].proven
    assert "zh" not in found.thresholds


def test_a_guided_language_is_never_proven() -> None:
    given = [*rows(least(2)), *rows(least(2), lang=ZH)]
    proven, guided = calibrate(desk(), given), calibrate(desk(), given, guided=[ZH])
    assert guided.thresholds["en"] == proven.thresholds["en"]
    assert proven.thresholds["zh"].proven
    # It is the same place, without the promise.
    assert guided.thresholds["zh"] == replace(proven.thresholds["zh"], proven=False)
    assert not guided.findings["zh"].proven
    # A desk's own texts have no follow-ups: that part of the traffic is left out, of the guide alone.
    shares = desk(traffic={"in_scope": 0.9, "follow_up": 0.1})
    assert calibrate(shares, given, guided=[ZH]).thresholds.keys() == {"zh"}


def test_a_group_is_proven_by_what_its_topics_would_answer() -> None:
    """Wrong answers of another group do not spoil it, nor do right ones help."""
    made = desk(GROUPED, (EN,), finance=RATE)
    good = [*rows(least(2) - 5, topic="pay"), *rows(5, topic="tax", low=0.6)]
    found = calibrate(made, [*good, *rows(0, 200, topic="hours")])
    assert found.thresholds["finance/en"].proven
    assert found.findings["finance/en"].answered == least(2)
    assert found.findings["finance/en"].questions == least(2) + 200
    assert "en" not in found.thresholds
    # A question about pay that is taken for one about hours is an error of the group that would answer it.
    strays = [row(f"{n}", "pay", "hours", 0.9) for n in range(9)]
    found = calibrate(made, [*good, *rows(least(2), topic="hours", high=0.85), *strays])
    assert found.thresholds["finance/en"].proven
    assert not found.thresholds["en"].proven


def test_a_group_states_a_rate_of_its_own() -> None:
    made = desk(GROUPED, (EN,), finance=0.02)
    enough = rows(least(2, 0.02), topic="pay")
    found = calibrate(made, enough).thresholds["finance/en"]
    assert (found.proven, found.max_wrong) == (True, 0.02)
    assert not calibrate(made, enough[:-1]).thresholds["finance/en"].proven
    assert calibrate(made, rows(least(2))).thresholds["en"].max_wrong == RATE


def test_groups_of_a_folder(tmp_path: Path) -> None:
    examples = {"en": ["when do you open"]}
    write_desk(
        tmp_path,
        {
            "hours": {"examples": examples},
            "pay": {"examples": examples, "group": "finance", "max_wrong": 0.001},
            "fee": {"examples": examples, "group": "finance"},
            "tax": {"examples": examples, "group": "law"},
        },
        "en",
    )
    head = (tmp_path / "desk.yaml").read_text("utf-8")
    (tmp_path / "desk.yaml").write_text(head + "groups: {finance: {max_wrong: 0.002}, law: }\n", "utf-8")
    seen = [r for topic in ("hours", "pay", "fee", "tax") for r in rows(5, topic=topic)]
    found = calibrate(load_desk(tmp_path), seen)
    assert {key: threshold.max_wrong for key, threshold in found.thresholds.items()} == {
        "en": 0.01, "finance/en": 0.002, "law/en": 0.01, "topic:pay/en": 0.001,
    }  # fmt: skip
    assert found.delta == pytest.approx(0.05 / 4)


# --- pools -----------------------------------------------------------------------------------------


def test_groups_that_are_too_small_are_proven_together() -> None:
    made = desk(GROUPED, (EN,), finance=RATE)
    half = least(1) // 2 + 1
    found = calibrate(made, [*rows(half, topic="pay"), *rows(half, topic="hours", low=0.6)])
    assert half < least(2)
    one, other = found.thresholds["en"], found.thresholds["finance/en"]
    assert one == other
    assert one.proven
    # Together they spend the δ of both.
    assert one.bound == pytest.approx(upper_bound(0, 2 * half, 1 - 2 * found.delta), abs=1e-6)
    assert found.findings["en"].answered == 2 * half
    assert found.pooled == {"en", "finance/en"}


def test_a_pool_that_proves_nothing_leaves_each_group_alone() -> None:
    made = desk(GROUPED, (EN,), finance=RATE)
    found = calibrate(made, [*rows(20, topic="pay", low=0.8), *rows(10, 5, topic="hours")])
    finance, hours = found.findings["finance/en"], found.findings["en"]
    assert (finance.proven, hours.proven, found.pooled) == (False, False, frozenset())
    assert (finance.answered, hours.answered) == (20, 10)
    assert finance.bound == pytest.approx(upper_bound(0, 20, 1 - found.delta))


def test_what_is_large_enough_or_empty_or_stricter_is_not_pooled() -> None:
    made = desk(GROUPED, (EN,), finance=RATE)
    # Large and with errors: no pool lends it the answers of the other group.
    spoilt = [*rows(least(2) + 20, 40), *rows(60, topic="pay")]
    found = calibrate(made, spoilt)
    assert not found.thresholds["finance/en"].proven
    # Nothing was seen of finance: the proof of another is none of it.
    alone = calibrate(made, rows(least(1), topic="hours"))
    assert "finance/en" not in alone.thresholds
    # Groups of unlike rates have nothing to prove together.
    unlike = desk(GROUPED, (EN,), finance=0.02)
    half = least(1) // 2 + 1
    apart = calibrate(unlike, [*rows(half, topic="pay"), *rows(half, topic="hours")])
    assert not any(threshold.proven for threshold in apart.thresholds.values())
    assert not found.pooled | alone.pooled | apart.pooled


# --- topics with a stricter rate -------------------------------------------------------------------


def test_a_stricter_topic_is_proven_by_its_own_answers_only() -> None:
    made = desk({"hours": {"max_wrong": 0.01}, "post": {}}, (EN,))
    post = rows(600, topic="post", low=0.8)
    # However many the group has, a topic that nobody asked has no threshold.
    alone = calibrate(made, post)
    assert alone.thresholds["en"].proven
    assert "topic:hours/en" not in alone.thresholds
    # Nor does either suffer from the errors of the other.
    enough = rows(least(2, 0.01))
    found = calibrate(made, [*enough, *rows(20, 200, topic="post")])
    assert (found.thresholds["topic:hours/en"].proven, found.thresholds["en"].proven) == (True, False)
    assert found.findings["topic:hours/en"].answered == least(2, 0.01)
    assert (found.thresholds["topic:hours/en"].max_wrong, found.thresholds["en"].max_wrong) == (0.01, RATE)
    found = calibrate(made, [*enough[:-1], *rows(0, 1), *post])
    assert (found.thresholds["topic:hours/en"].proven, found.thresholds["en"].proven) == (False, True)


def test_stricter_topics_of_one_group_and_rate_share_a_threshold() -> None:
    made = desk({"hours": {"max_wrong": 0.01}, "shop": {"max_wrong": 0.01}, "post": {}}, (EN,))
    half = least(2, 0.01) // 2 + 1
    found = calibrate(made, [*rows(half), *rows(half, topic="shop", low=0.6), *rows(9, topic="post")])
    own = found.thresholds["topic:hours/en"]
    assert own.proven
    assert found.thresholds["topic:shop/en"] == own
    assert found.findings["topic:shop/en"].answered == 2 * half


# --- strata ----------------------------------------------------------------------------------------

SHARES = {"in_scope": 0.8, "out_of_scope": 0.1, "follow_up": 0.1}


def stopped(kind: str, count: int, lang: Lang = EN) -> list[Judged]:
    """Questions of a kind that a guard forwards."""
    return [
        row(f"{kind} {n}", "oos", "hours", 0.9, Reason.OUT_OF_SCOPE, lang, kind=kind) for n in range(count)
    ]


def test_questions_are_cut_to_the_traffic() -> None:
    given = [*rows(160), *stopped("out_of_scope", 90), *stopped("follow_up", 20), *rows(30, lang=ZH)]
    kept = sample(given, EN, SHARES)
    assert [sum(r.question.stratum == name for r in kept) for name in SHARES] == [160, 20, 20]
    assert all(r.question.lang is EN for r in kept)
    assert [r for r in given if r in kept] == kept
    assert sample(given, EN, {}) == given[:270]


def test_a_sample_is_settled_by_text_and_history_alone() -> None:
    """The same questions with other answers, and in another order, are the same sample."""
    given = [*rows(50), *stopped("out_of_scope", 60), *stopped("follow_up", 60)]
    turned = [
        row(r.question.text, r.question.topic, "other", 0.1, kind=r.question.kind) for r in reversed(given)
    ]
    names = {r.question.text for r in sample(given, EN, SHARES)}
    assert {r.question.text for r in sample(turned, EN, SHARES)} == names
    # What was said before tells two questions of one text apart.
    same = [
        row("and then", "oos", "hours", kind="follow_up", history=(Turn("user", f"{n}"),)) for n in range(40)
    ]
    kept = sample([*rows(40), *same], EN, {"in_scope": 1, "follow_up": 0.1})
    again = sample([*rows(40), *reversed(same)], EN, {"in_scope": 1, "follow_up": 0.1})
    histories = [{r.question.history for r in found if r.question.history} for found in (kept, again)]
    assert len(histories[0]) == 4
    assert histories[0] == histories[1]


def test_traffic_without_questions_proves_nothing() -> None:
    given = [*rows(300), *stopped("out_of_scope", 100)]
    assert calibrate(desk(), given).thresholds["en"].proven
    found = calibrate(desk(traffic=SHARES), given)
    assert (found.thresholds, found.findings["en"]) == ({}, NOTHING)


def test_a_share_of_zero_leaves_a_stratum_out() -> None:
    wrong = [row(f"{n}", "oos", "hours", 0.95 - n / 1000) for n in range(50)]
    given = [*rows(300), *wrong]
    assert not calibrate(desk(languages=(EN,)), given).thresholds["en"].proven
    without = {"in_scope": 1.0, "out_of_scope": 0.0}
    assert calibrate(desk(languages=(EN,), traffic=without), given).thresholds["en"].proven


def test_a_follow_up_is_wrong_whatever_topic_it_names() -> None:
    turns = [row(f"{n}", "hours", "hours", 0.9, kind="follow_up") for n in range(60)]
    found = calibrate(desk(languages=(EN,)), turns)
    assert (found.thresholds, found.findings["en"]) == ({}, NOTHING)


def test_only_what_a_threshold_alone_keeps_back_counts() -> None:
    """Guards, other routes and texts that were not read answer nothing at any threshold."""
    given = [
        row("a", "hours", "hours", 0.9),
        row("b", "hours", "hours", 0.8, Reason.LOW_CONFIDENCE),
        row("c", "hours", "hours", 0.7, Reason.UNPROVEN),
        row("d", "hours", "hours", 0.6, Reason.LOW_MARGIN),
        row("e", "hours", "hours", 0.5, Reason.OUT_OF_SCOPE),
        row("f", "chat", "chat", 0.4, Reason.TOPIC_FORWARDS),
        row("g", "hours", None, 0.0, Reason.TOO_LONG),
        row("h", "hours", "hours", 1.0, Reason.EXACT),
        row("i", "oos", "hours", 0.3, Reason.LOW_CONFIDENCE),
    ]
    found = answers_of(given)
    assert found.confidence.tolist() == [0.9, 0.8, 0.7, 0.3]
    assert found.wrong.tolist() == [False, False, False, True]
    assert found.questions == 9
    assert answers_of(given, frozenset({"chat"})).confidence.tolist() == []


# --- thresholds ------------------------------------------------------------------------------------


def test_the_threshold_keeps_the_errors_below_it_and_lies_in_a_gap() -> None:
    right, wrong = rows(200), rows(0, 40, low=0.1, high=0.4)
    found = calibrate(desk(), [*wrong, *right])
    low, high = min(r.confidence for r in right), max(r.confidence for r in wrong)
    assert found.thresholds["en"].confidence == pytest.approx((low + high) / 2)


def test_the_published_threshold_lets_through_what_was_tested_however_near_the_next() -> None:
    """Six decimals would let the errors in: a very sure router's confidences lie nearer than that."""
    right = rows(100, low=0.99999990, high=0.99999995)
    wrong = rows(0, 100, low=0.99999910, high=0.99999980)
    found = calibrate(desk(languages=(EN,)), [*right, *wrong])
    threshold = found.thresholds["en"]
    answered = [r for r in (*right, *wrong) if r.confidence >= threshold.confidence]
    assert len(answered) == found.findings["en"].answered
    assert threshold.bound == pytest.approx(found.findings["en"].bound, abs=1e-6)
    assert all(r.right for r in answered)


def test_a_bundle_with_groups_and_a_stricter_topic(tiny_base: Path, tmp_path: Path) -> None:
    """From the folder to the thresholds that the runtime looks up."""
    words = {"hours": "open close hour", "pay": "salary money wage", "chat": "letter mail poem"}
    topics = {
        id_: {"examples": {"en": [f"{word} {other}" for word in line.split() for other in ("now", "today")]}}
        for id_, line in words.items()
    }
    topics["pay"] |= {"group": "finance", "max_wrong": 0.001}
    topics["chat"] |= {"route": "agent", "group": "talk"}
    question = '{"text": "open or close", "topic": "hours", "lang": "en"}\n'
    folder = write_desk(tmp_path / "desk", topics, "en", calibrate=question, test=question)
    head = (folder / "desk.yaml").read_text("utf-8")
    (folder / "desk.yaml").write_text(head + "groups: {finance: , talk: }\n", "utf-8")
    bundle, _ = train_desk(load_desk(folder), Encoder(tiny_base), few_pools(), tmp_path / "out")
    assert sorted(bundle.thresholds) == ["en", "topic:pay/en"]
    found = {id_: bundle.threshold(topic, EN) for id_, topic in bundle.by_id.items()}
    assert found == {
        "hours": bundle.thresholds["en"],
        "pay": bundle.thresholds["topic:pay/en"],
        "chat": None,
    }
    assert all(bundle.threshold(topic, ZH) is None for topic in bundle.topics)
