"""The path of a query, top to bottom: bypass, exact, read, guard, route."""

import hashlib
from collections.abc import Callable
from datetime import date

from edge.config import Answering
from edge.decision import Decision, Path, Reason
from edge.query import Query
from edge.stages import Case, Runtime
from edge.stages.bypass import bypass
from edge.stages.exact import exact
from edge.stages.guard import guard
from edge.stages.read import read
from edge.stages.route import route
from edge.telemetry import Spans

STAGES = (bypass, exact, read, guard, route)


class Pipeline:
    """Decides queries; pure but for the clock that tells expired answers."""

    def __init__(
        self, runtime: Runtime, answering: Answering = Answering(), today: Callable[[], date] = date.today
    ) -> None:
        self.runtime = runtime
        self.answering = answering
        self.today = today

    def decide(self, query: Query, spans: Spans | None = None) -> Decision:
        """The decision on a query, after the grey release of answering itself."""
        return self._release(self.judge(query, spans), query)

    def judge(self, query: Query, spans: Spans | None = None) -> Decision:
        """The decision on a query as if answering were fully on."""
        case = Case(query, self.today())
        for stage in STAGES:
            outcome = stage(case, self.runtime)
            if spans is not None:
                spans.mark(stage.__name__)
            if isinstance(outcome, Decision):
                return outcome
            case = outcome
        raise AssertionError("route always decides")

    def _release(self, decision: Decision, query: Query) -> Decision:
        mode = self.answering.mode
        if mode == "off":
            return withhold(decision, Reason.ANSWERING_OFF)
        if mode == "observe":
            return withhold(decision, Reason.OBSERVE)
        if decision.is_local and place(query.identity) >= self.answering.share:
            return withhold(decision, Reason.CONTROL_GROUP)
        return decision


def place(identity: str) -> float:
    """Where a user stands in [0, 1), the same every time, so that a share is sticky per user."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) / 2**64


def withhold(decision: Decision, reason: Reason) -> Decision:
    """A forward in place of a decision, which is kept as what was observed."""
    return Decision(
        path=Path.AGENT,
        reason=reason,
        lang=decision.lang,
        reading=decision.reading,
        topic=decision.topic,
        guards=decision.guards,
        tools=decision.tools,
        observed=decision,
    )
