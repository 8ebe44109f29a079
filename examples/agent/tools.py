"""What a tool is, and one call of it: whatever happens in there, the conversation goes on."""

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import anyio
import httpx2

from schema import check_schema

_NAME = re.compile("[A-Za-z][A-Za-z0-9_-]{0,63}")


class ToolError(Exception):
    """A tool refuses or fails: ``code`` for the log, ``message`` for the LLM; neither gives anything away."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Call:
    """For whom a tool is called. ``user`` comes from the identity header alone, never from any text.

    ``http``: a connection pool for tools that are elsewhere.
    """

    user: str | None
    request_id: str
    http: httpx2.AsyncClient = field(repr=False)


Run = Callable[[Mapping[str, Any], Call], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing that the agent can look up.

    ``parameters``: a JSON Schema of the kind that schema.py reads. ``run`` gets valid arguments and returns
    what can be written as JSON, or raises ToolError; it is cancelled after ``timeout_s``. ``owner``: for
    tools that tell people their own data, the field of the result that must be the caller's name. The tool
    checks that itself; a result with another name is thrown away all the same.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Run
    timeout_s: float = 2.0
    owner: str | None = None

    def check_owner(self, value: object, user: str | None) -> None:
        """Raise ToolError where a result is somebody else's."""
        if self.owner is None:
            return
        if user is None or not isinstance(value, Mapping) or value.get(self.owner) != user:
            raise ToolError(502, "not_yours", "The tool gave no result of the signed-in user's.")


@dataclass(frozen=True, slots=True)
class Planned:
    """A call that is to be made: a tool of the agent's, and arguments that its schema allows."""

    tool: Tool
    arguments: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """How a call ended: ``value`` where ``outcome`` is ``ok``, else ``error``, a sentence for the LLM."""

    planned: Planned
    outcome: str
    value: object = field(default=None, repr=False)
    error: str = ""
    ms: float = 0.0


async def call_tool(planned: Planned, call: Call) -> Result:
    """Call a tool once. Only a cancellation gets out of here."""
    tool, started = planned.tool, time.perf_counter()
    value, error = None, ""
    try:
        with anyio.fail_after(tool.timeout_s):
            found = await tool.run(planned.arguments, call)
        tool.check_owner(found, call.user)
        value, outcome = found, "ok"
    except TimeoutError:
        outcome, error = "timeout", f"The tool gave no result within {tool.timeout_s:g} s."
    except ToolError as failure:
        outcome, error = failure.code, failure.message
    except Exception as failure:  # a bug in a tool costs its result, not the user's answer
        outcome, error = f"failed:{type(failure).__name__}", "The tool failed."
    ms = (time.perf_counter() - started) * 1000
    return Result(planned, outcome, value, error, ms=round(ms, 1))


def by_name(tools: Iterable[Tool], delays_ms: Mapping[str, float]) -> dict[str, Tool]:
    """Tools by their names; ``delays_ms``: by name, or ``*`` for the others. Raises ValueError.

    Two tools of one name are refused: which of them a hint or a plan means would be chance.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        if not _NAME.fullmatch(tool.name) or tool.name in named:
            raise ValueError(f"A tool's name must match {_NAME.pattern} and be there once, got {tool.name!r}")
        try:
            check_schema(tool.parameters)
        except ValueError as error:
            raise ValueError(f"The parameters of {tool.name} cannot be used: {error}.") from None
        named[tool.name] = _delayed(tool, delays_ms.get(tool.name, delays_ms.get("*", 0.0)))
    return named


def _delayed(tool: Tool, ms: float) -> Tool:
    """The tool, slower: for demonstrations and measurements."""

    async def run(arguments: Mapping[str, Any], call: Call) -> object:
        await anyio.sleep(ms / 1000)
        return await tool.run(arguments, call)

    return replace(tool, run=run) if ms else tool


def today() -> date:
    """The day for those who ask: that of this machine's time zone."""
    return date.today()
