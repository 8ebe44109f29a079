"""Pruning of long conversations before they are forwarded: whole turns go, those least like the query first.

What is kept is chosen by walking the conversation from its start, so that nothing has to be remembered
between two requests: where the walk passes ``max_tokens`` it drops turns until ``target_tokens``, and what
was dropped stays dropped. Until the next such place the forwarded messages only grow at their end, and the
agent's prompt cache holds. In doubt the body goes as it came.
"""

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

import numpy as np

from edge.budget import Budget
from edge.config import Context
from edge.conversation import PROMPTS, Said, Unsure, cut, read
from edge.query import MAX_CHARACTERS
from edge.stages import Runtime
from edge.telemetry import ContextUse
from edge.wire import json_bytes

logger = logging.getLogger("frontdesk")

# At most so long, and at most this share of what is left of the budget.
MAX_SECONDS = 0.25
# Of more messages the reading alone would hold up the conversations of others.
MAX_MESSAGES = 4_000
_SHARE = 0.5
# Up to so many bytes a body is counted faster than it is handed to another thread (about 1 ms).
_QUICK_BYTES = 64_000
_BATCH = 16  # measured: larger ones are no faster a row, and the deadline is looked at between two
_OVER_BUDGET = "over_budget"
# What a request had no time for is read after it, in pieces of so many seconds, at most so many of them.
_PIECE_SECONDS, _PIECES = 0.1, 50
_REMEMBERED = 16_384  # of 768 bytes each: 15 MB with what holds them

# The similarities of a text to others, float ``[others]``. Raises RouterError, Unsure.
Similar = Callable[[str, Sequence[str]], np.ndarray]


@dataclass(frozen=True, slots=True)
class Shorter:
    """The messages that are forwarded, and the tokens of the conversation before and after.

    ``pruned_at``: as in Choice.
    """

    messages: Sequence[Mapping[str, Any]]
    before: int
    after: int
    pruned_at: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a conversation is kept: ``kept[i]`` says it of message i.

    ``tokens``: of what is kept. ``pruned_at``: the last message at which turns were dropped; -1: none was.
    """

    kept: tuple[bool, ...]
    tokens: int
    pruned_at: int


def choose(said: Sequence[Said], max_tokens: float, target_tokens: int, similar: Similar) -> Choice:
    """Walk a conversation, and drop turns wherever it is too long.

    A turn is what a user says in a row and all that answers it, tool calls included; it goes or stays
    whole, so that no answer loses its question, no tool message its call, and user and assistant still
    alternate. Never dropped: system and developer messages, the first turn, the last two at that place,
    pinned turns. Turns are dropped only where a request can end.
    """
    asked, sizes, turns = [""], [0], []  # of each turn; the turn of each message, 0 for prompts
    pinned = {0}
    turn, heard, answered, total, pruned_at = 0, False, False, 0, -1
    droppable: list[int] = []
    dropped: set[int] = set()
    for place, one in enumerate(said):
        if one.role == "user":
            if answered:
                turn += 1
                asked.append("")
                sizes.append(0)
                if turn > 1 and turn - 2 not in pinned:
                    droppable.append(turn - 2)
            asked[turn] = f"{asked[turn]}\n{one.text}".strip("\n")[:MAX_CHARACTERS]  # as much as is read
            heard, answered = True, False
        elif one.role not in PROMPTS:
            answered = heard  # what is said before the first user belongs to the first turn
        total += one.tokens
        turns.append(0 if one.role in PROMPTS else turn)
        sizes[turns[place]] += one.tokens
        if one.pinned:
            pinned.add(turns[place])
        # An assistant's message is what a request brings, unless the client wants it to be continued.
        may_end = one.closed and (one.role != "assistant" or place == len(said) - 1)
        if total > max_tokens and droppable and may_end:
            likeness = similar(asked[turn], [asked[t] for t in droppable])
            # Batches differ in the seventh decimal; of two that are alike the older goes first.
            for _, least in sorted(zip(np.round(likeness, 3).tolist(), droppable, strict=True)):
                if total <= target_tokens:
                    break
                dropped.add(least)
                total -= sizes[least]
            droppable = [t for t in droppable if t not in dropped]
            pruned_at = place
    return Choice(tuple(t not in dropped for t in turns), total, pruned_at)


class Embeddings:
    """The router's embeddings of users' turns, remembered by their text, the latest used the longest.

    Not for two threads at once. Texts are kept as digests only.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, np.ndarray] = OrderedDict()

    def of(self, texts: Sequence[str], runtime: Runtime, deadline: float) -> np.ndarray:
        """Their embeddings, float32 ``[texts, dim]``. Raises RouterError, and Unsure after the deadline.

        What was read until then stays known, so that the next request gets further.
        """
        if time.monotonic() > deadline:
            raise Unsure(_OVER_BUDGET)
        salt = runtime.bundle.version.encode()[:16]
        keys = [_digest(text, salt) for text in texts]
        found = {key: self._known[key] for key in keys if key in self._known}
        read_as = runtime.bundle.normaliser.reading
        new = {k: read_as(t) for k, t in zip(keys, texts, strict=True) if k not in found}
        for key in found:
            self._known.move_to_end(key)
        ordered = sorted(new, key=lambda key: len(new[key]))  # texts of one length waste no padding
        for start in range(0, len(ordered), _BATCH):
            if time.monotonic() > deadline:
                raise Unsure(_OVER_BUDGET)
            batch = ordered[start : start + _BATCH]
            vectors = runtime.router.embed([new[key] for key in batch]).astype(np.float16)
            found |= zip(batch, vectors, strict=True)
            self._known |= zip(batch, vectors, strict=True)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return np.stack([found[key] for key in keys]).astype(np.float32)


