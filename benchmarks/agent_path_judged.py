"""What became of each turn of agent_path.py, joined from all logs, and whether it was wrong.

The scripted LLM knows the labels, so it errs in nothing; what is judged is what Frontdesk answers, calls and
tells, and what the agent spares itself because of that.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from agent_path_client import Heard
from agent_path_draw import Call, Turn
from agent_path_machine import Machine
from agent_path_setups import STRAIGHT
from company import PATHS, TOOLS  # of the agent's folder, which agent_path_draw puts on the path

from edge.hints import Hints, parse_hints

CHAT = "/v1/chat/completions"
_PLACES = [
    (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", f"/tools{path}")), name)
    for path, name in PATHS.items()
]
_PARAMETERS = {tool.name: tool.parameters["properties"] for tool in TOOLS}
_OPTIONAL = {tool.name: set(_PARAMETERS[tool.name]) - set(tool.parameters["required"]) for tool in TOOLS}
# What of a local answer or a shortcut was wrong.
WRONG = {
    "another_topic": "answered with another topic",
    "needed_history": "answered without the history that it needs",
    "half_answered": "answered one of two requests",
    "not_needed": "a tool's result used that is not needed",
    "other_call": "a tool called with other arguments than needed",
    "fewer_arguments": "a tool called without an optional argument that was said",
    "call_missing": "planning spared although a further call is needed",
}


@dataclass(frozen=True, slots=True)
class Run:
    """All that was measured. ``logs``: of each set-up by role; ``told``: what the network's legs wrote."""

    turns: Sequence[Turn]
    heard: Mapping[str, Sequence[Heard]]
    logs: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
    told: Sequence[Mapping[str, Any]]
    machine: Machine


@dataclass(frozen=True, slots=True)
class Judged:
    """One turn in one set-up. ``edge`` and ``agent``: their log lines, None where it did not get there;
    ``calls``: those that Frontdesk made, as the network saw them; ``wrong``: of WRONG."""

    turn: Turn
    heard: Heard
    edge: Mapping[str, Any] | None
    agent: Mapping[str, Any] | None
    calls: Sequence[Call]
    wrong: Sequence[str] = ()

    @property
    def path(self) -> str:
        return self.heard.path or "agent"

    @property
    def route(self) -> str:
        """The path, and of the agent's the route that it took, and whether it collected a result."""
        if self.agent is None:
            return self.path
        collected = any(call.get("prefetch") == "collected" for call in self.agent["tools"])
        return f"agent, {self.agent['route']}{', collected' if collected else ''}"

    @property
    def hints(self) -> Hints:
        """What the agent was told and believed."""
        believed = self.agent is not None and self.agent["hints"] and not self.agent["hints_ignored"]
        return parse_hints(self.agent["hints"]) if self.agent and believed else Hints()


def joined(run: Run, setup: str) -> list[Judged]:
    """Every turn of a set-up, judged."""
    logs = run.logs[setup]
    agent = {line["request_id"]: line for line in logs["agent"] if line["path"] == CHAT}
    edge = {line["request_id"]: line for line in logs.get("edge", ()) if line["route"] == CHAT}
    calls = _calls(run.told, f"{setup}: edge to tools")
    found = []
    for turn, heard in zip(run.turns, run.heard[setup], strict=True):
        id_ = heard.request_id
        one = Judged(turn, heard, edge.get(id_), agent.get(id_), calls[id_])
        wrong = dict.fromkeys(_wrong(one)) if setup != STRAIGHT else {}
        found.append(Judged(turn, heard, one.edge, one.agent, one.calls, tuple(wrong)))
    return found


def _wrong(one: Judged) -> Iterator[str]:
    turn = one.turn
    if one.agent is not None:
        yield from _wrong_shortcut(one)
    elif one.path in ("faq", "tool", "cache"):
        if one.edge is None or one.edge["topic"] not in turn.topics:
            yield "another_topic"
        elif len(turn.topics) > 1:
            yield "half_answered"
        if turn.sort == "follow_up":
            yield "needed_history"
        yield from (tag for call in one.calls for tag in against(call, turn))


def _wrong_shortcut(one: Judged) -> Iterator[str]:
    assert one.agent is not None
    hints, route = one.hints, one.agent["route"]
    used = [call for call in one.calls if call.tool in hints.injected]
    if route == "hinted":
        used += [_hinted(name, hints) for name in hints.tools if name not in hints.injected]
    yield from (tag for call in used for tag in against(call, one.turn))
    # A result that came out of Frontdesk's cache passed no leg: of it only the tool's name is known.
    known = {*hints.injected, *(call.tool for call in used)}
    if any(name not in one.turn.tools for name in known):
        yield "not_needed"
    if route in ("hinted", "direct", "injected") and set(one.turn.tools) - known:
        yield "call_missing"


def _hinted(name: str, hints: Hints) -> Call:
    return Call(name, {key: hints.slots[key] for key in _PARAMETERS[name] if key in hints.slots})


def against(call: Call, turn: Turn) -> Iterator[str]:
    """What is wrong with a call, by the calls that the turn needs."""
    needed = [right for right in turn.calls if right.tool == call.tool]
    if not needed:
        yield "not_needed"
        return
    given, right = _plain(call.arguments), _plain(needed[0].arguments)
    if given == right:
        return
    fewer = given.items() < right.items() and right.keys() - given.keys() <= _OPTIONAL[call.tool]
    yield "fewer_arguments" if fewer else "other_call"


def _plain(arguments: Mapping[str, Any]) -> dict[str, str]:
    """As they stand in an address: 300, "300" and 300.0 are one."""
    return {name: f"{value:g}" if isinstance(value, int | float) else str(value).removesuffix(".0")
            for name, value in arguments.items()}  # fmt: skip


def _calls(told: Sequence[Mapping[str, Any]], leg: str) -> dict[str, list[Call]]:
    """The calls that passed a leg, by request."""
    found: dict[str, list[Call]] = defaultdict(list)
    for line in told:
        if line.get("leg") == leg and "target" in line:
            found[line["request_id"]].append(call_of(line["target"]))
    return found


def call_of(target: str) -> Call:
    """The call that an address of the demo's tools means."""
    parts = urlsplit(target)
    for place, name in _PLACES:
        if match := place.fullmatch(parts.path):
            path = {key: unquote(value) for key, value in match.groupdict().items()}
            return Call(name, path | dict(parse_qsl(parts.query)))
    raise ValueError(f"{target} is none of the demo's tools")
