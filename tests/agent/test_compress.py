"""Results made short, and arguments held to their schemas."""

import json
from typing import Any

import pytest
from compress import compress, message_of
from hypothesis import given
from hypothesis import strategies as st
from schema import problems, strict
from tokens import estimate
from tools import Planned, Result, Tool

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(), inner, max_size=60),
    max_leaves=200,
)


@given(JSON, st.integers(20, 500))
def test_anything_becomes_short_json(value: Any, limit: int) -> None:
    text = compress(value, limit)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert estimate(text) <= 3 * limit + 20  # what had to be cut as a text may be escaped


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": None, "b": "", "c": [], "d": {"e": None}, "f": 0, "g": False}, '{"f":0,"g":false}'),
        ({"rooms": []}, "{}"),
        ([{"a": None}, None, 1], "[{},null,1]"),
        (None, "null"),
        ({"x": float("nan"), "y": 1.5}, '{"y":1.5}'),
        ("a" * 1005, '"' + "a" * 1000 + '… (5 more characters)"'),
        ({"rows": list(range(53))}, '{"rows":[' + ",".join(map(str, range(50))) + ',"… 3 more of 53"]}'),
        ({str(n): 1 for n in range(52)}, None),
        ("订单", '"订单"'),
    ],
)
def test_what_is_left_out_and_what_is_cut(value: Any, text: str | None) -> None:
    got = compress(value, 1000)
    if text is None:
        assert json.loads(got)["…"] == "2 more fields"
    else:
        assert got == text


def test_a_long_list_is_cut_further_until_it_fits() -> None:
    rows = [{"name": f"Room {n}", "note": "x" * 400, "empty": None} for n in range(500)]
    for limit in (4000, 800, 200, 60):
        text = compress(rows, limit)
        assert estimate(text) <= limit
        assert "more of 500" in text or limit == 60


def test_depth_and_size_cost_little() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": [deep]}
    assert estimate(compress(deep, 100)) <= 100
    assert estimate(compress({"rows": list(range(3_000_000)), "text": "x" * 30_000_000}, 200)) <= 200


def test_a_message_says_whose_data_it_holds() -> None:
    planned = Planned(Tool("t", "", {"type": "object"}, None), {})  # type: ignore[arg-type]
    good = message_of(Result(planned, "ok", {"a": 'x"}'}), "call_1", 100)
    assert good == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": '{"data_of":"t","result":{"a":"x\\"}"}}',
    }
    bad = message_of(Result(planned, "timeout", error="Too slow."), "call_1", 100)
    assert json.loads(bad["content"]) == {"data_of": "t", "error": "Too slow."}


SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]{4}$"},
        "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "x": {"type": "number"},
        "yes": {"type": "boolean"},
        "day": {"type": "string", "enum": ["today", "tomorrow"]},
    },
    "required": ["id"],
}


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"id": "1024"}, []),
        ({"id": "1024", "n": 9, "x": 1, "yes": True, "day": "today"}, []),
        ({}, ["id is missing."]),
        ({"id": 1024}, ["id must be of type string."]),
        ({"id": "1024\n"}, ["id must match ^[0-9]{4}$."]),
        ({"id": "10245"}, ["id must match ^[0-9]{4}$."]),
        ({"id": "1024", "n": 10}, ["n must lie between 1 and 9."]),
        ({"id": "1024", "n": True}, ["n must be of type integer."]),
        ({"id": "1024", "n": 1.0}, ["n must be of type integer."]),
        ({"id": "1024", "x": float("inf")}, ["x must be a number."]),
        ({"id": "1024", "x": "1"}, ["x must be of type number."]),
        ({"id": "1024", "yes": 1}, ["yes must be of type boolean."]),
        ({"id": "1024", "day": "monday"}, ["day must be one of today, tomorrow."]),
        ({"id": "1024", "user": "ana"}, ["There is no argument user; there are id, n, x, yes, day."]),
        ({"id": "9" * 501}, ["id must have at most 500 characters."]),
        ([], ["The arguments must be an object."]),
        (None, ["The arguments must be an object."]),
    ],
)
def test_arguments(arguments: Any, wrong: list[str]) -> None:
    assert list(problems(SCHEMA, arguments)) == wrong


def test_strict_schema_lets_optional_arguments_be_null() -> None:
    told = strict(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["a"],
        }
    )
    assert told == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
