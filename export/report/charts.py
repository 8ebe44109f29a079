"""Charts as inline SVG: a plot with two axes, and what can be drawn into it."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from export.report.words import Html, esc

WIDTH, HEIGHT = 380, 276  # about a phone's, so that letters keep their size there
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 32, 44


@dataclass(frozen=True, slots=True)
class Axis:
    """From ``low`` to ``high`` with ``ticks``; ``label`` writes a tick, ``title`` says what is measured."""

    title: str
    low: float
    high: float
    ticks: tuple[float, ...]
    label: Callable[[float], str]


def axis(title: str, high: float, label: Callable[[float], str], most: int = 5) -> Axis:
    """From 0 to a round number at or above ``high``, with round steps, at most ``most`` of them."""
    high = max(high, 1e-9)
    power = 10.0 ** math.floor(math.log10(high / most))
    step = next(power * m for m in (1, 2, 2.5, 5, 10, 20) if high / (power * m) <= most + 1e-9)
    count = math.ceil(high / step - 1e-9)
    return Axis(title, 0.0, count * step, tuple(i * step for i in range(count + 1)), label)


@dataclass(slots=True)
class Plot:
    """Collects the marks of a chart; points are in the units of the axes.

    Areas and lines are cut off where the axes end, and lie under the points and texts.
    """

    x_axis: Axis
    y_axis: Axis
    areas: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        """Where a value lies from the left."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * _share(value, self.x_axis), 1)

    def y(self, value: float) -> float:
        """Where a value lies from the top."""
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _share(value, self.y_axis), 1)

    def line(self, points: Sequence[tuple[float, float]], css: str) -> None:
        """A line through points."""
        path = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)
        self.areas.append(f'<polyline class="{css}" points="{path}"/>')

    def band(self, rows: Sequence[tuple[float, float, float]], css: str = "band") -> None:
        """The area between two lines: x, lower, upper."""
        lower = [f"{self.x(x)},{self.y(low)}" for x, low, _ in rows]
        upper = [f"{self.x(x)},{self.y(high)}" for x, _, high in reversed(rows)]
        self.areas.append(f'<polygon class="{css}" points="{" ".join([*lower, *upper])}"/>')

    def bar(self, low: float, high: float, top: float, css: str, tip: str) -> None:
        """A bar from the x axis up."""
        left, right, y = self.x(low) + 1.5, self.x(high) - 1.5, self.y(top)
        self.areas.append(
            f'<rect class="{css}" x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" '
            f'height="{HEIGHT - BOTTOM - y:.1f}"><title>{esc(tip)}</title></rect>'
        )

    def dot(self, x: float, y: float, css: str = "dot", radius: float = 4.5, tip: str = "") -> None:
        """A point, with a text that shows under the mouse."""
        title = f"<title>{esc(tip)}</title>" if tip else ""
        self.marks.append(
            f'<circle class="{css}" cx="{self.x(x)}" cy="{self.y(y)}" r="{radius}">{title}</circle>'
        )

    def label(self, x: float, y: float, text: str, css: str = "", by: tuple[float, float] = (0, 0)) -> None:
        """A text at a point, moved ``by`` pixels; left of it where there is no room on its right."""
        at, end = self._side(x, by[0])
        self.marks.append(
            f'<text class="note {css}" x="{at:.1f}" y="{self.y(y) + by[1]:.1f}"{end}>{esc(text)}</text>'
        )

    def box(self, x: float, lines: Sequence[str]) -> None:
        """Lines of text beside an upright line, at the top, the first of them as their head."""
        at, end = self._side(x, 12)
        # About as wide as its letters: Chinese ones are square, others half as wide.
        width = (
            max(sum(13 if ord(c) > 0x2E80 else 7.2 for c in line) for line in map(html.unescape, lines)) + 12
        )
        left = at - width + 6 if end else at - 6
        self.marks.append(
            f'<rect class="box" x="{left:.1f}" y="{TOP + 4}" width="{width:.0f}" '
            f'height="{17 * len(lines) + 8}" rx="6"/>'
        )
        for place, text in enumerate(lines):
            css = "note" if place else "note strong"
            self.marks.append(
                f'<text class="{css}" x="{at:.1f}" y="{TOP + 20 + 17 * place}"{end}>{esc(text)}</text>'
            )

    def _side(self, x: float, by: float) -> tuple[float, str]:
        at = self.x(x)
        return (at - by, ' text-anchor="end"') if at > WIDTH * 0.56 else (at + by, "")

    def upright(self, x: float, css: str) -> None:
        """A line from the x axis to the top."""
        self.line([(x, self.y_axis.low), (x, self.y_axis.high)], css)

    def level(self, y: float, css: str, text: str) -> None:
        """A line across, named at its right end."""
        self.line([(self.x_axis.low, y), (self.x_axis.high, y)], css)
        self.marks.append(
            f'<text class="note {css}-text" x="{WIDTH - RIGHT}" y="{self.y(y) - 6:.1f}" text-anchor="end">'
            f"{esc(text)}</text>"
        )

    def svg(self, id_: str, title: str, description: str) -> Html:
        """The whole chart; the description says in words what it shows."""
        return Html(
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-labelledby="{id_}-t {id_}-d"><title id="{id_}-t">{esc(title)}</title>'
            f'<desc id="{id_}-d">{esc(description)}</desc><clipPath id="{id_}-c"><rect x="{LEFT}" y="{TOP}" '
            f'width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM + 2}"/></clipPath>{self._frame()}'
            f'<g clip-path="url(#{id_}-c)">{"".join(self.areas)}</g>{"".join(self.marks)}</svg>'
        )

    def _frame(self) -> str:
        floor = HEIGHT - BOTTOM
        parts = [f'<text class="axis" x="0" y="14">{esc(self.y_axis.title)}</text>']
        for tick in self.y_axis.ticks:
            y = self.y(tick)
            css = "base" if tick == self.y_axis.low else "grid"
            parts.append(f'<line class="{css}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
            parts.append(
                f'<text class="tick" x="{LEFT - 8}" y="{y + 4.5:.1f}" text-anchor="end">'
                f"{esc(self.y_axis.label(tick))}</text>"
            )
        parts += [
            f'<text class="tick" x="{self.x(tick)}" y="{floor + 19}" text-anchor="middle">'
            f"{esc(self.x_axis.label(tick))}</text>"
            for tick in self.x_axis.ticks
        ]
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="axis" x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">'
            f"{esc(self.x_axis.title)}</text>"
        )
        return "".join(parts)


def _share(value: float, axis_: Axis) -> float:
    return (value - axis_.low) / (axis_.high - axis_.low)
