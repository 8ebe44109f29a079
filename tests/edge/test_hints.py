"""The hints header: round trips, hostile values, and another implementation of RFC 9651."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

import http_sf
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edge.hints import (
    MAX_HEADER_BYTES,
    Date,
    Hints,
    HintsError,
    Item,
    Token,
    _format_member,
    format_hints,
    parse_dictionary,
    parse_hints,
)


def format_dictionary(members: Any) -> str:
    return ", ".join(_format_member(key, member) for key, member in members.items())


UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
TOKENS = st.from_regex(r"\A[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]{0,12}\Z").map(Token)
THOUSANDTHS = st.integers(0, 1000).map(lambda n: n / 1000)
INTEGERS = st.integers(-(10**15) + 1, 10**15 - 1)
DECIMALS = st.integers(-(10**14), 10**14).map(lambda n: n / 1000)
BARE = st.one_of(
    st.booleans(), INTEGERS, DECIMALS, UNICODE, TOKENS, st.binary(max_size=20), INTEGERS.map(Date)
)
KEYS = st.from_regex(r"\A[a-z*][a-z0-9_.*-]{0,8}\Z")
SLOTS = st.dictionaries(UNICODE, BARE.filter(lambda value: not isinstance(value, float)), max_size=3)
ITEMS = st.builds(Item, BARE, st.dictionaries(KEYS, BARE, max_size=3))
DICTIONARIES = st.dictionaries(KEYS, ITEMS | st.lists(ITEMS, max_size=3).map(tuple), max_size=5)
HINTS = st.builds(
    Hints,
    topic=st.none() | UNICODE,
    confidence=st.none() | THOUSANDTHS,
    top=st.lists(st.tuples(UNICODE, THOUSANDTHS), max_size=3).map(tuple),
    lang=st.none() | TOKENS | UNICODE,
    reason=st.none() | TOKENS,
    tools=st.lists(UNICODE, max_size=4).map(tuple),
    slots=SLOTS,
    injected=st.lists(UNICODE, max_size=3).map(tuple),
    prefetch=st.dictionaries(UNICODE, UNICODE, max_size=3),
    complexity=st.none() | TOKENS,
    length=st.none() | TOKENS,
    tier=st.none() | TOKENS | UNICODE,
    budget_ms=st.none() | st.integers(0, 10**9),
    bundle=st.none() | UNICODE,
)
FULL = Hints(
    topic="年假",
    confidence=0.9,
    top=(("年假", 0.9), ("leave", 0.05)),
    lang="zh",
    reason="low_margin",
    tools=("lookup_order",),
    complexity="single",
    length="short",
    tier="small",
    budget_ms=1500,
    bundle="demo@1",
)

TEXTS = ["topic", "lang", "reason", "complexity", "length", "tier", "bundle", "tools", "top"]


def printable(header: str) -> bool:
    return all(" " <= char <= "~" for char in header)


@given(HINTS)
def test_hints_come_back(hints: Hints) -> None:
    header = format_hints(hints)
    assert printable(header)
    if len(header) < MAX_HEADER_BYTES - 500:  # nothing was dropped
        assert parse_hints(header) == hints


def test_the_header_of_a_forward() -> None:
    assert format_hints(replace(FULL, topic="leave", top=(("leave", 0.95),))) == (
        'v=1, topic="leave", confidence=0.9, lang=zh, reason=low_margin, complexity=single, '
        'length=short, tier=small, budget=1500, bundle="demo@1", top=("leave";c=0.95), tools=("lookup_order")'
    )


def test_slots_are_an_inner_list_by_name() -> None:
    slots = {"order_id": "1024", "city": "北京", "people": 10, "amount": 99.5, "gift": True, "a b": "x"}
    header = format_hints(Hints(slots=slots))
    assert header == (
        'v=1, slots=("1024";n=order_id %"%e5%8c%97%e4%ba%ac";n=city 10;n=people 99.5;n=amount ?1;n=gift '
        '"x";n="a b")'
    )
    assert parse_hints(header).slots == slots
    assert set(http_sf.parse(header.encode(), tltype="dictionary")) == {"v", "slots"}


def test_slots_are_dropped_first() -> None:
    room = MAX_HEADER_BYTES - len(format_hints(replace(FULL, tools=("",))))
    long = replace(FULL, slots={"a": "x", "b": "y"}, tools=("x" * room,))
    header = format_hints(long)
    assert len(header) == MAX_HEADER_BYTES
    assert parse_hints(header) == replace(long, slots={})
    assert parse_hints(format_hints(replace(FULL, slots={"a": "x" * 5000}))) == FULL


def test_what_was_called_is_told_by_tool() -> None:
    called = Hints(injected=("get_order",), prefetch={"pf_1": "get_price", "pf_2": "get_stock"})
    header = format_hints(called)
    assert header == 'v=1, injected=("get_order"), prefetch=("pf_1";n="get_price" "pf_2";n="get_stock")'
    assert parse_hints(header) == called


def test_what_is_unknown_is_left_out() -> None:
    assert format_hints(Hints()) == "v=1"


@pytest.mark.parametrize(
    ("confidence", "shown"),
    [
        (0.9999, "0.999"),
        (0.9999999999999, "0.999"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (0.0009, "0.0"),
        (0.29, "0.29"),
        (0.57, "0.57"),
        (0.7, "0.7"),
    ],
)
def test_confidence_is_floored(confidence: float, shown: str) -> None:
    assert format_hints(Hints(confidence=confidence)) == f"v=1, confidence={shown}"
    assert f"c={shown}" in format_hints(Hints(top=(("a", confidence),)))


@pytest.mark.parametrize(
    "hostile",
    [
        "a\r\nx-evil: 1",
        "\x00\x1f\x7f",
        "年假怎么请",
        "🙂👩‍👩‍👧",
        '"; v=2, \\',
        "%00%zz",
        "\ud800",
        "\u2028",
        "",
        " ",
        "a b",
    ],
)
@pytest.mark.parametrize("field", TEXTS)
def test_hostile_values_cannot_break_the_header(hostile: str, field: str) -> None:
    value: Any = {"tools": (hostile,), "top": ((hostile, 0.5),)}.get(field, hostile)
    header = format_hints(replace(FULL, **{field: value}))
    assert printable(header)
    assert set(http_sf.parse(header.encode(), tltype="dictionary")) >= {"v", field}
    if hostile != "\ud800":  # UTF-8 has no place for it
        assert getattr(parse_hints(header), field) == value


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize("long", ["x" * 65_536, "字" * 2000])
def test_only_what_is_too_long_is_dropped(long: str, field: str) -> None:
    value: Any = {"tools": (long,), "top": ((long, 0.5),)}.get(field, long)
    header = format_hints(replace(FULL, **{field: value}))
    assert len(header.encode()) <= MAX_HEADER_BYTES
    expected = replace(FULL, **{field: () if field in ("tools", "top") else None})
    assert parse_hints(header) == expected


def test_a_header_of_the_limit_is_kept_whole() -> None:
    room = MAX_HEADER_BYTES - len('v=1, topic=""')
    assert len(format_hints(Hints(topic="x" * room))) == MAX_HEADER_BYTES
    assert format_hints(Hints(topic="x" * (room + 1))) == "v=1"


def test_everything_at_its_longest_fits_but_for_hostile_lists() -> None:
    long = "x" * 64  # the longest id of a topic
    hints = Hints(
        topic=long,
        confidence=0.999,
        top=((long, 0.999),) * 3,
        lang="zh",
        reason="no_answer_in_language",
        tools=(long,) * 32,
        complexity="single",
        length="medium",
        tier="small",
        budget_ms=9_999_999,
        bundle=f"{long}@{long}",
    )
    assert parse_hints(format_hints(hints)) == hints
    crowded = replace(hints, tools=(long,) * 1000)
    assert len(format_hints(crowded)) <= MAX_HEADER_BYTES
    assert parse_hints(format_hints(crowded)) == replace(hints, tools=())


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (-0.0001, "0.0"),
        (1e-12, "0.0"),
        (-0.5, "-0.5"),
        (0.001, "0.001"),
        (9.9999, "10.0"),
        (100.0, "100.0"),
        (-10.0, "-10.0"),
        (-123.456, "-123.456"),
        (999_999_999_999.0, "999999999999.0"),
        (True, ""),
        (False, "?0"),
        (-7, "-7"),
        (b"\x00\xff", ":AP8=:"),
        (Date(-5), "@-5"),
        ('a"\\', r'"a\"\\"'),
        ('é"%', '%"%c3%a9%22%25"'),
    ],
)
def test_bare_items(value: Any, shown: str) -> None:
    formatted = format_dictionary({"a": Item(value)})
    assert formatted == (f"a={shown}" if shown else "a")
    http_sf.parse(formatted.encode(), tltype="dictionary")


@pytest.mark.parametrize(
    "value",
    [10**15, -(10**15), 1e12, 999_999_999_999.9996, float("inf"), float("nan"), Token("a b"), Token("")],
)
def test_what_no_header_can_hold(value: Any) -> None:
    with pytest.raises(HintsError):
        format_dictionary({"a": Item(value)})


@pytest.mark.parametrize("key", ["", "A", "1a", "a b", "a\n", "é"])
def test_what_no_key_can_be(key: str) -> None:
    with pytest.raises(HintsError):
        format_dictionary({key: Item(1)})
    with pytest.raises(HintsError):
        format_dictionary({"a": Item(1, {key: 1})})


def theirs(value: Any) -> Any:
    """A bare value as http_sf has it, with the type beside it, for True == 1."""
    if isinstance(value, Date):
        return "date", int(value)
    if isinstance(value, dt.datetime):
        return "date", int((value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).total_seconds())
    if isinstance(value, (Token, http_sf.Token)):
        return "token", str(value)
    if isinstance(value, http_sf.DisplayString):
        return "str", str(value)
    if isinstance(value, (float, Decimal)):
        return "decimal", f"{Decimal(value):.3f}"
    return type(value).__name__, value


def pair(value: Any, params: Any) -> Any:
    return theirs(value), {key: theirs(param) for key, param in params.items()}


def ours_plain(members: Any) -> Any:
    return {
        key: pair(member.value, member.params)
        if isinstance(member, Item)
        else [pair(item.value, item.params) for item in member]
        for key, member in members.items()
    }


def theirs_plain(members: Any) -> Any:
    return {
        key: [pair(*item) for item in value] if isinstance(value, list) else pair(value, params)
        for key, (value, params) in members.items()
    }


def in_their_calendar(member: Any) -> bool:
    items = [member] if isinstance(member, Item) else member
    values = [value for item in items for value in (item.value, *item.params.values())]
    return all(-6 * 10**10 < value < 10**11 for value in values if isinstance(value, Date))


@given(DICTIONARIES)
@example({"a": Item(-0.001, {"b": True}), "c": (), "d": Item(True, {"e": False})})
def test_dictionaries_come_back_and_http_sf_reads_them(members: Any) -> None:
    text = format_dictionary(members)
    assert printable(text)
    assert ours_plain(parse_dictionary(text)) == ours_plain(members)
    if members and all(map(in_their_calendar, members.values())):
        assert theirs_plain(http_sf.parse(text.encode(), tltype="dictionary")) == ours_plain(members)


THEIR_BARE = st.one_of(
    st.booleans(),
    INTEGERS,
    st.decimals(-(10**11), 10**11, places=3),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
    UNICODE.map(http_sf.DisplayString),
    TOKENS.map(lambda token: http_sf.Token(str(token))),
    st.binary(max_size=20),
    st.integers(0, 10**10).map(lambda n: dt.datetime.fromtimestamp(n, dt.UTC)),
)
THEIR_ITEMS = st.tuples(THEIR_BARE, st.dictionaries(KEYS, THEIR_BARE, max_size=3))


@given(
    st.dictionaries(KEYS, THEIR_ITEMS | st.tuples(st.lists(THEIR_ITEMS, max_size=3), st.just({})), min_size=1)
)
def test_we_read_what_http_sf_writes(members: Any) -> None:
    assert ours_plain(parse_dictionary(http_sf.ser(members))) == theirs_plain(members)


def test_unknown_members_are_ignored() -> None:
    header = 'v=1, new=:aGk:;x=@5, sig=("a" tok;p);q=1, flag;y, topic="t", budget=5'
    assert parse_hints(header) == Hints(topic="t", budget_ms=5)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "topic=a",
        "v=2",
        "v=?1",
        "v=1.0",
        "v",
        "v=1,",
        "v=1, , a=1",
        "v=1 a=1",
        "v=1, topic",
        "v=1, topic=5",
        "v=1, topic=(a)",
        "v=1, budget=1.5",
        "v=1, confidence=high",
        "v=1, confidence=?1",
        "v=1, top=a",
        "v=1, top=(a;c=high)",
        "v=1, top=(a;c)",
        "v=1, top=(a",
        "v=1, top=(a,b)",
        "v=1, slots=a",
        "v=1, slots=(a)",
        "v=1, slots=(a;n)",
        "v=1, slots=(a;n=1)",
        'v=1, top=("a""b")',
        'v=1, topic="a',
        'v=1, topic="a\\n"',
        'v=1, topic="é"',
        'v=1, topic="a\\',
        'v=1, topic=%"%e4"',
        'v=1, topic=%"%E4%BD%A0"',
        'v=1, topic=%"%zz"',
        'v=1, topic=%"é"',
        'v=1, topic=%"a',
        "v=1, topic=%a",
        "v=1, a=1234567890123456",
        "v=1, a=" + "9" * 5000,
        "v=1, a=1.2345",
        "v=1, a=1234567890123.1",
        "v=1, a=1.",
        "v=1, a=-",
        "v=1, a=²",
        "v=1, a=?2",
        "v=1, a=:a:",
        "v=1, a=:a b:",
        "v=1, a=:aGk=",
        "v=1, a=@1.5",
        "v=1, a=@",
        "v=1, A=1",
        "v=1, a=\n1",
    ],
)
def test_bad_headers_are_refused(header: str) -> None:
    with pytest.raises(HintsError):
        parse_hints(header)


@given(st.text('v=1,;()"\\%?:@-. ab2é\t', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        members = parse_dictionary(text)
    except HintsError:
        return
    assert ours_plain(parse_dictionary(format_dictionary(members))) == ours_plain(members)
