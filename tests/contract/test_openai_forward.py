"""The official OpenAI client through Frontdesk to an upstream: it must not notice us."""

import asyncio
import json
import threading
import time

import openai
import pytest
from pydantic import BaseModel
from servers import (
    DONE,
    LAST_CHUNK,
    PATIENCE,
    SSE_HEAD,
    Do,
    chunk,
    completion,
    delta,
    head,
    json_answer,
    open_async_client,
    open_client,
)

MESSAGES = [{"role": "user", "content": "hi 你好 👩‍💻"}]


class Sent:
    """Both SDK clients, and the bytes that they sent."""

    def __init__(self, url):
        self.bodies = []
        self._url = url

    def sync(self):
        http = open_client("")
        http.event_hooks = {"request": [lambda request: self.bodies.append(request.read())]}
        return openai.OpenAI(**self._options(), http_client=http)

    def asynchronous(self):
        async def keep(request):
            self.bodies.append(await request.aread())

        http = open_async_client("")
        http.event_hooks = {"request": [keep]}
        return openai.AsyncOpenAI(**self._options(), http_client=http)

    def _options(self):
        return {"base_url": f"{self._url}/v1", "api_key": "sk-client", "max_retries": 0}


@pytest.fixture
def sent(relay):
    return Sent(relay.url)


@pytest.fixture
def sdk(sent):
    with sent.sync() as client:
        yield client


def run_async(sent, use):
    async def main():
        async with sent.asynchronous() as client:
            return await use(client)

    return asyncio.run(main())


def assert_as_sent(upstream, sent):
    received = upstream.last()
    assert received.body == sent.bodies[-1]
    assert received.headers["authorization"] == "Bearer sk-client"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["user-agent"].startswith(("OpenAI/Python", "AsyncOpenAI/Python"))
    assert received.headers["x-stainless-lang"] == "python"


def streamed(*texts):
    return [SSE_HEAD, *(chunk(delta(text)) for text in texts), chunk(DONE), LAST_CHUNK]


def test_a_completion(upstream, sent, sdk):
    upstream.script = json_answer(completion("Grüße 你好"))
    answer = sdk.chat.completions.create(model="m", messages=MESSAGES)
    assert answer.choices[0].message.content == "Grüße 你好"
    assert answer._request_id == upstream.last().headers["x-request-id"]
    assert_as_sent(upstream, sent)


def test_a_completion_async(upstream, sent):
    upstream.script = json_answer(completion("Grüße 你好"))
    answer = run_async(sent, lambda c: c.chat.completions.create(model="m", messages=MESSAGES))
    assert answer.choices[0].message.content == "Grüße 你好"
    assert_as_sent(upstream, sent)


TEXTS = ["", "Grü", "ße ", "你好", "👩‍💻", "\n\ndata: x"]


def test_a_stream(upstream, sent, sdk):
    upstream.script = streamed(*TEXTS)
    with sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
        assert [part.choices[0].delta.content for part in stream] == TEXTS
    assert_as_sent(upstream, sent)


def test_a_stream_async(upstream, sent):
    upstream.script = streamed(*TEXTS)

    async def use(client):
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        async with stream:
            return [part.choices[0].delta.content async for part in stream]

    assert run_async(sent, use) == TEXTS
    assert_as_sent(upstream, sent)


def test_a_raw_response_shows_our_headers(upstream, sdk):
    upstream.script = json_answer(completion())
    raw = sdk.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
    assert raw.headers["x-frontdesk-path"] == "agent"
    assert raw.headers["x-frontdesk-reason"] == "not_ready"
    assert raw.parse().choices[0].message.content == "hello"


def test_a_streaming_response_shows_our_headers(upstream, sdk):
    """Before the answer is read: the upstream says the rest only once they are here."""
    headers_are_here = threading.Event()
    upstream.script = [SSE_HEAD, chunk(delta("one")), headers_are_here, *streamed("two")[1:]]
    create = sdk.chat.completions.with_streaming_response.create
    with create(model="m", messages=MESSAGES, stream=True) as response:
        assert response.headers["x-frontdesk-path"] == "agent"
        assert response.headers["x-request-id"] == upstream.last().headers["x-request-id"]
        headers_are_here.set()
        assert [part.choices[0].delta.content for part in response.parse()] == ["one", "two"]


