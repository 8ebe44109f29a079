"""Exit thresholds from readings made by hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tiny_heads import tiny_heads

from export.compose import NEVER
from export.exits import MAX_NEEDS_CONTEXT, MIN_IN_SCOPE, exit_rules
from export.heads import Heads, Held


def heads(said: Sequence[int], confidence: Sequence[float] = (), in_scope: Sequence[float] = ()) -> Heads:
    """Heads of three topics of which only the held readings matter."""
    count = len(said)
    held = Held(
        topic=np.zeros(count, int),
        said=np.asarray(said),
        confidence=np.asarray(confidence or [0.9] * count),
        in_scope=np.asarray(in_scope or [1.0] * count),
    )
    return replace(tiny_heads(0, topics=3), held=held)


def threshold(early: Heads, last: Heads, most: float = 0.0) -> float:
    rules = exit_rules([early, last], [True] * 3, most)
    assert rules.confidence.shape == (1, 3)
    [value] = set(rules.confidence[0].tolist())
    return float(value)


DOWN = (0.9, 0.8, 0.7, 0.6, 0.5)


def test_the_threshold_lies_in_the_middle_above_the_first_disagreement() -> None:
    early, last = heads([0, 1, 2, 0, 1], DOWN), heads([0, 1, 1, 0, 1])
    assert threshold(early, last) == pytest.approx(0.75)


def test_the_order_of_the_texts_does_not_matter() -> None:
    early, last = heads([0, 1, 0, 2, 1], (0.6, 0.5, 0.9, 0.7, 0.8)), heads([0, 1, 0, 1, 1])
    assert threshold(early, last) == pytest.approx(0.75)


def test_what_all_agree_on_may_leave_down_to_the_lowest() -> None:
    assert threshold(heads([0, 1, 2, 0, 1], DOWN), heads([0, 1, 2, 0, 1])) == pytest.approx(0.5)


def test_a_share_of_disagreements_is_allowed() -> None:
    """One in three, one in four, one in five: the lowest confidence with at most that share counts."""
    early, last = heads([0, 1, 2, 0, 1], DOWN), heads([0, 1, 1, 0, 1])
    assert threshold(early, last, 0.2) == pytest.approx(0.5)
    assert threshold(early, last, 0.24) == pytest.approx(0.5)
    early, last = heads([0, 1, 2, 0, 2], DOWN), heads([0, 1, 1, 0, 1])
    assert threshold(early, last, 0.25) == pytest.approx(0.55)
    assert threshold(early, last, 0.2) == pytest.approx(0.75)


def test_nothing_leaves_where_the_surest_text_is_read_otherwise() -> None:
    assert threshold(heads([0, 1], (0.9, 0.8)), heads([1, 1])) == NEVER


def test_what_the_last_exit_calls_out_of_scope_must_not_leave() -> None:
    early = heads([0, 1, 2], (0.9, 0.8, 0.7))
    last = heads([0, 1, 2], in_scope=[1, MIN_IN_SCOPE - 0.01, 1])
    assert threshold(early, last) == pytest.approx(0.85)


def test_texts_that_are_out_of_scope_at_the_exit_do_not_leave_there_and_do_not_count() -> None:
    early = heads([0, 1, 2], (0.9, 0.8, 0.7), in_scope=[1, MIN_IN_SCOPE - 0.01, 1])
    assert threshold(early, heads([0, 0, 2])) == pytest.approx(0.7)
    nobody = heads([0, 1, 2], (0.4, 0.4, 0.3), in_scope=[0.1, 0.2, 0.3])
    assert threshold(nobody, heads([0, 1, 2])) == NEVER


def test_topics_that_need_the_embedding_never_leave_early() -> None:
    same = heads([0, 1, 2], (0.9, 0.8, 0.7))
    rules = exit_rules([same, same, same], [True, False, True])
    np.testing.assert_allclose(rules.confidence, [[0.7, NEVER, 0.7]] * 2, atol=1e-6)
    assert rules.confidence.dtype == np.float32
    np.testing.assert_allclose(rules.min_in_scope, [MIN_IN_SCOPE] * 2)
    np.testing.assert_allclose(rules.max_needs_context, [MAX_NEEDS_CONTEXT] * 2)


def test_each_exit_is_compared_with_the_last() -> None:
    last = heads([0, 1, 2])
    first, second = heads([0, 1, 0], (0.9, 0.8, 0.7)), heads([0, 0, 2], (0.9, 0.8, 0.7))
    rules = exit_rules([first, second, last], [True] * 3)
    np.testing.assert_allclose(rules.confidence, [[0.75] * 3, [0.85] * 3], atol=1e-6)


def test_one_exit_has_no_rules() -> None:
    rules = exit_rules([heads([0, 1])], [True] * 3)
    assert rules.confidence.shape == (0, 3)
    assert rules.min_in_scope.shape == rules.max_needs_context.shape == (0,)


def test_a_desk_whose_texts_were_never_held_out_lets_none_leave() -> None:
    assert threshold(heads([]), heads([])) == NEVER


def test_texts_of_one_confidence_leave_together_or_not_at_all() -> None:
    """Whoever reaches the threshold leaves, so a tie cannot be cut: of these two one would be wrong."""
    early, last = heads([0, 1, 2], (0.9, 0.8, 0.8)), heads([0, 1, 1])
    assert threshold(early, last) == pytest.approx(0.85)
