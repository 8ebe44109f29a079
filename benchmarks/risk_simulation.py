"""Whether proven thresholds keep their rate: traffic whose risk is known everywhere, drawn again and again.

A turn of the traffic has, with probability OPEN, an answer that only a threshold can hold back. Of these
answers, a share u is let through by the threshold 1 - u; the next one is wrong with probability r(u), which
a Shape gives. Hence R(u) = ∫r / u is the true wrong-answer rate, and no sampling is needed to know it.
Wrong answers are spread over the strata of the traffic as BLAME says: answers to questions in scope by
another topic, any answer to what is out of scope or needed its history.

Calibration questions are drawn in one of three ways (DESIGNS), thresholds are chosen in one of the ways of
risk_methods.METHODS, and a proven one whose true rate is above the stated one counts as broken.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from risk_methods import METHODS, Draw
from scipy.stats import beta

from export.desk import STRATA
from export.progress import Progress
from export.risk import Answers, in_proportion

TRAFFIC = dict(zip(STRATA, (0.70, 0.15, 0.15), strict=True))
BLAME = dict(zip(STRATA, (0.40, 0.45, 0.15), strict=True))
UNEVEN = dict(zip(STRATA, (0.40, 0.35, 0.25), strict=True))
OPEN = 0.45
DELTA = 0.05
REPETITIONS = 2000
GRID = np.linspace(0, 1, 4001)
# How questions are drawn → their numbers: fixed for each stratum, in the traffic's proportions or not (then
# cut to them), or drawn like the turns themselves, with no traffic stated and nothing cut.
DESIGNS = ("fixed", "uneven", "iid")
SIZES = {0.01: (300, 1000, 3000, 10_000), 0.02: (300, 1000, 3000), 0.05: (300, 1000, 3000)}
OF_DESIGN = {"fixed": (300, 1000, 3000, 10_000), "uneven": (3000,), "iid": (3000,)}

Rate = Callable[[np.ndarray, float], np.ndarray]
SHAPES: dict[str, Rate] = {
    # hardly an error among the surest half, then more and more
    "clean": lambda u, _: 0.6 * u**6,
    # the same over errors that no confidence tells: four tenths of what is allowed
    "floor": lambda u, allowed: 0.4 * allowed + 0.6 * u**6,
    # good answers, then a cliff
    "steep": lambda u, allowed: np.where(u < 0.5, 0.1 * allowed, 0.5),
    # a hair more than what is allowed, everywhere: whatever is proven is broken
    "edge": lambda u, allowed: np.full_like(u, allowed * (1 + 1e-6)),
    # the surest fiftieth is often wrong: the rate falls before it rises
    "sure_errors": lambda u, allowed: np.where(u < 0.02, 8 * allowed, 0.1 * allowed + 0.6 * u**6),
    # crosses what is allowed again and again
    "waves": lambda u, allowed: allowed * (1 + np.cos(8 * np.pi * u)),
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a shape: ``risk[i]`` is the true rate of the threshold 1 - GRID[i].

    ``by_stratum``: the chance that a question of it has an open answer, and the distribution of u over
    GRID of these answers. ``blame``: P(wrong | open answer in scope) over GRID.
    """

    risk: np.ndarray
    by_stratum: dict[str, tuple[float, np.ndarray]]
    blame: np.ndarray

    @classmethod
    def of(cls, shape: str, allowed: float) -> "Traffic":
        r = SHAPES[shape](GRID, allowed)
        area = _integral(r)
        risk = np.append(r[0], area[1:] / GRID[1:])
        by_stratum = {}
        for name, share in TRAFFIC.items():
            mass = _integral(1 - (1 - BLAME[name]) * r if name == STRATA[0] else BLAME[name] * r)
            by_stratum[name] = (OPEN * mass[-1] / share, mass / mass[-1])
        in_scope = BLAME[STRATA[0]] * r
        return cls(risk, by_stratum, in_scope / (1 - r + in_scope))

    def oracle(self, allowed: float) -> float:
        """The largest share of turns that can be answered while the true rate is at most ``allowed``."""
        kept = np.flatnonzero(self.risk <= allowed)
        return OPEN * float(GRID[kept[-1]]) if len(kept) else 0.0

    def rate(self, threshold: float) -> float:
        return float(np.interp(1 - threshold, GRID, self.risk))

    def draw(self, strata: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of questions of these strata: which have an open answer, its confidence, whether it is wrong."""
        opened, u = np.zeros(len(strata), bool), np.zeros(len(strata))
        wrong = strata != STRATA[0]
        for name, (chance, spread) in self.by_stratum.items():
            rows = np.flatnonzero(strata == name)
            rows = rows[rng.random(len(rows)) < chance]
            opened[rows] = True
            u[rows] = np.interp(rng.random(len(rows)), spread, GRID)
        inside = np.flatnonzero(opened & ~wrong)
        wrong[inside] = rng.random(len(inside)) < np.interp(u[inside], GRID, self.blame)
        return opened, 1 - u, wrong


@dataclass(frozen=True, slots=True)
class Setting:
    """What is drawn and how often."""

    design: str
    shape: str
    questions: int
    max_wrong: float
    repetitions: int

    def strata(self, rng: np.random.Generator) -> np.ndarray:
        """The strata of the calibration questions."""
        if self.design == "iid":
            return rng.choice(STRATA, self.questions, p=list(TRAFFIC.values()))
        shares = TRAFFIC if self.design == "fixed" else UNEVEN
        return np.repeat(STRATA, [round(self.questions * share) for share in shares.values()])


def simulate(repetitions: int = REPETITIONS, workers: int | None = None) -> dict[str, Any]:
    """The results of every setting."""
    chosen = list(settings(repetitions))
    progress = Progress("Simulating", len(chosen))
    rows = []
    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        for row in pool.map(run, chosen):
            rows.append(row)
            progress.add()
    progress.end()
    return {
        "delta": DELTA,
        "repetitions": repetitions,
        "traffic": TRAFFIC,
        "uneven_questions": UNEVEN,
        "open_answers": OPEN,
        "settings": rows,
    }


def settings(repetitions: int) -> Iterator[Setting]:
    for design in DESIGNS:
        for max_wrong, sizes in SIZES.items():
            for questions in sizes:
                if questions in OF_DESIGN[design]:
                    for shape in SHAPES:
                        yield Setting(design, shape, questions, max_wrong, repetitions)


def run(setting: Setting) -> dict[str, Any]:
    """How often each method proves something, how often that is broken, and how much it answers."""
    rng = np.random.default_rng(zlib.crc32(repr(setting).encode()))
    traffic = Traffic.of(setting.shape, setting.max_wrong)
    thresholds: dict[str, list[float | None]] = {name: [] for name in METHODS}
    strata = setting.strata(rng)
    keys = [str(i) for i in range(len(strata))]
    # Which rows stay depends on strata and keys alone; without a stated traffic all do.
    kept = in_proportion(list(strata), keys, {} if setting.design == "iid" else TRAFFIC)
    for _ in range(setting.repetitions):
        if setting.design == "iid":
            strata = setting.strata(rng)
        draw = drawn(traffic, strata, kept, rng)
        for name, method in METHODS.items():
            thresholds[name].append(method(draw, setting.max_wrong, DELTA))
    return {
        "design": setting.design,
        "shape": setting.shape,
        "questions": setting.questions,
        "max_wrong": setting.max_wrong,
        "oracle": round(traffic.oracle(setting.max_wrong), 4),
        "methods": {name: summary(traffic, found, setting.max_wrong) for name, found in thresholds.items()},
    }


def drawn(traffic: Traffic, strata: np.ndarray, kept: list[int], rng: np.random.Generator) -> Draw:
    opened, confidence, wrong = traffic.draw(strata, rng)
    rows = np.flatnonzero(opened)
    stays = np.zeros(len(strata), bool)
    stays[kept] = True
    sample = np.flatnonzero(opened & stays)
    answers = Answers.of(confidence[sample], wrong[sample], len(kept))
    sizes = tuple(int((strata == name).sum()) for name in STRATA)
    order = rows[np.argsort(-confidence[rows], kind="stable")]
    return Draw(answers, strata[order], confidence[order], wrong[order], sizes, tuple(TRAFFIC.values()))


def summary(traffic: Traffic, thresholds: list[float | None], max_wrong: float) -> dict[str, Any]:
    """``broken`` of all repetitions, with its exact two-sided 95 % interval; ``coverage``: mean share of
    turns that are answered, 0 where nothing is proven."""
    proven = [threshold for threshold in thresholds if threshold is not None]
    broken = sum(traffic.rate(threshold) > max_wrong for threshold in proven)
    count = len(thresholds)
    return {
        "broken": broken / count,
        "interval": [round(one, 4) for one in interval(broken, count)],
        "proven": len(proven) / count,
        "coverage": round(OPEN * sum(1 - threshold for threshold in proven) / count, 4),
    }


def interval(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's two-sided interval of a rate."""
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, count - hits)) if hits < count else 1.0
    return low, high


def _integral(density: np.ndarray) -> np.ndarray:
    """From 0 to each point of GRID, by trapezoids."""
    steps = (density[1:] + density[:-1]) / 2 * np.diff(GRID)
    return np.append(0.0, np.cumsum(steps))
