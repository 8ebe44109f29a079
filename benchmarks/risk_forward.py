"""What a bundle answers of traffic that is none of its own, at the thresholds that it is served with.

Small talk, another product's FAQ, sentences of an encyclopedia, dialogues about something else: hardly any of
it is for the desk. The demo desk has a shop's topics, so of a shop's customers (taobao) and of hotels' guests
(dstc9_faq) some ask what it may well answer: their counts are no error rates.
"""

import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.host import open_pipeline
from edge.normaliser import Lang
from edge.pipeline import Pipeline
from edge.query import Turn
from export.corpus import Row, read_rows
from export.desk import OUT_OF_SCOPE, Question
from export.judged import Judged, judge
from export.progress import Progress
from export.risk import upper_bound

CONFIDENCE = 0.95
SAMPLE = 10
WIKI = 2000
# The replies between a user's turns: as the set has them, none at all, or answers of the bundle's own, after
# which a turn is not forwarded as a dialogue with the agent.
AS_GIVEN, ALONE, OURS = "as given", "alone", "our answers between"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Rows of a set. ``open``: whether the licence lets texts be shown; ``history``: what surrounds them."""

    path: str
    licence: str
    text: str
    open: bool = True
    keep: Callable[[Row], bool] = lambda _: True
    history: str = ALONE
    note: str = ""


def _follow_up(row: Row) -> bool:
    return bool(row["needs_context"])


def _first_turn(row: Row) -> bool:
    return not row["history"]


_CAST, _CROSSWOZ = "followup_cast/followups.jsonl", "followup_crosswoz_zh/followups.jsonl"
_MET = "the base met these texts, unlabelled, in its training"
TRAFFIC = {
    "chitchat_faq": Traffic("chitchat_faq/faq.jsonl", "BSD-3-Clause", "question", note=_MET),
    "dolphinscheduler_faq": Traffic("dolphinscheduler_faq/faq.jsonl", "Apache-2.0", "question", note=_MET),
    "dstc9_faq": Traffic(
        "dstc9_faq/faq.jsonl", "Apache-2.0", "question", note=f"hotels, trains, taxis; {_MET}"
    ),
    "covidq no_answer": Traffic("covidq_faq/no_answer.jsonl", "GPL-3.0", "text", open=False),
    "wiki_oos": Traffic(
        "clinc150/wiki_oos.jsonl", "CC BY-SA", "text", open=False, note=f"{WIKI} drawn by hash"
    ),
    "taobao first turns": Traffic(
        "retail_taobao_zh/dialogs.jsonl",
        "none stated",
        "text",
        open=False,
        keep=_first_turn,
        note="a shop's customers: some ask what the desk may answer",
    ),
    "cast follow-ups, alone": Traffic(_CAST, "MIT", "text", keep=_follow_up, note=_MET),
    "cast follow-ups, the user's turns before them": Traffic(
        _CAST, "MIT", "text", keep=_follow_up, history=AS_GIVEN, note="forwarded by rule"
    ),
    "cast follow-ups, our answers between": Traffic(_CAST, "MIT", "text", keep=_follow_up, history=OURS),
    "crosswoz follow-ups, alone": Traffic(_CROSSWOZ, "Apache-2.0", "text", keep=_follow_up, note=_MET),
    "crosswoz follow-ups, after their dialogue": Traffic(
        _CROSSWOZ, "Apache-2.0", "text", keep=_follow_up, history=AS_GIVEN, note="forwarded by rule"
    ),
    "crosswoz follow-ups, our answers between": Traffic(
        _CROSSWOZ, "Apache-2.0", "text", keep=_follow_up, history=OURS
    ),
}


def must_forward(data: Path, folder: Path) -> dict[str, Any]:
    """Counts of every set with the exact upper bound of the share that is answered."""
    pipeline = open_pipeline(folder)
    bundle = pipeline.runtime.bundle
    return {
        "bundle": f"{bundle.name}@{bundle.version}",
        "confidence": CONFIDENCE,
        "thresholds": {
            key: {"confidence": t.confidence, "bound": t.bound, "proven": t.proven}
            for key, t in bundle.thresholds.items()
        },
        "sets": {
            name: figures(traffic, ask(name, traffic, data, pipeline)) for name, traffic in TRAFFIC.items()
        },
    }


def ask(name: str, traffic: Traffic, data: Path, pipeline: Pipeline) -> list[Judged]:
    questions = list(questions_of(traffic, data, pipeline))
    progress = Progress(name, len(questions))
    judged = []
    for question in questions:
        judged += judge(pipeline, [question])
        progress.add()
    progress.end()
    return judged


def questions_of(traffic: Traffic, data: Path, pipeline: Pipeline) -> Iterable[Question]:
    """Distinct ones; of the encyclopedia's sentences WIKI, drawn by hash."""
    answers = [a.text for a in pipeline.runtime.bundle.answers.values()]
    rows = [row for row in read_rows(data / traffic.path) if traffic.keep(row)]
    if "wiki" in traffic.path:
        rows = sorted(rows, key=lambda row: zlib.crc32(row["text"].encode()))[:WIKI]
    found = {}
    for row in rows:
        before = () if traffic.history == ALONE else history(row["history"], traffic, answers)
        text = row[traffic.text]
        found.setdefault((text, before), Question(text, OUT_OF_SCOPE, Lang(row["lang"]), "", before))
    return found.values()


def history(earlier: Sequence[str], traffic: Traffic, answers: Sequence[str]) -> tuple[Turn, ...]:
    """CAsT has the user's turns alone, CrossWOZ both sides by turns."""
    both = "crosswoz" in traffic.path
    if traffic.history == AS_GIVEN:
        roles = itertools.cycle(("user", "assistant") if both else ("user",))
        return tuple(Turn(role, text) for role, text in zip(roles, earlier, strict=False))
    said = earlier[::2] if both else earlier
    turns = []
    for text in said:
        place = zlib.crc32(text.encode()) % len(answers)
        turns += [Turn("user", text), Turn("assistant", answers[place])]
    return tuple(turns)


def figures(traffic: Traffic, judged: Sequence[Judged]) -> dict[str, Any]:
    answered = [row for row in judged if row.answered]
    found: dict[str, Any] = {
        "licence": traffic.licence,
        "note": traffic.note,
        "by_language": {
            str(lang): [sum(row.question.lang is lang for row in some) for some in (answered, judged)]
            for lang in sorted({row.question.lang for row in judged})
        },
        "asked": len(judged),
        "answered": len(answered),
        "upper_bound": round(upper_bound(len(answered), len(judged), CONFIDENCE), 5),
        "reasons": dict(
            Counter(str(row.decision.reason) for row in judged if not row.answered).most_common(4)
        ),
        "answered_topics": dict(Counter(str(row.decision.topic) for row in answered).most_common(8)),
    }
    if traffic.open and answered:
        chosen = sorted(answered, key=lambda row: zlib.crc32(row.question.text.encode()))[:SAMPLE]
        found["sample"] = [
            {
                "text": row.question.text,
                "answered_as": row.decision.topic,
                "confidence": round(row.confidence, 3),
            }
            for row in chosen
        ]
    return found