def test_the_streaming_helper(upstream, sent, sdk):
    upstream.script = streamed(*TEXTS)
    with sdk.chat.completions.stream(model="m", messages=MESSAGES) as stream:
        contents = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert contents == TEXTS
    assert final.choices[0].message.content == "".join(TEXTS)
    assert_as_sent(upstream, sent)


def test_the_streaming_helper_async(upstream, sent):
    upstream.script = streamed(*TEXTS)

    async def use(client):
        async with client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
            return await stream.get_final_completion()

    assert run_async(sent, use).choices[0].message.content == "".join(TEXTS)


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "天气",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": True,
    },
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "北京"}'},
}


def test_tools(upstream, sent, sdk):
    upstream.script = json_answer(completion(None, tool_calls=[CALL]))
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"t": 3.50}'},
    ]
    answer = sdk.chat.completions.create(
        model="m", messages=messages, tools=[TOOL], tool_choice="auto", parallel_tool_calls=False
    )
    assert answer.choices[0].message.tool_calls[0].function.arguments == '{"city": "北京"}'
    assert_as_sent(upstream, sent)
    assert upstream.last().json()["messages"] == messages
    assert upstream.last().json()["tools"] == [TOOL]


def test_streamed_tools(upstream, sent, sdk):
    def call(**function):
        tool = {"index": 0, "type": "function", "function": function}
        data = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        choice = {"index": 0, "delta": {"tool_calls": [tool]}, "finish_reason": None}
        return f"data: {json.dumps(data | {'choices': [choice]}, ensure_ascii=False)}\n\n".encode()

    events = call(name="weather", arguments="") + call(arguments='{"city": ') + call(arguments='"北京"}')
    upstream.script = [SSE_HEAD, *(chunk(events[i : i + 7]) for i in range(0, len(events), 7))]
    upstream.script += [chunk(DONE), LAST_CHUNK]
    with sdk.chat.completions.create(model="m", messages=MESSAGES, tools=[TOOL], stream=True) as stream:
        parts = [part.choices[0].delta.tool_calls[0].function.arguments for part in stream]
    assert "".join(parts) == '{"city": "北京"}'
    assert_as_sent(upstream, sent)


def test_structured_output(upstream, sent, sdk):
    class Weather(BaseModel):
        city: str
        degrees: float

    upstream.script = json_answer(completion('{"city": "北京", "degrees": 3.5}'))
    answer = sdk.chat.completions.parse(model="m", messages=MESSAGES, response_format=Weather)
    assert answer.choices[0].message.parsed == Weather(city="北京", degrees=3.5)
    assert upstream.last().json()["response_format"]["json_schema"]["strict"] is True
    assert_as_sent(upstream, sent)


def test_streamed_structured_output(upstream, sent, sdk):
    class Weather(BaseModel):
        city: str
        degrees: float

    upstream.script = streamed('{"city": "北', '京", "degrees"', ": 3.5}")
    with sdk.chat.completions.stream(model="m", messages=MESSAGES, response_format=Weather) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == Weather(city="北京", degrees=3.5)
    assert upstream.last().json()["response_format"]["json_schema"]["schema"]["required"] == [
        "city",
        "degrees",
    ]
    assert_as_sent(upstream, sent)


def test_unknown_fields_and_parts(upstream, sent, sdk):
    upstream.script = json_answer(completion())
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "of_tomorrow", "x": [None, 1.0, 1e-9]},
    ]
    extra = {
        "top_k": 5,
        "chat_template_kwargs": {"enable_thinking": False},
        "vendor": {"a": [1, {"b": None}]},
    }
    sdk.chat.completions.create(
        model="m",
        messages=[{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}],
        max_completion_tokens=9,
        stream_options={"include_usage": True},
        extra_body=extra,
        extra_headers={"openai-beta": "x=1"},
    )
    assert_as_sent(upstream, sent)
    body = upstream.last().json()
    assert body["messages"][1]["content"] == parts
    assert {name: body[name] for name in extra} == extra
    assert upstream.last().headers["openai-beta"] == "x=1"


