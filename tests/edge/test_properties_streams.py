"""Any event stream, in any pieces and framing, arrives exact, and is read the same however it is split."""

import json

import pytest
from hypothesis import event
from hypothesis import strategies as st
from servers import LAST_CHUNK, Do, Relay, ScriptedUpstream, chunk, head
from spelled import PLACES, Hold, cut
from test_sse import by_the_rules
from wires import Wire, request

from edge.sse import EventReader

# A huge line in a failing example is no second failure.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

HELLO = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'

_LINES = [
    b"",
    b"data: a",
    b"data:b",
    b"data",
    b"data:  two",
    b": ping",
    b":",
    b"event: x",
    b"id: 1\x00",
    b"retry: 9",
    "data: 你好🙂👩‍💻".encode(),
    b'data: {"usage":{"completion_tokens":7}}',
    b'data: {"usage":[' + b"[" * 2000,
    b"data: [DONE] ",
]
LINES = st.one_of(
    st.sampled_from(_LINES),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda t: b"data: " + t.encode()),
    st.binary(max_size=20),
    st.sampled_from([3000, 70_000]).map(lambda size: b"data:" + b"x" * size),
)
STREAMS = st.builds(
    lambda mark, lines, done, end: mark + b"".join(map(b"".join, lines)) + done + end,
    st.sampled_from([b"", b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n"])), max_size=12),
    st.sampled_from([b"", b"data: [DONE]\n\n", b"data:[DONE]\r\r", b"\r\n\r\ndata: [DONE]\r\n\r\n"]),
    st.sampled_from([b"", b"", b"data: no end", b"\r"]),
)
FRAMINGS = st.sampled_from(["chunked", "length", "close"])


def spread(data: bytes, places: list[int]) -> list[bytes | float]:
    """The data in pieces that really are sent one by one."""
    first, *rest = cut(data, places)
    return [first, *(step for piece in rest for step in (0.0005, piece))]


def framed(stream: bytes, framing: str, places: list[int], missing: int = 0) -> bytes:
    """A response with this stream; ``missing``: how many bytes its framing promises too many."""
    fields = ["content-type: text/event-stream"]
    if framing == "chunked":
        fields.append("transfer-encoding: chunked")
        pieces = [chunk(piece) for piece in cut(stream, places)]
        return head("200 OK", *fields) + b"".join(pieces) + (b"" if missing else LAST_CHUNK)
    fields.append(f"content-length: {len(stream) + missing}" if framing == "length" else "connection: close")
    return head("200 OK", *fields) + stream


def test_any_stream_in_any_pieces_arrives_exact(hold: Hold, relay: Relay, upstream: ScriptedUpstream) -> None:
    def rule(given: tuple[bytes, str, list[int], list[int]]) -> None:
        stream, framing, chunks, sends = given
        sent = spread(framed(stream, framing, chunks), sends)
        upstream.script = [*sent, Do.CLOSE] if framing == "close" else sent
        response = wire.ask(request(HELLO))
        assert (response.status, response.body) == (200, stream)
        assert response.one("content-type") == "text/event-stream"
        told = relay.event()
        assert (told.outcome, told.stream) == ("ok", True)
        event(framing)

    with Wire(relay.port) as wire:
        hold(rule, st.tuples(STREAMS, FRAMINGS, PLACES, PLACES))


def test_any_stream_that_breaks_off_is_exact_and_ends_with_an_error(
    hold: Hold, relay: Relay, upstream: ScriptedUpstream
) -> None:
    def rule(given: tuple[bytes, str, list[int], list[int]]) -> None:
        stream, framing, chunks, sends = given
        upstream.script = [*spread(framed(stream, framing, chunks, missing=5), sends), Do.CLOSE]
        response = wire.ask(request(HELLO))
        assert response.status == 200
        assert response.body.startswith(stream)
        if b"[DONE]" in by_the_rules(stream):
            assert (response.body, relay.event().outcome) == (stream, "ok")
            return
        *before, error, done = by_the_rules(response.body)
        assert before == by_the_rules(stream + b"\n\n")
        assert done == b"[DONE]"
        assert json.loads(error)["error"]["code"] == "upstream_reset"
        assert relay.event().outcome == "upstream_failed"

    with Wire(relay.port) as wire:
        hold(rule, st.tuples(STREAMS, st.sampled_from(["chunked", "length"]), PLACES, PLACES), 150)


def test_any_pieces_give_the_same_events(hold: Hold) -> None:
    def rule(given: tuple[bytes, list[int], int]) -> None:
        stream, places, limit = given
        whole, split, single = EventReader(limit), EventReader(limit), EventReader(limit)
        events = list(whole.feed(stream))
        assert [e for piece in cut(stream, places) for e in split.feed(piece)] == events
        if len(stream) < 4000:
            assert [e for byte in stream for e in single.feed(bytes([byte]))] == events
            assert single.mid_event == whole.mid_event
        assert split.mid_event == whole.mid_event
        if limit > len(stream):
            assert events == by_the_rules(stream)

    hold(rule, st.tuples(STREAMS, PLACES, st.sampled_from([1, 7, 8, 30, 1 << 20])), 300)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert list(EventReader().feed(b"\xef\xbb\xbfdata: a\n\n")) == [b"a"]
