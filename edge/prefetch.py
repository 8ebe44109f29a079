"""Results of tools that were called while their turn was forwarded: the agent collects each once, or not."""

import asyncio
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from edge.decision import Call
from edge.errors import NotFound, Unauthorized
from edge.hints import VALID_SECONDS, HintsError, HintsKey, sign_hints
from edge.results import Failure, Result
from edge.toolbox import Toolbox

PATH = "/v1/prefetch/"
# How long a result waits for an agent that first plans, in seconds after its tool's own time.
HOLD_SECONDS = 30.0
_MOST = 2_000  # of up to 64 KB of text each
_SIGNATURE = re.compile(r"kid=([A-Za-z0-9_.-]{1,64}),t=([0-9]{1,12}),attempt=([0-9]{1,4}),v1=[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class _Waiting:
    call: Call
    request_id: str
    task: asyncio.Task[Result | Failure]
    timer: asyncio.TimerHandle


class Prefetched:
    """Holds results until they are collected or dropped; each is bound to the request that it was made for.

    Without keys nothing is held: then nobody could tell the agent from others.
    """

    def __init__(self, toolbox: Toolbox, keys: Sequence[HintsKey]) -> None:
        self._toolbox = toolbox
        self._keys = {key.kid: key for key in keys}
        self._waiting: dict[str, _Waiting] = {}

    @property
    def has_room(self) -> bool:
        """Whether another result can be held."""
        return bool(self._keys) and len(self._waiting) < _MOST

    def hold(self, call: Call, task: asyncio.Task[Result | Failure], request_id: str) -> str:
        """The id under which the task's result can be collected."""
        id_ = f"pf_{secrets.token_hex(16)}"
        seconds = self._toolbox.tools[call.suggestion.tool].timeout + HOLD_SECONDS
        timer = asyncio.get_running_loop().call_later(seconds, self._drop, id_)
        self._waiting[id_] = _Waiting(call, request_id, task, timer)
        self._toolbox.prefetched(call)
        return id_

    async def collect(self, id_: str, request_id: str, signature: str, now: float) -> Result | Failure:
        """The result, once its tool has answered. Raises Unauthorized and NotFound."""
        self._verify(f"GET {PATH}{id_}", request_id, signature, now)
        waiting = self._waiting.get(id_)
        if waiting is None or waiting.request_id != request_id:
            raise NotFound("There is no such result: it was collected, dropped, or never there.")
        self._drop(id_, cancel=False)
        self._toolbox.collected(waiting.call.suggestion.tool)
        return await waiting.task

    def close(self) -> None:
        """Drop everything."""
        for id_ in list(self._waiting):
            self._drop(id_)

    def _drop(self, id_: str, *, cancel: bool = True) -> None:
        waiting = self._waiting.pop(id_)
        waiting.timer.cancel()
        if cancel:
            waiting.task.cancel()

    def _verify(self, signed: str, request_id: str, signature: str, now: float) -> None:
        match = _SIGNATURE.fullmatch(signature)
        key = self._keys.get(match[1]) if match else None
        if match is None or key is None or abs(now - int(match[2])) > VALID_SECONDS:
            raise Unauthorized(
                "Only the agent may collect results: sign the request as the hints are signed."
            )
        try:
            good = sign_hints(signed, request_id, b"", key, int(match[2]), int(match[3]))
        except HintsError:  # what nobody can have signed
            good = ""
        if not hmac.compare_digest(good, signature):
            raise Unauthorized("The signature does not hold for this path and x-request-id.")
