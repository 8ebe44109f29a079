"""Templates: what is filled in both languages, what cannot be, and any JSON as a tool's result."""

import json
from typing import Any

import pytest
from hypothesis import strategies as st
from spelled import Hold
from test_markdown import LATE_LINKS, TEXTS, page

from edge.decision import SlotValue
from edge.errors import FrontdeskError, TemplateError
from edge.markdown import clean
from edge.templates import MAX_ANSWER, MAX_ROWS, MAX_TEXT, Template

ORDER = {
    "state": "shipped",
    "eta": "2026-12-03",
    "price": 1299.5,
    "items": 2,
    "gift": False,
    "city": "北京市",
}
ORDER |= {
    "parcels": [{"no": "SF-1"}, {"no": "SF-2"}],
    "note": None,
    "blank": " \u200b",
    "none": [],
    "notes": ["a", "b"],
}


def fill(text: str, results: Any = ORDER, **slots: SlotValue) -> str:
    return Template.parse(text).fill({"get": results}, slots)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Your order **{slots.no}** is {get.state}.", "Your order **1024** is shipped."),
        ("订单 **{slots.no}** 预计 {get.eta} 送达{get.city}。", "订单 **1024** 预计 2026-12-03 送达北京市。"),
        ("{get.price} for {get.items}", "1299.5 for 2"),
        ("{get.note ? no note}, {get.nothing ? none}, {get.blank ? blank}", "no note, none, blank"),
        ("{get.note.by.whom ? nobody}", "nobody"),
        ("{get.parcels.9.no ? one parcel}", "one parcel"),
        ("{get.eta ? not known}", "2026-12-03"),
        ("{get.parcels.1.no} {get.notes.0}", "SF-2 a"),
        ("{get.state = shipped: on its way; paid: being packed}", "on its way"),
        ("{get.state = shipped: 已**发货**; paid: 备货中}。", "已**发货**。"),
        ("{get.gift = true: 已包装; false: 未包装}", "未包装"),
        ("{get.items = 1: one; 2: two}, {get.price = 1299.5: dear}", "two, dear"),
        ("{slots.gift = true: wrapped; false: plain}{slots.n = 3: !}", "wrapped!"),
        ("{each get.parcels}\n- {item.no} of {get.items}\n{else}\nnone\n{end}\n", "- SF-1 of 2\n- SF-2 of 2"),
        ("包裹：\n{each get.none}\n- {item.no}\n{else}\n还没有包裹。\n{end}", "包裹：\n还没有包裹。"),
        ("all:{each get.none}{item}{end}.", "all:."),
        ("{each get.notes}{item}, {end}", "a, b,"),
        ("{each get.notes}{item = a: A; b: B}{end}", "AB"),
        ("{{get.state}} {get.state}", "{get.state} shipped"),
    ],
)  # fmt: skip
def test_fields_are_filled(text: str, expected: str) -> None:
    assert fill(text, no="1024", gift=True, n=3) == expected


