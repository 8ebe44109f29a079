"""Bounds, thresholds and samples against what can be computed by hand, and against chance itself."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.risk import (
    LOOSEN,
    MAX_STARTS,
    NOTHING,
    Answers,
    Finding,
    _sequence,
    _starts,
    answers_to_prove,
    find_threshold,
    in_proportion,
    questions_to_prove,
    upper_bound,
)


def answers(*runs: tuple[int, bool], questions: int = 0) -> Answers:
    """Answers of falling confidence, as runs of right (False) and wrong ones (True)."""
    wrong = [kind for count, kind in runs for _ in range(count)]
    return Answers.of(np.linspace(0.99, 0.01, max(2, len(wrong)))[: len(wrong)].tolist(), wrong, questions)


FEW = st.lists(st.tuples(st.integers(1, 40).map(lambda n: n / 41), st.booleans()), max_size=80)


@st.composite
def many(draw: st.DrawFn) -> list[tuple[float, bool]]:
    """Up to 400 answers, some of one confidence, more often wrong where that is low."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    confidence = chance.random(draw(st.integers(20, 400))).round(draw(st.integers(1, 8)))
    wrong = chance.random(len(confidence)) < draw(st.sampled_from([0.01, 0.1, 0.5])) * (1 - confidence)
    return list(zip(confidence.tolist(), wrong.tolist(), strict=True))


def of(rows: Sequence[tuple[float, bool]]) -> Answers:
    return Answers.of([c for c, _ in rows], [w for _, w in rows], len(rows))


# --- bounds ----------------------------------------------------------------------------------------


def test_the_bound_without_an_error_is_the_closed_form() -> None:
    assert upper_bound(0, 100, 0.95) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert upper_bound(5, 5, 0.95) == 1.0
    assert upper_bound(0, 0, 0.95) == 1.0


@pytest.mark.parametrize(("wrong", "answered", "confidence"), [(3, 200, 0.9), (1, 10, 0.99), (40, 300, 0.95)])
def test_the_bound_covers_what_a_binomial_gives(wrong: int, answered: int, confidence: float) -> None:
    """P(X <= k) at the bound is exactly 1 - confidence: Clopper and Pearson's definition."""
    bound = upper_bound(wrong, answered, confidence)
    tail = sum(math.comb(answered, i) * bound**i * (1 - bound) ** (answered - i) for i in range(wrong + 1))
    assert tail == pytest.approx(1 - confidence, abs=1e-9)


def test_answers_to_prove() -> None:
    assert answers_to_prove(0.01, 0.95) == 299
    assert answers_to_prove(0.01, 0.975) == 368
    n = answers_to_prove(0.02, 0.9)
    assert upper_bound(0, n, 0.9) <= 0.02 < upper_bound(0, n - 1, 0.9)


# --- answers ---------------------------------------------------------------------------------------


def test_answers_are_put_in_order_whatever_order_they_come_in() -> None:
    found = of([(0.2, True), (0.9, False), (0.5, True), (0.7, False)])
    assert found.confidence.tolist() == [0.9, 0.7, 0.5, 0.2]
    assert found.wrong.tolist() == [False, False, True, True]
    assert (found.questions, len(found)) == (4, 4)


def test_a_threshold_stands_between_two_confidences() -> None:
    found = of([(0.9, False), (0.5, False), (0.5, True), (0.2, False)])
    assert found.cuts().tolist() == [1, 3, 4]
    assert [found.below(n) for n in (1, 3, 4)] == pytest.approx([0.7, 0.35, 0.2])
    assert of([]).cuts().tolist() == []


def test_a_gap_is_looked_for_up_to_two_percent_tighter() -> None:
    """Of 100 answers the places 99 and 100 are near enough, and the wider gap at 98 is not."""
    confidence = 0.9 - np.arange(200) / 1000
    for narrow, wide in ((98, 99), (99, 98)):
        steps = np.zeros(200)
        steps[narrow], steps[wide] = 0.1, 0.2
        found = Answers.of(confidence - np.cumsum(steps), np.zeros(200, bool), 200)
        assert found.gap(100) == 99
    assert Answers.of(confidence, np.zeros(200, bool), 200).gap(40) == 40
    # Below the last answer the gap reaches down to 0; answers of one confidence are never parted.
    assert Answers.of(confidence, np.zeros(200, bool), 200).gap(200) == 200
    assert of([(0.9, False)] * 60 + [(0.5, False)] * 40).gap(100) == 100


# --- thresholds ------------------------------------------------------------------------------------