def test_embeddings_models_and_files(upstream, sent, sdk):
    upstream.script = json_answer(
        json.dumps(
            {
                "object": "list",
                "model": "e",
                "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
            }
        ).encode()
    )
    answer = sdk.embeddings.create(model="e", input="x", encoding_format="float")
    assert answer.data[0].embedding == [0.5]
    assert upstream.last().body == sent.bodies[-1]

    upstream.script = json_answer(b'{"object":"list","data":[{"id":"gpt-x","object":"model"}]}')
    assert [model.id for model in sdk.models.list()] == ["frontdesk", "gpt-x"]

    upstream.script = json_answer(b'{"id":"f-1","object":"file"}')
    content = bytes(range(256)) * 100
    assert sdk.files.create(file=("a.bin", content), purpose="user_data").id == "f-1"
    received = upstream.last()
    assert received.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert content in received.body

    upstream.script = [
        head("200 OK", "content-type: application/octet-stream", "content-length: 3") + b"\0\1\2"
    ]
    assert sdk.files.content("f-1").read() == b"\0\1\2"
    assert upstream.last().target == "/v1/files/f-1/content"


# --- errors ------------------------------------------------------------------------------------


def assert_ours(error, status, code):
    assert error.status_code == status
    assert error.code == code
    assert error.body["message"]
    assert error.request_id
    assert error.response.headers["x-frontdesk-path"] == "error"


def test_a_bad_request(upstream, sdk):
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.chat.completions.create(model="m", messages=[])
    assert_ours(caught.value, 400, "invalid_type")
    assert (caught.value.param, caught.value.type) == ("messages", "invalid_request_error")
    assert not upstream.requests


def test_a_request_that_is_too_large(upstream, sdk):
    with pytest.raises(openai.APIStatusError) as caught:
        sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "x" * 1_000_001}])
    assert_ours(caught.value, 413, "request_too_large")


def test_an_unknown_path(sdk):
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.get("/../nope", cast_to=object)
    assert caught.value.status_code == 404


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_fails(upstream, sdk, stream):
    upstream.script = [Do.RESET]
    with pytest.raises(openai.InternalServerError) as caught:
        sdk.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
    assert_ours(caught.value, 502, "upstream_unavailable")


def test_an_upstream_that_fails_async(upstream, sent):
    upstream.script = [Do.RESET]
    with pytest.raises(openai.InternalServerError) as caught:
        run_async(sent, lambda c: c.chat.completions.create(model="m", messages=MESSAGES))
    assert_ours(caught.value, 502, "upstream_unavailable")


def test_an_upstream_that_is_silent(start, upstream):
    upstream.script = [Do.STALL]
    with start(upstream.url, first_byte_timeout=0.3) as relay, Sent(relay.url).sync() as sdk:
        with pytest.raises(openai.InternalServerError) as caught:
            sdk.chat.completions.create(model="m", messages=MESSAGES)
        assert_ours(caught.value, 504, "upstream_timeout")
        assert caught.value.type == "timeout"


def test_no_upstream(start):
    with start("") as relay, Sent(relay.url).sync() as sdk:
        with pytest.raises(openai.InternalServerError) as caught:
            sdk.chat.completions.create(model="m", messages=MESSAGES)
        assert_ours(caught.value, 503, "upstream_unset")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("401 Unauthorized", openai.AuthenticationError),
        ("403 Forbidden", openai.PermissionDeniedError),
        ("422 Unprocessable Entity", openai.UnprocessableEntityError),
        ("429 Too Many Requests", openai.RateLimitError),
        ("500 Internal Server Error", openai.InternalServerError),
    ],
)
def test_the_upstreams_own_errors(upstream, sdk, status, error):
    body = b'{"error":{"message":"theirs","type":"t","param":null,"code":"c"}}'
    upstream.script = json_answer(body, status, "retry-after: 2")
    with pytest.raises(error) as caught:
        sdk.chat.completions.create(model="m", messages=MESSAGES)
    assert (caught.value.code, caught.value.response.content) == ("c", body)
    assert caught.value.response.headers["retry-after"] == "2"
    assert caught.value.response.headers["x-frontdesk-path"] == "agent"