def test_a_result_may_be_a_list_or_a_number() -> None:
    assert fill("{each get}{item.a} {end}", [{"a": 1}, {"a": 2}]) == "1 2"
    assert fill("{get} {get ? none}", 7.25) == "7.25 7.25"
    assert fill("{get.0.1}", [["a", "b"]]) == "b"


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("7", "7"), ("-5", "-5"), ("0", "0"), ("-0.0", "0"), ("1299.00", "1299"), ("0.1", "0.1"), ("7.1234", "7.1234"),
        ("0.30000000000000004", "0.3"), ("1e-5", "0.00001"), ("1.5e10", "15000000000"), ("123456789012345678901", "123456789012345678901"),
        ("999999999999999.9", "1000000000000000"), ("0.1e-10", "0.00000000001"),
    ],
)  # fmt: skip
def test_numbers_are_written_out(number: str, shown: str) -> None:
    assert fill("{get}", json.loads(number)) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{get.nothing}", "get.nothing is missing."),
        ("{get.note}", "get.note is missing."),
        ("{get.blank}", "get.blank is missing."),
        ("{get.note.by}", "get.note.by is missing."),
        ("{get.parcels.2}", "get.parcels.2 is missing."),
        ("{slots.no}", "slots.no is missing."),
        ("{get.parcels}", "get.parcels is no text and no number that can be shown."),
        ("{get.parcels.0 ? none}", "get.parcels.0 is no text and no number"),
        ("{get.gift ? none}", "get.gift is no text and no number"),
        ("{slots.gift}", "slots.gift is no text and no number"),
        ("{get.state.of ? none}", "get.state.of is looked for in what has no 'of'."),
        ("{get.items.0 ? none}", "get.items.0 is looked for in what has no '0'."),
        ("{get.parcels.no ? none}", "get.parcels.no is looked for in what has no 'no'."),
        ("{get.notes.-1 ? none}", "get.notes.-1 is looked for in what has no '-1'."),
        ("{get.notes.١ ? none}", "get.notes.١ is looked for in what has no '١'."),
        ("{get.state = Shipped: a}", "get.state has a value without words."),
        ("{get.note = null: a; None: b}", "get.note has a value without words."),
        ("{get.parcels = x: a}", "get.parcels is no text and no number"),
        ("{get.gift = False: a; 0: b}", "get.gift has a value without words."),
        ("{other.a ? none}", "other.a is of a tool without a result."),
        ("{each other.a}{item}{else}none{end}", "other.a is of a tool without a result."),
        ("{each get.state}{item}{else}none{end}", "get.state is no list."),
        ("{each get.note}{item}{else}none{end}", "get.note is no list."),
        ("{each get.parcels}{item}{end}", "item is no text and no number"),
        ("{each get.parcels}{item.to}{end}", "item.to is missing."),
        ("{each get.none}{item}{end}", "The answer is empty."),
        ("{get.note ? }", "The answer is empty."),
    ],
)
def test_what_cannot_be_filled_is_told_by_its_name(text: str, said: str) -> None:
    with pytest.raises(TemplateError) as caught:
        fill(text, gift=True)
    assert str(caught.value).startswith(said)
    assert isinstance(caught.value, FrontdeskError)


HOSTILE: list[Any] = [
    float("nan"), float("inf"), -float("inf"), 1e300, 1e-300, 10**30, -(10**30), 10**5000, "x" * (MAX_TEXT + 1), "秘" * 10**7, b"x",
    object(), type, json.loads("[" * 900 + "]" * 900), {"a": {"a": {}}}, [[]] * 10**6, print, "{get.a}".format, 1j,
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "text", ["{get.v}", "{get.v ? none}", "{get.v = x: y; none: z}", "{each get.l}{item ? none}{end}"]
)
def test_what_is_no_value_is_never_shown(text: str, value: Any) -> None:
    with pytest.raises(TemplateError) as caught:
        fill(text, {"v": value, "l": [value]})
    assert len(str(caught.value)) < 80
    assert "秘" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["__class__", "__init__.__globals__", "keys", "get", "0", "items", "-1", "state.__class__"]
)
def test_names_are_keys_and_nothing_else(name: str) -> None:
    with pytest.raises(TemplateError, match=r"is missing\.$|has no '"):
        fill(f"{{get.{name}}}", {"state": "shipped", "list": []})
    assert fill("{get.__class__.0} {get.0}", {"__class__": {"0": "a"}, "0": "b"}) == "a b"
    with pytest.raises(TemplateError, match=r"is missing|without a result"):
        Template.parse("{slots.__class__}").fill({}, {})


def test_a_value_is_no_template() -> None:
    assert fill("{get.a} {get.b}", {"a": "{get.b} {{x}} %s {0}", "b": "c"}) == "{get.b} {{x}} %s {0} c"


def test_limits_are_reached_and_not_passed() -> None:
    assert fill("{get}", "x" * MAX_TEXT) == "x" * MAX_TEXT
    assert fill("{each get}{item}{end}", ["x"] * MAX_ROWS) == "x" * MAX_ROWS
    with pytest.raises(TemplateError, match=r"get has over 20 rows\."):
        fill("{each get}{item}{end}", ["x"] * (MAX_ROWS + 1))
    with pytest.raises(TemplateError, match=r"The answer has over 10000 characters\."):
        fill("{each get}{item} {item}{end}", ["x" * MAX_TEXT] * MAX_ROWS)
    assert len(fill("{each get}{item}{end}", ["x" * MAX_TEXT] * MAX_ROWS)) == MAX_ANSWER


def test_a_tool_named_like_the_slots_does_not_fill_them() -> None:
    with pytest.raises(TemplateError, match=r"slots\.a is missing"):
        Template.parse("{slots.a}").fill({"slots": {"a": "x"}}, {})


