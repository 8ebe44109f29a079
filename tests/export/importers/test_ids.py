"""Ids that people can read, of the pattern that a desk asks for, each once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.desk import OUT_OF_SCOPE, TOPIC_ID
from export.importers.ids import slug, topic_ids


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("shop.order_status", "shop.order_status"),
        ("Book Flight", "book-flight"),
        ("faq/ask_name", "faq.ask_name"),
        ("What's new?", "whats-new"),
        ("Café hours", "cafe-hours"),
        ("Pay 💳", "pay"),
        ("v1.2: how?", "v1-2-how"),
        ("几点开门？", "topic-d55f514e"),
        ("WiFi 密码", "wifi-845339f2"),
        ("💳", "topic-95e28929"),
        ("...", "topic-ab5df625"),
        ("word " * 30, "word-word-word-word-word-word-word-word-word"),
        ("x" * 200, "x" * 48),
    ],
)
def test_slugs(title: str, expected: str) -> None:
    assert slug(title) == expected
    assert TOPIC_ID.fullmatch(expected)


def test_collisions_are_numbered_and_names_that_are_ids_keep_theirs() -> None:
    titles = dict(zip("abcdef", ("Pay", "pay", "PAY", "pay-2", "oos", "p" * 80), strict=True))
    ids = topic_ids(titles)
    assert ids == {"a": "pay-3", "b": "pay", "c": "pay-4", "d": "pay-2", "e": "oos-2", "f": "p" * 48}


@given(st.lists(st.text(min_size=1, max_size=80), max_size=20))
def test_any_titles_get_ids_of_their_own(titles: list[str]) -> None:
    ids = topic_ids({str(n): title for n, title in enumerate(titles)})
    assert len(set(ids.values())) == len(titles)
    assert all(TOPIC_ID.fullmatch(id_) and id_ != OUT_OF_SCOPE for id_ in ids.values())
