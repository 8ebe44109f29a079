"""The OpenAI wire: a chat request read, an error shaped, an answer written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.types import Send

from hints import Hints, HintsKey

# no-cache and x-accel-buffering: a proxy that collects a stream before passing it on defeats streaming.
SSE_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
DONE = b"data: [DONE]\n\n"


class ApiError(Exception):
    """Anything the client is told as an error, in OpenAI's shape and with a stable snake_case code."""

    def __init__(
        self, status: int, message: str, code: str, param: str | None = None, kind: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.kind = kind or ("server_error" if status >= 500 else "invalid_request_error")

    def body(self) -> dict[str, Any]:
        """The JSON that OpenAI's SDK turns into its own exception."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True, slots=True)
class Chat:
    """One chat request. ``raw`` is kept because an unchanged request is best passed on unchanged.

    ``key``: the one that Frontdesk signed the hints with; None where they are unsigned, so prove nothing.
    ``user``: who asks, by the identity header.
    """

    raw: bytes = field(repr=False)
    body: dict[str, Any] = field(repr=False)
    request_id: str
    hints: Hints | None
    trace: Mapping[str, str]
    key: HintsKey | None = None
    user: str | None = None

    def asking(self, **changes: object) -> "Chat":
        """The same request with other fields in its body."""
        body = {**self.body, **changes}
        return replace(self, raw=dumps(body), body=body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, checked by ``parse_body``."""
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def stream(self) -> bool:
        """Whether the client asked for server-sent events."""
        return self.body.get("stream") is True

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a chunk of token counts."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True


def parse_body(raw: bytes) -> dict[str, Any]:
    """Check only what every LLM needs; the other fields are for the LLM to judge."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise ApiError(400, "The body is not valid JSON.", "invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.", "invalid_json")
    if "messages" not in body:
        raise ApiError(400, "The field 'messages' is missing.", "missing_required_parameter", "messages")
    messages = body["messages"]
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise ApiError(400, "'messages' must be a non-empty list of objects.", "invalid_type", "messages")
    if not isinstance(body.get("stream"), bool | None):
        raise ApiError(400, "'stream' must be true or false.", "invalid_type", "stream")
    return body


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whether ``content`` is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in parts if isinstance(text, str))


def dumps(value: object) -> bytes:
    """Compact UTF-8 JSON; a lone surrogate, legal in JSON but not in UTF-8, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + dumps(value) + b"\n\n"


@dataclass(slots=True)
class Reply:
    """The way back to the client: an LLM writes here and knows nothing else of HTTP.

    ASGI's ``send`` is used directly because with Starlette's StreamingResponse the upstream would be opened
    before the response exists: a client that leaves in between would leave it open.
    """

    send: Send
    started: bool = False

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send status and headers; from here on an error can only be an event in the stream."""
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": raw})
        self.started = True

    async def write(self, data: bytes) -> None:
        """Send a piece of the body; returns only once the client can take more."""
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece."""
        await self.send({"type": "http.response.body", "body": data, "more_body": False})

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send an answer that is not a stream."""
        await self.start(status, {**headers, "content-length": str(len(body))})
        await self.end(body)

    async def json(self, status: int, value: object) -> None:
        """Send JSON."""
        await self.whole(status, dumps(value), {"content-type": "application/json"})
