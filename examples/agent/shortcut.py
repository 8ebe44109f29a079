"""What signed hints save: which tools to call, or that there is nothing to plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hints import Hints
from schema import problems
from tools import Planned, Tool
from wire import Chat

# Why Frontdesk did not answer, where that says nothing against its reading of the question but what the
# confidence says. All others (it needs its history, it is out of scope, a slot is in doubt, …) want a plan.
_NOT_AGAINST = frozenset(
    {
        *("topic_forwards", "low_confidence", "low_margin", "unproven", "answer_expired"),
        *("no_answer_in_language", "tool_failed", "over_budget", "unverified_caller", "control_group"),
        "answering_off",
    }
)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The route of a turn, the calls to make at once, and why there is no shorter route (for the log)."""

    route: Literal["injected", "hinted", "direct", "planned"]
    calls: tuple[Planned, ...] = ()
    why: str = ""


def shortcut(chat: Chat, tools: Mapping[str, Tool], min_confidence: float) -> Shortcut:
    """The shortest route that the hints allow.

    Only signed hints shorten anything. ``injected``: the conversation ends with the results of all tools that
    the topic needs. ``hinted``: the topic's tools are all ours, and the hints hold every argument they
    require. ``direct``: the topic needs no tool.
    """
    hints = chat.hints
    if hints is None or chat.key is None:
        return Shortcut("planned", why="no_hints" if hints is None else "unsigned")
    there = _ends_with(chat.messages) & set(hints.injected)
    missing = [name for name in hints.tools if name not in there]
    if there and not missing:
        return Shortcut("injected")
    if why := _doubt(hints, min_confidence):
        return Shortcut("planned", why=why)
    if not missing:
        return Shortcut("direct")
    if unknown := set(missing) - tools.keys():
        return Shortcut("planned", why=f"unknown_tool:{min(unknown)}")
    calls = []
    for tool in map(tools.__getitem__, dict.fromkeys(missing)):
        known = {name: hints.slots[name] for name in tool.parameters["properties"] if name in hints.slots}
        if any(problems(tool.parameters, known)):
            return Shortcut("planned", why=f"arguments:{tool.name}")
        calls.append(Planned(tool, known))
    return Shortcut("hinted", tuple(calls))


def _doubt(hints: Hints, min_confidence: float) -> str:
    """What speaks against taking the topic for what the user wants, and all of it; "" if nothing."""
    if hints.topic is None:
        return "no_topic"
    if hints.complexity != "single":
        return "not_single"
    if hints.confidence is None or hints.confidence < min_confidence:
        return "low_confidence"
    return "" if hints.reason in _NOT_AGAINST else "reason"


def _ends_with(messages: list[dict[str, Any]]) -> set[str]:
    """The tools whose results stand at the end of the conversation."""
    results: set[object] = set()
    for message in reversed(messages):
        if message.get("role") != "tool":
            calls = message.get("tool_calls")
            break
        results.add(message.get("tool_call_id"))
    else:
        return set()
    if not isinstance(calls, list):
        return set()
    return {
        call["function"]["name"]
        for call in calls
        if isinstance(call, dict) and isinstance(call.get("function"), dict) and call.get("id") in results
        if isinstance(call["function"].get("name"), str)
    }