def test_a_rate_is_proven_from_its_nth_answer_on() -> None:
    least = answers_to_prove(0.1, 0.95)
    assert least == 29
    proven = find_threshold(answers((29, False)), 0.1, 0.05)
    assert (proven.proven, proven.answered, proven.wrong) == (True, 29, 0)
    assert proven.bound == pytest.approx(1 - 0.05 ** (1 / 29))
    unproven = find_threshold(answers((28, False)), 0.1, 0.05)
    assert (unproven.proven, unproven.answered) == (False, 28)
    assert unproven.bound == pytest.approx(1 - 0.05 ** (1 / 28))


def test_it_loosens_until_the_first_failure() -> None:
    """The answers below would, all together, keep the rate again; they are never reached."""
    rows = answers((100, False), (60, True), (3000, False))
    assert upper_bound(60, 3160, 1 - 0.1 / MAX_STARTS) < 0.05
    found = find_threshold(rows, 0.05, 0.1)
    assert (found.proven, found.wrong) == (True, 0)
    assert 95 < found.answered <= 100
    following = next(
        place for place in _sequence(rows, _starts(3160, 0.05, 0.1)[0]) if place > found.answered
    )
    assert upper_bound(following - 100, following, 1 - 0.1 / MAX_STARTS) > 0.05


def test_one_early_error_ends_one_sequence_only() -> None:
    starts = _starts(700, 0.05, 0.05)
    assert starts == [86, 172, 344, 688]
    found = find_threshold(answers((1, True), (699, False)), 0.05, 0.05)
    assert (found.proven, found.answered, found.wrong) == (True, 700, 1)
    assert found.bound == pytest.approx(upper_bound(1, 700, 1 - 0.05 / 4))
    # With answers for one sequence alone the same error proves nothing.
    few = answers((1, True), (100, False))
    assert len(_starts(len(few), 0.05, 0.05)) == 1
    assert not find_threshold(few, 0.05, 0.05).proven


@pytest.mark.parametrize("delta", [0.05, 0.0125])
@pytest.mark.parametrize("max_wrong", [0.01, 0.1])
def test_as_many_sequences_start_as_there_are_answers_for(max_wrong: float, delta: float) -> None:
    counts = set()
    for total in range(0, 8000, 7):
        starts = _starts(total, max_wrong, delta)
        counts.add(len(starts))
        if starts:
            first = answers_to_prove(max_wrong, 1 - delta / len(starts))
            assert starts == [first * 2**i for i in range(len(starts))]
            assert starts[-1] <= total
        else:
            assert total < answers_to_prove(max_wrong, 1 - delta)
    assert counts == set(range(MAX_STARTS + 1))


def test_the_threshold_lies_in_the_widest_gap_near_its_place() -> None:
    """Of 119 right answers 115 are tested, and 113 to 115 are near; the next test fails."""
    for widest in (113, 114, 115):
        steps = np.full(160, 0.001)
        steps[widest] = 0.005
        rows = Answers(1 - np.cumsum(steps), np.arange(160) >= 119, 160)
        found = find_threshold(rows, 0.03, 0.05)
        assert (found.proven, found.answered) == (True, widest)
        assert found.confidence == pytest.approx(rows.confidence[widest - 1] - 0.0025)
        # The bound stays that of the test.
        assert found.bound == upper_bound(0, 115, 0.95)


@settings(deadline=None)
@given(rows=many(), start=st.integers(1, 60), chance=st.randoms(use_true_random=False))
def test_labels_do_not_move_a_place_that_is_tested(
    rows: list[tuple[float, bool]], start: int, chance: object
) -> None:
    """Which thresholds are tried follows from scores alone; what is chosen is one of them or just above."""
    wrong = [w for _, w in rows]
    chance.shuffle(wrong)  # type: ignore[attr-defined]
    one, other = of(rows), of(list(zip([c for c, _ in rows], wrong, strict=True)))
    start = min(start, len(one))
    assert _sequence(one, start) == _sequence(other, start)
    places = {p for first in _starts(len(one), 0.1, 0.1) for p in _sequence(one, first)}
    for labelled in (one, other):
        found = find_threshold(labelled, 0.1, 0.1)
        assert not found.proven or found.answered in {labelled.gap(place) for place in places}


@given(rows=many(), start=st.integers(1, 60))
def test_a_sequence_rises_from_its_start_to_the_end(rows: list[tuple[float, bool]], start: int) -> None:
    found = of(rows)
    start, cuts = min(start, len(rows)), found.cuts().tolist()
    places = _sequence(found, start)
    assert places == sorted(set(places))
    assert set(places) <= set(cuts)
    assert (places[0], places[-1]) == (min(cut for cut in cuts if cut >= start), len(rows))
    assert len(places) <= 2 + 20 + math.log(len(rows) / min(start, 20)) / math.log(LOOSEN)


