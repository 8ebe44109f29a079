"""Near-duplicates: the index finds what comparing every pair finds, and groups are their closure."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.near import NEAR, near_any, near_groups, near_pairs, trigrams


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Open?", {"ope", "pen"}),
        ("o-p e_n", {"ope", "pen"}),
        ("几点开门", {"几点开", "点开门"}),
        ("hi", {"hi"}),
        ("a", {"a"}),
        ("", {""}),
        ("?!", {"?!"}),
        ("😀😀", {"😀😀"}),
        ("aaaa", {"aaa"}),
    ],
)
def test_trigrams_by_hand(text: str, expected: set[str]) -> None:
    assert trigrams(text) == expected


def test_pairs_by_hand() -> None:
    texts = [
        "when do you open",
        "When do you open?!",
        "when do you open up",
        "几点开门",
        "几点开门呀",
        "returns",
    ]
    assert set(near_pairs(texts)) == {(1, 0), (2, 0), (2, 1), (4, 3)}
    assert set(near_pairs(texts, 1.0)) == {(1, 0)}
    assert list(near_pairs([])) == []


def test_a_similarity_of_exactly_the_least_is_near() -> None:
    one, two = "abcdef", "abcdxy"  # abc bcd | cde def | cdx dxy: 2 of 6
    assert list(near_pairs([one, two], 2 / 6)) == [(1, 0)]
    assert list(near_pairs([one, two], 0.34)) == []


def test_different_signs_without_letters_are_not_near() -> None:
    assert list(near_pairs(["?", "!", "😀", "", "🦜"])) == []
    assert list(near_pairs(["😀", "😀", ""])) == [(1, 0)]


TEXTS = st.lists(st.text("ab ?几点", max_size=7), max_size=25)


@settings(max_examples=200, deadline=None)
@given(texts=TEXTS, least=st.sampled_from([0.3, NEAR, 1.0]))
def test_the_index_finds_what_comparing_all_finds(texts: list[str], least: float) -> None:
    found = list(near_pairs(texts, least))
    grams = [trigrams(text) for text in texts]
    expected = {
        (j, i)
        for i, j in combinations(range(len(texts)), 2)
        if len(grams[i] & grams[j]) >= least * len(grams[i] | grams[j])
    }
    assert len(found) == len(set(found))
    assert set(found) == expected


@settings(max_examples=200, deadline=None)
@given(texts=TEXTS)
def test_groups_are_the_closure_of_pairs(texts: list[str]) -> None:
    groups = near_groups(texts)
    assert sorted(i for group in groups for i in group) == list(range(len(texts)))
    group_of = {i: number for number, group in enumerate(groups) for i in group}
    pairs = list(near_pairs(texts))
    assert all(group_of[i] == group_of[j] for i, j in pairs)
    for group in groups:  # and nothing is in a group without a chain of pairs that leads to it
        reached, edge = {group[0]}, {group[0]}
        while edge:
            edge = {k for i, j in pairs for k in (i, j) if {i, j} & edge} - reached
            reached |= edge
        assert reached == set(group)


def test_a_chain_is_one_group() -> None:
    texts = ["abcdefghij", "abcdefghijkl", "abcdefghijklmn"]
    assert (2, 0) in set(near_pairs(texts))
    longer = [*texts, "abcdefghijklmnopqrst", "abcdefghijklmnopqrstuvwxyz0"]
    assert (4, 0) not in set(near_pairs(longer))
    assert near_groups([*longer, "other"]) == [[0, 1, 2, 3, 4], [5]]


def test_near_any_names_the_places_of_the_first_list() -> None:
    texts = ["returns", "When do you open?!", "几点开门呀", "returns"]
    assert near_any(texts, ["when do you open", "几点开门"]) == {1, 2}
    assert near_any(texts, []) == set()
    assert near_any([], texts) == set()
