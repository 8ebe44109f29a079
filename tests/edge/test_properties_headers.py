"""Any headers, of the client and of the upstream, break nothing and pass no further than they may."""

import json
import re
import time
from collections import Counter

import pytest
from hypothesis import event
from hypothesis import strategies as st
from servers import Desk, Relay, ScriptedUpstream
from spelled import Hold
from wires import Field, Wire, fields_of, request

from edge.hints import HintsKey, Seen, parse_hints, verify_hints

KEY = HintsKey("a", b"s" * 32)
HELLO = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'

VISIBLE = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_categories=["Cc"]), max_size=20
)
BYTES = st.binary(max_size=20).map(lambda raw: re.sub(r"[\x00-\x08\x0a-\x1f\x7f]", "", raw.decode("latin-1")))
SAFE_IDS = st.from_regex(r"\A[A-Za-z0-9_=.:-]{1,12}\Z")
NOTED = st.sampled_from(
    ["", "1", "0", "-1", " 1 ", "1,1", "true", "²", "9" * 7, "9" * 40, "1e3", "%E4%BD%A0%00", "x" * 3000]
)
VALUES = st.one_of(VISIBLE, BYTES, SAFE_IDS, NOTED)
NAMES = st.from_regex(r"\A[A-Za-z0-9!#$%&'*+.^_`|~-]{1,16}\Z")
HOPS = [
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
]
LISTED = [
    "keep-alive",
    "keep-alive, X-Stainless-A,Vary",
    "User-Agent , accept, SET-COOKIE",
    ", ,",
    "te",
    "\xff",
    "",
]
LISTS = st.sampled_from(LISTED)
OURS = ["bypass", "debug", "budget-ms", "hints", "path", "reason", "schema", "signature"]
ALLOWED = [
    "accept",
    "accept-language",
    "authorization",
    "content-encoding",
    "content-type",
    "idempotency-key",
]
ALLOWED += ["openai-beta", "openai-organization", "openai-project", "tracestate", "user-agent"]
ALLOWED += ["x-stainless-a", "x-stainless-b"]
FRAMING = {"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"}


