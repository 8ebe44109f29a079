"""Messages as pruning sees them: what is known, what is doubted, how long it is, how an output is cut."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.conversation import PER_MESSAGE, Said, Unsure, cut, estimate, read

ASK = {"role": "user", "content": "hello"}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "done"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
TEXT = {"type": "text", "text": "hello"}


def said(**message: Any) -> Said:
    [one] = read([message])
    return one


def test_an_exchange_is_open_until_the_last_tool_has_answered() -> None:
    calls = CALLS | {"tool_calls": [CALL, CALL | {"id": "b"}]}
    messages = [ASK, calls, RESULT | {"tool_call_id": "b"}, RESULT, {"role": "assistant", "content": "ok"}]
    assert [one.closed for one in read(messages)] == [True, False, False, True, True]
    assert [one.role for one in read(messages)] == ["user", "assistant", "tool", "tool", "assistant"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "user", "content": []},
        {"role": "user", "content": "x", "name": "Ann"},
        {"role": "user", "content": [TEXT, TEXT | {"cache_control": {"type": "ephemeral"}}]},
        {"role": "system", "content": [TEXT]},
        {"role": "developer", "content": "x"},
        {"role": "assistant"},
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": "x", "reasoning_content": "y"},
        # What OpenAI's SDK makes of an answer, to be sent back as it is.
        {"role": "assistant", "content": "x", "refusal": None, "annotations": [], "audio": None}
        | {"function_call": None, "tool_calls": None},
    ],
    ids=json.dumps,
)
def test_known_shapes(message: dict[str, Any]) -> None:
    one = said(**message)
    assert (one.role, one.closed) == (message["role"], True)
    assert one.tokens >= PER_MESSAGE


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([{"role": "oracle", "content": "x"}], "unknown_shape"),
        ([{"role": "function", "name": "f", "content": "x"}], "unknown_shape"),
        ([{"role": ["user"], "content": "x"}], "unknown_shape"),
        ([{"content": "x"}], "unknown_shape"),
        ([{"role": "user"}], "unknown_shape"),
        ([{"role": "user", "content": 5}], "unknown_shape"),
        ([{"role": "user", "content": "x", "audio": {"id": "a"}}], "unknown_shape"),
        ([{"role": "user", "content": "x", "tool_calls": [CALL]}], "unknown_shape"),
        ([{"role": "user", "content": "x", "name": 5}], "unknown_shape"),
        ([{"role": "user", "content": [{"type": "text"}]}], "unknown_shape"),
        ([{"role": "user", "content": [TEXT | {"more": 1}]}], "unknown_shape"),
        ([{"role": "assistant", "content": "x", "audio": {"id": "a"}}], "unknown_shape"),
        ([{"role": "assistant", "content": "x", "function_call": {"name": "f"}}], "unknown_shape"),
        ([{"role": "assistant", "content": "x", "refusal": 5}], "unknown_shape"),
        ([ASK, CALLS | {"tool_calls": {}}], "unknown_shape"),
        ([ASK, CALLS | {"tool_calls": [5]}], "unknown_shape"),
        ([ASK, CALLS | {"tool_calls": [CALL | {"type": "custom"}]}, RESULT], "unknown_shape"),
        ([ASK, CALLS | {"tool_calls": [CALL | {"function": {"name": "f"}}]}, RESULT], "unknown_shape"),
        ([ASK, CALLS | {"tool_calls": [CALL, CALL]}, RESULT, RESULT], "unknown_shape"),
        ([ASK, CALLS, RESULT | {"content": None}], "unknown_shape"),
        ([{"role": "user", "content": [TEXT, IMAGE]}], "attachment"),
        ([{"role": "user", "content": [5]}], "attachment"),
        ([{"role": "user", "content": [{"type": "refusal", "refusal": "no"}]}], "attachment"),
        ([ASK, CALLS, RESULT | {"content": [IMAGE]}], "attachment"),
        ([RESULT], "tool_without_call"),
        ([ASK, CALLS, RESULT, RESULT], "tool_without_call"),
        ([ASK, CALLS, RESULT | {"tool_call_id": "b"}], "tool_without_call"),
        ([ASK, CALLS, {"role": "tool", "content": "x"}], "tool_without_call"),
        ([ASK, CALLS], "open_calls"),
        ([ASK, CALLS, ASK], "open_calls"),
        ([ASK, CALLS, {"role": "system", "content": "x"}, RESULT], "open_calls"),
        ([ASK, CALLS, CALLS], "open_calls"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:60],
)
def test_doubts(messages: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(Unsure) as caught:
        read(messages)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("name", "pinned"), [("pinned", True), ("Pinned", False), ("", False), (None, False)]
)
def test_a_name_pins(name: str | None, pinned: bool) -> None:
    assert said(role="user", content="my order is 1024", name=name).pinned is pinned


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("hello world", 3), ("几点上班", 4), ("1024", 3), ('{"a": 1}', 5), ("\ud800", 1)],
)
def test_estimates(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


def test_what_a_message_is_thought_to_cost() -> None:
    text = "where is my order"
    assert said(role="user", content=text).tokens == PER_MESSAGE + estimate(text)
    assert said(role="user", content=[TEXT, TEXT]).tokens == PER_MESSAGE + 2 * estimate("hello")
    assert said(role="assistant", content=None, refusal=text).tokens == PER_MESSAGE + estimate(text)
    call = CALL | {"function": {"name": "get_order", "arguments": '{"order_id": "1024"}'}}
    calls, result = read([CALLS | {"tool_calls": [call]}, RESULT])
    assert calls.tokens == 2 * PER_MESSAGE + estimate('get_order {"order_id": "1024"}')
    assert result.tokens == PER_MESSAGE + estimate("done")


WORDS = st.lists(st.sampled_from(["a", " ", "word", "0", '{"', "\n", "é", "退货", "😀", "\ud800"])).map(
    "".join
)
LONG = st.builds(lambda words, times: words * times, WORDS, st.integers(1, 300))


@given(LONG, st.integers(100, 300))
def test_an_output_is_cut_to_head_and_tail(text: str, limit: int) -> None:
    message = RESULT | {"content": text}
    short = cut(message, limit)
    if estimate(text) <= limit:
        assert short is message
        return
    assert message == RESULT | {"content": text}
    assert {**short, "content": ""} == RESULT | {"content": ""}
    head, mark, tail = short["content"].partition("\n[… about ")
    mark, _, tail = tail.partition(" tokens cut here …]\n")
    assert mark == f"{estimate(text) - limit} of {estimate(text)}"
    assert text.startswith(head)
    assert text.endswith(tail)
    assert estimate(short["content"]) <= limit
    assert estimate(head) + estimate(tail) >= limit - 30, "more was cut than had to be"
    assert abs(estimate(head) - estimate(tail)) <= 3
    assert cut(short, limit) is short


def test_parts_of_an_output_are_cut_each_for_itself() -> None:
    parts = [{"type": "text", "text": "short"}, {"type": "text", "text": "word " * 500, "cache_control": {}}]
    short = cut(RESULT | {"content": parts}, 100)["content"]
    assert short[0] == parts[0]
    assert short[1].keys() == parts[1].keys()
    assert estimate(short[1]["text"]) <= 100
