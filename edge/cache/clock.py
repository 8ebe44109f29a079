"""The two clocks of a cache: what others' clocks can be compared with, and what nobody can put back."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """``wall``: seconds since the epoch; ``mono``: seconds that only grow. Tests bring their own."""

    wall: Callable[[], float] = time.time
    mono: Callable[[], float] = time.monotonic
