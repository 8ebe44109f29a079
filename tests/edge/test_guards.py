"""Guards over a small data dict of the shape that a bundle holds."""

from typing import Any

import pytest

from edge.decision import GuardHit, Reason
from edge.guards import Guards, han_number

SIGNALS = {
    "没问题": "",
    "没": "negation",
    "can't": "negation",
    "can": "",
    "saturday": "weekday:saturday",
    "周六": "weekday:saturday",
    "sunday": "weekday:sunday",
}
DATA: dict[str, Any] = {
    "patterns": [
        {"name": "and_also", "reason": "multi_request", "pattern": "and also|另外", "dialogue": False},
        {"name": "human", "reason": "re_ask", "pattern": "human|人工", "dialogue": True},
        {"name": "that", "reason": "needs_context", "pattern": "^(that|那)", "dialogue": False},
    ],
    "terms": "|".join(sorted(SIGNALS, key=lambda term: (-len(term), term))),
    "signals": SIGNALS,
    "numbers": "(?P<value>[0-9][0-9,.:]*[0-9]|[0-9]|[零〇一二两三四五六七八九十百千万半]+|one|seven)"
    " ?(?P<unit>days?|天|元|个)?",
    "units": {"day": "day", "days": "day", "天": "day", "元": "yuan"},
    "number_words": {"one": "1", "seven": "7"},
    "reasons": {
        "negation": "negation_mismatch",
        "weekday": "entity_mismatch",
        "number": "number_mismatch",
    },
}
GUARDS = Guards.of_data(DATA, {"leave": ["number:7 day", "weekday:saturday"], "empty": [], "agent": None})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("零", 0),
        ("七", 7),
        ("十", 10),
        ("十五", 15),
        ("二十五", 25),
        ("两百", 200),
        ("一百零五", 105),
        ("一百五", 150),
        ("一百一十五", 115),
        ("一千零一十", 1010),
        ("三千六", 3600),
        ("一万二千", 12000),
        ("两万五", 25000),
        ("两万零五", 20005),
        ("十二万", 120_000),
        ("三百万", 3_000_000),
        ("一百二十三万四千五百六十七", 1_234_567),
        ("二〇二六", 2026),
        ("一二三", 123),
        ("半", 0.5),
        ("两半", 2.5),
    ],
)
def test_han_number(text: str, value: float) -> None:
    assert han_number(text) == value
    assert str(han_number(text)) == str(value)  # 25, not 25.0


@pytest.mark.parametrize(
    ("normal", "signals"),
    [
        ("没问题", set()),  # longest first: no negation in it
        ("没带卡", {"negation"}),
        ("没问题,没带卡", {"negation"}),
        ("i can't come", {"negation"}),
        ("i can come", set()),
        ("周六 or saturday", {"weekday:saturday"}),
        ("saturday and sunday", {"weekday:saturday", "weekday:sunday"}),
        ("7 days", {"number:7 day"}),
        ("07天", {"number:7 day"}),
        ("七天", {"number:7 day"}),
        ("seven days", {"number:7 day"}),
        ("seven", set()),  # a numeral in words counts only with a unit
        ("one of them", set()),
        ("一个", set()),  # neither does one with a unit that says nothing
        ("7", {"number:7"}),
        ("7 个", {"number:7"}),
        ("半天", {"number:0.5 day"}),
        ("0.5天", {"number:0.5 day"}),
        ("00.50天", {"number:0.5 day"}),
        ("1,024元", {"number:1024 yuan"}),
        ("1024.00元", {"number:1024 yuan"}),
        ("100元", {"number:100 yuan"}),
        ("0", {"number:0"}),
        ("000", {"number:0"}),
        ("09:30", {"number:9:30"}),
        ("00:30", {"number:0:30"}),
        ("10.0.0.10", {"number:10.0.0.10"}),
        ("七天没来 sunday", {"number:7 day", "negation", "weekday:sunday"}),
        ("", set()),
    ],
)
def test_signals(normal: str, signals: set[str]) -> None:
    assert GUARDS.signals_of(normal) == signals


def test_what_the_examples_carry_is_no_mismatch() -> None:
    assert GUARDS.mismatches("七天 saturday", "leave") == []
    assert GUARDS.mismatches("how do i apply", "leave") == []


def test_what_fills_a_slot_is_no_mismatch_and_all_else_is() -> None:
    found = GUARDS.mismatches("没 8 days sunday", "leave", slots=["8 days", "nothing"])
    assert [hit.value for hit in found] == ["negation", "weekday:sunday"]
    assert GUARDS.mismatches("8 days sunday", "leave", slots=["8 days", "sunday"]) == []
    # Its number alone is another signal than the number with its unit.
    assert [hit.value for hit in GUARDS.mismatches("8 days", "leave", slots=["8"])] == ["number:8 day"]


def test_mismatches_say_kind_reason_and_value_in_a_fixed_order() -> None:
    assert GUARDS.mismatches("没 8 days sunday", "leave") == [
        GuardHit("negation", Reason.NEGATION_MISMATCH, "negation"),
        GuardHit("number", Reason.NUMBER_MISMATCH, "number:8 day"),
        GuardHit("weekday", Reason.ENTITY_MISMATCH, "weekday:sunday"),
    ]


def test_another_unit_is_another_number() -> None:
    assert [hit.value for hit in GUARDS.mismatches("7元", "leave")] == ["number:7 yuan"]


def test_a_topic_without_signals_allows_none_and_one_without_answer_all() -> None:
    assert [hit.value for hit in GUARDS.mismatches("7 days", "empty")] == ["number:7 day"]
    assert GUARDS.mismatches("没 8 days sunday", "agent") == []


def test_wordings_come_in_the_order_of_the_data() -> None:
    assert GUARDS.wordings("that and also this", in_dialogue=False) == [
        GuardHit("and_also", Reason.MULTI_REQUEST, "and also"),
        GuardHit("that", Reason.NEEDS_CONTEXT, "that"),
    ]


def test_some_wordings_count_only_in_a_dialogue() -> None:
    assert GUARDS.wordings("转人工", in_dialogue=False) == []
    assert GUARDS.wordings("转人工", in_dialogue=True) == [GuardHit("human", Reason.RE_ASK, "人工")]


def test_an_unknown_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="bored"):
        Guards.of_data({**DATA, "reasons": {"negation": "bored"}}, {})
