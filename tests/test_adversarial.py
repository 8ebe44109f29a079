"""Questions a word away from one that the demo desk answers; its text would be wrong for them.

Nobody trained on them. Some are still answered: how many, by class, is a figure of the bundle, which may
only fall.
"""

import json
from collections import Counter
from pathlib import Path

from edge.pipeline import Pipeline
from edge.query import Query, Turn

PAIRS = Path(__file__).parents[1] / "examples/desk/eval/adversarial.jsonl"
ANSWERED_WRONGLY = {
    "negation en": 3,
    "entity en": 2,
    "direction zh": 2,
    "number en": 1,
    "date en": 1,
    "direction en": 1,
    "negation zh": 1,
    "roles zh": 1,
}
ANSWERED_RIGHTLY = 390  # of the questions beside them


def test_hardly_any_trap_is_answered_and_the_questions_beside_them_are(demo: Pipeline) -> None:
    normaliser = demo.runtime.bundle.normaliser
    wrong, right = Counter[str](), 0
    rows = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    assert len(rows) >= 400
    for row in rows:
        history = tuple(Turn(turn["role"], turn["content"]) for turn in row.get("history", ()))
        trap = demo.judge(Query.of_text(row["trap"], normaliser, history))
        safe = demo.judge(Query.of_text(row["safe"], normaliser))
        wrong[f"{row['class']} {row['lang']}"] += trap.is_local
        right += safe.is_local and safe.topic == row["topic"]
    assert sum(wrong.values()) <= sum(ANSWERED_WRONGLY.values()), {n: c for n, c in wrong.items() if c}
    assert right >= ANSWERED_RIGHTLY - 5  # another processor's rounding may move a few