@settings(deadline=None)
@given(rows=FEW | many(), max_wrong=st.sampled_from([0.05, 0.1, 0.3]), delta=st.sampled_from([0.05, 0.2]))
def test_what_is_found_holds_of_the_answers(
    rows: list[tuple[float, bool]], max_wrong: float, delta: float
) -> None:
    """Rows of one confidence are never split; counts are those of what is let through, proven or not."""
    ordered = of(rows)
    found = find_threshold(ordered, max_wrong, delta)
    if found is NOTHING:
        assert all(w for _, w in rows)
        return
    assert found.answered == sum(c >= found.confidence for c, _ in rows)
    assert found.wrong == sum(w for c, w in rows if c >= found.confidence)
    assert found.questions == len(rows)
    wrong = np.cumsum(ordered.wrong)
    if found.proven:
        # The bound is that of a test, which passed up to 2 % below.
        starts = _starts(len(rows), max_wrong, delta)
        level = 1 - delta / len(starts)
        tested = {place for start in starts for place in _sequence(ordered, start)}
        assert found.bound <= max_wrong
        assert found.bound in {
            upper_bound(int(wrong[place - 1]), place, level)
            for place in tested
            if ordered.gap(place) == found.answered
        }
    else:
        bounds = [upper_bound(int(wrong[n - 1]), n, 1 - delta) for n in ordered.cuts().tolist()]
        assert found.bound == min(bounds)


def test_confidences_as_near_as_numbers_can_be_are_told_apart() -> None:
    low = 0.01
    rows = of([(math.nextafter(low, 1), False), (low, True), (math.nextafter(low, 0), True)])
    assert [rows.confidence[n] >= rows.below(n) for n in (1, 2, 3) if n < 3] == [False, False]
    assert [rows.confidence[n - 1] >= rows.below(n) for n in (1, 2, 3)] == [True] * 3


def test_without_a_right_answer_nothing_is_answered() -> None:
    assert find_threshold(answers(), 0.1, 0.05) is NOTHING
    assert find_threshold(answers((30, True)), 0.1, 0.05) is NOTHING
    assert (NOTHING.confidence, NOTHING.bound, NOTHING.proven) == (1.0, 1.0, False)


def test_thresholds_that_break_the_rate_are_as_rare_as_stated() -> None:
    """Confidences even in [0, 1], wrong with probability 0.6 (1 - c)²: above t, 0.2 (1 - t)² are wrong.

    So 5 % is kept from t = 0.5 on, and a proven threshold under it breaks the promise.
    """
    chance, broken, proven, answered = np.random.default_rng(0), 0, 0, 0
    for _ in range(200):
        confidence = chance.random(600)
        wrong = chance.random(600) < 0.6 * (1 - confidence) ** 2
        found = find_threshold(Answers.of(confidence.tolist(), wrong.tolist(), 600), 0.05, 0.1)
        proven += found.proven
        broken += found.proven and found.confidence < 0.5
        answered += found.answered
    assert broken <= 0.1 * 200
    assert proven > 160
    assert answered / 200 > 100  # 300 could be answered, if one knew


# --- how many more ---------------------------------------------------------------------------------


def test_nothing_more_is_needed_of_what_is_proven() -> None:
    assert questions_to_prove(Finding(0.5, 300, 0, 900, 0.01, proven=True), 0.01, 0.05) == 0


@pytest.mark.parametrize("finding", [NOTHING, Finding(0.5, 100, 1, 200, 0.05, proven=False)])
def test_no_questions_help_where_errors_are_no_rarer_than_stated(finding: Finding) -> None:
    assert questions_to_prove(finding, 0.01, 0.05) is None


def test_questions_without_an_error_are_the_closed_form() -> None:
    """100 of 250 are answered: 337 more answers take about 842 more questions, with all sequences."""
    assert answers_to_prove(0.01, 1 - 0.05 / MAX_STARTS) == 437
    more = questions_to_prove(Finding(0.5, 100, 0, 250, 0.03, proven=False), 0.01, 0.05)
    assert more == pytest.approx(842, abs=3)


