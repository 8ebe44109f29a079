"""What check says of a template: syntax, tools and slots, and nothing of one that is right."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from export.located import Located
from export.templates import template_problems

TOOLS: dict[str, Any] = {
    "get_order": {"name": "get_order", "slots": {"order_id": {"type": "string", "pattern": "[0-9]{4}"}}},
    "get_stock": {"name": "get_stock", "slots": {"product": {"enum": ["x1"]}, 5: {}}},
}


def problems(text: str, tools: dict[str, Any] = TOOLS) -> list[str]:
    return list(template_problems(text, tools))


@pytest.mark.parametrize(
    "text",
    [
        "Order {slots.order_id} is {get_order.state = shipped: on its way; paid: being packed}.",
        "订单 {slots.order_id}：{get_order.eta ? 还不知道}。\n{each get_stock.rows}\n- {item.slots.x} {item.get.y}\n{end}",
        "{get_stock} {slots.5}",
    ],
)
def test_nothing_is_said_of_what_is_right(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{get_order.state", ["cannot be read: at character 1: a single {; write {{ for a brace"]),
        ("订单 [查看]({get_order.url})", ["cannot be read: at character 9: a value cannot be a part of a link; put a space between them"]),
        ("{get_ordr.state}", ["holds {get_ordr.state}, and the topic names no such tool; its tools are get_order, get_stock"]),
        ("{get_order.a} {each get_rooms}{item}{else}{slot.order_id}{end}", [
            "holds {get_rooms}, and the topic names no such tool; its tools are get_order, get_stock",
            "holds {slot.order_id}, and the topic names no such tool; its tools are get_order, get_stock",
        ]),
        ("{slots.order} {get_order.a}", ["holds {slots.order}, and its tools have no such slot; their slots are 5, order_id, product"]),
        ("{slots.order_id.no} {slots} {get_order.a}", [
            "holds {slots}, and a slot is one value; write {slots.NAME}",
            "holds {slots.order_id.no}, and a slot is one value; write {slots.NAME}",
        ]),
        ("Order {slots.order_id} was found.", ["shows nothing of a result; a field is {get_order.NAME}, in single braces"]),
        ("Your order is {{get_order.state}}.", ["shows nothing of a result; a field is {get_order.NAME}, in single braces"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_a_fix(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize("tool", [{}, {"slots": None}, {"slots": ["order_id"]}, Located(), "get_order", None])
def test_a_tool_that_is_itself_wrong_has_no_slots(tool: object) -> None:
    expected = ["holds {slots.order_id}, and its tools have no such slot; their slots are none"]
    assert problems("{slots.order_id} {get_order.a}", {"get_order": tool}) == expected


def test_a_topic_whose_tools_are_unknown_is_told_of_its_fields_alone() -> None:
    expected = ["holds {get_order.a}, and the topic names no such tool; its tools are none"]
    assert problems("{get_order.a}", {}) == expected
    assert problems("found", {}) == []


def test_the_example_of_the_docs_is_right() -> None:
    docs = (Path(__file__).parents[2] / "docs/desk.md").read_text("utf-8").partition("### Templates")[2]
    [topic] = yaml.safe_load(re.findall("```yaml\n(.*?)```", docs, re.DOTALL)[0])
    assert set(topic["template"]) == {"en", "zh"}
    for text in topic["template"].values():
        assert problems(text, {"get_order": TOOLS["get_order"]}) == []
