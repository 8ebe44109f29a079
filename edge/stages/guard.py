"""Guard: everything that forbids a local answer although the router may be sure of the topic.

A guard can only turn a local answer into a forward, never the reverse. What fills a slot of the topic's tools
is asked of them, and is no objection.
"""

from collections.abc import Iterator
from dataclasses import replace

from edge.decision import Filled, GuardHit, Reading, Reason
from edge.stages import Case, Runtime


def guard(case: Case, runtime: Runtime) -> Case:
    """Fill the slots; object by language, wording, the router's two probabilities, the topic's signals."""
    query, bundle = case.query, runtime.bundle
    if query.lang is None or query.lang not in bundle.languages:
        case = case.because(Reason.UNSUPPORTED_LANGUAGE, query.lang or "")
    reading = case.reading
    if reading is None:
        return case
    topic = bundle.by_id[reading.topic]
    case = replace(case, tools=bundle.slots.suggest(topic.tools, query, case.today) if topic.tools else ())
    case = case.add(*bundle.guards.wordings(query.normal, in_dialogue=bool(query.history)))
    if reading.unread:
        case = case.because(Reason.UNSUPPORTED_LANGUAGE, reading.unread)
    if query.history and query.history[-1].role == "user":
        case = case.because(Reason.NEEDS_CONTEXT, "user turns in a row")
    if _agent_spoke(case, runtime):
        case = case.because(Reason.NEEDS_CONTEXT, "dialogue with the agent")
    case = case.add(*_by_probability(case, reading, runtime))
    last = query.last_assistant()
    if last is not None and bundle.answer_topic(last) == reading.topic:
        case = case.because(Reason.RE_ASK, reading.topic)
    slots = _slot_texts(case, runtime) if topic.route == "tool" else ()
    return case.add(*bundle.guards.mismatches(query.normal, reading.topic, slots))


def _slot_texts(case: Case, runtime: Runtime) -> Iterator[str]:
    """What of the text fills a slot, as it is read."""
    for tool in case.tools:
        for slot in tool.slots.values():
            if isinstance(slot, Filled) and slot.text:
                yield runtime.bundle.normaliser.reading(slot.text)


def _agent_spoke(case: Case, runtime: Runtime) -> bool:
    """Whether anything but our own answers was said to the user's earlier turns.

    What the agent talked of may change what the same words ask ("I run a shop." … "how long does a refund
    take"), and nothing here reads that. A greeting before the user's first turn changes nothing.
    """
    asked = False
    for turn in case.query.history:
        if turn.role == "user":
            asked = True
        elif _elsewhere(turn.text, runtime) if not asked else runtime.bundle.answer_topic(turn.text) is None:
            return True
    return False


def _elsewhere(greeting: str, runtime: Runtime) -> bool:
    """Whether a greeting names another company: then the words that follow are not about us."""
    signals = runtime.bundle.guards.signals_of(runtime.bundle.normaliser.reading(greeting))
    return any(signal.startswith("company:") for signal in signals)


def _by_probability(case: Case, reading: Reading, runtime: Runtime) -> list[GuardHit]:
    bundle, hits = runtime.bundle, []
    limit = bundle.max_needs_context_in_dialogue if case.query.history else bundle.max_needs_context
    if reading.needs_context > limit:
        hits.append(GuardHit("needs_context", Reason.NEEDS_CONTEXT, f"{reading.needs_context:.3f}"))
    if reading.in_scope < bundle.min_in_scope:
        hits.append(GuardHit("in_scope", Reason.OUT_OF_SCOPE, f"{reading.in_scope:.3f}"))
    return hits
