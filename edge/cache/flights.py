"""Single flight: of those who ask the same at the same time, one asks the agent and the others wait."""

import asyncio
import time
from dataclasses import dataclass, field
from enum import Enum

from edge.cache.entry import Entry


class Landed(Enum):
    """How a flight ended without an answer for those who wait."""

    LEFT = "its client left, and somebody else may try"
    FAILED = "the agent could not be reached, or said that it failed"
    NOTHING = "there is no answer to share"


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """One question on its way to the agent. ``started``: on the clock that only grows."""

    id: str
    started: float
    _landing: "asyncio.Future[Entry | Landed]" = field(repr=False)

    async def wait(self, seconds: float) -> Entry | Landed:
        """How it ended; NOTHING where it has not within ``seconds``."""
        try:
            return await asyncio.wait_for(asyncio.shield(self._landing), seconds)
        except TimeoutError:
            return Landed.NOTHING

    def elapsed_ms(self) -> float:
        """Milliseconds since it began."""
        return (time.monotonic() - self.started) * 1000


class Flights:
    """The questions that are on their way, by their ids."""

    def __init__(self) -> None:
        self._flying: dict[str, Flight] = {}

    def __len__(self) -> int:
        return len(self._flying)

    def get(self, id_: str) -> Flight | None:
        """The flight of a question, if it is on its way."""
        return self._flying.get(id_)

    def start(self, id_: str) -> Flight:
        """Begin a flight that must be landed, whatever happens; there must be none of this id."""
        flight = Flight(id_, time.monotonic(), asyncio.get_running_loop().create_future())
        self._flying[id_] = flight
        return flight

    def land(self, flight: Flight, outcome: Entry | Landed) -> None:
        """End a flight; more than once does nothing."""
        if self._flying.get(flight.id) is flight:
            del self._flying[flight.id]
        if not flight._landing.done():
            flight._landing.set_result(outcome)
