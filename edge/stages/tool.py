"""Tool: which tools a query calls, and what for. Nothing is called here, so that deciding stays pure."""

from collections.abc import Iterable

from edge.bundle import Topic
from edge.decision import Call, Candidate, Level, Reading, Reason
from edge.stages import Case, Runtime

# What keeps a turn from being answered here says nothing against its tools: the topic is the likely one, and
# each level has a confidence of its own.
_BY_CONFIDENCE = frozenset({Reason.LOW_CONFIDENCE, Reason.LOW_MARGIN, Reason.UNPROVEN, Reason.TOPIC_FORWARDS})
# In a turn with several requests the words of one are no objection to the tools of another.
_OF_SEVERAL = _BY_CONFIDENCE | {
    Reason.MULTI_REQUEST,
    Reason.NEGATION_MISMATCH,
    Reason.NUMBER_MISMATCH,
    Reason.ENTITY_MISMATCH,
}


def is_answered_by_tools(topic: Topic, case: Case, runtime: Runtime) -> bool:
    """Whether this host may answer the topic, in the query's language, by calling its tools."""
    answered = runtime.bundle.is_answered_by_tools(topic, case.query.lang)
    return answered and runtime.callable.issuperset(topic.tools)


def calls_to_answer(topic: Topic, case: Case, reading: Reading) -> tuple[Call, ...] | Reason:
    """The calls whose results answer the turn, or the reason why it cannot be answered."""
    if topic.valid_until is not None and case.today > topic.valid_until:
        return Reason.ANSWER_EXPIRED
    calls = tuple(Call(suggestion, Level.ANSWER, reading.confidence) for suggestion in case.tools)
    return calls if all(call.suggestion.is_complete for call in calls) else Reason.SLOT_MISSING


def calls_for_agent(case: Case, runtime: Runtime) -> tuple[Call, ...]:
    """The calls that save the agent a round where the turn is forwarded.

    Of a turn with several requests those of every candidate; else those of the best topic. A topic that is
    answered by a curated text has none.
    """
    reading = case.reading
    reasons = {hit.reason for hit in case.objections}
    several = Reason.MULTI_REQUEST in reasons
    if reading is None or not runtime.callable or not reasons <= (_OF_SEVERAL if several else _BY_CONFIDENCE):
        return ()
    found: dict[str, Call] = {}
    for candidate in reading.candidates if several else reading.candidates[:1]:
        for call in _calls_of(candidate, case, runtime, Level.PREFETCH if several else Level.INJECT):
            found.setdefault(call.suggestion.tool, call)
    return tuple(found.values())


def _calls_of(candidate: Candidate, case: Case, runtime: Runtime, most: Level) -> Iterable[Call]:
    bundle, lang = runtime.bundle, case.query.lang
    topic = bundle.by_id[candidate.topic]
    if topic.route == "answer" or not topic.tools:
        return
    for suggestion in bundle.slots.suggest(topic.tools, case.query, case.today):
        if suggestion.tool not in runtime.callable or not suggestion.is_complete:
            continue
        tool = bundle.tools[suggestion.tool]
        for level in (Level.INJECT, Level.PREFETCH):
            if level <= most and tool.allows(level, lang, candidate.confidence):
                yield Call(suggestion, level, candidate.confidence)
                break
