"""cache-control: what a client asks for, and what an agent forbids."""

import pytest

from edge.cache.control import Control, may_store


def asked(*values: str) -> Control:
    return Control.of([(b"accept", b"*/*"), *((b"cache-control", value.encode()) for value in values)])


@pytest.mark.parametrize(
    ("values", "max_age", "store"),
    [
        ((), None, True),
        (("",), None, True),
        (("no-cache",), 0, True),
        (("No-Cache",), 0, True),
        (("no-store",), None, False),
        (("no-cache, no-store",), 0, False),
        (("no-cache", "no-store"), 0, False),
        (("max-age=60",), 60, True),
        (('max-age="60"',), 60, True),
        (("max-age = 60",), 60, True),
        (("max-age=60", "max-age=5"), 5, True),
        (("max-age=60, no-cache",), 0, True),
        (("only-if-cached, x=1",), None, True),
        # What cannot be read asks for a new answer.
        (("max-age=-1",), 0, True),
        (("max-age=soon",), 0, True),
        (("max-age=",), 0, True),
        (("max-age",), 0, True),
        (("max-age=1e9",), 0, True),
        (("max-age=٣",), 0, True),
    ],
)
def test_a_client_asks(values: tuple[str, ...], max_age: float | None, store: bool) -> None:
    assert asked(*values) == Control(max_age, store)


def test_only_an_age_of_nothing_is_fresh() -> None:
    assert asked("no-cache").fresh
    assert asked("max-age=0").fresh
    assert not asked("max-age=1").fresh
    assert not asked().fresh


@pytest.mark.parametrize(
    ("headers", "whole", "events"),
    [
        ({}, True, True),
        ({"cache-control": "public, max-age=60"}, True, True),
        ({"cache-control": "private"}, False, False),
        ({"cache-control": "max-age=60, Private"}, False, False),
        ({"cache-control": "no-store"}, False, False),
        ({"cache-control": "no-cache"}, False, True),  # which servers of event streams send by habit
        ({"cache-control": "max-age=0"}, False, True),
        ({"vary": "accept-encoding, Origin"}, True, True),
        ({"vary": "authorization"}, False, False),
        ({"vary": "*"}, False, False),
        ({"vary": "accept, cookie"}, False, False),
        ({"set-cookie": "session=1"}, False, False),
        ({"www-authenticate": "Bearer"}, False, False),
    ],
)
def test_an_agent_forbids(headers: dict[str, str], whole: bool, events: bool) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert may_store(raw, is_events=False) is whole
    assert may_store(raw, is_events=True) is events
