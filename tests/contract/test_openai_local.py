"""The real openai SDK gets local answers that it cannot tell from an LLM's, but for the headers."""

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from servers import Desk, Relay, ScriptedUpstream

QUESTION = "what time do we start?"
ZH_QUESTION = "公司几点上班？"


@pytest.fixture(scope="module")
def local(desk: Desk) -> Iterator[Relay]:
    """Without an upstream: whatever succeeds was answered here."""
    with desk() as relay:
        yield relay


@pytest.fixture(scope="module")
def sdk(local: Relay) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{local.url}/v1", api_key="k", max_retries=0) as client:
        yield client


def user(text: Any) -> Any:
    return [{"role": "user", "content": text}]


def test_a_whole_answer(sdk: openai.OpenAI) -> None:
    raw = sdk.chat.completions.with_raw_response.create(model="gpt-x", messages=user(QUESTION))
    answer = raw.parse()
    assert "9:30" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "gpt-x"
    assert (answer.system_fingerprint or "").startswith("frontdesk-")
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 10
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert raw.headers["x-frontdesk-path"] == "faq"
    assert raw.headers["x-frontdesk-reason"] in ("exact", "matched")
    assert "route;dur=" in raw.headers["server-timing"] or "exact;dur=" in raw.headers["server-timing"]
    assert answer._request_id == raw.headers["x-request-id"]


def test_the_stream_joins_to_the_whole(sdk: openai.OpenAI) -> None:
    whole = sdk.chat.completions.create(model="m", messages=user(ZH_QUESTION)).choices[0].message.content
    chunks = list(sdk.chat.completions.create(model="m", messages=user(ZH_QUESTION), stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == whole
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({c.id for c in chunks}) == 1
    assert all(c.usage is None for c in chunks)
    assert len(chunks) > 3


def test_usage_comes_only_when_asked_for_and_last(sdk: openai.OpenAI) -> None:
    stream = sdk.chat.completions.create(
        model="m", messages=user(QUESTION), stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert all(chunk.usage is None for chunk in chunks)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens > 10


def test_the_async_client(local: Relay) -> None:
    async def ask() -> tuple[str, str]:
        async with openai.AsyncOpenAI(base_url=f"{local.url}/v1", api_key="k", max_retries=0) as client:
            whole = await client.chat.completions.create(model="m", messages=user(QUESTION))
            stream = await client.chat.completions.create(model="m", messages=user(QUESTION), stream=True)
            parts = [c.choices[0].delta.content or "" async for c in stream]
        return whole.choices[0].message.content or "", "".join(parts)

    whole, streamed = asyncio.run(ask())
    assert whole == streamed


def test_the_streaming_helper(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(model="m", messages=user(QUESTION)) as stream:
        final = stream.get_final_completion()
    assert "9:30" in (final.choices[0].message.content or "")


def test_a_streaming_response_shows_our_headers(sdk: openai.OpenAI) -> None:
    create = sdk.chat.completions.with_streaming_response.create
    with create(model="m", messages=user(QUESTION), stream=True) as response:
        assert response.headers["x-frontdesk-path"] == "faq"
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        parts = [part.choices[0].delta.content or "" for part in response.parse()]
    assert "9:30" in "".join(parts)


@pytest.mark.parametrize(
    "content", [QUESTION, [{"type": "text", "text": QUESTION}], [{"type": "text", "text": ZH_QUESTION}]]
)
def test_parts_are_read_like_a_text(sdk: openai.OpenAI, content: Any) -> None:
    answer = sdk.chat.completions.create(model="m", messages=user(content))
    assert "9:30" in (answer.choices[0].message.content or "")


def test_harmless_options_do_not_forward(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model="m",
        messages=user(QUESTION),
        temperature=0,
        top_p=1,
        seed=7,
        user="u",
        max_completion_tokens=500,
        metadata={"a": "b"},
        store=False,
    )
    assert "9:30" in (answer.choices[0].message.content or "")


PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("client_tools", {"tools": [TOOL]}),
        ("client_options", {"response_format": {"type": "json_object"}}),
        ("client_options", {"n": 2}),
        ("client_options", {"logprobs": True}),
        ("client_options", {"max_tokens": 3}),
        ("client_options", {"extra_body": {"something_new": 1}}),
        ("attachment", {"messages": user([{"type": "text", "text": QUESTION}, PNG])}),
        (
            "client_tools",
            {"messages": [*user(QUESTION), {"role": "tool", "tool_call_id": "c", "content": "1"}]},
        ),
        ("client_options", {"messages": [*user(QUESTION), {"role": "assistant", "content": "At"}]}),
        ("unsupported_language", {"messages": user("何時に始まりますか、おしえてくださいね")}),
        ("unsupported_language", {"messages": user(None)}),
        ("unsupported_language", {"messages": user("   ")}),
        ("too_long", {"messages": user("what time do we start " * 40)}),
        ("embedded", {"messages": user("translate into French: where can I park")}),
        ("needs_context", {"messages": user("那第二个呢")}),
        ("multi_request", {"messages": user("what time do we start? and when is payday?")}),
        ("bypass", {"extra_headers": {"x-frontdesk-bypass": "1"}}),
    ],
)
def test_what_must_not_be_answered_goes_to_the_agent(
    sdk: openai.OpenAI, reason: str, change: dict[str, Any]
) -> None:
    """There is no agent here, so a forward shows as an error that carries its reason."""
    with pytest.raises(openai.APIStatusError) as caught:
        sdk.chat.completions.create(**{"model": "m", "messages": user(QUESTION), **change})
    assert caught.value.status_code == 503
    assert caught.value.code == "upstream_unset"
    found = caught.value.response.headers["x-frontdesk-reason"]
    assert found == {"embedded": "out_of_scope"}.get(reason, reason)


def test_asking_again_after_our_answer_forwards(sdk: openai.OpenAI) -> None:
    question = "请问一下公司的作息时间是怎样的？"
    answer = sdk.chat.completions.create(model="m", messages=user(question)).choices[0].message.content
    again = [*user(question), {"role": "assistant", "content": answer}, *user(question)]
    with pytest.raises(openai.APIStatusError) as caught:
        sdk.chat.completions.create(model="m", messages=again)
    assert caught.value.response.headers["x-frontdesk-reason"] == "re_ask"


def test_a_forward_carries_hints_that_the_agents_parser_reads(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    from servers import completion, json_answer

    from edge.hints import parse_hints

    shared_upstream.reset()
    shared_upstream.script = json_answer(completion("from the agent"))
    with (
        desk(shared_upstream.url) as relay,
        openai.OpenAI(base_url=f"{relay.url}/v1", api_key="k", max_retries=0) as client,
    ):
        raw = client.chat.completions.with_raw_response.create(
            model="m",
            messages=user("订单 1024 到哪了"),
            extra_headers={"x-frontdesk-debug": "1", "x-frontdesk-budget-ms": "5000"},
        )
        assert raw.parse().choices[0].message.content == "from the agent"
        assert raw.headers["x-frontdesk-path"] == "agent"
        assert raw.headers["x-frontdesk-reason"] == "topic_forwards"
        assert raw.headers["x-frontdesk-topic"] == "shop.order_status"
        hints = parse_hints(shared_upstream.last().headers["x-frontdesk-hints"])
    assert (hints.topic, hints.lang, hints.reason) == ("shop.order_status", "zh", "topic_forwards")
    assert hints.tools == ("get_order",)
    assert hints.complexity == "single"
    assert hints.budget_ms is not None
    assert 4000 < hints.budget_ms <= 5000
    assert hints.top[0][0] == "shop.order_status"
