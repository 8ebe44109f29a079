"""Every figure of an evaluation on a handful of judged questions, counted by hand."""

from dataclasses import replace

import pytest
from judged_rows import HISTORY, row

from edge.bundle import Bundle, Topic
from edge.decision import Answer, Reason
from edge.normaliser import Lang
from edge.pipeline import Pipeline
from export.desk import Question
from export.eval_table import WORST, table
from export.evaluate import (
    POINTS,
    SHARES,
    Bin,
    Confusion,
    Evaluation,
    GuardRow,
    Stratum,
    TopicRow,
    evaluate,
    summarise,
)
from export.judged import Judged
from export.risk import upper_bound

ZH = Lang.ZH
TOPICS = (Topic("hours", "answer"), Topic("pay", "answer"), Topic("chat", "agent"))
ROWS = [
    row("a", "hours", "hours", 0.95, exit=0, ms=1.0),
    row("b", "hours", "hours", 0.85, exit=0, ms=2.0),
    row("c", "hours", "pay", 0.75, ms=3.0),
    row("d", "hours", "pay", 0.65, Reason.LOW_CONFIDENCE, ms=4.0),
    row("e", "pay", "pay", 1.0, Reason.EXACT, ms=0.5),
    row("f", "pay", "pay", 0.9, Reason.ENTITY_MISMATCH, guards=("weekday", "number"), exit=2, ms=5.0),
    row("g", "chat", "chat", 0.8, Reason.TOPIC_FORWARDS, ms=6.0),
    row("h", "oos", "hours", 0.55, exit=2, ms=7.0),
    row("i", "oos", "hours", 0.2, Reason.OUT_OF_SCOPE, kind="near_miss", guards=("in_scope",), ms=8.0),
    row("j", "oos", "pay", 0.9, Reason.ENTITY_MISMATCH, kind="near_miss", guards=("weekday",), ms=9.0),
    row("k", "hours", "hours", 0.9, Reason.NEEDS_CONTEXT, kind="follow_up", guards=("alone",), ms=10.0),
    row("l", "hours", None, 0.0, Reason.TOO_LONG, ms=0.1),
    row("m", "pay", "pay", 0.6, lang=ZH, history=HISTORY, ms=11.0),
    row("n", "oos", "pay", 0.5, lang=ZH, ms=12.0),
]


@pytest.fixture(scope="module")
def bundle(demo: Pipeline) -> Bundle:
    answers = {(t, lang): Answer(t, lang, "text", 1) for t in ("hours", "pay") for lang in (Lang.EN, ZH)}
    return replace(demo.runtime.bundle, topics=TOPICS, languages=(Lang.EN, ZH), answers=answers, tools={})


@pytest.fixture(scope="module")
def found(bundle: Bundle) -> Evaluation:
    return summarise(bundle, ROWS, {}, 0.95)


def test_strata_and_totals(found: Evaluation) -> None:
    assert found.strata == (
        Stratum("en", "follow_up", 1, 0, 0, 0),
        Stratum("en", "in_scope", 8, 7, 4, 1),
        Stratum("en", "near_miss", 2, 0, 0, 0),
        Stratum("en", "out_of_scope", 1, 0, 1, 1),
        Stratum("zh", "in_scope", 1, 1, 1, 0),
        Stratum("zh", "out_of_scope", 1, 0, 1, 1),
    )
    assert found.total() == Stratum("all", "all", 14, 8, 7, 3)
    assert found.total("zh") == Stratum("zh", "all", 2, 1, 2, 1)


def test_topic_accuracy_is_of_what_was_read_in_scope(found: Evaluation) -> None:
    """a b e f g k m of a … g, k, m; l was not read."""
    assert found.topic_accuracy == pytest.approx(7 / 9)


def test_errors_are_all_wrong_answers_surest_first(found: Evaluation) -> None:
    assert [error["text"] for error in found.errors] == ["c", "h", "n"]
    assert found.errors[0] == {
        "text": "c", "history": [], "kind": "in_scope", "lang": "en", "topic": "hours",
        "answered_with": "pay", "confidence": 0.75, "exit": 4,
    }  # fmt: skip


