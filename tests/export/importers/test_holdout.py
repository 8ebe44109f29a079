"""Who is held out: a share of each topic, never its last example, and the same ones every time."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from edge.normaliser import Lang
from export.importers.holdout import Candidate, hold_out
from export.importers.material import Side
from export.near import near_groups

HELD = (Side.CALIBRATE, Side.TEST)
TEXTS = st.lists(
    st.tuples(st.text("abc ", min_size=1, max_size=12), st.sampled_from("xyz"), st.booleans()),
    max_size=40,
    unique_by=lambda row: row[0],
)


def candidates(rows: list[tuple[str, str, bool]]) -> list[Candidate]:
    return [Candidate(text, topic, Lang.EN, free, Side.TRAIN) for text, topic, free in rows]


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.floats(0, 0.9))
def test_no_topic_loses_its_last_example_or_more_than_its_share(
    rows: list[tuple[str, str, bool]], share: float
) -> None:
    texts = candidates(rows)
    placed = hold_out(texts, share, HELD)
    had = Counter(text.topic for text in texts)
    lost = Counter(text.topic for text, side in zip(texts, placed, strict=True) if side is not Side.TRAIN)
    assert all(lost[topic] < had[topic] and lost[topic] <= share * had[topic] + 0.5 for topic in lost)
    assert all(side is Side.TRAIN for text, side in zip(texts, placed, strict=True) if not text.free)
    for group in near_groups([text.reading for text in texts]):
        assert len({placed[i] for i in group}) == 1


def test_the_order_of_the_file_does_not_matter() -> None:
    rows = [
        (f"{word} {n}", "x", True) for n, word in enumerate(("amber", "brick", "cedar", "dwarf", "ember") * 6)
    ]
    texts = candidates(rows)
    once = dict(zip(texts, hold_out(texts, 0.3, HELD), strict=True))
    again = dict(zip(texts[::-1], hold_out(texts[::-1], 0.3, HELD), strict=True))
    assert once == again


def test_what_has_grown_keeps_most_of_its_sides() -> None:
    def sides(count: int) -> dict[str, Side]:
        texts = candidates(
            [(f"{n * 7919 % 1000003:x} {n * 104729 % 999983:x}", "x", True) for n in range(count)]
        )
        return {text.reading: side for text, side in zip(texts, hold_out(texts, 0.2, HELD), strict=True)}

    before, after = sides(200), sides(240)
    assert sum(before[text] is not after[text] for text in before) < 20


def test_what_is_near_a_given_question_follows_it_or_stays() -> None:
    texts = [
        Candidate("when do you open today", "x", Lang.EN, False, Side.TEST),
        Candidate("when do you open today?", "oos", Lang.EN, True, Side.TRAIN),
        Candidate("when do you open today please", "x", Lang.EN, True, Side.TRAIN),
        Candidate("another thing", "x", Lang.EN, True, Side.TRAIN),
    ]
    assert hold_out(texts, 0.9, HELD)[:3] == [Side.TEST, Side.TEST, Side.TRAIN]


def test_a_language_keeps_its_only_example() -> None:
    texts = [Candidate(f"{n * 7919:x}", "x", Lang.ZH, True, Side.TRAIN) for n in range(20)]
    texts.append(Candidate("hello", "x", Lang.EN, True, Side.TRAIN))
    placed = hold_out(texts, 0.9, HELD)
    assert placed[-1] is Side.TRAIN
    assert placed.count(Side.TRAIN) == 3


def test_a_given_question_may_be_all_that_its_topic_has_in_a_language() -> None:
    texts = [
        Candidate("你好", "x", Lang.ZH, False, Side.CALIBRATE),
        Candidate("hello", "x", Lang.EN, True, Side.TRAIN),
    ]
    assert hold_out(texts, 0.2, (Side.TEST,)) == [Side.CALIBRATE, Side.TRAIN]
