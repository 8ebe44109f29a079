"""What agent_path.py asks of the machine, so that one sees whether the machine or the set-up was slow."""

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Machine:
    """Seconds of wall clock and of CPU for each set-up, while its own blocks ran.

    ``shared``: processes that serve every set-up, by role. Linux only: elsewhere CPU is not told.
    """

    shared: Mapping[str, int]
    wall: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    cpu: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    lag: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @contextmanager
    def watching(self, name: str, pids: Mapping[str, int], lag: Sequence[float]) -> Iterator[None]:
        """Count what a block of a set-up takes."""
        roles = {**self.shared, **pids}
        begun, before, machine = time.perf_counter(), _cpu_seconds(roles), _busy_seconds()
        yield
        self.wall[name] += time.perf_counter() - begun
        for role, seconds in _cpu_seconds(roles).items():
            self.cpu[name][role] += seconds - before[role]
        self.cpu[name]["machine"] += _busy_seconds() - machine
        self.lag[name] += lag

    def of(self, name: str, turns: int) -> dict[str, Any]:
        """CPU as shares of one core and of the machine's, the milliseconds a turn, and the client's lag."""
        wall, cpu = self.wall[name], self.cpu[name]
        whole = cpu["machine"] / wall / (os.cpu_count() or 1)
        own = {role: seconds for role, seconds in cpu.items() if role != "machine"}
        return {
            "seconds": round(wall, 1),
            "machine_busy": round(whole, 3),
            "ours": round(sum(own.values()) / wall / (os.cpu_count() or 1), 3),
            "core_share": {role: round(seconds / wall, 3) for role, seconds in own.items()},
            "cpu_ms_a_turn": {role: round(1000 * seconds / turns, 1) for role, seconds in own.items()},
            "lag_ms": {f"p{p}": round(float(np.percentile(self.lag[name], p)), 2) for p in (50, 95, 99)},
        }


def _cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    found = {}
    for role, pid in pids.items():
        stat = Path(f"/proc/{pid}/stat")
        fields = stat.read_text().rpartition(")")[2].split() if stat.exists() else ["0"] * 13
        found[role] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def _busy_seconds() -> float:
    """Of all cores, by whomever."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS
