"""A real LLM behind any OpenAI-compatible server: the conversation goes up, its bytes come back unchanged."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from requestlog import Record
from settings import Settings
from wire import DONE, ApiError, Chat, Reply, dumps, event

# Between two bytes, not for the whole answer: a long answer is fine as long as it moves.
_TIMEOUT = httpx2.Timeout(120.0, connect=10.0)
# uvicorn, and so many an LLM server, closes idle connections after 5 s: a request then would meet the end.
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=4.0)
_TAIL_BYTES = 4096  # of a stream: its last events, where the token counts stand
# Hop-by-hop, or said anew by this server; content-length too, as a broken stream gets an event appended.
_NOT_PASSED_BACK = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length", "date", "server", "set-cookie", "x-request-id"),
    }
)


class UpstreamLLM:
    """One connection pool to one server. The client's own credential and headers stay here."""

    name = "upstream"

    def __init__(self, settings: Settings) -> None:
        self._base = settings.base_url or ""
        self._model = settings.model_name
        # identity: bytes that are passed on unread should not be compressed on the way.
        headers = {"accept-encoding": "identity"}
        if settings.api_key:
            headers["authorization"] = f"Bearer {settings.api_key}"
        self._client = httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT, limits=_LIMITS)
        self._reads_formats = True

    async def answer(self, chat: Chat, reply: Reply, record: Record) -> None:
        """Pass the conversation on; leaving the ``async with``, also if cancelled, closes the connection."""
        body = dumps({**chat.body, "model": self._model}) if self._model else chat.raw
        url = f"{self._base}/chat/completions"
        record.llm_calls += 1
        try:
            async with self._client.stream("POST", url, content=body, headers=_headers(chat)) as response:
                await self._pass_back(response, reply, record)
        except httpx2.RequestError as error:
            # No retry here: Frontdesk and the SDK both retry, and attempts multiply.
            failure = _as_api_error(error)
            if not reply.started:
                raise failure from error
            # The blank line closes an event that was cut in the middle.
            record.generation = "failed"
            await reply.end(b"\n\n" + event(failure.body()) + DONE)

    async def complete(
        self,
        chat: Chat,
        messages: Sequence[Mapping[str, Any]],
        record: Record,
        response_format: Mapping[str, Any] | None = None,
    ) -> str:
        """Ask for the agent's own needs, not streamed, with no option but the model: all servers know that.

        A server that refuses ``response_format`` is asked without it, from then on at once: the prompt says
        in words what the schema says.
        """
        body: dict[str, Any] = {"messages": messages}
        if model := self._model or chat.body.get("model"):
            body["model"] = model
        if response_format is not None and self._reads_formats:
            body["response_format"] = response_format
        response = await self._post(chat, body, record)
        if response.status_code in (400, 422) and body.pop("response_format", None):
            response = await self._post(chat, body, record)
            self._reads_formats = not response.is_success
        if not response.is_success:
            raise ApiError(502, f"The LLM answered {response.status_code}.", f"llm_{response.status_code}")
        try:
            completion = response.json()
            content = completion["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError) as error:
            raise ApiError(502, "The LLM's answer cannot be read.", "llm_unreadable") from error
        record.count(completion.get("usage"))
        return content if isinstance(content, str) else ""

    async def _post(self, chat: Chat, body: Mapping[str, Any], record: Record) -> httpx2.Response:
        record.llm_calls += 1
        try:
            return await self._client.post(
                f"{self._base}/chat/completions", content=dumps(body), headers=_headers(chat)
            )
        except httpx2.RequestError as error:
            raise _as_api_error(error) from error

    async def _pass_back(self, response: httpx2.Response, reply: Reply, record: Record) -> None:
        headers = {name: value for name, value in response.headers.items() if name not in _NOT_PASSED_BACK}
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            # Read whole first, so that a connection lost on the way is a clean 502 and not half a JSON.
            body = b"".join([part async for part in response.aiter_raw()])
            await reply.whole(response.status_code, body, headers)
            record.count(_usage_in(body))
            return
        await reply.start(response.status_code, headers)
        tail = b""
        async for part in response.aiter_raw():
            await reply.write(part)
            tail = (tail + part)[-_TAIL_BYTES:]
        await reply.end()
        for line in tail.splitlines():
            record.count(_usage_in(line.removeprefix(b"data:")))

    async def models(self) -> dict[str, Any]:
        """The one model in use if MODEL_NAME fixes it, else the upstream's own list."""
        if self._model:
            model = {"id": self._model, "object": "model", "created": 0, "owned_by": "upstream"}
            return {"object": "list", "data": [model]}
        try:
            response = await self._client.get(f"{self._base}/models")
            response.raise_for_status()
            listed: dict[str, Any] = response.json()
        except httpx2.RequestError as error:
            raise _as_api_error(error) from error
        except (httpx2.HTTPStatusError, ValueError) as error:
            raise ApiError(502, "The LLM gave no list of models.", "upstream_unavailable") from error
        return listed

    async def aclose(self) -> None:
        """Close the pool."""
        await self._client.aclose()


def _headers(chat: Chat) -> dict[str, str]:
    return {**chat.trace, "content-type": "application/json", "x-request-id": chat.request_id}


def _usage_in(data: bytes) -> object:
    """The token counts of a completion or of a chunk; most chunks have none."""
    if b'"usage"' not in data:
        return None
    try:
        completion = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return completion.get("usage") if isinstance(completion, dict) else None


def _as_api_error(error: httpx2.RequestError) -> ApiError:
    if isinstance(error, httpx2.TimeoutException):
        return ApiError(504, "The LLM did not answer in time.", "upstream_timeout", kind="timeout")
    return ApiError(502, "The LLM cannot be reached.", "upstream_unavailable")
