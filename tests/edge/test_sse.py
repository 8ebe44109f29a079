"""The side parser against a plain reading of the WHATWG rules, split anywhere."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.sse import EventReader

LINES = st.sampled_from(
    "data: a|data:b|data:  two|data|data:|: ping|:|event: x|id: 1|retry: 9|dataset: no|data : no| data: no"
    "|||data: 你好🙂|data: [DONE]".encode().split(b"|")
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


def by_the_rules(stream: bytes) -> list[bytes]:
    """The events of a stream that is there as a whole."""
    lines = re.split(b"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))[
        :-1
    ]  # what no line end closes is no line yet
    events, data = [], []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not line:
            if data:
                events.append(b"\n".join(data))
            data = []
        elif name == b"data":
            data.append(value.removeprefix(b" ") if colon else b"")
    return events


def read(chunks: list[bytes], limit: int = 1 << 20) -> list[bytes]:
    reader = EventReader(limit)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.lists(st.integers(min_value=0), max_size=20))
def test_any_split_gives_the_same_events(lines: list[tuple[bytes, bytes]], places: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    assert read(cut(stream, places)) == by_the_rules(stream)


@given(st.lists(st.sampled_from([b"\r", b"\n", b"d", b"data:", b" ", b"x", b":", b"\xe4", b"\xef\xbb\xbf"])))
def test_any_stream_byte_by_byte(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    assert read([bytes([byte]) for byte in stream]) == by_the_rules(stream) == read([stream])


def test_a_crlf_between_chunks_is_one_line_end() -> None:
    assert read([b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]) == [b"a\nb"]


def test_utf8_split_inside_a_character() -> None:
    stream = "data: 你🙂\n\n".encode()
    for place in range(len(stream)):
        assert read([stream[:place], b"", stream[place:]]) == ["你🙂".encode()]


@pytest.mark.parametrize("size", [101, 1000, 50_000])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_an_oversize_event_is_passed_over_and_not_held(size: int, step: int) -> None:
    stream = b"data: first\n\ndata: " + b"x" * size + b"\ndata: more\n\ndata: last\n\n"
    reader, events, held = EventReader(100), [], 0
    for at in range(0, len(stream), step):
        events += reader.feed(stream[at : at + step])
        held = max(held, len(reader._line) + sum(map(len, reader._data)))
    assert events == [b"first", b"last"]
    assert held <= 100


def test_many_small_lines_are_bounded_too() -> None:
    reader = EventReader(100)
    for _ in range(1000):
        assert list(reader.feed(b"data: abc\n")) == []
        assert sum(map(len, reader._data)) <= 100
    assert list(reader.feed(b"\ndata: x\n\n")) == [b"x"]


def test_an_event_of_exactly_the_limit_is_read() -> None:
    assert read([b"data: " + b"x" * 94 + b"\n\n"], limit=100) == [b"x" * 94]
    assert read([b"data: " + b"x" * 95 + b"\n\n"], limit=100) == []


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", False),
        (b"\n\n", False),
        (b"data: a\n\n", False),
        (b"data: a\r\n\r", False),
        (b"data: a\r\r", False),
        (b"d", True),
        (b"data: a", True),
        (b"data: a\n", True),
        (b"data: a\r", True),
        (b"data: a\r\n", True),
        (b"data:\n", True),
        (b"event: x\n", True),  # the client holds the event's name already
        (b"data: a\n\nid", True),
        (b"data: " + b"x" * 200, True),
        (b"data: " + b"x" * 200 + b"\n", True),
        (b"data: " + b"x" * 200 + b"\n\n", False),
    ],
    ids=lambda value: repr(value[-12:]) if isinstance(value, bytes) else "",
)
@pytest.mark.parametrize("step", [1, 1000])
def test_mid_event(stream: bytes, expected: bool, step: int) -> None:
    reader = EventReader(100)
    for at in range(0, len(stream), step):
        list(reader.feed(stream[at : at + step]))
    assert reader.mid_event is expected
