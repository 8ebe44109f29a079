"""Exact: the text is one of the desk's own examples, so no model has to read it.

Only a turn without history: after other turns the same words may mean something else, and the guard
has to see them ("I am asking about my other job." – "What time do we start?").
"""

from edge.decision import Decision, Path, Reason
from edge.stages import Case, Runtime
from edge.stages.route import answer_for


def exact(case: Case, runtime: Runtime) -> Case | Decision:
    """Answer a text that equals an example of an answer topic, unless something objects."""
    query, bundle = case.query, runtime.bundle
    if case.objections or query.history or query.clipped or query.lang not in bundle.languages:
        return case
    topic_id = bundle.exact.get(bundle.normaliser.exact(query.normal))
    if topic_id is None:
        return case
    answer = answer_for(bundle.by_id[topic_id], query.lang, case, bundle)
    if isinstance(answer, Reason):
        return case
    return Decision(Path.FAQ, Reason.EXACT, query.lang, topic=topic_id, answer=answer)
