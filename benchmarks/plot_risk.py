"""The results of risk.py as an SVG of three panels.

    python benchmarks/plot_risk.py benchmarks/results/risk.json -o FILE.svg

How often a chosen threshold breaks the stated rate, a dot for each setting of the simulation; how much of
what is possible is answered; and the rate of wrong answers on the test halves of public sets, stated = 1.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plot_router import BLUE, GREY, INK, text
from risk_table import USEFUL, mean

WIDTH, HEIGHT = 330, 250  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 118, 16, 34, 38  # its margins
ORANGE, GREEN, PURPLE = "#d9730d", "#2b8a3e", "#8250df"
COLOURS = {
    "shipped": BLUE,
    "pooled": GREEN,
    "strata": PURPLE,
    "strata_sum": "#999",
    "unordered": "#b08800",
    "observed": ORANGE,
}
WAYS = {
    "frontdesk": BLUE,
    "frontdesk, observed rate": ORANGE,
    "nearest_minilm, observed rate": PURPLE,
    "nearest_bge, observed rate": GREEN,
}
LARGEST = 3.0  # times the stated rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    result = json.loads(args.result.read_text("utf-8"))
    panels: Sequence[Iterator[str]] = (
        broken(result["simulation"]),
        answered(result["simulation"]),
        public(result["sets"]),
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="10">',
        f'<rect width="{WIDTH * len(panels)}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for place, panel in enumerate(panels):
        parts += [f'<g transform="translate({place * WIDTH} 0)">', *panel, "</g>"]
    args.out.write_text("\n".join([*parts, "</svg>"]) + "\n", "utf-8")


def broken(found: dict[str, Any]) -> Iterator[str]:
    """Shares are drawn by their square roots, so that small ones can be told apart."""

    def at(share: float) -> float:
        return across(math.sqrt(share))

    yield from frame("a chosen threshold breaks the stated rate", "share of draws; a dot for each setting")
    yield from ruled(at, ((0, "0"), (found["delta"], "δ = 5%"), (0.25, "25%"), (0.5, "50%"), (1, "1")))
    yield line(at(found["delta"]), TOP, at(found["delta"]), HEIGHT - BOTTOM, INK)
    for place, (name, colour) in enumerate(COLOURS.items()):
        y = row(place, len(COLOURS))
        yield text(LEFT - 8, y + 3, name, "end")
        for setting in found["settings"]:
            yield dot(at(setting["methods"][name]["broken"]), y, colour, 2.5)


def answered(found: dict[str, Any]) -> Iterator[str]:
    rows = [
        one
        for one in found["settings"]
        if one["design"] == "fixed" and one["shape"] in USEFUL and one["max_wrong"] == 0.01
    ]
    sizes = sorted({one["questions"] for one in rows})

    def at(questions: float) -> float:
        return across(math.log(questions / sizes[0]) / math.log(sizes[-1] / sizes[0]))

    yield from frame("answered, of what is possible, at 1 %", "calibration questions")
    yield from ruled(at, [(size, f"{size:,}") for size in sizes])
    for share in (0, 0.25, 0.5, 0.75, 1):
        yield text(LEFT - 8, up(share) + 3, f"{share:.0%}", "end")
        yield line(LEFT, up(share), WIDTH - RIGHT, up(share), GREY)
    for name, colour in COLOURS.items():
        if name in ("unordered", "observed"):  # what breaks the rate proves nothing
            continue
        points = [
            (
                at(size),
                up(
                    mean(o["methods"][name]["coverage"] / o["oracle"] for o in rows if o["questions"] == size)
                ),
            )
            for size in sizes
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
        yield from (dot(x, y, colour, 2.5) for x, y in points)
    for place, name in enumerate(list(COLOURS)[:4]):
        yield dot(LEFT + 10, TOP + 10 + 13 * place, COLOURS[name], 3)
        yield text(LEFT + 18, TOP + 13 + 13 * place, name, "start")


def public(found: dict[str, Any]) -> Iterator[str]:
    def at(times: float) -> float:
        return across(min(times, LARGEST) / LARGEST)

    yield from frame(
        "wrong answers on public sets, stated rate = 1", "on test halves; hollow: nothing proven"
    )
    yield from ruled(at, ((0, "0"), (1, "1"), (2, "2"), (LARGEST, f"≥ {LARGEST:g}")))
    yield line(at(1), TOP, at(1), HEIGHT - BOTTOM, INK)
    rows = [(name, promise) for name, one in found.items() for promise in one["promises"]]
    for place, (name, promise) in enumerate(rows):
        max_wrong, oos = promise["max_wrong"], promise["traffic"]["out_of_scope"]
        y = row(place, len(rows) + 3)
        yield text(LEFT - 8, y + 3, f"{name}, {oos:.0%} oos, {max_wrong:.0%}", "end", size=8)
        for way, colour in WAYS.items():
            if way in promise["ways"]:
                rate = promise["ways"][way]["wrong_rate"]
                yield dot(at((rate or 0) / max_wrong), y, colour, 3.2, hollow=rate is None)
    for place, (way, colour) in enumerate(WAYS.items()):
        x, y = LEFT + 8 + 96 * (place % 2), HEIGHT - BOTTOM - 22 + 12 * (place // 2)
        yield dot(x, y, colour, 3)
        yield text(x + 6, y + 3, way.replace(" rate", "").replace("nearest_", ""), "start", size=8)


def frame(title: str, below: str) -> Iterator[str]:
    yield text(WIDTH / 2, 18, title, weight="bold")
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, below)


def ruled(at: Callable[[float], float], ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    for value, words in ticks:
        yield line(at(value), TOP, at(value), HEIGHT - BOTTOM, GREY)
        yield text(at(value), HEIGHT - BOTTOM + 13, words)


def across(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def up(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def row(place: int, count: int) -> float:
    return TOP + (place + 0.5) * (HEIGHT - BOTTOM - TOP) / count


def line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width=".6"/>'
    )


def dot(x: float, y: float, colour: str, radius: float, hollow: bool = False) -> str:
    fill = "#fff" if hollow else colour
    opacity = "" if hollow else ' fill-opacity=".55"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{colour}"{opacity}/>'


if __name__ == "__main__":
    main()
