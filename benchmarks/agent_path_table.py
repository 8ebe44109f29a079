"""The results of agent_path.py as Markdown tables.

python benchmarks/agent_path_table.py benchmarks/results/agent_path.json
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Found = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    print(table(json.loads(parser.parse_args().result.read_text("utf-8"))))


def table(found: Found) -> str:
    """All tables, an empty line between two."""
    parts = [times(found), goals(found), parts_of(found, "kinds", "asked"), parts_of(found, "routes", "path")]
    parts += [llm(found), tools(found), gains(found), wrong(found), machine(found)]
    return "\n\n".join("\n".join(part) for part in parts)


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(*names: str) -> Iterator[str]:
    yield row(*names)
    yield "|" + "---|" * len(names)


def ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def percent(value: float) -> str:
    return f"{value:+.1%}".replace("-", "−")


def times(found: Found) -> Iterator[str]:
    """The two times of each set-up, in ms."""
    yield from head("", "time", "mean", "P50", "P90", "P95", "P99")
    for name, one in found["setups"].items():
        for what, words in (("first_ms", "first token"), ("whole_ms", "whole")):
            spread = one[what]
            shown = (ms(spread[key]) for key in ("mean", "p50", "p90", "p95", "p99"))
            yield row(name if what == "first_ms" else "", words, *shown)


def goals(found: Found) -> Iterator[str]:
    """Changes of means against straight, with 95 % intervals, and whether the goals are reached."""
    yield from head(
        "", "mean first token", "mean whole", "P95 of first token", "LLM calls", "prompt tokens", "wrong"
    )
    for name, one in found["against_straight"].items():
        own, reached = found["setups"][name], one["reached"]

        def cell(what: str, goal: str | None, one: Found = one, reached: Found = reached) -> str:
            low, high = (percent(end) for end in one[what]["interval"])
            told = "" if goal is None else " ✓" if reached[goal] else " ✗"
            return f"{percent(one[what]['change'])} ({low} … {high}){told}"

        yield row(
            name,
            cell("first_ms", "mean first token"),
            cell("whole_ms", "mean whole"),
            f"{ms(own['first_ms']['p95'])} ms {'✓' if reached['P95 of first token'] else '✗'}",
            cell("llm_calls", "LLM calls"),
            cell("prompt_tokens", None),
            f"{own['wrong']['turns']} {'✓' if reached['wrong answers'] else '✗'}",
        )


def parts_of(found: Found, which: str, word: str) -> Iterator[str]:
    """Some of the turns of each set-up, beside the same turns straight: those in brackets."""
    yield from head(
        "", word, "turns", "first token, mean", "P95", "whole, mean", "P95", "LLM calls a turn", "wrong"
    )
    for name, one in found["setups"].items():
        for place, (part, own) in enumerate(one[which].items()):
            if not own["first_ms"]:
                continue
            cells = []
            for what in ("first_ms", "whole_ms"):
                beside = own.get(f"straight_{what}", {})
                for key in ("mean", "p95"):
                    straight = f" ({ms(beside[key])})" if beside and name != "straight" else ""
                    cells.append(ms(own[what][key]) + straight)
            calls = f"{own['llm_calls'] / own['turns']:.2f}"
            yield row("" if place else name, part, own["turns"], *cells, calls, own["wrong"])


def llm(found: Found) -> Iterator[str]:
    kinds = ("plan", "repair", "fold", "answer")
    names = ("prompt_tokens", "cached_tokens", "completion_tokens")
    yield from head("", "LLM calls", *kinds, *(name.replace("_", " ") for name in names))
    for name, one in found["setups"].items():
        own = one["llm"]
        counts = (f"{own['kinds'].get(kind, 0):,}" for kind in kinds)
        yield row(name, f"{own['calls']:,}", *counts, *(f"{own[key]:,}" for key in names))


def tools(found: Found) -> Iterator[str]:
    """``needed``: by the labels, all turns together."""
    yield from head(
        "", "needed", "made by the agent", "made by Frontdesk", "answered", "injected", "prefetched",
        "collected", "dropped", "not needed", "failed",
    )  # fmt: skip
    for name, one in found["setups"].items():
        own = one["tools"]
        outcomes = own["by_edge_outcomes"]
        good = {
            level: sum(n for key, n in outcomes.items() if key.startswith(f"{level}: ok"))
            for level in ("answer", "inject")
        }
        failed = sum(outcomes.values()) - sum(good.values()) - own["prefetched"]
        yield row(
            name, own["needed"], own["by_agent"], own["by_edge"], good["answer"], good["inject"],
            own["prefetched"], own["collected"], own["dropped"], own["not_needed"], failed,
        )  # fmt: skip


def gains(found: Found) -> Iterator[str]:
    """What Frontdesk expected of a prefetch, as it logged it; the last set-up that has tools."""
    last = [one["tools"]["expected_gain_ms"] for one in found["setups"].values()][-1]
    yield from head("tool", "takes, ms", "expected gain of calling it beforehand, ms")
    for name, gain in last.items():
        yield row(name, found["tools_ms"].get(name), gain)


def wrong(found: Found) -> Iterator[str]:
    yield from head("", "question", "path", "its topic", "taken for", "why")
    for name, one in found["setups"].items():
        for each in one["wrong"]["which"]:
            topics = ", ".join(each["topics"])
            yield row(name, each["text"], each["route"], topics, each["topic"], ", ".join(each["why"]))


def machine(found: Found) -> Iterator[str]:
    """How busy the machine was, and how much later than the stated waits things happened, in ms."""
    yield from head(
        "", "machine busy", "by us", "CPU ms a turn: users", "network", "Frontdesk", "agent",
        "users' loop late, P99", "agent beyond its waits, P50", "P99", "way beyond its legs, P50", "P99",
    )  # fmt: skip
    for name, one in found["setups"].items():
        own = one["machine"]
        cpu = (own["cpu_ms_a_turn"].get(role, "–") for role in ("users", "network", "edge", "agent"))
        beyond: Sequence[Any] = [
            own["beyond_ms"][what].get(key, "–") for what in ("agent", "way") for key in ("p50", "p99")
        ]
        yield row(
            name, f"{own['machine_busy']:.0%}", f"{own['ours']:.0%}", *cpu, own["lag_ms"]["p99"], *beyond
        )


if __name__ == "__main__":
    main()
