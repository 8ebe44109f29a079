"""LangChain's ChatOpenAI through the real server: answered here and forwarded, with tools and structures."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, cast

import openai
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr
from servers import (
    DONE,
    LAST_CHUNK,
    PATIENCE,
    SSE_HEAD,
    Desk,
    Do,
    Relay,
    ScriptedUpstream,
    Step,
    chunk,
    completion,
    delta,
    json_answer,
    open_async_client,
    open_client,
)

QUESTION = "what time do we start?"


@pytest.fixture(autouse=True, scope="module")
def _no_tracing() -> Iterator[None]:
    """Nothing of the developer's LangSmith."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGCHAIN_TRACING"):
            patch.setenv(name, "false")
        patch.delenv("OPENAI_ORG_ID", raising=False)
        yield


@pytest.fixture(scope="module")
def local(desk: Desk) -> Iterator[Relay]:
    """Without an upstream: whatever succeeds was answered here."""
    with desk() as relay:
        yield relay


def chat(relay: Relay, **options: Any) -> ChatOpenAI:
    options = {"model": "gpt-x", "max_retries": 0, "timeout": 3 * PATIENCE, **options}
    return ChatOpenAI(base_url=f"{relay.url}/v1", api_key=SecretStr("sk-client"), **options)


Model = Callable[..., ChatOpenAI]


# LangChain caches its own HTTP clients for the life of the process, and with them open sockets.
@pytest.fixture
def model() -> Iterator[Model]:
    """Makes a ChatOpenAI in front of a relay."""
    with open_client("") as http:
        yield partial(chat, http_client=http)


@asynccontextmanager
async def asynchronous(relay: Relay) -> AsyncIterator[ChatOpenAI]:
    async with open_async_client("") as http:
        yield chat(relay, http_async_client=http)


def streamed(*events: bytes) -> list[Step]:
    return [SSE_HEAD, *map(chunk, events), chunk(DONE), LAST_CHUNK]


def joined(chunks: Iterable[AIMessage]) -> AIMessageChunk:
    """The message that a stream adds up to."""
    first, *rest = cast(Iterable[AIMessageChunk], chunks)
    return add_ai_message_chunks(first, *rest)


# --- answered here -----------------------------------------------------------------------------


def test_a_local_answer(local: Relay, model: Model) -> None:
    answer = model(local, include_response_headers=True).invoke(QUESTION)
    assert isinstance(answer, AIMessage)
    assert "9:30" in answer.text
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.response_metadata["headers"]["x-frontdesk-path"] == "faq"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] > 10


def test_a_local_stream(local: Relay, model: Model) -> None:
    whole = model(local).invoke(QUESTION)
    chunks = list(model(local, stream_usage=True).stream(QUESTION))
    assert len(chunks) > 3
    final = joined(chunks)
    assert final.text == whole.text
    assert final.response_metadata["finish_reason"] == "stop"
    assert final.usage_metadata is not None
    assert whole.usage_metadata is not None
    assert final.usage_metadata["total_tokens"] == whole.usage_metadata["total_tokens"]


def test_local_async(local: Relay) -> None:
    async def ask() -> tuple[str, str]:
        async with asynchronous(local) as model:
            whole = await model.ainvoke([HumanMessage("公司几点上班？")])
            parts = [part.text async for part in model.astream("公司几点上班？")]
        return whole.text, "".join(parts)

    whole, parts = asyncio.run(ask())
    assert whole
    assert parts == whole


# --- forwarded ---------------------------------------------------------------------------------


def test_a_forwarded_answer(relay: Relay, upstream: ScriptedUpstream, model: Model) -> None:
    upstream.script = json_answer(completion("Grüße 你好"))
    messages = [SystemMessage("be brief"), HumanMessage("hi 你好")]
    answer = model(relay, temperature=0.5, include_response_headers=True).invoke(messages)
    assert answer.text == "Grüße 你好"
    assert answer.response_metadata["headers"]["x-frontdesk-path"] == "agent"
    assert upstream.last().json() == {
        "model": "gpt-x",
        "temperature": 0.5,
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi 你好"}],
        "stream": False,
    }
    assert upstream.last().headers["authorization"] == "Bearer sk-client"


TEXTS = ["Grü", "ße ", "你好", "👩‍💻", "\n\ndata: x"]


def test_a_forwarded_stream(relay: Relay, upstream: ScriptedUpstream, model: Model) -> None:
    """It comes as it is made: the upstream ends only once the first word is here."""
    first_is_here = threading.Event()
    first, *rest = map(delta, TEXTS)
    upstream.script = [SSE_HEAD, chunk(first), first_is_here, *streamed(*rest)[1:]]
    got = []
    for part in model(relay).stream("hi"):
        got.append(part.text)
        first_is_here.set()
    assert [text for text in got if text] == TEXTS
    assert upstream.last().json()["stream"] is True