def test_reasons_and_exits(found: Evaluation) -> None:
    assert found.reasons == {
        "entity_mismatch": 2,
        "low_confidence": 1,
        "topic_forwards": 1,
        "out_of_scope": 1,
        "needs_context": 1,
        "too_long": 1,
    }
    assert next(iter(found.reasons)) == "entity_mismatch"
    assert found.exits == {"0": 2, "2": 2, "4": 8}


def test_times_are_quantiles(found: Evaluation) -> None:
    assert len(found.ms) == 101
    assert (found.ms[0], found.ms[100]) == (0.1, 12.0)
    assert found.p50_ms == found.ms[50] == pytest.approx(5.5)
    assert found.p99_ms == found.ms[99]
    assert list(found.ms) == sorted(found.ms)


def test_curves_are_of_what_thresholds_may_let_through(found: Evaluation) -> None:
    """a b c d h in English, surest first; neither the exact text nor what guards stopped."""
    assert found.curves.keys() == {"en", "zh"}
    curve = found.curves["en"]
    assert [(p.answered, p.wrong) for p in curve] == [(1, 0), (2, 0), (3, 1), (4, 2), (5, 3)]
    assert [p.confidence for p in curve] == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.55])
    assert [p.bound for p in curve] == [upper_bound(p.wrong, p.answered, 0.95) for p in curve]
    assert [(p.answered, p.wrong) for p in found.curves["zh"]] == [(1, 0), (2, 1)]


def test_a_long_curve_is_thinned_and_keeps_its_ends(bundle: Bundle) -> None:
    rows = [row(f"{n}", "hours", "hours", 1 - n / 1000) for n in range(700)]
    curve = summarise(bundle, rows, {}, 0.95).curves["en"]
    assert len(curve) == POINTS
    assert (curve[0].answered, curve[-1].answered) == (1, 700)
    counts = [point.answered for point in curve]
    assert counts == sorted(set(counts))


def test_the_curve_is_of_the_stated_traffic(bundle: Bundle) -> None:
    rows = [row(f"{n}", "hours", "hours", 0.9 - n / 1000) for n in range(40)]
    rows += [row(f"o{n}", "oos", "hours", 0.5 - n / 1000) for n in range(40)]
    curve = summarise(bundle, rows, {"in_scope": 0.8, "out_of_scope": 0.2}, 0.95).curves["en"]
    assert (curve[-1].answered, curve[-1].wrong) == (50, 10)


def mixed(inside: int, outside: int, follow_ups: int = 0) -> list[Judged]:
    """In scope all answered, a tenth wrong; half of what lies outside is answered; follow-ups never."""
    rows = [row(f"i{n}", "hours", "pay" if n % 10 == 0 else "hours") for n in range(inside)]
    rows += [
        row(f"o{n}", "oos", "hours", 0.9, Reason.LOW_CONFIDENCE if n % 2 else Reason.MATCHED)
        for n in range(outside)
    ]
    rows += [
        row(f"f{n}", "oos", "hours", 0.9, Reason.NEEDS_CONTEXT, kind="follow_up") for n in range(follow_ups)
    ]
    return rows


def test_mixes_weigh_the_served_decisions(bundle: Bundle) -> None:
    mixes = summarise(bundle, mixed(2000, 2000), {}, 0.95).mixes["en"]
    assert tuple(mix.out_of_scope for mix in mixes) == SHARES
    for mix in mixes:
        answered = (1 - mix.out_of_scope) + mix.out_of_scope / 2
        wrong = (1 - mix.out_of_scope) / 10 + mix.out_of_scope / 2
        assert mix.answered == pytest.approx(answered, abs=0.03)
        assert mix.wrong == pytest.approx(wrong / answered, abs=0.03)
        assert mix.wrong < mix.bound < mix.wrong + 0.05
    # The last takes all rows of both: no sample, so the figures are exact.
    assert (mixes[-1].answered, mixes[-1].wrong) == (0.75, pytest.approx(1200 / 3000))
    assert mixes[-1].bound == upper_bound(1200, 3000, 0.95)


def test_the_rest_of_a_mix_keeps_its_proportions(bundle: Bundle) -> None:
    """Follow-ups, which are forwarded, take their part of what is not out of scope."""
    traffic = {"in_scope": 0.6, "follow_up": 0.2, "out_of_scope": 0.2}
    for shares in (traffic, {}):
        mixes = summarise(bundle, mixed(600, 800, 200), shares, 0.95).mixes["en"]
        assert mixes[-1].answered == pytest.approx(0.5 * 0.75 + 0.5 / 2, abs=0.005)


