"""Held-out questions with decisions written by hand."""

from typing import Any

import numpy as np

from edge.decision import Answer, Candidate, Decision, GuardHit, Path, Reading, Reason
from edge.normaliser import Lang
from edge.query import Turn
from export.desk import FOLLOW_UP, OUT_OF_SCOPE, Question
from export.judged import Judged

HISTORY = (Turn("user", "hello"),)


def row(
    text: str,
    asked: str,
    said: str | None,
    confidence: float = 0.9,
    reason: Reason = Reason.MATCHED,
    lang: Lang = Lang.EN,
    **others: Any,
) -> Judged:
    """A question about ``asked`` that is taken for ``said``; answered where the reason is a local one.

    ``kind``, ``history`` of the question; ``exit``, ``guards`` by name, ``ms`` of the decision. A text that was
    not read is of topic None or exact.
    """
    local = reason in (Reason.MATCHED, Reason.EXACT)
    guards = tuple(GuardHit(name, reason, "x") for name in others.get("guards", ()))
    if not local and not guards:
        guards = (GuardHit(str(reason), reason, "x"),)
    kind = others.get("kind") or ("out_of_scope" if asked == OUT_OF_SCOPE else "in_scope")
    reading = None
    if said is not None and reason is not Reason.EXACT:
        exit_ = others.get("exit", 4)
        reading = Reading((Candidate(said, confidence),), 0.9, 0.1, exit_, np.zeros(2, np.float32), 5)
    return Judged(
        Question(text, asked, lang, kind, others.get("history", HISTORY if kind == FOLLOW_UP else ())),
        Decision(
            Path.FAQ if local else Path.AGENT,
            reason,
            lang,
            reading,
            said,
            guards,
            Answer(str(said), lang, "text", 1) if local else None,
        ),
        others.get("ms", 1.0),
    )