def some(names: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(names).flatmap(lambda name: st.sampled_from([name, name.title(), name.upper()]))


REQUEST_FIELDS = st.builds(
    lambda fields, count: fields + [("x-stainless-b", str(n)) for n in range(count)],
    st.lists(
        st.one_of(
            st.tuples(some(ALLOWED), VALUES),
            st.tuples(some(HOPS), VALUES),
            st.tuples(some(["x-frontdesk-" + name for name in OURS]), VALUES),
            st.tuples(some(["x-request-id", "traceparent", "cookie", "accept-encoding", "origin"]), VALUES),
            st.tuples(st.just("connection"), LISTS),
            st.tuples(st.sampled_from(["accept", "user-agent", "x-stainless-a", "x-request-id"]), VALUES),
            st.tuples(NAMES.filter(lambda name: name.lower() not in FRAMING), VALUES),
        ),
        min_size=3,
        max_size=14,
    ),
    st.sampled_from([0, 0, 0, 200]),
)
RESPONSE_FIELDS = st.lists(
    st.one_of(
        st.tuples(some(["set-cookie", "openai-version", "x-ratelimit-a", "retry-after", "vary"]), VALUES),
        st.tuples(some(HOPS), VALUES),
        st.tuples(some(["x-request-id", "x-frontdesk-path", "x-frontdesk-z", "x-request-id-z"]), VALUES),
        st.tuples(st.just("connection"), LISTS),
        st.tuples(NAMES.filter(lambda name: name.lower() not in FRAMING | {"date", "server"}), VALUES),
    ),
    min_size=2,
    max_size=12,
)
STATUSES = st.sampled_from(
    ["200 OK", "299 \xe9", "404 ", "418 I'm a teapot", "429 Slow Down", "500 x", "599"]
)
QUESTIONS = st.sampled_from(
    ["what are the office hours", "公司几点上班？", "订单 1024 到哪了", "write a poem"]
)
REQUEST_ID = re.compile(r"[A-Za-z0-9_=.:-]{1,128}")


def test_any_headers_break_nothing(hold: Hold, desk: Desk, upstream: ScriptedUpstream) -> None:
    seen: Counter[str] = Counter()

    def rule(given: tuple[list[Field], list[Field], str, str, bytes]) -> None:
        fields, theirs, status, question, said = given
        upstream.requests.clear()
        lines = [
            f"HTTP/1.1 {status}",
            *(f"{n}: {v}" for n, v in theirs),
            f"content-length: {len(said)}",
            "",
            "",
        ]
        upstream.script = ["\r\n".join(lines).encode("latin-1") + said]
        body = json.dumps({"messages": [{"role": "user", "content": question}]}).encode()
        response = wire.ask(request(body, None, fields))
        clean = [(name.lower(), value.strip(" \t")) for name, value in fields]
        first = dict(reversed(clean))
        bypassed = first.get("x-frontdesk-bypass") == "1"
        path = response.one("x-frontdesk-path")
        assert path in ("faq", "agent")
        assert response.one("x-frontdesk-schema") == "1"
        assert (response.one("x-frontdesk-reason") == "bypass") is bypassed
        request_id, asked = response.one("x-request-id"), first.get("x-request-id", "")
        assert (
            request_id == asked
            if REQUEST_ID.fullmatch(asked)
            else re.fullmatch("req_[0-9a-f]{24}", request_id)
        )
        debug = response.all("x-frontdesk-bundle") != []
        assert debug is (first.get("x-frontdesk-debug") == "1")
        if path == "faq":
            assert (response.status, upstream.requests) == (200, [])
        else:
            assert (response.status, response.body) == (int(status[:3]), said)
            # httptools heeds proxy-connection, too: the server then ends this connection and says so.
            closes = any(n.endswith("connection") and "close" in v.lower() for n, v in clean)
            own = [field for field in response.fields if not (closes and field == ("connection", "close"))]
            assert_passed_down(own, [(name.lower(), value.strip(" \t")) for name, value in theirs])
            [received] = upstream.requests
            assert received.body == body
            assert_passed_up(fields_of(received.head), clean, request_id)
            if not bypassed:
                got = dict(received.fields)
                ours = got["x-frontdesk-hints"], got["x-frontdesk-signature"]
                verify_hints(*ours, request_id, body, [KEY], Seen(), time.time())
        event(f"{path} {response.one('x-frontdesk-reason')}")
        seen[path] += 1

    with desk(upstream.url, hints_keys=(KEY,)) as relay, Wire(relay.port) as wire:
        hold(
            rule, st.tuples(REQUEST_FIELDS, RESPONSE_FIELDS, STATUSES, QUESTIONS, st.binary(max_size=9)), 250
        )
    assert min(seen["faq"], seen["agent"]) > 20, seen


@pytest.mark.parametrize("space", [" ", "\t", " \t "])
def test_a_space_after_a_value_is_no_part_of_it(relay: Relay, upstream: ScriptedUpstream, space: str) -> None:
    with Wire(relay.port) as wire:
        response = wire.ask(request(HELLO, None, [("user-agent", "a b" + space)]))
    assert response.status == 200
    assert upstream.last().headers["user-agent"] == "a b"


def test_a_space_after_our_own_headers_does_not_hide_them(relay: Relay, upstream: ScriptedUpstream) -> None:
    fields = [("x-frontdesk-bypass", "1 "), ("x-request-id", "mine ")]
    with Wire(relay.port) as wire:
        response = wire.ask(request(HELLO, None, fields))
    assert (response.one("x-frontdesk-reason"), response.one("x-request-id")) == ("bypass", "mine")


def assert_passed_up(got: list[Field], clean: list[Field], request_id: str) -> None:
    """Of the client's headers only those that the agent may see, as they were; ours beside them once."""
    names = [name for name, _ in got]
    for name in ("host", "content-length", "x-request-id", "traceparent", "accept-encoding"):
        assert names.count(name) == 1, name
    assert ("x-request-id", request_id) in got
    assert ("accept-encoding", "identity") in got
    assert not set(names) & {*HOPS, "connection", "transfer-encoding", "cookie", "origin"}
    bypassed = dict(reversed(clean)).get("x-frontdesk-bypass") == "1"
    ours = [(name, value) for name, value in got if name.startswith("x-frontdesk-")]
    expected = [] if bypassed else ["x-frontdesk-hints", "x-frontdesk-signature"]
    assert [name for name, _ in ours] == expected
    for _, value in ours[:1]:
        budget = parse_hints(value).budget_ms
        assert budget is not None
        assert 0 <= budget <= 9_999_999
    listed = listed_by(clean)
    passed = [(n, v) for n, v in clean if n in ALLOWED and n not in listed]
    assert [(n, v) for n, v in got if n in ALLOWED] == passed
    assert {n for n in names if n.startswith("x-stainless-")} <= {n for n, _ in clean}


def assert_passed_down(ours: list[Field], theirs: list[Field]) -> None:
    """Of the upstream's headers all but those of its own hop, as they were; none that stands for ours."""
    hidden = {*HOPS, "connection"} | listed_by(theirs)
    passed = [
        (n, v) for n, v in theirs if n not in hidden and not n.startswith(("x-frontdesk-", "x-request-id"))
    ]
    names = {name for name, _ in passed}
    assert [(n, v) for n, v in ours if n in names - {"server-timing"}] == passed
    sent = {name for name, _ in ours}
    assert not sent & {"x-frontdesk-z", "x-request-id-z", *hidden}


def listed_by(fields: list[Field]) -> set[str]:
    return {n.strip().lower() for name, value in fields if name == "connection" for n in value.split(",")}
