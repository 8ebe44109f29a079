"""The stages of a request, one file each, all of one shape: ``(Case, Runtime) -> Case | Decision``.

A stage adds what it found to the case, or ends the request's way with a decision. A stage that
objects does not stop the next ones: what they read is what the hints tell the agent.
"""

from dataclasses import dataclass, replace
from datetime import date

from edge.bundle import Bundle
from edge.decision import GuardHit, Reading, Reason, Suggestion
from edge.query import Query
from edge.router import Router


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the stages work with. ``callable``: the tools that this host calls; others are only suggested."""

    bundle: Bundle
    router: Router
    callable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of a query so far: its reading, and every objection to answering it here.

    ``tools``: those of the best topic, with their slots as far as the query fills them.
    """

    query: Query
    today: date
    reading: Reading | None = None
    tools: tuple[Suggestion, ...] = ()
    objections: tuple[GuardHit, ...] = ()

    def add(self, *hits: GuardHit) -> "Case":
        """The case with more objections."""
        return replace(self, objections=self.objections + hits) if hits else self

    def because(self, reason: Reason, value: str = "") -> "Case":
        """The case with one more objection that needs no guard."""
        return self.add(GuardHit(reason.value, reason, value))
