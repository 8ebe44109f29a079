"""The OpenAI wire: what is refused, what is rendered, what survives."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from edge.decision import Answer
from edge.errors import BadRequest
from edge.normaliser import Lang
from edge.wire import check_messages, completion_events, completion_json, edited_body, json_bytes, parse_chat

TURN = '[{"role":"user","content":"hi"}]'
# Text as UTF-8 can carry it: an answer is read from a UTF-8 file.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def answer(text: str, tokens: int = 7) -> Answer:
    return Answer("hours", Lang.EN, text, tokens)


def chunks(text: str, prompt_tokens: int | None = None) -> list[dict[str, Any]]:
    body = completion_events(answer(text), "chatcmpl-1", "m", 5, "fp", prompt_tokens)
    *events, done, rest = body.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
    return [json.loads(event[6:]) for event in events]


def content(events: list[dict[str, Any]]) -> list[str]:
    return [c["delta"]["content"] for e in events for c in e["choices"] if "content" in c["delta"]]


@pytest.mark.parametrize(
    "text",
    [
        "We open at nine.",
        "早上九点开门，晚上六点关门。周末休息。" * 9,
        "## Leave\n\n- ten days\n- *more* with `HR`\n\n```sh\nls  -l\n```\n",
        "👩‍👩‍👧‍👦" * 50,
        "x" * 1000,
        "\n\n leading",
        "trailing \n",
        "a\r\nb\u2028c\u0085d",
        "",
    ],
)
def test_pieces_join_to_the_exact_text(text: str) -> None:
    assert "".join(content(chunks(text))) == text


@given(TEXT)
def test_any_text_joins_back(text: str) -> None:
    pieces = content(chunks(text))[1:]
    assert "".join(pieces) == text
    assert all(0 < len(p) <= 61 or not p.strip("\n") for p in pieces)


def test_pieces_end_after_words() -> None:
    for text in ("word " * 100, "一二三四五六七，" * 30, "seven,t," * 30):
        _, *pieces = content(chunks(text))
        assert len(pieces) > 3
        assert {piece[-1] for piece in pieces} == {text[-1]}


def test_blank_lines_stay_together() -> None:
    assert content(chunks("a\n\n\nb"))[1:] == ["a", "\n\n\n", "b"]


def test_stream_has_the_shape_of_openai() -> None:
    events = [ChatCompletionChunk.model_validate(e, strict=True) for e in chunks("Hello")]
    assert [e.choices[0].delta.role for e in events] == ["assistant", None, None]
    assert [e.choices[0].finish_reason for e in events] == [None, None, "stop"]
    assert {(e.id, e.model, e.created, e.object) for e in events} == {
        ("chatcmpl-1", "m", 5, "chat.completion.chunk")
    }


def test_stream_without_include_usage_has_none() -> None:
    assert not any("usage" in event for event in chunks("Hello"))


def test_stream_usage_comes_last_and_alone() -> None:
    *events, last = chunks("Hello", prompt_tokens=3)
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10}
    assert all(event["usage"] is None and event["choices"] for event in events)


def test_usage_of_an_empty_prompt_is_still_usage() -> None:
    assert chunks("Hello", prompt_tokens=0)[-1]["usage"]["total_tokens"] == 7


def test_whole_completion_has_the_shape_of_openai() -> None:
    body = completion_json(answer("九点"), "chatcmpl-1", "m", 5, "fp", 3)
    completion = ChatCompletion.model_validate(json.loads(body), strict=True)
    assert completion.choices[0].message.content == "九点"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.system_fingerprint == "fp"
    assert completion.usage == CompletionUsage(prompt_tokens=3, completion_tokens=7, total_tokens=10)


def test_an_edited_body_keeps_everything_else() -> None:
    body = (
        '{"zeta":1,"model":"a","big":123456789012345678901234567890,'
        '"messages":[{"role":"user","content":"\\ud800 你好 \U0001f600"}],"x":{"b":null,"a":[1.5,true]}}'
    )
    changed = edited_body({**parse_chat(body.encode()), "model": "b"})
    assert changed.decode() == body.replace('"a","big"', '"b","big"')


def test_an_edited_body_appends_what_is_new() -> None:
    assert edited_body({"a": 1, "model": "b"}) == b'{"a":1,"model":"b"}'


@given(st.text(st.characters()))
def test_json_bytes_are_utf8_and_read_back(text: str) -> None:
    assert json.loads(json_bytes({"a": text}).decode("utf-8")) == json.loads(json.dumps({"a": text}))


@pytest.mark.parametrize("depth", [10, 900, 940, 960, 975, 985, 990, 995, 1000, 10_000])
def test_deep_json_is_read_and_written_or_refused(depth: int) -> None:
    body = f'{{"messages":{TURN},"x":{"[" * depth}{"]" * depth}}}'.encode()
    refused: BadRequest | None = None
    written = b""
    try:
        written = edited_body({**parse_chat(body), "model": "m"})
    except BadRequest as error:
        refused = error
    if refused is None:
        assert depth < 1000
        assert written.count(b"[") == depth + 1
    else:
        assert depth > 500
        assert refused.error_code == "invalid_json"
        assert "nested too deeply" in refused.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"{",
        b'{"messages":',
        f'{{"messages":{TURN}}} x'.encode(),
        f'{{"messages":{TURN},"temperature":NaN}}'.encode(),
        f'{{"messages":{TURN},"temperature":-Infinity}}'.encode(),
        f'{{"messages":{TURN},"temperature":1e999}}'.encode(),
        f'{{"messages":{TURN},"seed":{"9" * 5000}}}'.encode(),
        f'{{"messages":{TURN}}}'.encode("utf-16"),
        f'{{"messages":{TURN}}}'.encode("utf-16-le"),
        b'{"messages":[{"role":"user","content":"\xff"}]}',
        b'{"messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
        b'{"messages":[{"role":"user","content":"a\nb"}]}',
        b"[" * 10_000,
        TURN.encode(),
        b'"messages"',
        b"null",
        b"5",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_chat(body)
    assert (caught.value.error_code, caught.value.param) == ("invalid_json", None)


@pytest.mark.parametrize("body", [{}, {"messages": None}, {"message": []}])
def test_missing_messages(body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_chat(json.dumps(body).encode())
    assert (caught.value.error_code, caught.value.param) == ("missing_required_parameter", "messages")


@pytest.mark.parametrize("messages", [[], "hi", {}, {"role": "user"}, 0, False, ["hi"], [{}, None], [[]]])
def test_odd_messages(messages: object) -> None:
    with pytest.raises(BadRequest) as caught:
        check_messages({"messages": messages})
    assert (caught.value.error_code, caught.value.param) == ("invalid_type", "messages")


def test_unknown_roles_and_fields_are_left_to_the_agent() -> None:
    body = '{"messages":[{"role":"narrator","content":{"odd":1}}],"extra":1}'
    assert parse_chat(body.encode()) == json.loads(body)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_chat(f'{{"messages":{TURN}}}'.encode("utf-8-sig"))["messages"] == json.loads(TURN)


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(BadRequest):
        assert parse_chat(body)["messages"]
