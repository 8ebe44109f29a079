"""The figures of agent_path.py: each set-up by path and by kind of turn, beside the same turns straight."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from agent_path_draw import KINDS
from agent_path_judged import Judged, Run, joined
from agent_path_setups import LEGS, LLM, MAX_TOKENS, STRAIGHT, TOOLS_MS

PERCENTILES = (50, 90, 95, 99)
GOALS = {"mean": -0.55, "p95_first_ms": 2000, "llm_calls": -0.5, "wrong": 0}
_RESAMPLES = 2000
Rows = Sequence[Judged]


def report(run: Run) -> dict[str, Any]:
    """Everything that stands in the result but how the benchmark was called."""
    setups = {name: joined(run, name) for name in run.heard}
    straight = setups.get(STRAIGHT)
    return {
        "turns": len(run.turns),
        "network_ms": LEGS,
        "llm": LLM,
        "tools_ms": TOOLS_MS,
        "max_tokens": MAX_TOKENS,
        "drawn": _drawn(run),
        "setups": {name: _setup(run, name, rows, straight) for name, rows in setups.items()},
        "against_straight": {
            name: against_straight(rows, straight)
            for name, rows in setups.items()
            if straight is not None and name != STRAIGHT
        },
        "goals": GOALS,
        "draw": [turn.written() for turn in run.turns],
    }


def _drawn(run: Run) -> dict[str, Any]:
    turns = run.turns
    return {
        "kinds": dict(Counter(turn.kind for turn in turns)),
        "sorts": dict(Counter(turn.sort for turn in turns)),
        "langs": dict(Counter(turn.lang for turn in turns)),
        "histories": dict(Counter(turn.history for turn in turns if turn.history)),
        "different_texts": len({turn.text for turn in turns}),
    }


def _setup(run: Run, name: str, rows: Rows, straight: Rows | None) -> dict[str, Any]:
    routes: dict[str, list[int]] = defaultdict(list)
    kinds: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for place, row in enumerate(rows):
        routes[row.route].append(place)
        kinds[row.turn.kind].append(place)

    def part(places: Sequence[int]) -> dict[str, Any]:
        return _part([rows[p] for p in places], [straight[p] for p in places] if straight else [])

    return {
        **_times(rows),
        "quantiles": {
            what: [round(float(np.percentile(_ms(rows, what), p)), 1) for p in range(0, 101, 2)]
            for what in ("first_ms", "whole_ms")
        },
        "failed": sum(not row.heard.ok for row in rows),
        "accounts": _accounts(run, name, rows),
        "local": sum(row.agent is None for row in rows),
        "llm": llm_of(rows),
        "tools": tools_of(rows),
        "context": _context(rows),
        "wrong": {
            "turns": sum(bool(row.wrong) for row in rows),
            "why": dict(Counter(tag for row in rows for tag in row.wrong)),
            "which": [_shown(row) for row in rows if row.wrong],
        },
        "routes": {route: part(places) for route, places in sorted(routes.items())},
        "kinds": {kind: part(places) for kind, places in kinds.items()},
        "hints_ignored": dict(
            Counter(row.agent["hints_ignored"] for row in rows if row.agent and row.agent["hints_ignored"])
        ),
        "machine": {**run.machine.of(name, len(rows)), **_beyond(rows, name), **_late(run, name)},
    }


def _accounts(run: Run, name: str, rows: Rows) -> dict[str, list[int]]:
    """The same things counted from two sides; where they differ, the figures are not to be trusted."""
    forwarded = [row for row in rows if row.path == "agent"]
    answered = [row.agent for row in rows if row.agent]
    unfolded = [line for line in answered if "fold" not in line["stages"]]  # whether a summary was kept
    collecting = f"{name}: agent to edge"
    own = {row.heard.request_id for row in rows}
    return {
        "forwarded, heard and logged": [len(forwarded), len(answered)],
        "answers' tokens, heard and logged": [
            sum(row.heard.completion_tokens or 0 for row in forwarded),
            sum(line["generated_tokens"] or 0 for line in answered),
        ],
        "LLM calls, by the route and logged": [
            sum(1 + (line["route"] == "planned") for line in unfolded),
            sum(line["llm_calls"] for line in unfolded),
        ],
        "Frontdesk's tool calls, on the network and at the tools": [
            sum(len(row.calls) for row in rows),
            sum(line["path"].startswith("/tools/") and line["request_id"] in own
                for line in run.logs[name]["agent"]),
        ],
        "results asked for, on the network and logged": [
            sum(line.get("leg") == collecting and "target" in line for line in run.told),
            sum("prefetch" in call for line in answered for call in line["tools"]),
        ],
    }  # fmt: skip


def _shown(row: Judged) -> dict[str, Any]:
    taken_for = row.edge["topic"] if row.edge else None
    return {"text": row.turn.text, "route": row.route, "topics": row.turn.topics, "topic": taken_for,
            "why": row.wrong}  # fmt: skip


def _ms(rows: Rows, what: str) -> list[float]:
    return [getattr(row.heard, what) for row in rows if row.heard.ok]


def _times(rows: Rows) -> dict[str, Any]:
    return {what: spread(_ms(rows, what)) for what in ("first_ms", "whole_ms")}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles, rounded to 0.1; nothing of nothing."""
    if not values:
        return {}
    found = {f"p{p}": round(float(np.percentile(values, p)), 1) for p in PERCENTILES}
    return {"mean": round(float(np.mean(values)), 1), **found}


