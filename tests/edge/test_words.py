"""Stems and trees of words."""

import pytest

from edge.words import Words, longest, stem, tokens_of
from export.pairs import pair_data

DATA = pair_data()
FORMS = DATA["forms"]


@pytest.mark.parametrize(
    "forms",
    [
        ("repair", "repairs", "repaired", "repairing", "repair's"),
        ("cancel", "cancels", "cancelled", "canceling", "cancelling"),
        ("ship", "ships", "shipped", "shipping"),
        ("crash", "crashes", "crashed", "crashing"),
        ("delivery", "deliveries"),
        ("carry", "carries", "carried", "carrying"),
        ("make", "makes", "making", "made"),
        ("use", "uses", "used"),
        ("box", "boxes"),
        ("buy", "buys", "bought", "buying"),
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form, FORMS) for form in forms}) == 1


@pytest.mark.parametrize(
    ("one", "two"), [("his", "hi"), ("used", "us"), ("is", "i"), ("bus", "bu"), ("need", "ne"), ("red", "r")]
)
def test_other_words_do_not_fall_together(one: str, two: str) -> None:
    assert stem(one, FORMS) != stem(two, FORMS)


def test_a_stem_is_never_empty_and_han_characters_are_their_own() -> None:
    assert stem("'s", FORMS) == "'s"
    assert stem("s", FORMS) == "s"
    assert stem("修", FORMS) == "修"
    assert all(stem(word, FORMS) for word in DATA["terms"] if word)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("check-in at 9:30", ["check", "in", "at", "9:30"]),
        ("x1, 1,024.5!", ["x", "1", ",", "1,024.5", "!"]),
        ("at 3 P.M. or a.m.", ["at", "3", "PM", "or", "am"]),
        ("can't 我们", ["can't", "我", "们"]),
        ("", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert [match.group() for match in tokens_of(text)] == tokens


def test_the_longest_word_wins() -> None:
    words = Words.of_data(DATA)
    assert longest(words.terms, ["turn", "off", "it"], 0) == ((DATA["terms"]["turn off"],), 2)
    assert longest(words.terms, ["zorb"], 0) == (None, 0)
    assert longest(words.units, ["个", "工", "作", "日"], 0) == ("day", 4)
    assert longest(words.units, ["个", "工"], 0) == (None, 0)


def test_an_item_of_no_known_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        Words.of_data({**DATA, "terms": {"red": "colour:red"}})
