"""What a log says of turns: which would have been answered here, which were, and why the rest were not."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from edge.observed_tools import ToolUse, add_calls
from edge.observed_tools import lines as tool_lines

CHAT = "/v1/chat/completions"
_LOCAL = ("faq", "tool", "cache")
_SHOWN = 12
_ABSURD = 1e12


@dataclass(slots=True)
class Observed:
    """Counts over the chat turns of a log.

    ``local``: turns whose decision, observed or real, was to answer here. ``waited_ms``: how long the
    first byte took for those of them that were forwarded all the same, which is what answering here
    would have saved. ``tokens``: the agent's tokens for the same turns. ``skipped``: lines that are no
    record of a chat turn that came to an end.
    """

    turns: int = 0
    local: int = 0
    unproven: int = 0
    skipped: int = 0
    by_lang: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    topics: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    waited_ms: list[float] = field(default_factory=list)
    tokens: int = 0
    tools: dict[str, ToolUse] = field(default_factory=dict)

    def add(self, record: dict[str, Any]) -> None:
        """Count one chat turn."""
        made = record["observed"] if isinstance(record.get("observed"), dict) else record
        withheld = made is not record
        local = made.get("path") in _LOCAL
        self.turns += 1
        self.local += local
        self.unproven += local and made.get("unproven") is True
        unread = not withheld and record["reason"] == "observe"
        self.modes[str(record["reason"]) if withheld or unread else "decided"] += 1
        counts = self.by_lang[str(made.get("lang") or "other")]
        counts[0] += 1
        counts[1] += local
        if not local:
            self.reasons["unreadable" if unread else str(made.get("reason"))] += 1
            return
        self.topics[str(made.get("topic"))] += 1
        if withheld and record.get("outcome", "ok") == "ok":
            self.waited_ms += _number(record.get("first_byte_ms"))
            self.tokens += int(sum(_number(record.get("completion_tokens"))))

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        p50, p90 = _p50_p90(self.waited_ms)
        return {
            "turns": self.turns,
            "local": self.local,
            "local_share": self.local / self.turns if self.turns else None,
            "unproven": self.unproven,
            "by_lang": {k: {"turns": n, "local": local} for k, (n, local) in sorted(self.by_lang.items())},
            "why_not": dict(self.reasons.most_common()),
            "topics": dict(self.topics.most_common()),
            "modes": dict(self.modes.most_common()),
            "waited_ms": {"turns": len(self.waited_ms), "p50": p50, "p90": p90},
            "completion_tokens": self.tokens,
            "tools": {name: use.as_dict() for name, use in sorted(self.tools.items())},
            "skipped_lines": self.skipped,
        }


def read_log(lines: Iterable[str]) -> Observed:
    """Counts the chat turns of a JSON log; other lines are counted as skipped."""
    observed = Observed()
    for line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            add_calls(observed.tools, record)
        ended = isinstance(record, dict) and _is_chat(record.get("route")) and "reason" in record
        if ended and record["reason"] != "bypass":
            observed.add(record)
        elif not (isinstance(record, dict) and record.get("tools")):
            observed.skipped += 1
    return observed


def _is_chat(route: object) -> bool:
    return isinstance(route, str) and route.rstrip("/") == CHAT


def _number(value: object) -> list[float]:
    """The value as a list of one, if it is a number that can have been measured."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _ABSURD
    return [float(value)] if good else []  # type: ignore[arg-type]


def table(observed: Observed) -> str:
    """The counts for people."""
    if not observed.turns:
        return (
            f"No chat turn in this log ({observed.skipped} other lines): serve with `--answering observe` "
            'log = "json", and keep what the server writes to stderr.'
        )
    share = observed.local / observed.turns
    lines = [
        f"{observed.turns} turns, {observed.local} ({share:.1%}) would be or were answered here"
        + (f", {observed.unproven} of these unproven" if observed.unproven else "")
    ]
    for lang, (turns, local) in sorted(observed.by_lang.items()):
        lines.append(f"  {lang:<6}{local:>6} of {turns:<6}{local / turns:>7.1%}")
    if observed.waited_ms:
        p50, p90 = _p50_p90(observed.waited_ms)
        tokens = f", and cost {observed.tokens} completion tokens" if observed.tokens else ""
        lines.append(
            f"These waited {p50:.0f} ms for their first byte (half of them), {p90:.0f} ms (90 %){tokens}."
        )
    lines += _ranked("Why not", observed.reasons, observed.turns)
    lines += _ranked("Topics answered", observed.topics, observed.turns)
    lines += tool_lines(observed.tools)
    if observed.skipped:
        lines.append(f"\n{observed.skipped} lines are no judged chat turns and were skipped.")
    return "\n".join(lines)


def _ranked(title: str, counts: Counter[str], turns: int) -> list[str]:
    if not counts:
        return []
    shown = [(ascii(name)[1:-1], count) for name, count in counts.most_common(_SHOWN)]
    width = max(len(name) for name, _ in shown)
    lines = [f"\n{title}"]
    lines += [f"  {name:<{width}}{count:>7}{count / turns:>8.1%}" for name, count in shown]
    rest = len(counts) - _SHOWN
    return [*lines, f"  … and {rest} more (--json has all)"] if rest > 0 else lines


def _p50_p90(values: list[float]) -> tuple[float, float] | tuple[None, None]:
    if not values:
        return None, None
    cuts = quantiles(values, n=10, method="inclusive") if len(values) > 1 else [values[0]] * 9
    return round(cuts[4], 3), round(cuts[8], 3)