def _part(rows: Rows, straight: Rows) -> dict[str, Any]:
    """Some turns of a set-up, and how long the same turns took straight."""
    beside = {f"straight_{what}": spread(_ms(straight, what)) for what in ("first_ms", "whole_ms")}
    return {
        "turns": len(rows),
        **_times(rows),
        **(beside if straight else {}),
        "llm_calls": sum(row.agent["llm_calls"] for row in rows if row.agent),
        "wrong": sum(bool(row.wrong) for row in rows),
        "reasons": dict(Counter(row.heard.reason for row in rows if row.heard.reason).most_common()),
    }


def llm_of(rows: Rows) -> dict[str, Any]:
    """LLM calls by kind, and tokens. What is neither a plan nor the answer wrote a summary (a fold)."""
    lines = [row.agent for row in rows if row.agent is not None]
    kinds = Counter[str]()
    for line in lines:
        own = {kind: int(kind in line["stages"]) for kind in ("plan", "repair")}
        own["answer"] = int(line["generated_tokens"] is not None)
        kinds.update(own)
        kinds["fold"] += line["llm_calls"] - sum(own.values())
    told = {name: sum(line[name] or 0 for line in lines)
            for name in ("prompt_tokens", "cached_tokens", "completion_tokens")}  # fmt: skip
    return {"calls": sum(line["llm_calls"] for line in lines), "kinds": dict(kinds), **told}


def tools_of(rows: Rows) -> dict[str, Any]:
    """Tool calls by who made them and what became of them.

    ``in_vain``: calls of Frontdesk's whose tool the turn does not need, or whose result nobody took.
    """
    agent = [call for row in rows if row.agent for call in row.agent["tools"]]
    edge = [(row, call) for row in rows if row.edge for call in row.edge.get("tools", ())]
    collected = [call for call in agent if call.get("prefetch") == "collected"]
    gains: dict[str, list[float]] = defaultdict(list)
    outcomes = Counter[str]()
    for _, call in edge:
        outcomes[f"{call['level']}: {call['outcome']}{' (kept)' if call.get('cached') else ''}"] += 1
        if call.get("gain_ms") is not None:
            gains[call["name"]].append(call["gain_ms"])
    prefetched = sum(call["outcome"] == "prefetched" for _, call in edge)
    not_needed = sum(call["name"] not in row.turn.tools for row, call in edge)
    return {
        "needed": sum(len(row.turn.calls) for row in rows),
        "by_agent": len(agent) - len(collected),
        "by_agent_outcomes": dict(Counter(call["outcome"] for call in agent)),
        "by_edge": len(edge),
        "by_edge_outcomes": dict(outcomes),
        "requests_of_edge": sum(len(row.calls) for row in rows),
        "prefetched": prefetched,
        "collected": len(collected),
        "not_collected": dict(
            Counter(c["prefetch"] for c in agent if "prefetch" in c and c not in collected)
        ),
        "dropped": prefetched - len(collected),
        "not_needed": not_needed,
        "expected_gain_ms": {name: round(float(np.mean(each))) for name, each in sorted(gains.items())},
    }