def test_without_questions_out_of_scope_or_in_it_there_are_no_mixes(bundle: Bundle) -> None:
    for rows in (mixed(9, 0), mixed(0, 9), []):
        assert summarise(bundle, rows, {}, 0.95).mixes == {"en": (), "zh": ()}


def test_reliability_is_of_what_was_read_and_stands_alone(found: Evaluation) -> None:
    """Tenths: i; h n; d; c; b g; a f j. k and m have a history, e and l were not read."""
    assert found.reliability == (
        Bin(1, pytest.approx(0.2), 0.0),
        Bin(2, pytest.approx(0.525), 0.0),
        Bin(1, pytest.approx(0.65), 0.0),
        Bin(1, pytest.approx(0.75), 0.0),
        Bin(2, pytest.approx(0.825), 1.0),
        Bin(3, pytest.approx(2.75 / 3), pytest.approx(2 / 3)),
    )


def test_full_confidence_falls_into_the_last_bin(bundle: Bundle) -> None:
    rows = [row("a", "hours", "hours", 1.0), row("b", "hours", "hours", 0.91)]
    [only] = summarise(bundle, rows, {}, 0.95).reliability
    assert only.questions == 2


def test_topics(found: Evaluation) -> None:
    assert found.topics == (
        TopicRow("hours", questions=6, found=3, answered=3, wrong=1),
        TopicRow("pay", questions=3, found=3, answered=4, wrong=2),
        TopicRow("chat", questions=1, found=1, answered=0, wrong=0),
    )


def test_confusions_are_of_questions_in_scope_that_stand_alone(bundle: Bundle, found: Evaluation) -> None:
    assert found.confusions == (Confusion("hours", "pay", 2, "c"),)
    more = [
        *ROWS,
        row("x", "pay", "chat"),
        row("y", "hours", "chat", history=HISTORY),
        row("z", "oos", "pay"),
    ]
    assert summarise(bundle, more, {}, 0.95).confusions == (
        Confusion("hours", "pay", 2, "c"),
        Confusion("pay", "chat", 1, "x"),
    )


def test_guards_are_counted_by_what_they_kept_from_being_answered(found: Evaluation) -> None:
    assert found.guards == (
        GuardRow("weekday", right=1, wrong=1, alone=1),
        GuardRow("alone", right=0, wrong=1, alone=1),
        GuardRow("in_scope", right=0, wrong=1, alone=1),
        GuardRow("number", right=1, wrong=0, alone=0),
    )


def test_no_questions_give_an_empty_evaluation(bundle: Bundle) -> None:
    none = summarise(bundle, [], {}, 0.95)
    assert (none.total().questions, none.topic_accuracy, none.p99_ms) == (0, 0, 0)
    assert none.curves == {"en": (), "zh": ()}
    assert "in scope  0.0%" in table(none)


def test_the_table_has_every_stratum_and_the_worst_errors(bundle: Bundle, found: Evaluation) -> None:
    text = table(found)
    lines = [line.split() for line in text.splitlines()]
    assert ["en", "in_scope", "8", "7", "4", "1"] in lines
    assert ["zh", "all", "2", "1", "2", "1"] in lines
    assert ["all", "all", "14", "8", "7", "3"] in lines
    assert "guards, wrong/right      weekday 1/1, alone 1/0, in_scope 1/0, number 0/1" in text
    assert "  0.750  'c' (en in_scope) is hours, got pay" in text
    assert "more (--json" not in text
    many = [row(f"{n}", "oos", "hours", 0.9 - n / 100) for n in range(WORST + 3)]
    assert "… and 3 more (--json has all)" in table(summarise(bundle, many, {}, 0.95))


def test_the_demo_is_evaluated_as_it_is_served(demo: Pipeline) -> None:
    given = [
        Question("公司几点上班？", "staff.working_hours", ZH),
        Question("what does payday mean in French", "oos", Lang.EN, "near_miss"),
    ]
    result = evaluate(demo, given)
    assert result.total() == Stratum("all", "all", 2, 1, 1, 0)
    assert result.reasons == {"out_of_scope": 1}
    assert result.errors == ()
    as_dict = result.as_dict()
    assert as_dict["strata"][0]["kind"] == "near_miss"
    assert result.p50_ms > 0