def test_fields_are_the_first_names() -> None:
    text = "{get.a} {slots.b} {each list.c}{item.d}{end} {stock.e = x: y}"
    assert Template.parse(text).fields == {"get", "slots", "list", "stock"}
    assert Template.parse("none").fields == frozenset()


@pytest.mark.parametrize(
    ("text", "results", "expected"),
    [
        ("{get.0}{get.1}", ["http:/", "/evil"], "`http://evil`"),
        ("{get.0}{get.1}", ["1", ". x"], "1\\. x"),
        ("{get.0}{get.2 ? }{get.1}", ["www", ".evil", None], "`www.evil`"),
        ("{each get}{item}{end}", ["a", "@", "b.c"], "`a@b.c`"),
        ("{each get}{item}{end}", ["(", "](", "x"], "(&#93;(x"),
        ("[a {get.0}](https://e.co) b", ["](//evil) [x"], "[a &#93;`(//evil`) &#91;x](https://e.co) b"),
    ],
)  # fmt: skip
def test_values_that_touch_are_one(text: str, results: list[str], expected: str) -> None:
    assert fill(text, results) == expected


# --- any result ------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
KEYS = st.sampled_from(["a", "b", "l", "0", "1", "__class__", "item", "slots"]) | st.text(max_size=3)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
NUMBERS = st.integers(-(10**9), 10**9) | st.integers(-(10**9), 10**9).map(lambda n: n / 1000)
ROWS = st.lists(TEXTS | NUMBERS, max_size=4)
LIKELY = st.fixed_dictionaries(
    {
        "a": TEXTS | NUMBERS,
        "b": st.none() | TEXTS,
        "s": st.sampled_from("pq"),
        "l": ROWS,
        "m": st.lists(st.fixed_dictionaries({"a": TEXTS, "b": TEXTS | NUMBERS | st.none()}), max_size=4),
    }
)
FILLED = [
    "{get.a ? none}{get.b ? none}", "# {get.a ? none}\n{get.b ? none}", "- {get.a ? none}\n- {get.b ? none} {slots.a ? none}",
    "{get.s = p: [x](own); q: **y**}{get.a ? none} {get.b ? *none*}{get.b ? none}", "{each get.l}{item ? none}{else}none{end}",
    "| h | i |\n|---|---|\n{each get.m}\n| {item.a ? none} | {item.b ? none} |\n{end}", "{each get.l}\n- {item ? none}\n{else}\nnone\n{end}",
    "[{get.a ? none}{get.b ? none}](https://own.example) {slots.a ? none}", "w{get.a ? none}{each get.m}{item.a ? none}\n{end}",
]  # fmt: skip


@pytest.mark.parametrize("text", FILLED)
def test_any_values_leave_the_page_as_it_is(hold: Hold, text: str) -> None:
    """What the page has beside words is the template's: filled with plain words it has the same."""
    template = Template.parse(text)

    def rule(drawn: tuple[dict[str, Any], Any]) -> None:
        result, slot = drawn
        answer = template.fill({"get": result}, {"a": slot})
        answer.encode()
        assert not set(answer) & set("\u202e\u2066\u200b\u2028\x00\x1b\x85")
        read, same = page(answer), page(template.fill({"get": _plain(result)}, {"a": "QQ"}))
        assert read.shape == same.shape
        assert LATE_LINKS.findall(read.plain) == []

    hold(rule, st.tuples(LIKELY, TEXTS | NUMBERS), 60)


def _plain(value: Any) -> Any:
    """A result of the same form, with a word for each of its texts and numbers."""
    if isinstance(value, dict):
        return {key: part if key == "s" else _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value if value is None or (isinstance(value, str) and not clean(value)) else "QQ"


ANY = "{get.a ? x} {get.0 ? y} {get.l.0.a ? z} {slots.a ? u} {get.b = a: b; true: c}{each get.l}{item.a ? v}{end}"


@pytest.mark.parametrize("text", [ANY, *FILLED])
def test_any_json_is_shown_or_refused(hold: Hold, text: str) -> None:
    template = Template.parse(text)

    def rule(result: Any) -> None:
        try:
            template.fill({"get": result}, {}).encode()
        except TemplateError as exc:
            str(exc).encode()

    hold(rule, JSON, 30)
