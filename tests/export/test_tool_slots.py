"""Declarations of slots: what is wrong is named with file and line, and what is right is compiled."""

import re
from pathlib import Path

import pytest
from test_desk import problems, write

from edge.normaliser import Normaliser
from edge.slots import Kind, Slot
from export.desk_reader import load_desk
from export.patterns import problem_of, trie
from export.slots import slot_data, unit_names
from export.tool_slots import slot_entry
from export.tools import tool_entry

TOOL = """\
- name: get
  description: d
  method: GET
  url: 'http://x/{a}'
  slots:
    a: {type: string, pattern: '[0-9]{4}'}
"""


def slotted(declaration: str, name: str = "a") -> str:
    return TOOL.replace("a: {type: string, pattern: '[0-9]{4}'}", f"{name}: {declaration}")


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (slotted("{type: text}"), "6: 'a.type' must be one of string, integer, number, boolean, got 'text'"),
        (slotted("5"), "6: 'a' must be a mapping"),
        (slotted("{pattern: '('}"), "6: 'a.pattern' is no regular expression"),
        (slotted("{pattern: '\\d{4}'}"), "6: 'a.pattern' holds '\\\\d', which Python and JavaScript read"),
        (slotted("{pattern: '(?P<x>[0-9])'}"), "6: 'a.pattern' holds '(?P'"),
        (slotted("{pattern: '[0-9]++'}"), "6: 'a.pattern' holds '++'"),
        (slotted("{pattern: '[0-9]{,4}'}"), "6: 'a.pattern' holds '{,'"),
        (slotted("{pattern: 'a\\#[0-9]'}"), "6: 'a.pattern' holds '\\\\#'"),
        (slotted("{pattern: '^[0-9]{4}$'}"), "6: 'a.pattern' holds ^, $"),
        (slotted("{pattern: '([0-9])\\1'}"), "6: 'a.pattern' holds ^, $, a reference"),
        (slotted("{pattern: '[0-9]+'}"), "6: 'a.pattern' matches texts of more than 64 characters"),
        (slotted("{pattern: '[0-9]*'}"), "6: 'a.pattern' matches the empty text"),
        (slotted("{pattern: '([0-9]{1,8}){1,8}'}"), "6: 'a.pattern' can match one text in too many ways"),
        (slotted("{pattern: '(a|a){1,30}'}"), "6: 'a.pattern' can match one text in too many ways"),
        (slotted("{pattern: 5}"), "6: 'a.pattern' must be a text, got 5"),
        (slotted("{type: integer, pattern: '[0-9]{4}'}"), "6: 'a.type' must be string with 'pattern'"),
        (slotted("{values: {x: []}}"), "6: 'a.values' must list for each value the words"),
        (slotted("{values: {}}"), "6: 'a.values' must list for each value the words"),
        (slotted("{values: [x]}"), "6: 'a.values' must list for each value the words"),
        (slotted("{values: {x: [5]}}"), "6: 'a.values' must list for each value the words"),
        (slotted("{values: {x: ['\u200b']}}"), "6: 'a.values' hold '\\u200b', of which nothing is left"),
        (slotted("{values: {x: [One], y: [one]}}"), "6: 'a.values' take 'one' for 'x' and for 'y'"),
        (slotted("{values: {yes: [sure]}}"), "6: 'a.values' has a key that YAML reads as true or false"),
        (slotted(f"{{values: {{{'x' * 65}: [x]}}}}"), "6: 'a' cannot be used"),
        (slotted("{enum: []}"), "6: 'a.enum' must be a list of values"),
        (slotted("{enum: [1]}"), "6: 'a.enum' must hold texts"),
        (slotted("{type: boolean}"), "6: 'a.type' boolean needs 'values'"),
        (slotted("{format: day}"), "6: 'a.format' must be one of date, month, time, got 'day'"),
        (slotted("{format: date, pattern: 'x'}"), "6: 'a.format' and 'pattern' both say how"),
        (slotted("{format: time, when: past}"), "6: 'a.when' belongs to format date or month"),
        (slotted("{format: date, when: now}"), "6: 'a.when' must be past or future"),
        (slotted("{type: integer, unit: parsec}"), "6: 'a.unit' must be one of day, week"),
        (slotted("{unit: day}"), "6: 'a.unit' belongs to type integer or number"),
        (slotted("{type: integer, minimum: x}"), "6: 'a' cannot be used: the slot a: 'minimum'"),
        (slotted("{pattern: '[0-9]{4}', default: abcd}"), "6: 'a.default' cannot be used"),
        (slotted("{type: integer, maximum: 5, default: 6}"), "6: 'a.default' cannot be used"),
        (slotted("{required: maybe}"), "6: 'a.required' must be true or false"),
        (slotted("{colour: red}"), "6: 'a.colour' is no key of a slot"),
        (slotted("{type: string}", "a b"), "6: 'a b' is no name of a slot"),
        (slotted("{type: string}", "b"), "4: 'url' holds {a}, and there is no such slot"),
        (slotted("{type: string}", "b"), "6: 'b' is not in the url; write {b} where it goes"),
        (
            TOOL.replace("slots:\n    a: {type: string, pattern: '[0-9]{4}'}", "slots: [a]"),
            "5: 'slots' must map",
        ),
        (TOOL.partition("  slots")[0], "4: 'url' holds {a}"),
        (slotted("{user: true}") + "  scope: public\n", "6: 'a.user' means the caller, so the tool's scope"),
        (slotted("{user: true, default: x}"), "6: 'a.default' is not for a slot that only the caller"),
        (slotted("{user: true, pattern: 'x'}"), "6: 'a.user' and 'pattern' both say how"),
        (
            slotted("{type: string}", "user").replace("{a}", "{user}") + "  scope: public\n",
            "6: 'user.user' means the caller",
        ),
        (TOOL + TOOL, "7: 'name' 'get' is another tool's, too"),
    ],
)
def test_a_wrong_slot_is_named_with_its_line(tmp_path: Path, tools: str, expected: str) -> None:
    found = problems(write(tmp_path, tools_yaml=tools))
    assert any(problem.startswith(f"/tools.yaml:{expected}") for problem in found), found


