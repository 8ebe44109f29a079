"""Plan, call tools, answer: what the agent does with a turn, and what hints spare it.

A turn takes one of five routes:

    straight   the client brings tools of its own, or the agent has none: the LLM gets it as it came
    injected   Frontdesk has called the tools, their results end the conversation        one LLM call
    hinted     the hints name the tools and hold their arguments: tools at once          one LLM call
    direct     the hints name a topic that needs no tools                                one LLM call
    planned    the LLM says which tools, up to ``max_steps`` times                       two LLM calls or more
"""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import httpx2

from compress import message_of
from fold import Folder
from llm import Thinker
from plan import (
    Plan,
    PlanError,
    call_key,
    parse_plan,
    plan_request,
    repair_request,
    response_format,
    with_prompt,
)
from prefetch import Prefetched, prefetched_for
from requestlog import Record
from settings import Settings
from shortcut import shortcut
from tools import Call, Planned, Result, Tool, ToolError, call_tool, today
from wire import ApiError, Chat, Reply, dumps

_OWN_LOOP = ("tools", "functions")  # a client with these runs a loop of its own


class Loop:
    """An LLM with tools, in front of one without. Every wait in it ends when the client leaves."""

    def __init__(
        self, llm: Thinker, tools: Mapping[str, Tool], settings: Settings, http: httpx2.AsyncClient
    ) -> None:
        self.name = llm.name
        self._llm = llm
        self._tools = tools
        self._settings = settings
        self._http = http
        self._format = response_format(tools)
        self._folder = Folder(llm, settings.fold_over_tokens, settings.plan_timeout_ms / 1000)

    async def answer(self, chat: Chat, reply: Reply, record: Record) -> None:
        """See the module's docstring."""
        if self._tools and _is_ours(chat):
            chat = chat.asking(messages=await self._prepared(chat, record))
        else:
            record.route = "straight"
        with record.stage("answer"):
            await self._llm.answer(chat, reply, record)

    async def models(self) -> dict[str, Any]:
        """Those of the LLM."""
        return await self._llm.models()

    async def aclose(self) -> None:
        """Close the LLM."""
        await self._llm.aclose()

    async def _prepared(self, chat: Chat, record: Record) -> list[dict[str, Any]]:
        """The conversation that the answer is written from."""
        short = shortcut(chat, self._tools, self._settings.strong_confidence)
        record.route = short.route
        prefetched = prefetched_for(chat, self._settings.frontdesk_url)
        messages = with_prompt(await self._folder.fold(chat, record), self._tools)
        if short.route == "planned":
            record.skipped["shortcut"] = short.why
            messages += await self._planned(chat, messages, prefetched, record)
        else:
            record.skipped["plan"] = short.route
            messages += await self._called(chat, short.calls, prefetched, record)
        if prefetched is not None and prefetched.ids:
            record.skipped["prefetch"] = "not_called:" + ",".join(sorted(set(prefetched.ids.values())))
        return messages

    async def _planned(
        self, chat: Chat, messages: list[dict[str, Any]], prefetched: Prefetched | None, record: Record
    ) -> list[dict[str, Any]]:
        """The messages that plans add to a conversation: calls and their results."""
        added: list[dict[str, Any]] = []
        made: set[str] = set()
        for _ in range(self._settings.max_steps):
            plan = await self._plan(chat, [*messages, *added], record)
            calls = [each for each in plan.calls if call_key(each) not in made]
            made |= set(map(call_key, calls))
            added += await self._called(chat, calls, prefetched, record)
            if not calls or not plan.more:
                return added
        record.skipped["plan"] = "step_limit"
        return added

    async def _plan(self, chat: Chat, messages: list[dict[str, Any]], record: Record) -> Plan:
        """One plan, repaired once if need be; no calls where there is no plan to be had."""
        asked = plan_request(messages, today())
        for stage in ("plan", "repair"):
            with record.stage(stage):
                try:
                    with anyio.fail_after(self._settings.plan_timeout_ms / 1000):
                        text = await self._llm.complete(chat, asked, record, self._format)
                except ApiError as error:
                    record.skipped["tools"] = f"no_plan:{error.code}"
                    return Plan(())
                except TimeoutError:
                    record.skipped["tools"] = "no_plan:timeout"
                    return Plan(())
            try:
                return parse_plan(text, self._tools)
            except PlanError as error:
                asked = repair_request(asked, text, error)
        record.skipped["tools"] = "no_plan:invalid"
        return Plan(())

    async def _called(
        self, chat: Chat, calls: Sequence[Planned], prefetched: Prefetched | None, record: Record
    ) -> list[dict[str, Any]]:
        """Make calls, all at the same time; the messages of the calls and of their results."""
        if not calls:
            return []
        results: dict[int, Result] = {}

        async def make(index: int, planned: Planned) -> None:
            results[index] = await self._result(chat, planned, prefetched, record)

        with record.stage("tools"):
            async with anyio.create_task_group() as group:
                for index, planned in enumerate(calls):
                    group.start_soon(make, index, planned)
        ids = [f"call_agent_{len(record.tools) - len(calls) + index}" for index in range(len(calls))]
        asked = [_tool_call(id_, planned) for id_, planned in zip(ids, calls, strict=True)]
        limit = self._settings.tool_result_tokens
        told = [message_of(results[index], id_, limit) for index, id_ in enumerate(ids)]
        return [{"role": "assistant", "content": None, "tool_calls": asked}, *told]

    async def _result(
        self, chat: Chat, planned: Planned, prefetched: Prefetched | None, record: Record
    ) -> Result:
        """One result: collected if Frontdesk has it, else called for."""
        noted: dict[str, Any] = {"tool": planned.tool.name}
        result = None
        if prefetched is not None and (id_ := prefetched.take(planned)) is not None:
            with record.stage("collect"):
                try:
                    result = await prefetched.collect(id_, planned, self._http)
                    noted["prefetch"] = "collected"
                except ToolError as error:
                    noted["prefetch"] = error.code
        if result is None:
            result = await call_tool(planned, Call(chat.user, chat.request_id, self._http))
        record.tools.append({**noted, "outcome": result.outcome, "ms": result.ms})
        return result


def _is_ours(chat: Chat) -> bool:
    """Whether there is a user's turn to answer, or one whose tools Frontdesk has called."""
    if any(chat.body.get(name) for name in _OWN_LOOP):
        return False
    last = chat.messages[-1].get("role")
    injected = chat.key is not None and chat.hints is not None and bool(chat.hints.injected)
    return last == "user" or (last == "tool" and injected)


def _tool_call(id_: str, planned: Planned) -> dict[str, Any]:
    arguments = dumps(planned.arguments).decode()
    return {"id": id_, "type": "function", "function": {"name": planned.tool.name, "arguments": arguments}}
