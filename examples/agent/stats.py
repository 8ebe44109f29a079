"""P50, P90 and P99 of every stage on every route, over the last requests of this process."""

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

_KEPT = 1000  # a stage: enough for a P99 that rests on ten values


class Stats:
    """The last milliseconds of each stage; routes and stages are few, so this stays small."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, deque[float]]] = defaultdict(
            lambda: defaultdict(lambda: deque(maxlen=_KEPT))
        )

    def add(self, route: str, stages: Mapping[str, float | None]) -> None:
        """Note one finished request; None is a stage that it did not have."""
        for stage, ms in stages.items():
            if ms is not None:
                self._kept[route][stage].append(ms)

    def shown(self) -> dict[str, dict[str, dict[str, float]]]:
        """Route → stage → count and percentiles in ms."""
        return {
            route: {stage: _percentiles(sorted(values)) for stage, values in stages.items()}
            for route, stages in self._kept.items()
        }


def _percentiles(ordered: Sequence[float]) -> dict[str, float]:
    """Nearest rank: each is a value that was measured."""
    ranks = {f"p{share}": ordered[math.ceil(share / 100 * len(ordered)) - 1] for share in (50, 90, 99)}
    return {"count": len(ordered), **ranks}
