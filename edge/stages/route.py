"""Route: the topic's route, if its confidence and margin pass and nothing objects."""

from edge.bundle import Bundle, Topic
from edge.decision import Answer, Call, Decision, Path, Reading, Reason
from edge.normaliser import Lang
from edge.stages import Case, Runtime
from edge.stages.tool import calls_for_agent, calls_to_answer, is_answered_by_tools

_ORDER = {reason: place for place, reason in enumerate(Reason)}


def route(case: Case, runtime: Runtime) -> Decision:
    """The decision: an answer where no objection stands, else the agent with the first reason."""
    query, reading, bundle = case.query, case.reading, runtime.bundle
    unproven, answer = False, None
    calls: tuple[Call, ...] = ()
    if reading is not None:
        topic = bundle.by_id[reading.topic]
        by_tools = is_answered_by_tools(topic, case, runtime)
        case = _by_confidence(case, reading, topic, bundle, answered=by_tools or topic.route == "answer")
        threshold = bundle.threshold(topic, query.lang) if query.lang else None
        unproven = threshold is not None and not threshold.proven
        if by_tools:
            called = calls_to_answer(topic, case, reading)
            if isinstance(called, Reason):
                case = case.because(called, _incomplete(case))
            else:
                calls = called
        elif topic.route == "tool" and (incomplete := _incomplete(case)):
            case = case.because(Reason.SLOT_MISSING, incomplete)
        elif topic.route != "answer":
            case = case.because(Reason.TOPIC_FORWARDS, topic.route)
        elif query.lang is not None:
            found = answer_for(topic, query.lang, case, bundle)
            if isinstance(found, Reason):
                case = case.because(found)
            else:
                answer = found
    first = min(case.objections, key=lambda hit: _ORDER[hit.reason], default=None)
    local = first is None and (answer is not None or bool(calls))
    return Decision(
        path=Path.AGENT if not local else Path.FAQ if answer is not None else Path.TOOL,
        reason=Reason.MATCHED if first is None else first.reason,
        lang=query.lang,
        reading=reading,
        topic=None if reading is None else reading.topic,
        guards=case.objections,
        answer=answer if local else None,
        unproven=unproven and local,
        tools=case.tools,
        calls=calls if local else calls_for_agent(case, runtime),
    )


def _incomplete(case: Case) -> str:
    """The tools that the query does not fill, or not beyond doubt."""
    return ",".join(tool.tool for tool in case.tools if not tool.is_complete)


def answer_for(topic: Topic, lang: Lang, case: Case, bundle: Bundle) -> Answer | Reason:
    """The topic's answer in a language, or the reason why it cannot be given."""
    if topic.valid_until is not None and case.today > topic.valid_until:
        return Reason.ANSWER_EXPIRED
    answer = bundle.answers.get((topic.id, lang))
    if answer is None:
        return Reason.NO_ANSWER_IN_LANGUAGE
    if case.query.max_tokens is not None and case.query.max_tokens < answer.tokens:
        return Reason.CLIENT_OPTIONS  # the client's limit would cut the answer
    return answer


def _by_confidence(case: Case, reading: Reading, topic: Topic, bundle: Bundle, *, answered: bool) -> Case:
    lang = case.query.lang
    threshold = None if lang is None else bundle.threshold(topic, lang)
    if threshold is None:  # a group without an answer has none, and nothing to prove
        return case.because(Reason.UNPROVEN, "no threshold") if answered else case
    if reading.confidence < threshold.confidence:
        case = case.because(Reason.LOW_CONFIDENCE, f"{reading.confidence:.3f}<{threshold.confidence:.3f}")
    if reading.margin < threshold.margin:
        case = case.because(Reason.LOW_MARGIN, f"{reading.margin:.3f}<{threshold.margin:.3f}")
    if not threshold.proven and not bundle.answer_unproven:
        case = case.because(Reason.UNPROVEN, f"not proven for {threshold.max_wrong:g}")
    return case
