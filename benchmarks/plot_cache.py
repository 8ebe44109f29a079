"""Hit rate over the rate of false hits, as SVG.

python benchmarks/plot_cache.py benchmarks/results/cache.json -o benchmarks/results/cache.svg
"""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 320, 50, 150, 20, 40
INK, GREY = "#333", "#ddd"
WAYS = {
    "ours": ("ours", "#1f6feb", ""),
    "tuned ours": ("ours, tuned", "#1f6feb", "5 3"),
    "ours without guard": ("without the guard", "#8957e5", ""),
    "e5_small cosine": ("e5-small, cosine", "#9a6700", ""),
    "cosine": ("cosine", "#cf222e", ""),
    "tuned cosine": ("cosine, tuned", "#cf222e", "5 3"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    curves = json.loads(args.result.read_text("utf-8"))["curve"]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    args.out.write_text("\n".join([head, *drawn(curves), "</svg>"]) + "\n", "utf-8")


def drawn(curves: dict[str, list[list[float]]]) -> Iterator[str]:
    rates = [rate for rate, _ in next(iter(curves.values()))]
    highest = math.ceil(10 * max(hit for curve in curves.values() for _, hit in curve)) / 10

    def at(rate: float, hit: float) -> tuple[float, float]:
        along = math.log(rate / rates[0]) / math.log(rates[-1] / rates[0])
        x = LEFT + along * (WIDTH - LEFT - RIGHT)
        return round(x, 1), round(HEIGHT - BOTTOM - hit / highest * (HEIGHT - TOP - BOTTOM), 1)

    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    for rate in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1):
        x, y = at(rate, 0)
        yield f'<line x1="{x}" x2="{x}" y1="{TOP}" y2="{y}" stroke="{GREY}"/>'
        yield text(x, y + 14, f"{rate:.1%}".replace(".0%", "%"))
    for tenth in range(int(10 * highest) + 1):
        x, y = at(rates[0], tenth / 10)
        yield f'<line x1="{x}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="{GREY}"/>'
        yield text(x - 6, y + 3, f"{tenth * 10}%", "end")
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "different pairs that are hit")
    yield text(LEFT, TOP - 6, "same pairs that are hit", "start")
    ends: list[tuple[float, str, str]] = []
    for way, (words, colour, dashes) in WAYS.items():
        if way in curves:
            points = [at(rate, hit) for rate, hit in curves[way]]
            path = " ".join(f"{x},{y}" for x, y in points)
            dash = f' stroke-dasharray="{dashes}"' if dashes else ""
            yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
            ends.append((points[-1][1], words, colour))
    last = -math.inf
    for y, words, colour in sorted(ends):
        last = max(y, last + 12)
        yield text(WIDTH - RIGHT + 6, last + 3, words, "start", colour)


def text(x: float, y: float, words: str, anchor: str = "middle", colour: str = INK) -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="10"'
    return f'<text {place} fill="{colour}">{escape(words)}</text>'


if __name__ == "__main__":
    main()
