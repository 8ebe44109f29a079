"""Hit rates of scored pairs, several sets weighing as much as each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

RATES = (0.01, 0.02, 0.05)
BLOCKED = -1.0  # the score of what a guard objects to
DRAWS = 500


def cut(scores: Sequence[np.ndarray], labels: Sequence[np.ndarray], rate: float) -> float:
    """The threshold above which ``rate`` of the different pairs are hit, each set weighing as much."""
    different = [s[~same] for s, same in zip(scores, labels, strict=True)]
    value = np.concatenate(different)
    weight = np.concatenate([np.full(len(some), 1 / len(some)) for some in different]) / len(different)
    order = np.argsort(-value, kind="stable")
    place = int(np.searchsorted(np.cumsum(weight[order]), rate, side="right"))
    return max(float(value[order][min(place, len(order) - 1)]), BLOCKED)


def rates(scores: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> dict[str, Any]:
    """Hit rates at each rate of false hits, of the different pairs and of the hits, with 95 % intervals."""
    chance = np.random.default_rng(0)
    found = at_rates(scores, labels)
    drawn = []
    for _ in range(DRAWS):
        some = [chance.integers(0, len(s), len(s)) for s in scores]
        drawn.append(
            at_rates(
                [s[i] for s, i in zip(scores, some, strict=True)],
                [y[i] for y, i in zip(labels, some, strict=True)],
            )
        )
    return {
        key: [
            round(value, 3),
            *(round(float(q), 3) for q in np.quantile([d[key] for d in drawn], (0.025, 0.975))),
        ]
        for key, value in found.items()
    }


def at_rates(scores: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> dict[str, float]:
    found = {}
    same = [s[y] for s, y in zip(scores, labels, strict=True) if y.any()]
    for rate in RATES:
        threshold = cut(scores, labels, rate)
        found[f"of_different_{rate:g}"] = float(np.mean([(s > threshold).mean() for s in same]))
    value, right = np.concatenate(scores), np.concatenate(labels)
    weight = np.concatenate([np.full(len(s), 1 / len(s)) for s in scores])
    order = np.argsort(-value, kind="stable")
    order = order[value[order] > BLOCKED]
    false = np.cumsum((weight * ~right)[order]) / np.maximum(np.cumsum(weight[order]), 1e-12)
    for rate in RATES:
        kept = np.flatnonzero(false <= rate)
        threshold = float(value[order][kept[-1]]) if len(kept) else np.inf
        found[f"of_hits_{rate:g}"] = float(np.mean([(s >= threshold).mean() for s in same]))
    return found