@given(wrong=st.integers(0, 4), answered=st.integers(20, 900), forwarded=st.integers(0, 900))
def test_as_many_more_prove_it_and_clearly_fewer_do_not(wrong: int, answered: int, forwarded: int) -> None:
    level = 1 - 0.05 / MAX_STARTS
    bound = upper_bound(wrong, answered, level)
    finding = Finding(0.5, answered, wrong, answered + forwarded, bound, proven=False)
    more = questions_to_prove(finding, 0.02, 0.05)
    if wrong / answered >= 0.02:
        assert more is None
        return
    if bound <= 0.02 or more is None:
        return

    def bound_with(questions: float) -> float:
        factor = 1 + questions / finding.questions
        return upper_bound(round(wrong * factor), math.ceil(answered * factor), level)

    assert bound_with(more) <= 0.02 * 1.01
    # Errors are whole: one more or less of them is what rounding may do.
    fewer = 1 + 0.8 * more / finding.questions
    assert upper_bound(math.ceil(wrong * fewer), math.floor(answered * fewer), level) > 0.02 * 0.999


# --- samples ---------------------------------------------------------------------------------------

SHARES = st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.0, 0.15, 1.0, 3.0]), min_size=1).filter(
    lambda shares: sum(shares.values()) > 0
)
STRATA = st.lists(st.sampled_from("abcd"), max_size=80)


def keys(count: int) -> list[str]:
    return [f"question {n}" for n in range(count)]


def kept(strata: Sequence[str], shares: Mapping[str, float]) -> Counter[str]:
    return Counter(strata[i] for i in in_proportion(strata, keys(len(strata)), shares))


def test_proportions_by_hand() -> None:
    strata = ["a"] * 70 + ["b"] * 15 + ["c"] * 40
    assert kept(strata, {"a": 0.7, "b": 0.15, "c": 0.15}) == {"a": 70, "b": 15, "c": 15}
    assert kept(strata, {"a": 1, "b": 1, "c": 1}) == {"a": 15, "b": 15, "c": 15}
    assert kept(strata, {"a": 7, "c": 3}) == {"a": 70, "c": 30}
    # Half a row of what is rare is a row: it is to be there.
    assert kept(strata, {"a": 0, "b": 2, "c": 1}) == {"b": 15, "c": 8}
    assert kept(strata, {"a": 70, "b": 0.01}) == {"a": 70, "b": 1}


def test_a_share_of_a_stratum_without_rows_leaves_nothing() -> None:
    assert kept(["a"] * 9, {"a": 0.9, "b": 0.1}) == {}
    assert kept([], {"a": 1}) == {}


def test_without_shares_everything_stays() -> None:
    assert in_proportion(["a", "b"], ["x", "y"], {}) == [0, 1]


def test_no_row_is_lost_to_rounding() -> None:
    shares = {"a": 0.7, "b": 0.15, "c": 0.15}
    for scale in range(1, 120):
        strata = ["a"] * (14 * scale) + ["b"] * (3 * scale) + ["c"] * (3 * scale)
        assert len(in_proportion(strata, keys(len(strata)), shares)) == len(strata)


@given(strata=STRATA, shares=SHARES)
def test_as_many_as_can_be_in_these_proportions(strata: list[str], shares: dict[str, float]) -> None:
    found, there, total = kept(strata, shares), Counter(strata), sum(shares.values())
    assert "d" not in found
    named = {name: share / total for name, share in shares.items() if share}
    size = min(there[name] / share for name, share in named.items())
    for name, share in named.items():
        assert found[name] <= there[name]
        assert size * share - 1e-6 <= found[name] < size * share + 1
    assert any(found[name] == there[name] for name in named)


@given(strata=STRATA, shares=SHARES, chance=st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    strata: list[str], shares: dict[str, float], chance: object
) -> None:
    """Hashes of the texts choose, so a file that is sorted another way gives the same sample."""
    names = keys(len(strata))
    order = list(range(len(strata)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    one = {names[i] for i in in_proportion(strata, names, shares)}
    moved = [names[i] for i in order]
    other = {moved[i] for i in in_proportion([strata[i] for i in order], moved, shares)}
    assert one == other


@given(strata=STRATA, shares=SHARES)
def test_the_scale_of_the_shares_does_not_matter(strata: list[str], shares: dict[str, float]) -> None:
    names, hundred = keys(len(strata)), {name: share * 100 for name, share in shares.items()}
    assert in_proportion(strata, names, shares) == in_proportion(strata, names, hundred)


def test_a_larger_file_keeps_what_a_smaller_one_kept() -> None:
    """One more row moves one row, not the whole sample."""
    strata = ["a"] * 30 + ["b"] * 60
    before = set(in_proportion(strata, keys(90), {"a": 1, "b": 1}))
    after = set(in_proportion([*strata, "a"], keys(91), {"a": 1, "b": 1}))
    assert before < after
    assert len(after) == len(before) + 2