def _context(rows: Rows) -> dict[str, Any]:
    """Conversations that Frontdesk made shorter, by its own estimate of tokens."""
    used = [row.edge["context"] for row in rows if row.edge and row.edge.get("context")]
    known = [each for each in used if each["before"] is not None]
    return {
        "counted": len(known),
        "pruned": sum(each["after"] < each["before"] for each in known),
        "before": sum(each["before"] for each in known),
        "after": sum(each["after"] for each in known),
        "unpruned": dict(Counter(each["unpruned"] for each in used if each["unpruned"])),
    }


def _beyond(rows: Rows, name: str) -> dict[str, Any]:
    """Milliseconds beyond what was to be waited for, where that is known to the millisecond.

    ``agent``: of its first token, in turns without tools and summaries, against the scripted waits; ``way``:
    between the agent's first token and the user's, against the legs. Frontdesk's own work is in ``way``.
    """
    legs = LEGS["user to centre"] if name == STRAIGHT else LEGS["user to edge"] + LEGS["edge to centre"]
    agent, way = [], []
    for row in rows:
        line = row.agent
        if line is None or line["tools"] or "fold" in line["stages"] or line["first_token_ms"] is None:
            continue
        waits = LLM["SCRIPTED_PLANNING_MS"] * ("plan" in line["stages"]) + LLM["SCRIPTED_FIRST_TOKEN_MS"]
        read = line["prompt_tokens"] - line["cached_tokens"]
        agent.append(line["first_token_ms"] - waits - read * LLM["SCRIPTED_PREFILL_MS_PER_TOKEN"])
        if row.edge is None or not row.edge.get("tools"):
            way.append(row.heard.first_ms - line["first_token_ms"] - legs)
    return {"beyond_ms": {"agent": spread(agent), "way": spread(way)}}


def _late(run: Run, name: str) -> dict[str, Any]:
    legs = {line["leg"]: line["late_ms"] for line in run.told if "late_ms" in line and line["chunks"]}
    own = {leg.partition(": ")[2]: late for leg, late in legs.items() if leg.startswith(f"{name}: ")}
    return {"legs_late_ms": own, "asked_late_ms": spread([heard.late_ms for heard in run.heard[name]])}


def against_straight(rows: Rows, straight: Rows) -> dict[str, Any]:
    """Changes of means, with 95 % intervals from resampled turns, and which goals are reached."""
    calls = [_calls_of(each) for each in (rows, straight)]
    both = [(a, b) for a, b in zip(rows, straight, strict=True) if a.heard.ok and b.heard.ok]
    rows, straight = [a for a, _ in both], [b for _, b in both]
    found: dict[str, Any] = {
        what: change(_ms(rows, what), _ms(straight, what)) for what in ("first_ms", "whole_ms")
    }
    found["llm_calls"] = change(*calls)
    found["prompt_tokens"] = change(*(_tokens_of(each) for each in (rows, straight)))
    wrong = sum(bool(row.wrong) for row in rows)
    p95 = float(np.percentile(_ms(rows, "first_ms"), 95))
    found["reached"] = {
        "mean first token": found["first_ms"]["change"] <= GOALS["mean"],
        "mean whole": found["whole_ms"]["change"] <= GOALS["mean"],
        "P95 of first token": p95 <= GOALS["p95_first_ms"],
        "LLM calls": found["llm_calls"]["change"] <= GOALS["llm_calls"],
        "wrong answers": wrong <= GOALS["wrong"],
    }
    return found


def _calls_of(rows: Rows) -> list[float]:
    return [row.agent["llm_calls"] if row.agent else 0 for row in rows]


def _tokens_of(rows: Rows) -> list[float]:
    return [row.agent["prompt_tokens"] or 0 if row.agent else 0 for row in rows]


def change(new: Sequence[float], old: Sequence[float]) -> dict[str, Any]:
    """The relative change of a mean, both sides resampled by the same turns."""
    a, b = np.array(new, float), np.array(old, float)
    drawn = np.random.default_rng(0).integers(0, len(a), (_RESAMPLES, len(a)))
    low, high = np.percentile(a[drawn].mean(1) / b[drawn].mean(1) - 1, (2.5, 97.5))
    return {
        "change": round(float(a.mean() / b.mean() - 1), 4),
        "interval": [round(float(low), 4), round(float(high), 4)],
    }
