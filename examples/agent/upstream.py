"""A real LLM behind any OpenAI-compatible server: the conversation goes up, its bytes come back unread."""

from typing import Any

import httpx2

from requestlog import Record
from settings import Settings
from wire import DONE, ApiError, Chat, Reply, dumps, event

# Between two bytes, not for the whole answer: a long answer is fine as long as it moves.
_TIMEOUT = httpx2.Timeout(120.0, connect=10.0)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
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

    async def answer(self, chat: Chat, reply: Reply, record: Record) -> None:
        """Pass the conversation on; leaving the ``async with``, also if cancelled, closes the connection."""
        headers = {**chat.trace, "content-type": "application/json", "x-request-id": chat.request_id}
        body = dumps({**chat.body, "model": self._model}) if self._model else chat.raw
        url = f"{self._base}/chat/completions"
        try:
            async with self._client.stream("POST", url, content=body, headers=headers) as response:
                await self._pass_back(response, reply)
        except httpx2.RequestError as error:
            # No retry here: Frontdesk and the SDK both retry, and attempts multiply.
            failure = _as_api_error(error)
            if not reply.started:
                raise failure from error
            # The blank line closes an event that was cut in the middle.
            record.generation = "failed"
            await reply.end(b"\n\n" + event(failure.body()) + DONE)

    async def _pass_back(self, response: httpx2.Response, reply: Reply) -> None:
        headers = {name: value for name, value in response.headers.items() if name not in _NOT_PASSED_BACK}
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            # Read whole first, so that a connection lost on the way is a clean 502 and not half a JSON.
            body = b"".join([part async for part in response.aiter_raw()])
            await reply.whole(response.status_code, body, headers)
            return
        await reply.start(response.status_code, headers)
        async for part in response.aiter_raw():
            await reply.write(part)
        await reply.end()

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


def _as_api_error(error: httpx2.RequestError) -> ApiError:
    if isinstance(error, httpx2.TimeoutException):
        return ApiError(504, "The LLM did not answer in time.", "upstream_timeout", kind="timeout")
    return ApiError(502, "The LLM cannot be reached.", "upstream_unavailable")
