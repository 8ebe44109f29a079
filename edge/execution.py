"""Carries out the tool calls of a decision: answers by them, or gives the agent what they brought."""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edge.budget import Budget
from edge.decision import Answer, Call, Decision, Level, Path, Reason
from edge.errors import TemplateError
from edge.prefetch import Prefetched
from edge.query import Query
from edge.results import Failure, Result
from edge.stages import Runtime
from edge.telemetry import ToolCall
from edge.toolbox import Asker, Toolbox

# What of the budget a forwarded turn may wait for tools: the rest is for the model's first token.
INJECT_SHARE = 0.3
# What answering itself needs of the budget once the results are there, in milliseconds.
_RENDER_MS = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    call: Call
    task: asyncio.Task[Result | Failure]

    @classmethod
    def of(cls, toolbox: Toolbox, call: Call, asker: Asker) -> "_Running":
        return cls(call, asyncio.create_task(toolbox.call(call, asker)))


@dataclass(frozen=True, slots=True)
class Carried:
    """What goes with a turn to the agent: messages to append, ids of results to collect, what was called."""

    messages: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    injected: tuple[str, ...] = ()
    prefetch: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[ToolCall, ...] = ()


class Execution:
    """Runs the calls of decisions with one toolbox."""

    def __init__(self, runtime: Runtime, toolbox: Toolbox, prefetched: Prefetched) -> None:
        self._runtime = runtime
        self._toolbox = toolbox
        self._prefetched = prefetched

    async def collect(self, id_: str, request_id: str, signature: str, now: float) -> Result | Failure:
        """The result of a call that was left for the agent, once. Raises Unauthorized and NotFound."""
        return await self._prefetched.collect(id_, request_id, signature, now)

    async def close(self) -> None:
        """Drop what waits, and close every connection."""
        self._prefetched.close()
        await self._toolbox.close()

    async def run(
        self, decision: Decision, query: Query, asker: Asker, budget: Budget, request_id: str
    ) -> tuple[Decision, Carried]:
        """The decision after its calls, and what goes with the turn where it is forwarded after all.

        All tools are called at once. What is late, or was only to be prefetched, stays for the agent to
        collect where it can; what failed is left out.
        """
        worth = [call for call in decision.calls if self._is_worth(call, asker)]
        running = [_Running.of(self._toolbox, call, asker) for call in worth]
        wait_ms = budget.remaining_ms() * (1.0 if decision.is_local else INJECT_SHARE) - _RENDER_MS
        waited = [one.task for one in running if self._is_in_time(one.call, wait_ms)]
        try:
            if waited:
                await asyncio.wait(waited, timeout=max(0.0, wait_ms) / 1000)
        except asyncio.CancelledError:  # the client has left: nobody waits for these
            for one in running:
                one.task.cancel()
            raise
        done = [one for one in running if one.task in waited and one.task.done()]
        found = [one.task.result() for one in done]
        told = [_told(one.call, outcome) for one, outcome in zip(done, found, strict=True)]
        results = [outcome for outcome in found if isinstance(outcome, Result)]
        if decision.is_local:
            decision, problem = self._answered(decision, query, found, results)
            if decision.answer is not None:
                return decision, Carried(calls=tuple(told))
            told = [replace(one, problem=problem) for one in told]
        held: dict[str, str] = {}
        told += [self._leave(one, request_id, held) for one in running if one not in done]
        names = tuple(result.tool for result in results)
        return decision, Carried(_messages(results), names, held, tuple(told))

    def _is_in_time(self, call: Call, wait_ms: float) -> bool:
        """Whether a call is waited for: not where it takes longer as a rule and can be left for the agent."""
        if call.level is Level.PREFETCH:
            return False
        return not (self._prefetched.has_room and self._toolbox.expected_ms(call) > wait_ms)

    def _is_worth(self, call: Call, asker: Asker) -> bool:
        """Whether a call is expected to save more than it costs; what is waited for always is."""
        if call.level is not Level.PREFETCH:
            return True
        if not self._toolbox.may_ask(call, asker):
            return False
        gain = self._toolbox.gain_ms(call)
        return self._prefetched.has_room and (gain is None or gain > 0)

    def _leave(self, one: "_Running", request_id: str, held: dict[str, str]) -> ToolCall:
        """Leave a running call for the agent to collect, or stop it where nobody could."""
        tool = one.call.suggestion.tool
        if not self._prefetched.has_room:
            one.task.cancel()
            return _told(one.call, Failure(tool, "over_budget"))
        gain = self._toolbox.gain_ms(one.call)
        held[self._prefetched.hold(one.call, one.task, request_id)] = tool
        return ToolCall(tool, str(one.call.level), "prefetched", gain_ms=gain)

    def _answered(
        self,
        decision: Decision,
        query: Query,
        found: Sequence[Result | Failure],
        results: Sequence[Result],
    ) -> tuple[Decision, str]:
        """The decision with its answer, or as a forward; and what kept the results out of the template."""
        if len(results) < len(decision.calls):
            codes = {outcome.code for outcome in found if isinstance(outcome, Failure)}
            if "unverified_caller" in codes:
                return forwarded(decision, Reason.UNVERIFIED_CALLER), ""
            return forwarded(decision, Reason.TOOL_FAILED if codes else Reason.OVER_BUDGET), ""
        bundle, lang = self._runtime.bundle, decision.lang
        assert decision.topic is not None  # noqa: S101 - a tool answers a topic,
        assert lang is not None  # noqa: S101 - in a language
        template = bundle.by_id[decision.topic].template[lang]
        slots = {name: value for call in decision.calls for name, value in call.suggestion.values.items()}
        try:
            text = template.fill({result.tool: result.value for result in results}, slots)
        except TemplateError as exc:
            return forwarded(decision, Reason.TOOL_FAILED), str(exc)
        tokens = self._runtime.router.token_count(text)
        if query.max_tokens is not None and query.max_tokens < tokens:
            return forwarded(decision, Reason.CLIENT_OPTIONS), ""
        return replace(decision, answer=Answer(decision.topic, lang, text, tokens)), ""


def forwarded(decision: Decision, reason: Reason) -> Decision:
    """A decision whose tools brought no answer; one that was a forward anyway keeps its reason."""
    return (
        replace(decision, path=Path.AGENT, reason=reason, unproven=False) if decision.is_local else decision
    )


def _told(call: Call, found: Result | Failure) -> ToolCall:
    outcome = "ok" if isinstance(found, Result) else found.code
    cached = isinstance(found, Result) and found.cached
    return ToolCall(call.suggestion.tool, str(call.level), outcome, found.ms, cached)


def _messages(results: Sequence[Result]) -> tuple[dict[str, Any], ...]:
    """One assistant message with every call, then the results: data in the role that is made for it."""
    if not results:
        return ()
    ids = [f"call_{secrets.token_hex(12)}" for _ in results]
    calls = [
        {
            "id": id_,
            "type": "function",
            "function": {"name": r.tool, "arguments": json.dumps(dict(r.arguments), ensure_ascii=False)},
        }
        for id_, r in zip(ids, results, strict=True)
    ]
    told = [{"role": "tool", "tool_call_id": i, "content": r.text} for i, r in zip(ids, results, strict=True)]
    return ({"role": "assistant", "content": None, "tool_calls": calls}, *told)
