"""All that the agent needs of an LLM."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from requestlog import Record
from wire import Chat, Reply


class LLM(Protocol):
    """One is over HTTP, one is scripted, and the loop of tools is one that stands before another."""

    name: str

    async def answer(self, chat: Chat, reply: Reply, record: Record) -> None:
        """Write to ``reply``; cancelled when the client leaves. Raises ApiError before it has begun."""

    async def models(self) -> dict[str, Any]:
        """The list for GET /v1/models."""

    async def aclose(self) -> None:
        """Give back what is held open."""


class Thinker(LLM, Protocol):
    """An LLM that also says things to the agent, which the client never sees."""

    async def complete(
        self,
        chat: Chat,
        messages: Sequence[Mapping[str, Any]],
        record: Record,
        response_format: Mapping[str, Any] | None = None,
    ) -> str:
        """What it says to ``messages``, on behalf of ``chat``. Raises ApiError."""
