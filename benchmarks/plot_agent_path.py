"""The results of agent_path.py as an SVG of three panels, readable on light and dark pages.

    python benchmarks/plot_agent_path.py benchmarks/results/agent_path.json -o FILE.svg

The share of turns that had their first token, and their last one, by a time; and LLM calls a turn, by kind.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 340, 270  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 42, 14, 34, 40  # its margins
# Greys and colours of middle lightness: nothing is drawn behind them.
INK, GREY = "#767676", "#76767655"
COLOURS = {
    "straight": "#767676",
    "answers": "#2f81f7",
    "hints": "#2b9a3e",
    "tools": "#d9730d",
    "pruning": "#a371f7",
}
KINDS = {"answer": "#2f81f7", "plan": "#d9730d", "fold": "#a371f7", "repair": "#cf4a4a"}
AXES = {"first_ms": (20, 5000), "whole_ms": (20, 10_000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    found = json.loads(args.result.read_text("utf-8"))
    args.out.write_text(svg(found), "utf-8")


def svg(found: dict[str, Any]) -> str:
    panels: Sequence[Iterator[str]] = (
        curves(found, "first_ms", "first token"),
        curves(found, "whole_ms", "whole answer"),
        calls(found),
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="11">'
    ]
    for place, panel in enumerate(panels):
        parts += [f'<g transform="translate({place * WIDTH} 0)">', *panel, "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def curves(found: dict[str, Any], what: str, title: str) -> Iterator[str]:
    """Cumulated shares over a logarithmic axis; the goal of P95 as a dot."""
    low, high = AXES[what]

    def at(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low)
        return LEFT + min(share, 1) * (WIDTH - LEFT - RIGHT)

    yield text(WIDTH / 2, 18, f"{title}: share of turns by then", weight="bold")
    below = "ms, logarithmic" + ("; the circle is the goal" if what == "first_ms" else "")
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, below)
    for value in (20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000):
        if value <= high:
            yield line(at(value), TOP, at(value), HEIGHT - BOTTOM)
            yield text(at(value), HEIGHT - BOTTOM + 14, f"{value:,}", size=9)
    for share in (0, 0.25, 0.5, 0.75, 0.95, 1):
        yield line(LEFT, up(share), WIDTH - RIGHT, up(share))
        yield text(LEFT - 6, up(share) + 4, f"{share:.0%}", "end", size=9)
    if what == "first_ms":
        goal = found["goals"]["p95_first_ms"]
        yield f'<circle cx="{at(goal):.1f}" cy="{up(0.95):.1f}" r="4" fill="none" stroke="{INK}"/>'
    for place, (name, one) in enumerate(found["setups"].items()):
        values = one["quantiles"][what]
        points = [(at(value), up(share / (len(values) - 1))) for share, value in enumerate(values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        colour = COLOURS[name]
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        y = TOP + 12 + 14 * place
        yield f'<line x1="{LEFT + 6}" y1="{y - 4}" x2="{LEFT + 20}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>'  # noqa: E501
        yield text(LEFT + 25, y, f"{name}, mean {one[what]['mean']:,.0f} ms", "start", size=9)


def calls(found: dict[str, Any]) -> Iterator[str]:
    left = 74
    setups = found["setups"]
    most = max(one["llm"]["calls"] for one in setups.values()) / found["turns"]
    scale = (WIDTH - left - RIGHT - 30) / most
    yield text(WIDTH / 2, 18, "LLM calls a turn", weight="bold")
    step = (HEIGHT - TOP - BOTTOM) / len(setups)
    for place, (name, one) in enumerate(setups.items()):
        y, x = TOP + (place + 0.2) * step, float(left)
        yield text(left - 6, y + step * 0.3 + 4, name, "end")
        for kind, colour in KINDS.items():
            width = one["llm"]["kinds"].get(kind, 0) / found["turns"] * scale
            if width:
                yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{step * 0.6:.1f}" fill="{colour}"/>'  # noqa: E501
            x += width
        yield text(x + 5, y + step * 0.3 + 4, f"{one['llm']['calls'] / found['turns']:.2f}", "start")
    shown = [kind for kind in KINDS if any(one["llm"]["kinds"].get(kind) for one in setups.values())]
    for place, kind in enumerate(shown):
        x = left + 62 * place
        yield f'<rect x="{x}" y="{HEIGHT - 18}" width="10" height="10" fill="{KINDS[kind]}"/>'
        yield text(x + 14, HEIGHT - 9, {"fold": "summary"}.get(kind, kind), "start")


def up(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GREY}" stroke-width=".6"/>'
    )


def text(
    x: float, y: float, words: str, anchor: str = "middle", weight: str = "normal", size: int = 11
) -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
    return f'<text {place} fill="{INK}">{escape(words)}</text>'


if __name__ == "__main__":
    main()
