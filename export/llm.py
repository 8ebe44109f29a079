"""An OpenAI-compatible LLM that is asked for JSON: whom, how patiently, and what it costs."""

import asyncio
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self

import httpx2

from edge.errors import LLMError

ATTEMPTS = 5
LONGEST_WAIT = 300.0  # seconds; who asks us to wait longer is left in peace
_SHOWN = 300  # characters of a server's own words
# What a server refuses because of the texts and not of the request.
_OF_THE_TEXTS = {"content_filter", "content_policy_violation", "context_length_exceeded"}
_ADVICE = {
    401: "check API_KEY",
    403: "check API_KEY and whether it may use the model",
    404: "check BASE_URL, which mostly ends in /v1, and MODEL_NAME",
    400: "the model must take response_format json_schema with strict; try another with --llm-model",
    422: "the model must take response_format json_schema with strict; try another with --llm-model",
}


@dataclass(frozen=True, slots=True)
class Llm:
    """Which LLM, and how it is asked.

    ``price``: money for a million prompt tokens and for a million completion tokens. ``parallel``: requests
    at once. ``timeout``: seconds without a byte. ``backoff``: seconds before the first repetition, doubled
    for each further one, where the server does not say how long.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    price: tuple[float, float] | None = None
    parallel: int = 4
    timeout: float = 120.0
    backoff: float = 1.0


class UnusableError(Exception):
    """An answer that holds nothing to go by; the message says why."""


class Usage:
    """Requests that were answered, and the tokens that the answers say they cost."""

    def __init__(self) -> None:
        self.requests = self.prompt = self.completion = self.untold = 0

    def add(self, usage: object) -> None:
        """Count the ``usage`` of an answer."""
        self.requests += 1
        told = usage if isinstance(usage, dict) else {}
        prompt, completion = told.get("prompt_tokens"), told.get("completion_tokens")
        if isinstance(prompt, int) and isinstance(completion, int):
            self.prompt += prompt
            self.completion += completion
        else:
            self.untold += 1

    def cost(self, price: tuple[float, float]) -> float:
        """Money, in the unit of the price."""
        return (self.prompt * price[0] + self.completion * price[1]) / 1e6

    def told(self, price: tuple[float, float] | None) -> str:
        """One line for people."""
        line = f"{self.requests:,} answers, {self.prompt:,} prompt and {self.completion:,} completion tokens"
        if self.untold:
            line += f" ({self.untold:,} answers did not say how many)"
        return line if price is None else f"{line}, cost {self.cost(price):.4f}"


class LlmClient:
    """Connections to one LLM. Repeats what was surely not worked on: no connection, 429, 5xx."""

    def __init__(self, llm: Llm, usage: Usage) -> None:
        self._llm = llm
        self._usage = usage
        self._not_before = 0.0  # a server that wants a pause wants it of all requests

    async def __aenter__(self) -> Self:
        headers = {"authorization": f"Bearer {self._llm.api_key}"} if self._llm.api_key else {}
        timeout = httpx2.Timeout(self._llm.timeout, connect=10.0, pool=None)
        self._client = httpx2.AsyncClient(headers=headers, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def ask(self, messages: list[dict[str, str]], name: str, schema: Mapping[str, Any]) -> str:
        """The text of the answer, which the LLM was told to write by the schema.

        Raises UnusableError where this answer is none, LLMError where asking on is of no use.
        """
        form = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}
        response = await self._post({"model": self._llm.model, "messages": messages, "response_format": form})
        body = _object_of(response)
        if response.status_code != 200:
            self._refuse(response.status_code, body)
        self._usage.add(body.get("usage"))
        return _content(body)

    async def _post(self, body: Mapping[str, Any]) -> httpx2.Response:
        problem = ""
        for attempt in range(ATTEMPTS):
            await self._pause()
            wait = self._llm.backoff * 2**attempt
            try:
                response = await self._client.post(f"{self._llm.base_url}/chat/completions", json=body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
                problem = f"cannot be reached ({type(exc).__name__}); check BASE_URL or --llm-url"
            except httpx2.HTTPError as exc:  # it may have worked on it: not the same again
                raise UnusableError(f"no whole answer ({type(exc).__name__})") from exc
            else:
                status = response.status_code
                if (status != 429 and status < 500) or _code(_object_of(response)) == "insufficient_quota":
                    return response
                problem = f"answers {status}{self._words(_object_of(response))}; try again later"
                wait = max(wait, _retry_after(response.headers.get("retry-after")))
            if wait > LONGEST_WAIT:
                problem += f", in {wait:.0f} s as it says"
                break
            if attempt + 1 < ATTEMPTS:
                self._delay(wait)
        raise LLMError(
            f"The LLM at {self._llm.base_url} {problem}. The same command goes on where it stopped."
        )

    def _delay(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds * random.uniform(1, 1.1)  # noqa: S311
        self._not_before = max(self._not_before, until)

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := self._not_before - loop.time()) > 0:  # noqa: ASYNC110 - till a time, which may move
            await asyncio.sleep(left)

    def _refuse(self, status: int, body: Mapping[str, Any]) -> None:
        code = _code(body)
        if code in _OF_THE_TEXTS:
            raise UnusableError(f"refused: {code}")
        advice = (
            "top the account up" if code == "insufficient_quota" else _ADVICE.get(status, "check BASE_URL")
        )
        raise LLMError(
            f"The LLM at {self._llm.base_url} refuses with {status}{self._words(body)}; {advice}. "
            "The same command goes on where it stopped."
        )

    def _words(self, body: Mapping[str, Any]) -> str:
        """What the server itself says, without our key, which some repeat."""
        error = body.get("error")
        message = error.get("message") if isinstance(error, dict) else error
        if not isinstance(message, str):
            return ""
        if self._llm.api_key:
            message = message.replace(self._llm.api_key, "***")
        message = re.sub(r"\bsk-\S+", "***", message)  # cut short or masked, it is still a key
        return f" ({' '.join(''.join(c if c.isprintable() else ' ' for c in message).split())[:_SHOWN]})"


def _object_of(response: httpx2.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _code(body: Mapping[str, Any]) -> str:
    error = body.get("error")
    return str(error.get("code")) if isinstance(error, dict) else ""


def _content(body: Mapping[str, Any]) -> str:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict) or not isinstance(choice, dict):
        raise UnusableError("no chat completion")
    if message.get("refusal"):
        raise UnusableError("refused by the LLM")
    if choice.get("finish_reason") in ("length", "content_filter"):
        raise UnusableError(f"cut short: {choice['finish_reason']}")
    if not isinstance(message.get("content"), str):
        raise UnusableError("an answer without text")
    return str(message["content"])


def _retry_after(value: str | None) -> float:
    """Seconds; 0 where the header is missing or cannot be read."""
    if not value:
        return 0.0
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value.strip()):
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0.0
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