def test_the_sdk_repeats_what_never_reached_the_upstream(start, closed_port):
    with start(f"http://127.0.0.1:{closed_port}/v1") as relay:
        sdk = openai.OpenAI(base_url=f"{relay.url}/v1", api_key="k", max_retries=1)
        with sdk, pytest.raises(openai.InternalServerError):
            sdk.chat.completions.create(model="m", messages=MESSAGES)
        assert [relay.event().status for _ in "12"] == [502, 502]


PASSING = ["408 Request Timeout", "429 Too Many Requests", "503 Service Unavailable"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", PASSING)
def test_the_sdk_retries_what_the_upstream_calls_passing(upstream, sent, status, stream):
    upstream.scripts += [json_answer(b"{}", status, "retry-after-ms: 1")] * 2
    upstream.script = streamed("at last") if stream else json_answer(completion("at last"))
    with sent.sync() as sdk:
        create = sdk.with_options(max_retries=2).chat.completions.create
        answer = create(model="m", messages=MESSAGES, stream=stream)
        if stream:
            assert [part.choices[0].delta.content for part in answer] == ["at last"]
        else:
            assert answer.choices[0].message.content == "at last"
    assert [r.headers["x-stainless-retry-count"] for r in upstream.requests] == ["0", "1", "2"]
    assert len({r.body for r in upstream.requests}) == 1


def test_the_sdk_waits_as_long_as_the_upstream_says(upstream, sent):
    upstream.scripts += [json_answer(b"{}", "429 Too Many Requests", "retry-after: 1")]
    upstream.script = json_answer(completion("at last"))
    with sent.sync() as sdk:
        began = time.monotonic()
        answer = sdk.with_options(max_retries=1).chat.completions.create(model="m", messages=MESSAGES)
    assert time.monotonic() - began > 0.95
    assert answer.choices[0].message.content == "at last"


@pytest.mark.parametrize("status", PASSING)
def test_the_sdk_does_not_retry_where_the_upstream_forbids_it(upstream, sent, status):
    upstream.script = json_answer(b"{}", status, "retry-after-ms: 1", "x-should-retry: false")
    with sent.sync() as sdk, pytest.raises(openai.APIStatusError) as caught:
        sdk.with_options(max_retries=2).chat.completions.create(model="m", messages=MESSAGES)
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(upstream.requests) == 1


def test_the_sdk_retries_where_the_upstream_wants_it(upstream, sent):
    upstream.scripts += [json_answer(b"{}", "400 Bad Request", "retry-after-ms: 1", "x-should-retry: true")]
    upstream.script = json_answer(completion("at last"))

    def use(client):
        return client.with_options(max_retries=1).chat.completions.create(model="m", messages=MESSAGES)

    assert run_async(sent, use).choices[0].message.content == "at last"
    assert len(upstream.requests) == 2


def test_a_stream_that_breaks_is_not_repeated(upstream, sent):
    first_is_here = threading.Event()
    upstream.script = [SSE_HEAD, chunk(delta("one")), first_is_here, Do.RESET]
    with sent.sync() as sdk:
        create = sdk.with_options(max_retries=2).chat.completions.create
        with create(model="m", messages=MESSAGES, stream=True) as stream:
            assert next(stream).choices[0].delta.content == "one"
            first_is_here.set()
            with pytest.raises(openai.APIError):
                next(stream)
    assert len(upstream.requests) == 1


def test_the_sdk_does_not_repeat_a_request_that_the_agent_had(upstream, sent):
    upstream.scripts += [[Do.RESET]]
    upstream.script = json_answer(completion("a second time"))
    with sent.sync() as sdk, pytest.raises(openai.InternalServerError) as caught:
        sdk.with_options(max_retries=1).chat.completions.create(model="m", messages=MESSAGES)
    assert_ours(caught.value, 502, "upstream_unavailable")
    assert len(upstream.requests) == 1


def test_a_stream_that_breaks_raises(upstream, sdk):
    upstream.script = [SSE_HEAD, chunk(delta("one")), chunk(delta("two")), 0.03, Do.RESET]
    with sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
        assert [next(stream).choices[0].delta.content for _ in "12"] == ["one", "two"]
        with pytest.raises(openai.APIError) as caught:
            next(stream)
    assert caught.value.code == "upstream_reset"
    assert "broke off" in caught.value.message


def test_a_stream_that_breaks_raises_async(upstream, sent):
    upstream.script = [SSE_HEAD, chunk(delta("one")), 0.03, Do.RESET]

    async def use(client):
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        async with stream:
            assert (await anext(stream)).choices[0].delta.content == "one"
            with pytest.raises(openai.APIError) as caught:
                await anext(stream)
        return caught.value.code

    assert run_async(sent, use) == "upstream_reset"


def test_a_stream_that_breaks_within_an_event_raises(upstream, sdk):
    """The half event is closed, so that the error after it is an event of its own."""
    upstream.script = [SSE_HEAD, chunk(delta("one")), chunk(delta("two")[:-9]), 0.03, Do.RESET]
    with sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
        assert next(stream).choices[0].delta.content == "one"
        with pytest.raises((openai.APIError, ValueError)):
            next(stream)


def test_a_stream_that_breaks_after_a_field_raises(upstream, sdk):
    upstream.script = [SSE_HEAD, chunk(delta("one")), chunk(b"event: chunk\nid: 7\n"), 0.03, Do.RESET]
    with sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
        assert next(stream).choices[0].delta.content == "one"
        with pytest.raises((openai.APIError, ValueError)):
            next(stream)


def test_a_stream_that_stalls_raises(start, upstream):
    upstream.script = [SSE_HEAD, chunk(delta("one")), Do.STALL]
    with (
        start(upstream.url, idle_timeout=0.3) as relay,
        Sent(relay.url).sync() as sdk,
        sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream,
    ):
        assert next(stream).choices[0].delta.content == "one"
        with pytest.raises(openai.APIError) as caught:
            next(stream)
        assert caught.value.code == "upstream_timeout"


def test_a_whole_answer_that_breaks_raises(upstream, sdk):
    body = completion("x" * 500)
    upstream.script = [head("200 OK", "content-type: application/json", f"content-length: {len(body)}")]
    upstream.script += [body[:99], 0.03, Do.RESET]
    with pytest.raises(openai.APIConnectionError):
        sdk.chat.completions.create(model="m", messages=MESSAGES)


def test_a_stream_that_the_client_leaves(upstream, relay, sdk):
    upstream.script = [SSE_HEAD, chunk(delta("one")), Do.STALL]
    with sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
        assert next(stream).choices[0].delta.content == "one"
    assert upstream.last().closed.wait(1)
    assert relay.event().outcome == "client_left"


def test_a_stream_that_the_client_cancels(upstream, relay, sent):
    upstream.script = [SSE_HEAD, chunk(delta("one")), Do.STALL]

    async def use(client):
        first_is_here = asyncio.Event()

        async def read():
            async for _ in await client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
                first_is_here.set()

        task = asyncio.create_task(read())
        await asyncio.wait_for(first_is_here.wait(), PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.to_thread(upstream.last().closed.wait, PATIENCE)

    assert run_async(sent, use)
    assert relay.event().outcome == "client_left"


def test_an_awaited_answer_that_the_client_cancels(upstream, relay, sent):
    upstream.script = [Do.STALL]

    async def use(client):
        task = asyncio.create_task(client.chat.completions.create(model="m", messages=MESSAGES))
        await asyncio.to_thread(upstream.wait_for)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.to_thread(upstream.last().closed.wait, 1)

    assert run_async(sent, use)
    event = relay.event()
    assert (event.status, event.outcome) == (499, "client_left")


def test_many_streams_at_once(upstream, sent):
    def script(received):
        name = received.json()["user"]
        return [
            SSE_HEAD,
            *(s for i in range(10) for s in (chunk(delta(f"{name}.{i} ")), 0.002)),
            chunk(DONE),
            LAST_CHUNK,
        ]

    upstream.script = script

    async def use(client):
        async def one(name):
            stream = await client.chat.completions.create(
                model="m", messages=MESSAGES, user=name, stream=True, timeout=3 * PATIENCE
            )
            async with stream:
                return "".join([part.choices[0].delta.content async for part in stream])

        return await asyncio.gather(*(one(f"u{n}") for n in range(50)))

    got = run_async(sent, use)
    assert got == ["".join(f"u{n}.{i} " for i in range(10)) for n in range(50)]
