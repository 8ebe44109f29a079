"""A scripted LLM: no model, fixed texts, real timing. For demos, tests and measurements without a key.

It takes as long as it is told to: a wait for the first token, a cost for each prompt token it has not read
before, and a speed of writing. Equal requests get equal texts. Asked for a plan, it makes one by plain rules.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from plan import MARK
from requestlog import Record
from script import compose, question_of
from scriptplan import Plans
from settings import Settings
from tokens import PrefixCache, Prompt, split
from wire import DONE, SSE_HEADERS, ApiError, Chat, Reply, event

MODEL = "scripted"


@dataclass(frozen=True, slots=True)
class Generation:
    """What will be said, decided before the first token so that whole answers and streams cannot differ."""

    id: str
    created: int
    prompt: Prompt
    tokens: tuple[str, ...]
    finish_reason: str
    token_s: float  # seconds that each takes

    def envelope(self, kind: str) -> dict[str, Any]:
        """The fields that every chunk and every whole answer carry."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": MODEL,
            "system_fingerprint": MODEL,
        }

    def usage(self) -> dict[str, Any]:
        """Token counts, by this LLM's own tokenizer."""
        return {
            "prompt_tokens": self.prompt.tokens,
            "completion_tokens": len(self.tokens),
            "total_tokens": self.prompt.tokens + len(self.tokens),
            "prompt_tokens_details": {"cached_tokens": self.prompt.cached},
        }


class ScriptedLLM:
    """Answers at once in what it says and in time in when it says it."""

    name = MODEL

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cache = PrefixCache()
        self._plans = Plans.read(settings.plans)

    async def answer(self, chat: Chat, reply: Reply, record: Record) -> None:
        """Read the prompt, then write token by token; every wait is a place where it can be cancelled."""
        record.llm_calls += 1
        generation, wait_ms = self._begun(chat)
        first_token_at = anyio.current_time() + wait_ms / 1000
        await anyio.sleep_until(first_token_at)
        self._cache.remember(generation.prompt)
        record.generated_tokens = 0
        if chat.stream:
            await reply.start(200, SSE_HEADERS)
        for index, token in enumerate(generation.tokens):
            # From the first token on and not from the last one, so that late wake-ups do not add up.
            await anyio.sleep_until(first_token_at + index * generation.token_s)
            record.generated_tokens = index + 1
            if chat.stream:
                await reply.write(_token_events(chat, generation, index, token))
        if chat.stream:
            await reply.end(_last_events(chat, generation))
        else:
            await reply.json(200, _whole(generation))
        record.count(generation.usage())

    async def complete(
        self,
        chat: Chat,
        messages: Sequence[Mapping[str, Any]],
        record: Record,
        response_format: Mapping[str, Any] | None = None,
    ) -> str:
        """What it would answer to this conversation, in the same time."""
        record.llm_calls += 1
        body = {"messages": messages} | ({"response_format": response_format} if response_format else {})
        generation, wait_ms = self._begun(replace(chat, body=body, hints=None))
        await anyio.sleep((wait_ms / 1000) + len(generation.tokens) * generation.token_s)
        self._cache.remember(generation.prompt)
        record.count(generation.usage())
        return "".join(generation.tokens)

    def _begun(self, chat: Chat) -> tuple[Generation, float]:
        """What will be said, and the milliseconds until its first token."""
        prompt = self._cache.measure(chat)
        prefill_ms = (prompt.tokens - prompt.cached) * self._settings.prefill_ms_per_token
        if (tools := _tools_of_plan(chat)) is None:
            answer = self._plans.answer(question_of(chat.messages)) or compose(chat.messages, chat.hints)
            token_s = 1 / self._settings.tokens_per_second
            return _generation(chat, prompt, answer, token_s), self._settings.first_token_ms + prefill_ms
        # A plan is as short as it is; what it costs is set as one figure.
        plan = json.dumps(self._plans.plan(chat.messages, tools), ensure_ascii=False)
        return _generation(chat, prompt, plan, 0.0), self._settings.planning_ms + prefill_ms

    async def models(self) -> dict[str, Any]:
        """One model, named for what it is."""
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "frontdesk-example"}
        return {"object": "list", "data": [model]}

    async def aclose(self) -> None:
        """Nothing is held open."""


def _tools_of_plan(chat: Chat) -> set[str] | None:
    """The tools that may be called, where a plan is what is asked for (see plan.py's response format)."""
    asked = chat.body.get("response_format")
    if (
        not isinstance(asked, dict)
        or asked.get("type") != "json_schema"
        or MARK not in str(chat.messages[-1])
    ):
        return None
    try:
        kinds = asked["json_schema"]["schema"]["properties"]["calls"]["items"]["anyOf"]
        return {name for kind in kinds for name in kind["properties"]["tool"]["enum"]}
    except (LookupError, TypeError):
        return None


def _generation(chat: Chat, prompt: Prompt, text: str, token_s: float) -> Generation:
    if chat.body.get("n") not in (None, 1):
        raise ApiError(400, "The scripted LLM writes one choice.", "unsupported_value", "n")
    tokens = split(text)
    limit = len(tokens)
    for name in ("max_tokens", "max_completion_tokens"):
        value = chat.body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ApiError(400, f"'{name}' must be a whole number of at least 1.", "invalid_value", name)
        limit = min(limit, value)
    reason = "stop" if limit == len(tokens) else "length"
    id_ = f"chatcmpl-{chat.request_id}"
    return Generation(id_, int(time.time()), prompt, tuple(tokens[:limit]), reason, token_s)


def _whole(generation: Generation) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(generation.tokens), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": generation.finish_reason}
    return {
        **generation.envelope("chat.completion"),
        "choices": [choice],
        "usage": generation.usage(),
    }


def _chunk(chat: Chat, generation: Generation, delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {**generation.envelope("chat.completion.chunk"), "choices": [choice]}
    # With include_usage every chunk carries the field, null but in the last one; without it none does.
    return event({**chunk, "usage": None} if chat.include_usage else chunk)


def _token_events(chat: Chat, generation: Generation, index: int, token: str) -> bytes:
    """The chunk of a token; the role goes out with the first, so that the first byte is the first token."""
    chunk = _chunk(chat, generation, {"content": token})
    if index == 0:
        return _chunk(chat, generation, {"role": "assistant", "content": ""}) + chunk
    return chunk


def _last_events(chat: Chat, generation: Generation) -> bytes:
    events = _chunk(chat, generation, {}, generation.finish_reason)
    if chat.include_usage:
        envelope = generation.envelope("chat.completion.chunk")
        events += event({**envelope, "choices": [], "usage": generation.usage()})
    return events + DONE
