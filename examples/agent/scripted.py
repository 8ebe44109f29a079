"""A scripted LLM: no model, fixed texts, real timing. For demos, tests and measurements without a key.

It takes as long as it is told to: a wait for the first token, a cost for each prompt token it has not read
before, and a speed of writing. Equal requests get equal texts.
"""

import time
from dataclasses import dataclass
from typing import Any

import anyio

from requestlog import Record
from script import compose
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

    async def answer(self, chat: Chat, reply: Reply, record: Record) -> None:
        """Read the prompt, then write token by token; every wait is a place where it can be cancelled."""
        prompt = self._cache.measure(chat)
        generation = _plan(chat, prompt)
        uncached = prompt.tokens - prompt.cached
        wait_ms = self._settings.first_token_ms + uncached * self._settings.prefill_ms_per_token
        first_token_at = anyio.current_time() + wait_ms / 1000
        await anyio.sleep_until(first_token_at)
        self._cache.remember(prompt)
        record.generated_tokens = 0
        if chat.stream:
            await reply.start(200, SSE_HEADERS)
        for index, token in enumerate(generation.tokens):
            # From the first token on and not from the last one, so that late wake-ups do not add up.
            await anyio.sleep_until(first_token_at + index / self._settings.tokens_per_second)
            record.generated_tokens = index + 1
            if chat.stream:
                await reply.write(_token_events(chat, generation, index, token))
        if chat.stream:
            await reply.end(_last_events(chat, generation))
        else:
            await reply.json(200, _whole(generation))

    async def models(self) -> dict[str, Any]:
        """One model, named for what it is."""
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "frontdesk-example"}
        return {"object": "list", "data": [model]}

    async def aclose(self) -> None:
        """Nothing is held open."""


def _plan(chat: Chat, prompt: Prompt) -> Generation:
    if chat.body.get("n") not in (None, 1):
        raise ApiError(400, "The scripted LLM writes one choice.", "unsupported_value", "n")
    tokens = split(compose(chat.messages, chat.hints))
    limit = len(tokens)
    for name in ("max_tokens", "max_completion_tokens"):
        value = chat.body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ApiError(400, f"'{name}' must be a whole number of at least 1.", "invalid_value", name)
        limit = min(limit, value)
    reason = "stop" if limit == len(tokens) else "length"
    return Generation(f"chatcmpl-{chat.request_id}", int(time.time()), prompt, tuple(tokens[:limit]), reason)


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