def _digest(text: str, salt: bytes) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, salt=salt).digest()


class Pruner:
    """Makes long conversations shorter, as the settings say."""

    def __init__(self, settings: Context) -> None:
        self._settings = settings
        self._target = settings.target_tokens or settings.max_tokens // 2
        self._embeddings = Embeddings()
        # One thread: prunings wait for each other, and the server for none of them.
        self._worker = ThreadPoolExecutor(1, "frontdesk-context")
        self._goes_on = False

    async def prune(
        self, data: Mapping[str, Any], body: bytes, runtime: Runtime | None, budget: Budget, added: int = 0
    ) -> tuple[bytes, ContextUse]:
        """The body to forward, and what became of it. ``data`` is the parsed body; it is not changed.

        ``added``: how many of the last messages are ours. They are not there when the client comes again,
        so no choice may hang on them.
        """
        deadline = time.monotonic() + min(MAX_SECONDS, _SHARE * budget.remaining_ms() / 1000)
        messages, before = data["messages"], None
        if len(messages) > MAX_MESSAGES:
            return body, ContextUse(None, None, "too_many_messages")
        in_time = partial(self._in_time, deadline)
        try:
            said = read(messages) if len(body) <= _QUICK_BYTES else await in_time(read, messages)
            before = sum(one.tokens for one in said)
            if not self._is_long(said, added):
                return body, ContextUse(before, before)
            shorter, after = await in_time(self._body, data, runtime, deadline, added)
        except Unsure as unsure:
            if str(unsure) == _OVER_BUDGET and not self._goes_on:
                self._goes_on = True
                self._worker.submit(self._go_on, messages, runtime, _PIECES)
            return body, ContextUse(before, before, str(unsure))
        except Exception:  # whatever it is, the agent can do with the whole conversation
            logger.exception("A conversation could not be pruned, and is forwarded as it came.")
            return body, ContextUse(before, before, "failed")
        return (body if shorter is None else shorter), ContextUse(before, after)

    async def _in_time(self, deadline: float, work: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401
        """What comes of the work in the thread, behind that of others. Raises Unsure after the deadline."""
        future = asyncio.get_running_loop().run_in_executor(self._worker, work, *given)
        try:
            return await asyncio.wait_for(future, max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise Unsure(_OVER_BUDGET) from None

    def shorten(
        self,
        messages: Sequence[Mapping[str, Any]],
        runtime: Runtime | None,
        deadline: float = math.inf,
        added: int = 0,
    ) -> Shorter:
        """What of a conversation is forwarded; ``added`` as in ``prune``. Raises Unsure and RouterError."""
        limit, said = self._settings.max_tool_tokens, read(messages)
        before = sum(one.tokens for one in said)
        if limit:
            messages = [cut(m, limit) if m["role"] == "tool" else m for m in messages]
            said = read(messages)

        def similar(text: str, others: Sequence[str]) -> np.ndarray:
            if runtime is None:
                raise Unsure("not_ready")
            vectors = self._embeddings.of([text, *others], runtime, deadline)
            return np.asarray(vectors[1:] @ vectors[0])

        own, ours = said[: len(said) - added], said[len(said) - added :]
        choice = choose(own, self._settings.max_tokens or math.inf, self._target, similar)
        kept = [m for m, stays in zip(messages, choice.kept + (True,) * added, strict=True) if stays]
        return Shorter(kept, before, choice.tokens + sum(one.tokens for one in ours), choice.pruned_at)

    def _go_on(self, messages: Sequence[Mapping[str, Any]], runtime: Runtime | None, pieces: int) -> None:
        """Read a conversation further, so that its next request finds it read.

        One conversation at a time, and between two pieces of it the requests of others get their turn.
        """
        try:
            self.shorten(messages, runtime, time.monotonic() + _PIECE_SECONDS)
        except Unsure:
            if pieces:
                self._worker.submit(self._go_on, messages, runtime, pieces - 1)
                return
        except Exception:
            logger.exception("A conversation could not be read further.")
        self._goes_on = False

    def _is_long(self, said: Sequence[Said], added: int) -> bool:
        most, limit = self._settings.max_tokens, self._settings.max_tool_tokens
        tokens = sum(one.tokens for one in said[: len(said) - added])
        return 0 < most < tokens or (limit > 0 and any(s.role == "tool" and s.tokens > limit for s in said))

    def _body(
        self, data: Mapping[str, Any], runtime: Runtime | None, deadline: float, added: int
    ) -> tuple[bytes | None, int]:
        """The shorter body, None where nothing of it goes, and its tokens."""
        came = data["messages"]
        shorter = self.shorten(came, runtime, deadline, added)
        if len(shorter.messages) == len(came) and all(map(is_, shorter.messages, came)):
            return None, shorter.after
        return json_bytes({**data, "messages": shorter.messages}), shorter.after
