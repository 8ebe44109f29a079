"""How long a request may take until its first byte. A value that travels with the query."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A deadline on the monotonic clock, in seconds."""

    deadline: float

    @classmethod
    def of_ms(cls, budget_ms: float, now: float | None = None) -> "Budget":
        """A budget of ``budget_ms`` milliseconds from now on."""
        return cls((time.monotonic() if now is None else now) + budget_ms / 1000)

    def remaining_ms(self, now: float | None = None) -> float:
        """What is left, in milliseconds; never below 0."""
        return max(0.0, (self.deadline - (time.monotonic() if now is None else now)) * 1000)
