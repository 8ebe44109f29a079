"""The users of agent_path.py: they ask when they come, over kept connections, and time what they hear."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from agent_path_draw import Turn
from agent_path_setups import IDENTITY_HEADER, Running

_SAID = re.compile(rb'"content": ?"(?!")')
_TICK_S = 0.02


@dataclass(frozen=True, slots=True)
class Heard:
    """What a user got. Times in ms from the moment of asking; ``late_ms``: how much later than it should be
    that moment was; ``path`` and ``reason``: as Frontdesk says, "" where there is none."""

    request_id: str
    status: int
    path: str
    reason: str
    first_ms: float
    whole_ms: float
    late_ms: float
    completion_tokens: int | None = None
    complete: bool = True

    @property
    def ok(self) -> bool:
        return self.status == 200 and self.complete and self.whole_ms >= self.first_ms > 0


def body_of(turn: Turn) -> bytes:
    """The request of a turn, as an OpenAI client writes it."""
    asked = {
        "model": "demo",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": turn.messages,
    }
    return json.dumps(asked, ensure_ascii=False).encode()


def open_client() -> httpx2.AsyncClient:
    """Idle connections are given up before uvicorn closes them (5 s), so that none is lost on the way."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=200, keepalive_expiry=4)
    return httpx2.AsyncClient(limits=limits, timeout=60, trust_env=False)


async def ask(
    client: httpx2.AsyncClient, setup: Running, turn: Turn, request_id: str, late_ms: float = 0.0
) -> Heard:
    """Ask, and hear the answer to its end; a broken connection has the status 0."""
    headers = {
        "content-type": "application/json",
        "x-request-id": request_id,
        IDENTITY_HEADER: turn.user,
    }
    begun, first = time.perf_counter(), 0.0
    heard = bytearray()
    told, status = httpx2.Headers(), 0
    url = f"{setup.url}/v1/chat/completions"
    try:
        async with client.stream("POST", url, content=body_of(turn), headers=headers) as response:
            told, status = response.headers, response.status_code
            async for part in response.aiter_raw():
                # Searched from a little before the new part: an event may be cut anywhere.
                fresh = max(0, len(heard) - 32)
                heard += part
                if not first and _SAID.search(heard, fresh):
                    first = time.perf_counter()
    except httpx2.TransportError:
        status = 0
    ended = time.perf_counter()
    return Heard(
        request_id,
        status,
        told.get("x-frontdesk-path", ""),
        told.get("x-frontdesk-reason", ""),
        1000 * (first - begun),
        1000 * (ended - begun),
        late_ms,
        _completion_tokens(heard),
        heard.endswith(b"data: [DONE]\n\n"),
    )


def _completion_tokens(heard: bytes) -> int | None:
    events = (line[6:] for line in bytes(heard).split(b"\n") if line.startswith(b"data: {"))
    usages = [json.loads(event).get("usage") for event in list(events)[-2:]]
    return next((usage["completion_tokens"] for usage in usages if usage), None)


async def block(
    client: httpx2.AsyncClient,
    setup: Running,
    turns: Sequence[tuple[int, Turn]],
    arrivals: Sequence[float],
    done: Callable[[], None],
) -> list[Heard]:
    """Ask each turn at its time (seconds from now), whether earlier ones have ended or not."""
    begun = time.perf_counter()

    async def one(number: int, turn: Turn, at: float) -> Heard:
        await asyncio.sleep(at - (time.perf_counter() - begun))
        late_ms = 1000 * (time.perf_counter() - begun - at)
        heard = await ask(client, setup, turn, f"{setup.name}-{number}", late_ms)
        done()
        return heard

    return list(await asyncio.gather(*(one(n, t, at) for (n, t), at in zip(turns, arrivals, strict=True))))


@contextmanager
def lag_of_the_loop() -> Iterator[list[float]]:
    """How late this process's event loop wakes what sleeps, in ms, a value each 20 ms."""
    late: list[float] = []

    async def measure() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            late.append(1000 * (time.perf_counter() - begun - _TICK_S))

    task: asyncio.Task[Any] = asyncio.ensure_future(measure())
    try:
        yield late
    finally:
        task.cancel()
