"""The judge of two questions: a score from which on they share an answer, and nothing that differs."""

import math

import pytest

from edge.cache.judge import Judge
from edge.normaliser import Lang


class Guard:
    """Counts words that only one has; "not" differs."""

    def __init__(self) -> None:
        self.read_texts: list[str] = []

    def read(self, text: str) -> frozenset[str]:
        self.read_texts.append(text)
        return frozenset(text.split())

    def score(self, cosine: float, a: frozenset[str], b: frozenset[str]) -> float:
        return cosine - 0.1 * len(a ^ b)

    def difference(self, a: frozenset[str], b: frozenset[str], lang: Lang) -> str | None:
        return "polarity" if "not" in a ^ b else None


@pytest.mark.parametrize(
    ("similarity", "a", "b", "expected"),
    [
        (0.95, "one two", "one two", None),
        (0.9, "one two", "one two", None),
        (0.89, "one two", "one two", "unlike"),
        (1.0, "one", "one two", None),
        (1.0, "one", "one two three", "unlike"),
        (1.0, "one", "one not", "polarity"),
        (0.2, "one", "one not", "unlike"),
        (math.nan, "one", "one", "unlike"),
    ],
)
def test_both_the_score_and_the_words_must_agree(
    similarity: float, a: str, b: str, expected: str | None
) -> None:
    assert Judge(Guard(), 0.9).apart(similarity, a, b, Lang.EN) == expected


def test_a_threshold_of_0_lets_the_words_decide_and_none_passes_nan() -> None:
    assert Judge(Guard(), 0.0).apart(0.0, "one", "one", Lang.EN) is None
    assert Judge(Guard(), math.nan).apart(1.0, "one", "one", Lang.EN) == "unlike"


def test_each_question_is_read_once() -> None:
    guard = Guard()
    judge = Judge(guard, 0.5)
    for _ in range(3):
        judge.apart(1.0, "stored", "asked", Lang.EN)
    assert sorted(guard.read_texts) == ["asked", "stored"]
