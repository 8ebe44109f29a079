"""Reading the last user turn out of a chat body."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.normaliser import Lang, Normaliser
from edge.query import HARMLESS_OPTIONS, Query, Turn, content_text, fingerprint

NORMALISER = Normaliser("門", "门")


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def query(*messages: dict[str, Any], **options: object) -> Query:
    return Query.of_body({"messages": list(messages) or [user("hi")], **options}, NORMALISER)


def test_a_plain_turn() -> None:
    read = Query.of_body({"messages": [user("開門？ Now")], "model": "m"}, NORMALISER, "alice")
    assert (read.clipped, read.normal, read.lang) == (False, "開门? now", Lang.ZH)
    assert (read.model, read.identity, read.stream, read.last_is_user) == ("m", "alice", False, True)
    assert (read.history, read.system, read.options) == ((), None, frozenset())
    assert (read.client_tools, read.attachment) == (False, False)


def test_of_text_agrees_with_of_body() -> None:
    history = (Turn("user", "a"), Turn("assistant", "b"))
    bare = Query.of_text("Hi", NORMALISER, history)
    assert bare == query(user("a"), {"role": "assistant", "content": "b"}, user("Hi"))


@pytest.mark.parametrize(
    ("content", "text", "only_text"),
    [
        ("a", "a", True),
        (None, "", True),
        ([], "", True),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb", True),
        ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}], "a", False),
        ([{"type": "text", "text": 5}], "", False),
        ([{"type": "input_audio", "text": "a"}], "", False),
        (["a"], "", False),
        (5, "", False),
        ({"text": "a"}, "", False),
    ],
)
def test_content(content: object, text: str, only_text: bool) -> None:
    assert content_text(content) == (text, only_text)
    assert query(user(content)).attachment is not only_text


def test_history_leaves_system_prompts_out() -> None:
    read = query(
        {"role": "system", "content": "S"},
        user("a"),
        {"role": "assistant", "content": "b"},
        {"role": "developer", "content": [{"type": "text", "text": "D"}]},
        user("c"),
    )
    assert read.history == (Turn("user", "a"), Turn("assistant", "b"))
    assert read.system == fingerprint("S\nD")
    assert read.last_assistant() == "b"


def test_last_assistant_is_only_the_turn_before() -> None:
    assert query(user("a")).last_assistant() is None
    assert query({"role": "assistant", "content": "b"}, user("c"), user("d")).last_assistant() is None


def test_fingerprint_is_stable_and_takes_any_text() -> None:
    assert fingerprint("you are") == hashlib.sha256(b"you are").hexdigest()[:16]
    assert len(fingerprint("\ud800")) == 16
    assert fingerprint("") != fingerprint(" ")


def test_an_empty_system_prompt_is_one() -> None:
    assert query({"role": "system", "content": ""}, user("a")).system == fingerprint("")


@pytest.mark.parametrize("name", sorted(HARMLESS_OPTIONS - {"messages"}))
def test_harmless_options(name: str) -> None:
    values = {"model": "m", "user": "u", "metadata": {"a": "b"}, "store": False, "stream": True}
    values["stream_options"] = {"include_usage": True}
    assert query(**{"stream": True, name: values.get(name, 500)}).options == frozenset()


@pytest.mark.parametrize("name", sorted(HARMLESS_OPTIONS - {"messages"}))
@pytest.mark.parametrize("value", [[], [1]])
def test_a_harmless_option_of_another_kind_is_not_harmless(name: str, value: object) -> None:
    assert query(**{name: value}).options == {name}


@pytest.mark.parametrize(
    ("message", "attachment"),
    [
        ({"role": "user", "content": "a", "name": "bob"}, False),
        ({"role": "user", "content": "a", "images": None}, False),
        ({"role": "user", "content": "a", "images": ["x"]}, True),
        ({"role": "user", "content": "a", "audio": {}}, True),
        ({"role": "user", "content": [{"type": "text", "text": "a", "file": {}}]}, True),
        ({"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]}, False),
    ],
)
def test_anything_beside_the_text_is_an_attachment(message: dict[str, Any], attachment: bool) -> None:
    assert query(message).attachment is attachment


def test_an_attachment_before_the_text_counts_until_the_assistant_has_spoken() -> None:
    image = user([{"type": "image_url", "image_url": {}}])
    assert query(image, user("what is this")).attachment
    assert not query(image, {"role": "assistant", "content": "a cat"}, user("thanks")).attachment


def test_history_is_bounded_and_system_prompts_are_not_lost() -> None:
    many = [{"role": "system", "content": "S"}, *[user(str(i)) for i in range(500)], user("last")]
    read = query(*many)
    assert len(read.history) == 64
    assert read.history[-1].text == "499"
    assert read.system == fingerprint("S")


def test_a_called_function_is_a_tool_in_the_tail() -> None:
    for name in ("tool_calls", "function_call"):
        assert query(user("a"), {"role": "assistant", name: [{}]}, user("b")).client_tools


@pytest.mark.parametrize(
    ("options", "unusual"),
    [
        ({"n": 2}, {"n"}),
        ({"response_format": {"type": "json_object"}, "logprobs": False}, {"response_format", "logprobs"}),
        ({"n": None, "stop": None}, set()),
        ({"zzz": 0}, {"zzz"}),
        ({"stream": "true"}, {"stream"}),
        ({"stream": 1}, {"stream"}),
        ({"stream_options": []}, {"stream_options"}),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, set()),
        ({"stream_options": {"include_usage": True}}, {"stream_options"}),
        ({"stream_options": {"later": 1}}, {"stream_options"}),
        ({"model": 5}, {"model"}),
        ({"max_tokens": "9"}, {"max_tokens"}),
        ({"max_tokens": True}, {"max_tokens"}),
        ({"max_completion_tokens": 1.5}, {"max_completion_tokens"}),
    ],
)
def test_unusual_options(options: dict[str, Any], unusual: set[str]) -> None:
    assert query(**options).options == unusual


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 9, "max_completion_tokens": 4}, 4),
        ({"max_completion_tokens": 0}, 0),
    ],
)
def test_max_tokens(options: dict[str, Any], limit: int | None) -> None:
    assert query(**options).max_tokens == limit


@pytest.mark.parametrize(
    ("options", "stream", "usage"),
    [
        ({"stream": True}, True, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True, True),
        ({"stream": True, "stream_options": {"include_usage": 1}}, True, False),
        ({"stream": 1}, False, False),
        ({"stream": None, "stream_options": None}, False, False),
    ],
)
def test_stream(options: dict[str, Any], stream: bool, usage: bool) -> None:
    read = query(**options)
    assert (read.stream, read.include_usage) == (stream, usage)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tools": [{"type": "function"}]}, True),
        ({"functions": [{}]}, True),
        ({"tool_choice": "none"}, True),
        ({"tools": [], "functions": None, "parallel_tool_calls": False}, False),
    ],
)
def test_client_tools_by_option(options: dict[str, Any], expected: bool) -> None:
    read = query(**options)
    assert read.client_tools is expected
    assert read.options == frozenset()


@pytest.mark.parametrize(
    ("before", "last", "expected"),
    [
        ({"role": "tool", "content": "x"}, user("a"), True),
        ({"role": "function", "content": "x"}, user("a"), True),
        ({"role": "assistant", "content": None, "tool_calls": [{}]}, user("a"), True),
        ({"role": "assistant", "content": "b", "tool_calls": []}, user("a"), False),
        (user("a"), {"role": "tool", "content": "x"}, True),
        (user("a"), user("b"), False),
    ],
)
def test_client_tools_in_the_tail(before: dict[str, Any], last: dict[str, Any], expected: bool) -> None:
    assert query(before, last).client_tools is expected


@pytest.mark.parametrize("role", ["assistant", "system", "developer", "tool", "User", None, 5])
def test_only_a_user_can_ask(role: object) -> None:
    assert query({"role": role, "content": "a"}).last_is_user is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(["role", "content", "tool_calls", "stream_options", "max_tokens", "model"])


@given(st.lists(st.dictionaries(FIELDS, JSON, max_size=4), min_size=1), st.dictionaries(FIELDS, JSON))
def test_any_list_of_objects_can_be_read(messages: list[Any], options: dict[str, Any]) -> None:
    read = Query.of_body({**options, "messages": messages}, NORMALISER)
    assert len(read.history) < len(messages)
    assert isinstance(read.normal, str)


@pytest.mark.parametrize(("size", "clipped"), [(2048, False), (2049, True), (1_000_000, True)])
def test_a_long_text_is_clipped_before_anything_reads_it(size: int, clipped: bool) -> None:
    read = query(user("門" * size))
    assert (read.clipped, len(read.normal)) == (clipped, 2048)
