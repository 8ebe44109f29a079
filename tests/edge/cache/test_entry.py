"""Entries: what they say of themselves, and what is no entry."""

import json
import math
from typing import Any

import numpy as np
import pytest
from entries import DIM, NOON, entry_of, vector_of

from edge.cache.entry import Entry, entry_id, unit_vector


def test_a_record_makes_the_entry_again() -> None:
    for entry in (entry_of(), entry_of(vector=None), entry_of("问题", expires=NOON + 5, tags=())):
        again = Entry.of_record(json.loads(json.dumps(entry.record())))
        assert again == entry
        if entry.vector is None:
            assert again.vector is None
        else:
            np.testing.assert_array_equal(again.vector, entry.vector)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", "0" * 32),  # another question's
        ("scope", "t"),
        ("question", "what else"),
        ("typed", None),
        ("text", None),
        ("text", 5),
        ("tokens", "5"),
        ("tokens", True),
        ("lang", "fr"),
        ("tags", "agent"),
        ("tags", [1]),
        ("stored", math.nan),
        ("stored", "now"),
        ("expires", math.inf),
        ("expires", "never"),
        ("fill_ms", math.nan),
        ("vector", "no base64"),
        ("vector", "AAAA"),
        ("vector", entry_of(vector=np.full(DIM, np.nan, np.float32)).record()["vector"]),
        ("vector", entry_of(vector=np.zeros(DIM, np.float32)).record()["vector"]),
        ("vector", 7),
    ],
)
def test_what_is_no_entry_is_refused(name: str, value: Any) -> None:
    record = entry_of().record()
    with pytest.raises(ValueError, match=r".+"):
        Entry.of_record({**record, name: value})
    del record[name]
    with pytest.raises(ValueError, match="no entry"):
        Entry.of_record(record)


@pytest.mark.parametrize("record", [None, 5, "entry", [], {}])
def test_neither_is_anything_else(record: Any) -> None:
    with pytest.raises(ValueError, match="no entry"):
        Entry.of_record(record)


def test_ids_belong_to_scope_and_question_together() -> None:
    ids = {entry_id(scope, question) for scope, question in [("a", "b"), ("a", "c"), ("b", "b")]}
    assert len(ids) == 3
    assert entry_id("a", "\ud800") == entry_id("a", "\ud800")


def test_texts_have_no_repr() -> None:
    shown = repr(entry_of("a secret question", text="a secret answer"))
    assert "secret" not in shown


def test_an_entry_lives_no_longer_than_it_was_to_live() -> None:
    entry = entry_of(stored=1000.0, expires=1060.0)
    assert [entry.left(now) for now in (1000.0, 1059.0, 1060.0, 2000.0)] == [60.0, 1.0, 0.0, 0.0]
    assert entry.left(0.0) == 60.0  # the clock was put back
    assert entry_of().left(0.0) == math.inf
    assert entry.age(900.0) == 0.0


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(DIM, np.float32),
        np.full(DIM, np.nan, np.float32),
        np.full(DIM, np.inf, np.float32),
        np.full(DIM, 1.0, np.float32),
        np.array([], np.float32),
        np.array([[1.0]], np.float32),
        np.array([1.0, np.nan], np.float32),
    ],
)
def test_what_has_not_length_1_is_no_vector(vector: np.ndarray) -> None:
    assert unit_vector(vector) is None


def test_rounded_lengths_become_1() -> None:
    found = unit_vector(vector_of(1.0, 2.0) * np.float32(1.004))
    assert found is not None
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-6)
