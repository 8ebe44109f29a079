"""A circuit breaker: what failed a few times in a row is left alone for a while, then tried by one."""

import random
import time
from collections.abc import Callable

_FAILURES = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class Breaker:
    """Closed: all may try. Open: none, for a pause that doubles with each failed try. Then one, alone.

    Pauses vary by half, so that the servers of a fleet do not come back at one moment.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._clock, self._chance = clock, chance
        self._failures = 0
        self._pause = _FIRST_PAUSE
        self._until: float | None = None
        self._trying = False

    @property
    def state(self) -> str:
        """``closed``, ``open`` or ``half_open``."""
        if self._until is None:
            return "closed"
        return "half_open" if self._trying or self._clock() >= self._until else "open"

    def enter(self) -> bool:
        """Whether to try now. Who is let in must tell how it ended."""
        if self._until is None:
            return True
        if self._trying or self._clock() < self._until:
            return False
        self._trying = True
        return True

    def succeeded(self) -> None:
        """A try went well: all may try again."""
        self._failures, self._pause, self._until, self._trying = 0, _FIRST_PAUSE, None, False

    def failed(self) -> None:
        """A try failed. One that began before the breaker opened counts no more."""
        if self._until is not None and not self._trying:
            return
        self._failures += 1
        if self._trying or self._failures >= _FAILURES:
            self._until = self._clock() + self._pause * (0.75 + 0.5 * self._chance())
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._trying = False
