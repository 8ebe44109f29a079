"""Accuracy against mean time, a point for each exit threshold: an SVG of every set in a result of router.py.

    python benchmarks/plot_router.py benchmarks/results/router_train.json -o FILE.svg

Time is relative to a run through all layers in the same interleaved round. The filled point is what a desk
ships with: thresholds of its own for each topic.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

COLUMNS = 3
WIDTH, HEIGHT = 300, 210  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 30, 36  # its margins
INK, GREY, BLUE = "#222", "#ccc", "#1f6feb"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    sets = json.loads(args.result.read_text("utf-8"))["sets"]
    columns = min(COLUMNS, len(sets))
    width, height = columns * WIDTH, -(-len(sets) // columns) * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, (name, figures) in enumerate(sets.items()):
        row, column = divmod(place, columns)
        parts.append(f'<g transform="translate({column * WIDTH} {row * HEIGHT})">')
        parts += panel(name, figures["curve"])
        parts.append("</g>")
    args.out.write_text("\n".join([*parts, "</svg>"]) + "\n", "utf-8")


def panel(name: str, curve: list[dict[str, Any]]) -> Iterator[str]:
    accuracies = [point["in_scope_accuracy"] for point in curve]
    low, high = min(accuracies) - 0.3, max(accuracies) + 0.3
    longest = max(1.0, *(point["time_ratio"] for point in curve))

    def at(point: dict[str, Any]) -> tuple[float, float]:
        share = (point["in_scope_accuracy"] - low) / (high - low)
        x = LEFT + point["time_ratio"] / longest * (WIDTH - LEFT - RIGHT)
        return round(x, 1), round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    yield text(LEFT, 18, name, "start", weight="bold")
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "mean time a text, all layers = 1")
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, _ = at({"time_ratio": tick, "in_scope_accuracy": low})
        yield f'<line x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="{GREY}" stroke-width=".5"/>'
        yield text(x, HEIGHT - BOTTOM + 13, f"{tick:g}")
    for tick in (low + 0.3, (low + high) / 2, high - 0.3):
        _, y = at({"time_ratio": 0, "in_scope_accuracy": tick})
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="{GREY}" stroke-width=".5"/>'
        yield text(LEFT - 5, y + 3, f"{tick:.1f}", "end")
    swept = [point for point in curve if point["threshold"] != "shipped"]
    path = " ".join(f"{x},{y}" for x, y in map(at, swept))
    yield f'<polyline points="{path}" fill="none" stroke="{BLUE}" stroke-width="1.2"/>'
    for point in curve:
        x, y = at(point)
        shipped = point["threshold"] == "shipped"
        radius, fill = (4, BLUE) if shipped else (2.5, "#fff")
        yield f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}" stroke="{BLUE}"/>'
        yield text(x, y + (14 if shipped else -6), point["threshold"], size=8)


def text(
    x: float, y: float, words: str, anchor: str = "middle", weight: str = "normal", size: int = 10
) -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
    return f'<text {place} fill="{INK}">{escape(words)}</text>'


if __name__ == "__main__":
    main()
