"""What became of an import, for people and for programs."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from export.desk import OUT_OF_SCOPE
from export.importers.draft import Draft
from export.importers.material import LeftOut

_SHOWN = 3


def as_dict(draft: Draft, target: Path) -> dict[str, Any]:
    """The same for ``--json``, with everything that was left out."""
    routes = Counter(topic.route for topic in draft.topics)
    return {
        "desk": str(target),
        "name": draft.name,
        "languages": list(draft.languages),
        "topics": {"answer": routes["answer"], "agent": routes["agent"]},
        "examples": dict(_examples(draft)),
        "calibrate": len(draft.calibrate),
        "test": len(draft.test),
        "left_out": [{"reason": one.reason, "where": one.where, "what": one.what} for one in draft.left],
        "notes": list(draft.notes),
    }


def summary(draft: Draft, target: Path) -> str:
    """What the desk holds, what was left out and why, and what to do next."""
    routes = Counter(topic.route for topic in draft.topics)
    examples = _examples(draft)
    by_lang = ", ".join(f"{lang} {count:,}" for lang, count in examples.items())
    lines = [
        f"{target}: {len(draft.topics):,} topics ({routes['answer']:,} answer, {routes['agent']:,} agent)",
        f"  examples    {examples.total():>7,}  ({by_lang})",
    ]
    for name, questions in (("calibrate", draft.calibrate), ("test", draft.test)):
        outside = sum(question.topic == OUT_OF_SCOPE for question in questions)
        lines.append(
            f"  {name:<10}{len(questions):>9,}" + (f"  ({outside:,} out of scope)" if outside else "")
        )
    by_reason: dict[str, list[LeftOut]] = defaultdict(list)
    for left in draft.left:
        by_reason[left.reason].append(left)
    if by_reason:
        lines.append("Left out")
    for reason, found in by_reason.items():
        lines.append(f"{len(found):>7,}  {reason}")
        lines += [f"         {left.where + ': ' if left.where else ''}{left.what}" for left in found[:_SHOWN]]
        if len(found) > _SHOWN:
            lines.append(f"         … and {len(found) - _SHOWN:,} more (--json has all)")
    if draft.notes:
        lines += ["Look at", *(f"  {note}" for note in draft.notes)]
    return "\n".join([*lines, f"Next: frontdesk check {target}"])


def _examples(draft: Draft) -> Counter[str]:
    counts: Counter[str] = Counter()
    for topic in draft.topics:
        for lang, texts in topic.examples.items():
            counts[str(lang)] += len(texts)
    return counts
