"""The client of the teacher: whom it asks and how, what it repeats, when it gives up, what it never says."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from scripted_llm import KEY, failing, llm_at, said
from servers import Do, ScriptedUpstream, json_answer

from edge.errors import LLMError
from export.llm import ATTEMPTS, Llm, LlmClient, UnusableError, Usage, _retry_after


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


def ask(llm: Llm, usage: Usage | None = None) -> str:
    async def asked() -> str:
        async with LlmClient(llm, usage or Usage()) as client:
            return await client.ask([{"role": "user", "content": "你好"}], "labels", {"type": "object"})

    return asyncio.run(asked())


def test_the_request_is_one_of_structured_output(upstream: ScriptedUpstream) -> None:
    upstream.script = said("{}")
    assert ask(llm_at(upstream)) == "{}"
    request = upstream.last()
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json() == {
        "model": "m",
        "messages": [{"role": "user", "content": "你好"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "labels", "strict": True, "schema": {"type": "object"}},
        },
    }


def test_without_a_key_none_is_sent(upstream: ScriptedUpstream) -> None:
    upstream.script = said("{}")
    ask(Llm(upstream.url, "m"))
    assert "authorization" not in upstream.last().headers


def test_a_429_is_repeated_after_the_time_it_says(upstream: ScriptedUpstream) -> None:
    upstream.scripts.append(failing("429 Too Many Requests", "slow down", None, "retry-after: 1"))
    upstream.script = said("{}")
    start = time.monotonic()
    assert ask(llm_at(upstream)) == "{}"
    assert time.monotonic() - start >= 1
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "529 Overloaded"])
def test_a_fault_of_the_server_is_repeated(upstream: ScriptedUpstream, status: str) -> None:
    upstream.scripts.extend([failing(status), json_answer(b"<html>", status)])
    upstream.script = said("{}")
    assert ask(llm_at(upstream)) == "{}"
    assert len(upstream.requests) == 3


def test_in_the_end_it_gives_up_and_says_that_nothing_is_lost(upstream: ScriptedUpstream) -> None:
    upstream.script = failing("500 Internal Server Error", "on\x1b[31m fire")
    with pytest.raises(LLMError, match=r"answers 500 \(on \[31m fire\); try again later\. The same command"):
        ask(llm_at(upstream))
    assert len(upstream.requests) == ATTEMPTS


def test_a_wait_of_hours_is_left_to_people(upstream: ScriptedUpstream) -> None:
    upstream.script = failing("429 Too Many Requests", "tomorrow", None, "retry-after: 7200")
    with pytest.raises(LLMError, match="in 7200 s as it says"):
        ask(llm_at(upstream))
    assert len(upstream.requests) == 1


def test_a_server_that_is_not_there(closed_port: int) -> None:
    with pytest.raises(LLMError, match=f"127.0.0.1:{closed_port}/v1 cannot be reached .*check BASE_URL"):
        ask(Llm(f"http://127.0.0.1:{closed_port}/v1", "m", KEY, backoff=0.01))


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        ("401 Unauthorized", "invalid_api_key", "check API_KEY"),
        ("404 Not Found", "model_not_found", "MODEL_NAME"),
        ("400 Bad Request", None, "must take response_format json_schema"),
        ("429 Too Many Requests", "insufficient_quota", "top the account up"),
        ("301 Moved Permanently", None, "check BASE_URL"),
    ],
)
def test_a_refusal_is_not_repeated_and_says_what_to_do(
    upstream: ScriptedUpstream, status: str, code: str | None, advice: str
) -> None:
    upstream.script = failing(status, f"Incorrect key {KEY}, or {KEY[:9]}***", code)
    with pytest.raises(LLMError, match=advice) as caught:
        ask(llm_at(upstream))
    assert len(upstream.requests) == 1
    assert "Incorrect key ***, or ***" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_key_is_not_in_what_describes_the_llm() -> None:
    assert KEY not in repr(Llm("http://x", "m", KEY))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (failing("400 Bad Request", "no", "content_filter"), "refused: content_filter"),
        (said(None, message={"refusal": "I cannot"}), "refused by the LLM"),
        (said("{", finish_reason="length"), "cut short: length"),
        (said(None), "an answer without text"),
        (json_answer(b"<html>"), "no chat completion"),
        (json_answer(b"[]"), "no chat completion"),
        (json_answer(b'{"choices": [1]}'), "no chat completion"),
        ([Do.RESET], "no whole answer"),
        ([Do.STALL], "no whole answer"),
    ],
)
def test_an_answer_that_is_none_is_not_asked_for_again_here(
    upstream: ScriptedUpstream, script: list[object], why: str
) -> None:
    upstream.script = script
    with pytest.raises(UnusableError, match=why):
        ask(llm_at(upstream, timeout=0.3))
    assert len(upstream.requests) == 1


def test_tokens_and_money_are_added_up(upstream: ScriptedUpstream) -> None:
    usage = Usage()
    upstream.scripts.extend([said("{}"), said("{}"), said("{}", None), said(None)])
    for _ in range(3):
        ask(llm_at(upstream), usage)
    with pytest.raises(UnusableError):  # it has been paid for all the same
        ask(llm_at(upstream), usage)
    assert (usage.requests, usage.prompt, usage.completion, usage.untold) == (4, 300, 30, 1)
    assert usage.cost((2.0, 10.0)) == pytest.approx((300 * 2 + 30 * 10) / 1e6)
    told = "4 answers, 300 prompt and 30 completion tokens (1 answers did not say how many)"
    assert usage.told(None) == told
    assert usage.told((2.0, 10.0)) == f"{told}, cost 0.0009"


def test_how_long_to_wait() -> None:
    assert _retry_after("3") == 3
    assert _retry_after(" 0.5 ") == 0.5
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < _retry_after(soon) <= 30
    assert _retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0
    assert [_retry_after(x) for x in (None, "", "soon", "-1", "٣", "1e9")] == [0.0] * 6