@pytest.mark.parametrize(
    ("declaration", "kind"),
    [
        ("{type: string, pattern: '[0-9]{4,12}'}", Kind.PATTERN),
        ("{pattern: '[^/]{2,40}'}", Kind.FREE),
        ("{type: string}", Kind.FREE),
        ("{enum: [a, b]}", Kind.VALUES),
        ("{type: boolean, values: {true: [sure], false: [nope]}}", Kind.VALUES),
        ("{type: integer, values: {1: [one], 2: [two]}}", Kind.VALUES),
        ("{type: integer, enum: [1, 2]}", Kind.NUMBER),
        ("{type: number, unit: yuan, minimum: 0, default: 1.5}", Kind.NUMBER),
        ("{format: date, when: future, default: '2025-01-01'}", Kind.DATE),
        ("{format: month, pattern: null}", Kind.MONTH),
        ("{user: true, description: who}", Kind.CALLER),
    ],
)
def test_a_right_slot_is_compiled(tmp_path: Path, declaration: str, kind: Kind) -> None:
    [tool] = load_desk(write(tmp_path, tools_yaml=slotted(declaration))).tools
    [entry] = tool_entry(tool, Normaliser())["slots"]
    assert Slot.of_data(entry).kind is kind


def test_a_body_needs_no_placeholder(tmp_path: Path) -> None:
    tools = TOOL.replace("GET", "POST").replace("/{a}", "")
    assert len(load_desk(write(tmp_path, tools_yaml=tools)).tools) == 1


def test_words_that_fold_into_one_another_mean_nothing() -> None:
    entry = {"values": {"a": ["雲", "x"], "b": ["云"]}}
    assert slot_entry("s", entry, Normaliser("雲", "云"))["terms"] == {"x": "a"}


def test_the_longest_word_wins_and_words_end_where_they_end() -> None:
    found = re.compile(trie(["x1", "x1 pro", "x1手机", "云"], "(?![a-z0-9])")).findall(
        "x1 pro x1 x1手机 x12 云1"
    )
    assert found == ["x1 pro", "x1", "x1手机", "云"]


def test_an_operators_pattern_is_judged() -> None:
    assert problem_of("[A-Z]{2}-[0-9]{1,8}", 64) is None
    assert problem_of(r"[0-9]{1,9}(\.[0-9]{1,2})?", 64) is None
    assert "too many ways" in (problem_of("(?:a?b){1,30}", 64) or "")


def test_the_data_are_json_and_name_their_units() -> None:
    data = slot_data()
    assert {rule["as"] for rule in data["rules"]} >= {"date", "month", "weekday", "clock", "noise"}
    assert all(rule["if"] and re.compile(rule["if"]) for rule in data["rules"])
    assert set(unit_names()) == set(data["amounts"]["units"].values())


def test_patterns_that_only_one_host_reads_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "slots.yaml"
    text = (Path(__file__).parents[2] / "export/slots.yaml").read_text("utf-8")
    source.write_text(text.replace("24/7|", r"24/7|\\b|".replace("\\\\", "\\")), "utf-8")
    with pytest.raises(ValueError, match="not read alike"):
        slot_data(source)