def test_a_forwarded_stream_async(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = streamed(*map(delta, TEXTS))

    async def ask() -> list[str]:
        async with asynchronous(relay) as model:
            return [part.text async for part in model.astream("hi") if part.text]

    assert asyncio.run(ask()) == TEXTS


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    raise AssertionError(city)


ARGUMENTS = '{"city": "北京"}'
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
CALLED = {"name": "weather", "args": {"city": "北京"}, "id": "call_1", "type": "tool_call"}


def called(*pieces: str) -> list[bytes]:
    """A streamed tool call, its arguments in pieces."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    calls: list[dict[str, Any]] = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    calls[0] |= {"id": "call_1", "type": "function"}
    calls[0]["function"]["name"] = "weather"
    deltas: list[tuple[dict[str, Any], str | None]] = [({"tool_calls": [call]}, None) for call in calls]
    choices = [{"index": 0, "delta": d, "finish_reason": end} for d, end in [*deltas, ({}, "tool_calls")]]
    return [
        f"data: {json.dumps(base | {'choices': [choice]}, ensure_ascii=False)}\n\n".encode()
        for choice in choices
    ]


def test_tools(desk: Desk, upstream: ScriptedUpstream, model: Model) -> None:
    """Also for a question that would be answered here: who sends tools wants the agent."""
    upstream.scripts += [json_answer(completion("", tool_calls=[CALL])), json_answer(completion("3.5 °C"))]
    with desk(upstream.url) as relay:
        bound = model(relay).bind_tools([weather], tool_choice="auto", strict=True)
        answer = bound.invoke(QUESTION)
        assert answer.tool_calls == [CALLED]
        sent = upstream.last().json()
        assert sent["tools"][0]["function"]["name"] == "weather"
        assert sent["tools"][0]["function"]["strict"] is True
        assert sent["tool_choice"] == "auto"

        result = ToolMessage('{"t": 3.50}', tool_call_id="call_1")
        assert bound.invoke([HumanMessage(QUESTION), answer, result]).text == "3.5 °C"
        _, call, tool_result = upstream.last().json()["messages"]
        assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == {"city": "北京"}
        assert tool_result == {"role": "tool", "tool_call_id": "call_1", "content": '{"t": 3.50}'}


def test_streamed_tools(relay: Relay, upstream: ScriptedUpstream, model: Model) -> None:
    upstream.script = streamed(*called("", '{"city": ', '"北京"}'))
    bound = model(relay).bind_tools([weather])
    final = joined(bound.stream("hi"))
    assert final.tool_calls == [CALLED]
    assert final.response_metadata["finish_reason"] == "tool_calls"


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    degrees: float


WEATHER = Weather(city="北京", degrees=3.5)


def test_structured_output_by_schema(desk: Desk, upstream: ScriptedUpstream, model: Model) -> None:
    upstream.script = json_answer(completion(WEATHER.model_dump_json()))
    with desk(upstream.url) as relay:
        assert model(relay).with_structured_output(Weather).invoke(QUESTION) == WEATHER
    schema = upstream.last().json()["response_format"]["json_schema"]
    assert schema["name"] == "Weather"
    assert schema["schema"]["required"] == ["city", "degrees"]


def test_structured_output_by_tool(relay: Relay, upstream: ScriptedUpstream, model: Model) -> None:
    call = {**CALL, "function": {"name": "Weather", "arguments": WEATHER.model_dump_json()}}
    upstream.script = json_answer(completion("", tool_calls=[call]))
    structured = model(relay).with_structured_output(Weather, method="function_calling")
    assert structured.invoke("hi") == WEATHER
    assert upstream.last().json()["tool_choice"] == {"type": "function", "function": {"name": "Weather"}}


def test_structured_output_by_json_mode(relay: Relay, upstream: ScriptedUpstream, model: Model) -> None:
    upstream.script = json_answer(completion(WEATHER.model_dump_json()))
    structured = model(relay).with_structured_output(Weather, method="json_mode")
    assert structured.invoke("as JSON") == WEATHER
    assert upstream.last().json()["response_format"] == {"type": "json_object"}


# --- leaving, errors, retries ------------------------------------------------------------------


def test_a_stream_that_is_left(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = [SSE_HEAD, chunk(delta("one")), Do.STALL]

    async def use() -> bool:
        async with asynchronous(relay) as model:
            async with aclosing(cast(AsyncGenerator[AIMessageChunk], model.astream("hi"))) as stream:
                assert (await anext(stream)).text == "one"
            return await asyncio.to_thread(upstream.last().closed.wait, PATIENCE)

    assert asyncio.run(use())
    assert relay.event().outcome == "client_left"


def test_an_error_of_ours(local: Relay, model: Model) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        model(local).invoke("订单 1024 到哪了")
    assert (caught.value.status_code, caught.value.code) == (503, "upstream_unset")


def test_a_retry(relay: Relay, upstream: ScriptedUpstream, model: Model) -> None:
    upstream.scripts += [json_answer(b"{}", "429 Too Many Requests", "retry-after-ms: 1")]
    upstream.script = json_answer(completion("at last"))
    assert model(relay, max_retries=1).invoke("hi").text == "at last"
    assert len(upstream.requests) == 2


def test_a_stream_that_breaks_raises(relay: Relay, upstream: ScriptedUpstream, model: Model) -> None:
    first_is_here = threading.Event()
    upstream.script = [SSE_HEAD, chunk(delta("one")), first_is_here, Do.RESET]
    stream = model(relay).stream("hi")
    assert next(stream).text == "one"
    first_is_here.set()
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code == "upstream_reset"
