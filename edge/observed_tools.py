"""What a log says of tools: how often each was called, how long it took, what calling it early gains."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

_MOST_TOOLS = 1000  # a log can hold anything
_ABSURD = 1e12


@dataclass(slots=True)
class ToolUse:
    """The calls of one tool. ``ms``: of calls that brought a result; ``gains``: expected of early ones."""

    outcomes: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    ms: list[float] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    cached: int = 0

    @property
    def prefetched(self) -> int:
        """Calls that were left for the agent."""
        return self.outcomes["prefetched"]

    @property
    def collected(self) -> int:
        """Those of them that the agent took."""
        return self.outcomes["collected"]

    @property
    def failed(self) -> int:
        """Calls without a result."""
        return self.outcomes.total() - sum(self.outcomes[name] for name in ("ok", "prefetched", "collected"))

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON can hold it. ``dropped``: prefetched and, so far, not collected."""
        p50, p95 = _p50_p95(self.ms)
        return {
            "calls": dict(self.levels.most_common()),
            "outcomes": dict(self.outcomes.most_common()),
            "cached": self.cached,
            "ms": {"calls": len(self.ms), "p50": p50, "p95": p95},
            "prefetched": self.prefetched,
            "collected": self.collected,
            "dropped": max(0, self.prefetched - self.collected),
            "expected_gain_ms": round(sum(self.gains) / len(self.gains), 3) if self.gains else None,
        }


def add_calls(tools: dict[str, ToolUse], record: Mapping[str, Any]) -> None:
    """Count the calls of one line of a log, a chat turn's or a collection's."""
    for call in _calls(record):
        name, level, outcome = (call.get(key) for key in ("name", "level", "outcome"))
        if not (isinstance(name, str) and isinstance(level, str) and isinstance(outcome, str)):
            continue
        if name not in tools and len(tools) >= _MOST_TOOLS:
            continue
        use = tools.setdefault(name, ToolUse())
        use.outcomes[outcome] += 1
        use.levels[level] += outcome != "collected"
        use.cached += call.get("cached") is True
        if outcome in ("ok", "collected") and call.get("cached") is not True and _is_number(call.get("ms")):
            use.ms.append(float(call["ms"]))
        if _is_number(call.get("gain_ms")):
            use.gains.append(float(call["gain_ms"]))


def lines(tools: Mapping[str, ToolUse]) -> list[str]:
    """The calls for people, the most called tool first."""
    if not tools:
        return []
    named = sorted(tools.items(), key=lambda item: (-item[1].levels.total(), item[0]))
    width = max(len("Tools"), *(len(ascii(name)) - 2 for name, _ in named)) + 2
    heads = ("calls", "failed", "cached", "p50 ms", "p95 ms", "prefetched", "collected", "expected gain ms")
    shown = [f"\n{'Tools':<{width}}" + "".join(f"{head:>{len(head) + 2}}" for head in heads)]
    for name, use in named:
        told = use.as_dict()
        cells = (
            use.levels.total(), use.failed, use.cached, told["ms"]["p50"], told["ms"]["p95"], use.prefetched,
            use.collected, told["expected_gain_ms"],
        )  # fmt: skip
        row = zip(heads, cells, strict=True)
        shown.append(
            f"  {ascii(name)[1:-1]:<{width - 2}}" + "".join(f"{_cell(c):>{len(h) + 2}}" for h, c in row)
        )
    return shown


def _calls(record: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    calls = record.get("tools")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _ABSURD


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _p50_p95(values: list[float]) -> tuple[float, float] | tuple[None, None]:
    if not values:
        return None, None
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else [values[0]] * 19
    return round(cuts[9], 3), round(cuts[18], 3)
