"""Declared tools: what loads, what is refused, and the address and body of a call."""

import json
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.decision import Level
from edge.normaliser import Lang
from edge.tools import Tool, tools_of

SLOT = {
    "kind": "free", "type": "string", "description": "", "required": True, "default": None, "find": None,
    "pattern": None, "terms": {}, "enum": [], "unit": "", "when": "", "minimum": None, "maximum": None,
}  # fmt: skip
ENTRY: dict[str, Any] = {
    "name": "get_order", "description": "d", "method": "GET", "url": "/orders/{order_id}", "effects": "read",
    "scope": "user", "slots": [SLOT | {"name": "order_id"}], "use": "answer", "credential": None,
    "timeout_ms": 2000, "max_concurrency": 8, "rate": None, "cost": 500, "cache_s": 0, "owner": None,
    "gates": {"prefetch": {"en": 0.4, "zh": None}, "inject": {"en": 0.9}},
}  # fmt: skip


def test_a_tool_is_read() -> None:
    tool = Tool.of_data(ENTRY | {"credential": "secret:SHOP_KEY", "owner": "user", "rate": 2.5})
    assert (tool.use, tool.timeout, tool.rate, tool.owner) == (Level.ANSWER, 2.0, 2.5, "user")
    assert tool.allows(Level.PREFETCH, Lang.EN, 0.4)
    assert not tool.allows(Level.PREFETCH, Lang.EN, 0.39)
    assert not tool.allows(Level.INJECT, Lang.EN, 0.89)
    assert not tool.allows(Level.PREFETCH, Lang.ZH, 1.0)  # what was never measured
    assert not tool.allows(Level.PREFETCH, None, 1.0)
    assert not Tool.of_data(ENTRY | {"use": "prefetch"}).allows(Level.INJECT, Lang.EN, 1.0)


REFUSED = {
    "writes": {"effects": "write"},
    "a method that writes": {"method": "DELETE"},
    "a method in another case": {"method": "get"},
    "an unknown use": {"use": "always"},
    "an unknown scope": {"scope": "all"},
    "an owner of a public tool": {"scope": "public", "owner": "user"},
    "another scheme": {"url": "file:///etc/passwd"},
    "no host": {"url": "https:///orders"},
    "a bare path": {"url": "orders/{order_id}"},
    "a place in the host": {"url": "https://{order_id}.example/orders"},
    "a place in the port": {"url": "https://shop.example:{order_id}/orders"},
    "a credential of another kind": {"credential": "cookie:session"},
    "a secret in the wrong place": {"credential": "Bearer sk-123"},
    "no time": {"timeout_ms": 0},
    "endless time": {"timeout_ms": float("inf")},
    "no call at once": {"max_concurrency": 0},
    "no rate": {"rate": 0},
    "a negative cost": {"cost": -1},
    "a cost that is none": {"cost": float("nan")},
    "a gate that is none": {"gates": {"inject": {"en": float("nan")}}},
    "a gate of another level": {"gates": {"always": {"en": 0.1}}},
    "a gate of another language": {"gates": {"inject": {"fr": 0.1}}},
}


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_what_must_not_be_called_does_not_load(what: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        Tool.of_data(ENTRY | REFUSED[what])


def test_a_tool_that_writes_may_be_suggested() -> None:
    assert (
        Tool.of_data(ENTRY | {"effects": "write", "method": "DELETE", "use": "suggest"}).use is Level.SUGGEST
    )


def test_two_tools_of_one_name_do_not_load() -> None:
    with pytest.raises(ValueError, match="two tools have one name"):
        tools_of([ENTRY, ENTRY | {"url": "/other/{order_id}"}])


@given(st.text(min_size=1, max_size=30))
def test_no_value_leaves_its_place(value: str) -> None:
    tool = Tool.of_data(ENTRY | {"url": "https://shop.example/a/{order_id}/b?c={order_id}#x"})
    try:
        address = tool.address({"order_id": value})
    except (ValueError, UnicodeEncodeError):
        return
    parts = urlsplit(address)
    assert (parts.netloc, parts.fragment) == ("shop.example", "x")
    before, first, middle, last = parts.path.split("/")
    assert (before, first, last) == ("", "a", "b")
    assert unquote(middle) == value
    assert parts.query.startswith("c=")
    assert unquote(parts.query[2:]) == value
    assert "&" not in parts.query


@pytest.mark.parametrize("value", [".", "..", "..."])
def test_dots_alone_are_no_value(value: str) -> None:
    with pytest.raises(ValueError, match="dots"):
        Tool.of_data(ENTRY).address({"order_id": value})


def test_what_was_not_said_is_empty_in_the_query_and_an_error_in_the_path() -> None:
    tool = Tool.of_data(ENTRY | {"url": "/rooms/{day}?time={time}", "slots": []})
    assert tool.address({"day": "today"}) == "/rooms/today?time="
    with pytest.raises(KeyError):
        tool.address({"time": "15:00"})


def test_a_post_carries_the_slots_without_a_place() -> None:
    tool = Tool.of_data(ENTRY | {"method": "POST"})
    content = tool.content({"order_id": "1024", "note": "值", "count": 3})
    assert content is not None
    assert json.loads(content) == {"note": "值", "count": 3}
    assert Tool.of_data(ENTRY).content({"order_id": "1024"}) is None


def test_only_the_caller_fills_a_slot_of_the_caller() -> None:
    tool = Tool.of_data(
        ENTRY | {"slots": [SLOT | {"name": "order_id"}, SLOT | {"name": "user", "kind": "caller"}]}
    )
    assert tool.needs_name()
    assert tool.arguments({"order_id": "1", "user": "boss"}, "eva") == {"order_id": "1", "user": "eva"}
