"""The judge of two questions: alike enough, nothing that differs, nothing that only one speaks of."""

import math

import pytest

from edge.cache.judge import Judge
from edge.normaliser import Lang
from edge.pairs import PairGuard
from edge.pipeline import Pipeline


@pytest.mark.parametrize(
    ("similarity", "a", "b", "expected"),
    [
        (0.9, "x1 or s5?", "x1 or s5", None),
        (0.9, "which phone is better, x1 or s5", "x1 or s5, which phone is better?", None),
        (0.8, "x1 or s5?", "x1 or s5", None),
        (0.79, "x1 or s5?", "x1 or s5", "unlike"),
        (0.99, "recommend a laptop for a student", "recommend a cheap laptop for a student", "unshared"),
        (0.99, "is the x1 good for gaming", "is the x1 pro good for gaming", "unshared"),
        (1.0, "recommend a laptop", "don't recommend a laptop", "polarity"),
        (0.99, "a phone under 2000 yuan", "a phone under 3000 yuan", "number"),
        (math.nan, "x1 or s5?", "x1 or s5?", "unlike"),
    ],
)
def test_likeness_and_words_must_agree(
    demo: Pipeline, similarity: float, a: str, b: str, expected: str | None
) -> None:
    judge = Judge(demo.runtime.bundle.pairs, 0.8)
    assert judge.apart(similarity, a, b, Lang.EN) == expected
    assert judge.apart(similarity, b, a, Lang.EN) == expected


def test_another_language_is_another_question(demo: Pipeline) -> None:
    judge = Judge(demo.runtime.bundle.pairs, 0.8)
    assert judge.apart(1.0, "x1 or s5?", "X1还是S5", Lang.EN) == "language"


def test_a_threshold_of_0_is_one_and_nan_is_none(demo: Pipeline) -> None:
    guard = demo.runtime.bundle.pairs
    assert Judge(guard, 0.0).apart(0.0, "x1 or s5?", "x1 or s5", Lang.EN) is None
    assert Judge(guard, math.nan).apart(1.0, "x1 or s5?", "x1 or s5", Lang.EN) == "unlike"


def test_each_question_is_read_once(demo: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    read, reads = PairGuard.read, []
    monkeypatch.setattr(PairGuard, "read", lambda self, text: (reads.append(text), read(self, text))[1])
    judge = Judge(demo.runtime.bundle.pairs, 0.5)
    for _ in range(3):
        judge.apart(1.0, "x1 or s5?", "s5 or x1?", Lang.EN)
    assert sorted(reads) == ["s5 or x1?", "x1 or s5?"]
