"""Which calls a gate rests on, where it stands, and what a bundle holds of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from judged_rows import row
from tiny_base import few_pools, write_desk

from edge.bundle import load_bundle
from edge.decision import Call, Filled, Level, Reason, Suggestion
from edge.normaliser import Lang
from export.calibrate import sample
from export.desk import Desk, DeskTopic
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.fit import fit_desk
from export.judged import Judged, judge
from export.opened import write_opened
from export.risk import answers_to_prove, upper_bound
from export.tool_gates import (
    DELTA,
    PRECISION,
    Gate,
    calls_of,
    gate_entry,
    gates,
    merged,
    opened_gates,
    seen_in,
)
from export.train import train_desk

EN, ZH = Lang.EN, Lang.ZH
LEAST = {level: answers_to_prove(1 - precision, 1 - DELTA) for level, precision in PRECISION.items()}


def desk(uses: Mapping[str, str], traffic: Mapping[str, float] | None = None) -> Desk:
    """A desk with a topic for each tool, of the same name, and one that is answered."""
    topics = [DeskTopic(name, {}, "tool", {}, {}, tools=(name,)) for name in uses]
    topics.append(DeskTopic("hours", {}, "answer", {}, {EN: "At 9.", ZH: "9 点"}))
    tools = tuple({"name": name, "use": use} for name, use in uses.items())
    return Desk(Path(), "d", (EN, ZH), tuple(topics), tools, traffic=traffic or {})


def called(
    tool: str,
    right: int,
    wrong: int = 0,
    lang: Lang = EN,
    low: float = 0.25,
    high: float = 0.75,
    kind: str = "in_scope",
    **others: object,
) -> list[Judged]:
    """Questions for which a tool is called, confidences spread evenly, the wrong ones the least sure."""
    count = right + wrong
    made = []
    for n in range(count):
        sure = high - (high - low) * n / max(1, count - 1)
        asked = tool if n < right else "oos" if kind == "out_of_scope" else "hours"
        judged = row(
            f"{tool} {lang} {kind} {low} {n}", asked, tool, sure, Reason.TOPIC_FORWARDS, lang, kind=kind
        )
        suggestion = Suggestion(tool, {"id": Filled("1024", "1024")})
        level = Level.ANSWER if n % 2 else Level.PREFETCH  # a gate counts the calls for an answer, too
        decision = replace(
            judged.decision, tools=(suggestion,), calls=(Call(suggestion, level, sure),), **others
        )
        made.append(replace(judged, decision=decision))
    return made


def gate(found: Sequence[Gate], tool: str, level: Level, lang: Lang = EN) -> Gate:
    [it] = [g for g in found if (g.tool, g.level, g.lang) == (tool, str(level), str(lang))]
    return it


# --- where a gate stands -----------------------------------------------------------------------------


@pytest.mark.parametrize("level", PRECISION)
def test_as_many_right_calls_as_prove_it_open_a_gate_at_the_least_sure(level: Level) -> None:
    enough = called("get", LEAST[level])
    found = gate(gates(desk({"get": "answer"}), enough), "get", level)
    assert found.confidence == enough[-1].confidence
    assert (found.called, found.right, found.precision) == (LEAST[level], LEAST[level], 1.0)
    assert found.bound == pytest.approx(DELTA ** (1 / LEAST[level]), abs=1e-5)
    assert found.bound >= PRECISION[level]
    few = gate(gates(desk({"get": "answer"}), enough[:-1]), "get", level)
    assert (few.confidence, few.called, few.right) == (None, LEAST[level] - 1, LEAST[level] - 1)
    assert few.bound < PRECISION[level]


def test_the_gate_stands_in_the_gap_above_what_is_too_often_wrong() -> None:
    """Sure calls right, unsure ones wrong: a prefetch bears more of the wrong ones than an injection."""
    judged = called("get", 60, low=0.6) + called("get", 0, 60, low=0.1, high=0.5)
    found = gates(desk({"get": "answer"}), judged)
    prefetch, inject = (gate(found, "get", level) for level in PRECISION)
    assert prefetch.confidence is not None
    assert inject.confidence is not None
    assert 0.1 < prefetch.confidence < 0.5 <= inject.confidence + 0.1
    for it in (prefetch, inject):
        assert it.right / it.called >= it.bound >= PRECISION[Level.of(it.level)]
        assert it.called == sum(r.confidence >= it.confidence for r in judged)


def test_what_is_never_right_opens_nothing() -> None:
    found = gate(gates(desk({"get": "answer"}), called("get", 0, 80)), "get", Level.PREFETCH)
    assert (found.confidence, found.called, found.right, found.bound) == (None, 80, 0, 0.0)


@pytest.mark.parametrize(
    ("use", "levels"), [("suggest", []), ("prefetch", ["prefetch"]), ("inject", ["prefetch", "inject"])]
)
def test_only_levels_that_the_desk_allows_have_gates(use: str, levels: list[str]) -> None:
    made = desk({"get": use})
    for found in (gates(made, called("get", 99)), opened_gates(made)):
        assert sorted({g.level for g in found}) == sorted(levels)
        assert {g.lang for g in found} == ({"en", "zh"} if levels else set())


def test_languages_are_judged_apart_and_guided_ones_not_at_all() -> None:
    judged = called("get", 40) + called("get", 40, lang=ZH)
    found = gates(desk({"get": "inject"}), judged, guided=[ZH])
    assert gate(found, "get", Level.INJECT, EN).confidence is not None
    for level in PRECISION:
        guided = gate(found, "get", level, ZH)
        assert (guided.confidence, guided.called, guided.precision) == (None, 0, None)


def test_tools_with_too_few_calls_are_proven_together() -> None:
    made = desk({"a": "answer", "b": "answer", "c": "answer", "d": "answer"})
    judged = called("a", 15) + called("b", 20) + called("c", 25, 25)
    found = gates(made, judged)
    a, b, c, d = (gate(found, name, Level.INJECT) for name in "abcd")
    assert a.confidence == b.confidence == 0.25
    assert a.pooled
    assert b.pooled
    assert (a.called, b.called) == (15, 20)
    assert a.bound == b.bound == pytest.approx(1 - upper_bound(0, 35, 1 - DELTA), abs=1e-5)
    # One with enough calls stands for itself, and without any call nothing is known.
    assert not c.pooled
    assert (d.confidence, d.called, d.pooled) == (None, 0, False)
    # Each has enough for a prefetch.
    assert not any(gate(found, name, Level.PREFETCH).pooled for name in "abcd")


def test_a_level_asks_at_least_what_the_level_before_asks() -> None:
    made = desk({"a": "inject", "b": "inject", "c": "inject"})
    # Together they prove an injection down to 0.25; alone c has too many wrong ones for a prefetch.
    judged = called("a", 28) + called("b", 28, low=0.5) + called("c", 1, 1, low=0.3)
    found = gates(made, judged)
    assert [gate(found, "b", level).confidence for level in PRECISION] == [0.5, 0.5]
    c = [gate(found, "c", level) for level in PRECISION]
    assert [(g.confidence, g.pooled, g.called, g.right) for g in c] == [(None, False, 2, 1)] * 2
    for tool in "abc":
        assert [g.level for g in found if (g.tool, g.lang) == (tool, "en")] == ["prefetch", "inject"]


def test_rows_of_a_table_that_differ_in_their_level_only_are_one() -> None:
    one = Gate("get", "prefetch", "en", 0.4, 9, 8, 0.6)
    rows = [one, replace(one, level="inject"), replace(one, lang="zh"), replace(one, lang="zh", right=7)]
    assert [(g.level, g.lang, g.right) for g in merged(rows)] == [
        ("prefetch, inject", "en", 8),
        ("prefetch", "zh", 8),
        ("prefetch", "zh", 7),
    ]


def test_one_small_tool_alone_has_no_company() -> None:
    found = gate(gates(desk({"a": "inject", "b": "inject"}), called("a", 9)), "a", Level.INJECT)
    assert (found.confidence, found.pooled) == (None, False)


# --- which calls count -----------------------------------------------------------------------------


def test_right_is_a_tool_of_the_topic_asked_and_never_for_a_follow_up() -> None:
    judged = called("get", 1, 1) + called("get", 1, kind="follow_up")
    counted = calls_of(judged, {"get": ("get", "other"), "hours": ()})
    assert counted == {("get", EN): ((0.75, True), (0.25, False), (0.75, False))}
    # Another topic that names the tool, too, is right.
    assert all(right for _, right in calls_of(judged[:2], {"get": ("get",), "hours": ("get",)})["get", EN])


def test_turns_with_several_requests_are_left_out() -> None:
    hits = row("x", "get", "get", reason=Reason.MULTI_REQUEST).decision.guards
    assert calls_of(called("get", 3, guards=hits), {"get": ("get",)}) == {}


def test_the_calls_are_those_of_the_stated_traffic() -> None:
    """Half of the turns are out of scope: so many of the questions in scope are left out."""
    made = desk({"get": "answer"}, {"in_scope": 0.5, "out_of_scope": 0.5})
    judged = called("get", 100) + called("get", 0, 50, kind="out_of_scope", low=0.1, high=0.19)
    found = gate(gates(made, judged), "get", Level.INJECT)
    kept = sample(judged, EN, made.traffic)
    assert len(kept) == 100
    assert found.confidence is not None
    assert found.called == sum(r.confidence >= found.confidence for r in kept)


# --- in a bundle -----------------------------------------------------------------------------------


def test_a_manifest_holds_every_level_and_language() -> None:
    found = (Gate("get", "prefetch", "en", 0.4, 9, 8, 0.6), Gate("get", "prefetch", "zh", None, 3, 1, 0.02))
    assert gate_entry(found, {"name": "get"}, (EN, ZH)) == {
        "gates": {"prefetch": {"en": 0.4, "zh": None}, "inject": {"en": None, "zh": None}},
        "precision": {
            "prefetch": {"en": {"called": 9, "right": 8}, "zh": {"called": 3, "right": 1}},
            "inject": {"en": {"called": 0, "right": 0}, "zh": {"called": 0, "right": 0}},
        },
    }


TOOLS = """\
- {name: get_order, description: d, method: GET, url: '/o/{id}', use: answer, slots: {id: {pattern: '[0-9]{4,12}'}}}
- {name: get_menu, description: d, method: GET, url: '/m', use: prefetch}
"""
TOPICS = {
    "hours": {"examples": {"en": ["when do you open", "opening hours please", "are you open on sunday"]}},
    "order": {
        "route": "tool",
        "tools": ["get_order"],
        "template": {"en": "Order {get_order.id} is on its way."},
        "examples": {"en": ["where is order 1024", "track order 3311", "status of my order 7722"]},
    },
    "menu": {
        "route": "tool",
        "tools": ["get_menu"],
        "examples": {"en": ["lunch today", "what is on the menu", "canteen menu please"]},
    },
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "tools.yaml").write_text(TOOLS, "utf-8")
    asked = "".join(
        f'{{"text": "please, {text}", "topic": "{topic}", "lang": "en"}}\n'
        for topic, entry in TOPICS.items()
        for text in entry["examples"]["en"]  # type: ignore[index]
    )
    return load_desk(write_desk(folder, TOPICS, "en", calibrate=asked, test=asked))


def test_what_is_calibrated_calls_whatever_may_be_called(tiny: Desk, tiny_base: Path, tmp_path: Path) -> None:
    base = Encoder(tiny_base)
    pipeline = write_opened(tmp_path, tiny, base, fit_desk(tiny, base, few_pools(), 0))
    for judged in judge(pipeline, tiny.calibrate):
        decision = judged.decision
        against = {hit.reason for hit in decision.guards}
        allowed = {Reason.LOW_CONFIDENCE, Reason.LOW_MARGIN, Reason.UNPROVEN, Reason.TOPIC_FORWARDS}
        complete = [s.tool for s in decision.tools if s.is_complete]
        assert [call.suggestion.tool for call in decision.calls] == (complete if against <= allowed else [])
    assert any(r.decision.is_local and r.decision.calls for r in judge(pipeline, tiny.calibrate))


def test_a_bundle_is_built_with_its_gates(tiny: Desk, tiny_base: Path, tmp_path: Path) -> None:
    bundle, evaluation = train_desk(tiny, Encoder(tiny_base), few_pools(), tmp_path / "out")
    # Nine questions prove no gate, and the report says of each level what there is.
    assert [tool.gates for tool in load_bundle(tmp_path / "out").tools.values()] == [{}, {}]
    assert {(g.tool, g.level) for g in evaluation.tools} == {
        ("get_order", "prefetch"),
        ("get_order", "inject"),
        ("get_menu", "prefetch"),
    }
    card = (tmp_path / "out/README.md").read_text("utf-8")
    assert "| get_menu | en | prefetch | none |" in card
    assert bundle.guards.allowed["order"] is not None
    assert bundle.guards.allowed["menu"] is None


def test_what_a_file_says_of_gates_is_counted_from_them_on(
    tiny: Desk, tiny_base: Path, tmp_path: Path
) -> None:
    base = Encoder(tiny_base)
    write_opened(tmp_path, tiny, base, fit_desk(tiny, base, few_pools(), 0))
    tool = replace(
        load_bundle(tmp_path).tools["get_order"], gates={(Level.PREFETCH, EN): 0.5, (Level.INJECT, EN): 0.8}
    )
    calls = {("get_order", EN): ((0.9, True), (0.8, True), (0.6, False), (0.4, True))}
    found = seen_in([tool], (EN,), calls, 0.95)
    assert [(g.level, g.confidence, g.called, g.right) for g in found] == [
        ("prefetch", 0.5, 3, 2),
        ("inject", 0.8, 2, 2),
    ]
    assert found[0].bound == pytest.approx(1 - upper_bound(1, 3, 0.95))
