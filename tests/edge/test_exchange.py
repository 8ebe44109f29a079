"""One exchange: its ids, its headers, its end."""

import asyncio
import json
import re
from typing import Any

import numpy as np
import pytest

from edge.decision import Answer, Candidate, Decision, Path, Reading, Reason
from edge.errors import NotFound, UpstreamUnreachable
from edge.exchange import Exchange
from edge.forward import Relayed
from edge.normaliser import Lang
from edge.telemetry import Served

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
READING = Reading((Candidate("hours", 0.98765),), 0.99, 0.0, 2, np.zeros(2, np.float32), 5)
FAQ = Decision(
    Path.FAQ,
    Reason.MATCHED,
    Lang.EN,
    READING,
    "hours",
    answer=Answer("hours", Lang.EN, "Nine.", 2),
    unproven=True,
)


def exchange(**headers: str) -> Exchange:
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Exchange({"type": "http", "path": "/v1/x", "headers": pairs}, default_budget_ms=2000)


def sent(call: Any, *args: Any) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of what a method of an exchange sends."""
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(call(send, *args))
    start, body = messages
    headers = dict(start["headers"])
    assert len(headers) == len(start["headers"]), "a header twice"
    return start["status"], headers, body["body"]


@pytest.mark.parametrize("given", ["abc", "req_1.2:3=4-5", "x" * 128])
def test_a_good_request_id_is_kept(given: str) -> None:
    assert exchange(x_request_id=given).request_id == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\n", "é", "a,b"])
def test_a_bad_request_id_is_replaced(given: str) -> None:
    made = exchange(x_request_id=given).request_id
    assert re.fullmatch("req_[0-9a-f]{24}", made)
    assert made != exchange(x_request_id=given).request_id


def test_traceparent() -> None:
    assert exchange(traceparent=TRACE).traceparent == TRACE
    for given in ("", "00-1-2-00", TRACE.upper(), TRACE + "-x"):
        assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", exchange(traceparent=given).traceparent)


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ("500", 500),
        ("0", 0),
        ("", 2000),
        ("-1", 2000),
        ("1.5", 2000),
        ("²", 2000),
        ("9" * 8, 2000),
        ("+5", 2000),
    ],
)
def test_budget(asked: str, granted: int) -> None:
    left = exchange(x_frontdesk_budget_ms=asked).budget.remaining_ms()
    assert granted - 500 < left <= granted


def test_header_takes_the_first_of_its_name() -> None:
    made = Exchange({"headers": [(b"a", b"1"), (b"a", b"2"), (b"b", b"\xe9")]}, 1)
    assert (made.header(b"a"), made.header(b"b"), made.header(b"c")) == ("1", "é", "")


def test_headers_of_every_answer() -> None:
    made = exchange(x_request_id="r1")
    made.spans.mark("admit")
    assert [name for name, _ in made.head()] == [b"x-frontdesk-schema", b"x-request-id", b"server-timing"]
    made.decision = FAQ
    headers = dict(made.head())
    assert headers.pop(b"server-timing").startswith(b"admit;dur=")
    assert headers == {
        b"x-frontdesk-schema": b"1",
        b"x-request-id": b"r1",
        b"x-frontdesk-path": b"faq",
        b"x-frontdesk-reason": b"matched",
    }


def test_the_evidence_only_where_it_was_asked_for() -> None:
    made = exchange(x_frontdesk_debug="1")
    made.decision, made.bundle = FAQ, "demo@1"
    evidence = [(b"topic", b"hours"), (b"confidence", b"0.9877"), (b"exit", b"2"), (b"bundle", b"demo@1")]
    assert set(made.head()) >= {(b"x-frontdesk-" + name, value) for name, value in evidence}
    assert (b"x-frontdesk-unproven", b"1") in made.head()
    assert exchange(x_frontdesk_debug="true").debug is False


def test_what_would_have_been_is_evidence_too() -> None:
    made = exchange(x_frontdesk_debug="1")
    made.decision = Decision(Path.AGENT, Reason.OBSERVE, observed=FAQ)
    assert (b"x-frontdesk-observed", b"faq;matched") in made.head()
    assert b"x-frontdesk-confidence" not in dict(made.head())


def test_respond() -> None:
    made = exchange()
    status, headers, body = sent(made.respond, 201, b"text/plain", "你".encode(), [(b"x-a", b"1")])
    assert (status, body) == (201, "你".encode())
    assert (headers[b"content-type"], headers[b"content-length"], headers[b"x-a"]) == (
        b"text/plain",
        b"3",
        b"1",
    )


def test_refuse_without_a_decision_gives_the_code_as_reason() -> None:
    status, headers, body = sent(exchange().refuse, NotFound("Nothing here."))
    assert (status, headers[b"x-frontdesk-path"], headers[b"x-frontdesk-reason"]) == (
        404,
        b"error",
        b"not_found",
    )
    assert json.loads(body)["error"]["message"] == "Nothing here."
    assert b"retry-after" not in headers


def test_refuse_after_a_decision_keeps_its_reason_for_client_and_sinks() -> None:
    made = exchange()
    made.decision = Decision(Path.AGENT, Reason.LOW_MARGIN, topic="hours")
    status, headers, _ = sent(made.refuse, UpstreamUnreachable("Down."))
    assert (status, headers[b"x-frontdesk-path"], headers[b"x-frontdesk-reason"]) == (
        502,
        b"error",
        b"low_margin",
    )
    assert headers[b"x-should-retry"] == b"false"
    events: list[Served] = []
    made.served([events.append], 502, "upstream_unavailable")
    assert events[0].decision == Decision(Path.ERROR, Reason.LOW_MARGIN, topic="hours")


def test_a_refusal_is_no_answer() -> None:
    made = exchange()
    made.decision = FAQ
    sent(made.refuse, UpstreamUnreachable("Down."))
    assert made.decision.answer is None


def test_served_tells_every_sink() -> None:
    made = exchange(x_request_id="r1")
    made.spans.mark("admit")
    one, two = [], []
    relayed = Relayed(status=200, completion_tokens=9)
    made.served([one.append, two.append], 200, "ok", stream=True, relayed=relayed)
    assert one == two
    event: Served = one[0]
    assert (event.request_id, event.route, event.status, event.outcome, event.stream) == (
        "r1", "/v1/x", 200, "ok", True
    )  # fmt: skip
    assert (event.upstream_status, event.completion_tokens, event.first_byte_ms) == (
        200,
        9,
        made.first_byte_ms,
    )
    assert [name for name, _ in event.spans] == ["admit"]
    assert event.total_ms >= event.spans[0][1] >= 0


def test_no_upstream_status_where_no_upstream_answered() -> None:
    events: list[Served] = []
    exchange().served([events.append], 502, "upstream_unavailable", relayed=Relayed())
    exchange().served([events.append], 200, "ok")
    assert [event.upstream_status for event in events] == [None, None]
