"""Desk advice before training: what would confuse the router or falsify the evaluation."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from edge.normaliser import Normaliser
from edge.slots import Kind
from export.desk import STRATA, Desk, DeskTopic
from export.located import Located
from export.near import near_pairs
from export.tool_slots import slot_entry
from export.tools import use_of

MIN_EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """``error`` findings make the evaluation or an answer wrong; ``warning`` ones make it weak.

    ``advice`` is the model's, and a person's to judge. ``kind`` says of what sort a finding is, one word;
    ``details`` are the texts that it speaks of, one a line.
    """

    level: str
    where: str
    message: str
    kind: str = ""
    details: tuple[str, ...] = ()


def check_desk(desk: Desk, today: date | None = None) -> list[Finding]:
    """Everything worth saying of a desk that loads."""
    normaliser = Normaliser()
    found = {
        "duplicate": _duplicates(desk, normaliser),
        "leak": _leaks(desk, normaliser),
        "near": _near_leaks(desk, normaliser),
        "thin": _thin(desk),
        "uncalibrated": _uncalibrated(desk),
        "answer": _answers(desk, today or date.today()),
        "uncalled": _uncalled(desk, normaliser),
    }
    return [replace(finding, kind=kind) for kind, findings in found.items() for finding in findings]


def _keys(desk: Desk, normaliser: Normaliser) -> dict[str, list[tuple[str, str, str]]]:
    """exact key → [(topic, text, where)]."""
    keys: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for topic in desk.topics:
        for lang, texts in topic.examples.items():
            for place, text in enumerate(texts):
                key = normaliser.exact(normaliser.reading(text))
                keys[key].append((topic.id, text, topic.where_of(lang, place)))
    return keys


def _duplicates(desk: Desk, normaliser: Normaliser) -> list[Finding]:
    findings = []
    for uses in _keys(desk, normaliser).values():
        topics = sorted({topic for topic, _, _ in uses})
        _, text, where = uses[-1]
        if len(topics) > 1:
            findings.append(
                Finding(
                    "error",
                    where,
                    f"{text!r} is an example of {' and of '.join(topics)}: keep it in one of them.",
                )
            )
        elif len(uses) > 1:
            findings.append(Finding("warning", where, f"{text!r} stands {len(uses)} times in {topics[0]}."))
    return findings


def _leaks(desk: Desk, normaliser: Normaliser) -> list[Finding]:
    """Held-out questions that the training has seen, or that stand in both files."""
    keys = _keys(desk, normaliser)
    findings = []
    seen: dict[tuple[str, tuple[str, ...]], str] = {}
    for question in (*desk.calibrate, *desk.test):
        key = normaliser.exact(normaliser.reading(question.text))
        if key in keys and not question.history:
            findings.append(
                Finding(
                    "error", question.where, f"{question.text!r} is also an example of {keys[key][0][0]}: "
                    "a question that was trained on proves nothing; reword or remove it.",
                )
            )  # fmt: skip
        identity = (key, tuple(turn.text for turn in question.history))
        if identity in seen:
            findings.append(
                Finding("error", question.where, f"{question.text!r} stands also at {seen[identity]}.")
            )
        seen[identity] = question.where
    return findings


def _near_leaks(desk: Desk, normaliser: Normaliser) -> list[Finding]:
    """Held-out questions that are nearly an example, or nearly a question of the other file.

    Follow-ups are left out: short as they are, what tells them apart is their history.
    """
    examples = [
        (text, topic.where_of(lang, place), "")
        for topic in desk.topics
        for lang, texts in topic.examples.items()
        for place, text in enumerate(texts)
    ]
    held = [
        (question.text, question.where, side)
        for side, questions in (("calibrate", desk.calibrate), ("test", desk.test))
        for question in questions
        if not question.history
    ]
    rows = examples + held
    texts = [normaliser.reading(text) for text, _, _ in rows]
    findings = []
    for i, j in near_pairs(texts):
        (text, where, side), (other, other_where, other_side) = rows[i], rows[j]
        if side == other_side or normaliser.exact(texts[i]) == normaliser.exact(texts[j]):
            continue  # the same file, or the same text, which is told elsewhere
        findings.append(
            Finding("warning", where, f"{text!r} is nearly {other!r} at {other_where}: reword or remove it.")
        )
    return findings


def _thin(desk: Desk) -> list[Finding]:
    findings = []
    for topic in desk.topics:
        for lang in desk.languages:
            count = len(topic.examples.get(lang, ()))
            if count < MIN_EXAMPLES:
                findings.append(
                    Finding(
                        "warning", topic.where,
                        f"{topic.id} has {count} examples in {lang}; write at least {MIN_EXAMPLES}, "
                        "in people's own words.",
                    )
                )  # fmt: skip
    return findings


def _uncalibrated(desk: Desk) -> list[Finding]:
    """What nothing can be proven of: languages without held-out questions, and parts of their traffic."""
    counts = Counter((question.lang, question.stratum) for question in desk.calibrate)
    where = str(desk.folder / "eval/calibrate.jsonl")
    findings = []
    for lang in desk.languages:
        if not any(counts[lang, stratum] for stratum in STRATA):
            message = (
                f"No calibration questions in {lang}: nothing can be proven, and with `unproven: "
                "forward` only exact texts are answered; write some hundred."
            )
            findings.append(Finding("warning", where, message))
            continue
        if not desk.traffic and not counts[lang, "out_of_scope"]:
            message = (
                f"No calibration question in {lang} is out of scope: what is proven holds for users who ask "
                "nothing else than your topics; write some, and state 'traffic' in desk.yaml."
            )
            findings.append(Finding("warning", where, message))
        findings += [
            Finding(
                "warning",
                where,
                f"'traffic' in desk.yaml has a share of {stratum}, and no calibration question in {lang} is "
                "one: nothing can be proven; write some.",
            )
            for stratum in STRATA
            if desk.traffic.get(stratum) and not counts[lang, stratum]
        ]
    return findings


def _answers(desk: Desk, today: date) -> list[Finding]:
    findings = []
    uses = {tool["name"]: use_of(tool) for tool in desk.tools}
    texts: Counter[tuple[str, str]] = Counter()
    for topic in desk.topics:
        if topic.valid_until is not None and topic.valid_until < today:
            findings.append(Finding("warning", topic.where, f"{topic.id} expired on {topic.valid_until}."))
        findings += [
            Finding("warning", topic.where, f"{topic.id} has no {what} in {lang}: such turns are forwarded.")
            for what in _promised(topic, uses)
            for lang in desk.languages
            if lang not in topic.answerable
        ]
        for lang, text in topic.answer.items():
            texts[lang, text] += 1
            if texts[lang, text] == 2:
                findings.append(
                    Finding(
                        "warning",
                        topic.where,
                        f"{topic.id} has the same {lang} answer as another topic: merge them.",
                    )
                )
    return findings


def _promised(topic: DeskTopic, uses: Mapping[str, str]) -> Iterator[str]:
    """What a topic needs in each language to be answered here, where it is meant to be."""
    if topic.route == "answer":
        yield "answer"
    elif topic.route == "tool" and (may := [name for name in topic.tools if uses[name] == "answer"]):
        yield f"template for {' and '.join(may)} with use: answer"


def _uncalled(desk: Desk, normaliser: Normaliser) -> list[Finding]:
    """Tools that may be called and never are, because no question can fill a slot that they need."""
    findings = []
    for tool in desk.tools:
        if use_of(tool) == "suggest":
            continue
        slots = [slot_entry(name, entry, normaliser) for name, entry in (tool.get("slots") or {}).items()]
        line = f":{tool.line}" if isinstance(tool, Located) else ""
        for slot in slots:
            if slot["required"] and slot["default"] is None and (why := _unfilled(slot, slots)):
                message = f"{tool['name']} is never called: its slot {slot['name']} {why}."
                findings.append(Finding("warning", f"{desk.folder / 'tools.yaml'}{line}", message))
    return findings


def _unfilled(slot: Mapping[str, Any], slots: Sequence[Mapping[str, Any]]) -> str:
    """Why no question can fill a slot."""
    if slot["kind"] == Kind.FREE:
        return "takes any words; give it a pattern, values or a format, or a default"
    others = {term for other in slots if other is not slot for term in other["terms"]}
    if slot["kind"] == Kind.VALUES and slot["terms"].keys() <= others:
        return "has no word that another slot has not, too, so that none tells which is meant"
    return ""
