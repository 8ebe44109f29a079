"""The syntax of templates: what is read, and what is refused with its place and a fix."""

import re
import time
from contextlib import suppress

import pytest

from edge.template_syntax import MAX_TEMPLATE, Choice, Each, Value, parse

PATH = ("get", "a")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("到了", ("到了",)),
        ("", ()),
        ("{get.a}", (Value(PATH),)),
        ("a {  get.a\n} b", ("a ", Value(PATH), " b")),
        ("{get.0.b-c_d.到达}", (Value(("get", "0", "b-c_d", "到达")),)),
        ("{get}", (Value(("get",)),)),
        ("{get.a ? not: known; yet}", (Value(PATH, "not: known; yet"),)),
        ("{get.a?}", (Value(PATH, ""),)),
        ("{get.a}{get.com}", (Value(PATH), Value(("get", "com")))),
        ("{get.a = x: on; y z : off: 3}", (Choice(PATH, {"x": "on", "y z": "off: 3"}),)),
        ("{get.a=true:；;false:}", (Choice(PATH, {"true": "；", "false": ""}),)),
        ("{{get.a}} }}{{", ("{get.a} }{",)),
        ("{{{get.a}}}", ("{", Value(PATH), "}")),
        ("{each get.l}{item} {item.a}{end}", (Each(("get", "l"), (Value(("item",)), " ", Value(("item", "a"))), ()),)),
        ("{each get}a{else}b{end}c", (Each(("get",), ("a",), ("b",)), "c")),
        ("a:\n  {each get}  \n- {item}\n{else}\nnone\n{end}\nb", ("a:\n", Each(("get",), ("- ", Value(("item",)), "\n"), ("none\n",)), "b")),
        ("a {each get}\n- b{end}\n", ("a ", Each(("get",), ("\n- b",), ()), "\n")),
        ("{each.a} {else.a} {end.a}", (Value(("each", "a")), " ", Value(("else", "a")), " ", Value(("end", "a")))),
        ("**{get.a}** | [{get.a}](https://e.co) x", ("**", Value(PATH), "** | [", Value(PATH), "](https://e.co) x")),
        ("[a](b) (see {get.a})", ("[a](b) (see ", Value(PATH), ")")),
        ("[a]({get.a = x: https://e.co})", ("[a](", Choice(PATH, {"x": "https://e.co"}), ")")),
        ("2 < {get.a} \\<b> \\` \\]: \\\\ [x]", ("2 < ", Value(PATH), " \\<b> \\` \\]: \\\\ [x]")),
    ],
)  # fmt: skip
def test_what_is_read(text: str, pieces: tuple[object, ...]) -> None:
    assert parse(text)[0] == pieces


def test_paths_are_those_that_are_not_of_an_item() -> None:
    text = "{get.a ? b} {slots.c = x: y} {each list.d}{item.e} {get.f}{else}{none.g}{end}"
    assert parse(text)[1] == {("get", "a"), ("slots", "c"), ("list", "d"), ("get", "f"), ("none", "g")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a {get.a", "at character 3: a single {; write {{ for a brace"),
        ("{get.a}}", "at character 8: a single }; write }} for a brace"),
        ("{get.{a}}", "at character 1: a single {"),
        ("{}", "at character 1: '' is no field; there are {tool.field}"),
        ("{get a}", "at character 1: 'get a' is no field"),
        ("{get..a}", "at character 1: 'get..a' is no field"),
        ("{get.a.}", "at character 1: 'get.a.' is no field"),
        ("{get.a[0]}", "at character 1: 'get.a[0]' is no field"),
        ("{get.a!r}", "at character 1: 'get.a!r' is no field"),
        ("{get.a:>9}", "at character 1: 'get.a:>9' is no field"),
        ("{get.a ？ b}", "at character 1: 'get.a ？ b' is no field"),
        ("{get.a =}", "at character 1: '' is not one value and text; write value: text; value: text"),
        ("{get.a = b}", "at character 1: 'b' is not one value and text"),
        ("{get.a = : b}", "at character 1: ': b' is not one value and text"),
        ("{get.a = b: c;}", "at character 1: '' is not one value and text"),
        ("{get.a = b：c}", "at character 1: 'b：c' is not one value and text; write value: text; value: text, not ： and ；"),
        ("{get.a = b: c；d: e}", "at character 1: 'b: c；d: e' is not one value and text"),
        ("{get.a = b: c；d：e}", "at character 1: 'b: c；d：e' is not one value and text"),
        ("{get.a = b: c; b: d}", "at character 1: 'b: d' has a value that is there already"),
        ("a{end}", "at character 2: {end} belongs to no list; write {each tool.field} before it"),
        ("{else}", "at character 1: {else} belongs to no list"),
        ("{each get.l}{else}{else}{end}", "at character 19: {else} belongs to no list"),
        ("{each get.l}{item}", "at character 19: a list has no end; write {end} after its row"),
        ("{each get.l}{item}{else}", "at character 25: a list has no end"),
        ("{each get.l}{each get.m}{end}{end}", "at character 13: a list within a list; write {end} before it"),
        ("{each get.l}{else}{each get.m}{end}{end}", "at character 19: a list within a list"),
        ("{item.a}", "at character 1: item belongs to the row of a list; write {each tool.field} before it"),
        ("{each get.l}{item}{else}{item}{end}", "at character 25: item belongs to the row"),
        ("{each get.l}{end}{item}", "at character 18: item belongs to the row"),
        ("{each item.l}{end}", "at character 1: item belongs to the row"),
        ("a" * (MAX_TEMPLATE + 1), "it has 4,001 characters; 4,000 is the most"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_with_its_place_and_a_fix(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(said)):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "`{get.a}`", "``` \n{get.a}\n```", "it`s {get.a}", "{get.a}`", "{get.a ? `b`}", "{get.a = b: `c}",
        "<{get.a}>", "<b>{get.a}</b>", "<!-- {get.a} -->", "<?{get.a}", "<https://e.co> {get.a}", "{get.a ? <}",
        "\\{get.a}", "\\\\\\{get.a}", "{get.a = b: \\}{get.a}", "a\\{each get.l}{item}{end}", "{get.a ? \\}",
        "[a]({get.a})", "[a](https://e.co/{get.a})", "[a](https://e.co/(b)/{get.a})", "[a](b(c) {get.a})", '[a](b "{get.a}") c',
        "[a](b [c](d) {get.a})", "[{get.a}]({get.a})", "[a]({get.a = b: c}{get.a})", "[a]({each get.l}b{end})",
        "{get.a ? [b](c}", "{get.a = b: [c](d}", "{each get.l}{item} [a]({end})", "{each get.l}{else}[a]({end})",
        "[a]: {get.a}", "[a]:\n{get.a}", "[^1]: {get.a}", "[a]{get.a}", "[a]{get.a = b: c}", "{get.a = b: [c]}{get.a}",
        "{get.a ? [c]}", "{each get.l}{item} [a]{end}",
        "https://e.co/{get.a}", "www.{get.a}", "//{get.a}", "a@{get.a}", "{get.a}@e.co", "{get.a}.com", "e.{get.a}.com",
        "{get.a}.e.co/",
    ],
)  # fmt: skip
def test_where_no_value_could_be_made_safe_none_may_stand(text: str) -> None:
    with pytest.raises(ValueError, match=r"^at character [0-9]+: .+; (leave|put|write) "):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["{" * MAX_TEMPLATE, "{}" * 2000, "{a" * 2000, "](" * 2000, "\\" * MAX_TEMPLATE, "{" + "a." * 1999 + "}", "{" + "a" * 3998,
     "{a}" * 1333, "{each a}{end}" * 300, "{a=" + "b:c;" * 990 + "}", "{each" + " " * 3900 + "}", "{a" + " " * 3900 + "!}",
     "[a](b)" * 600 + "{a}", ("[(" * 10 + "{a} ") * 170],
)  # fmt: skip
def test_no_text_takes_long(text: str) -> None:
    """Milliseconds; what grows with the square of its length would take many seconds."""
    began = time.process_time()
    with suppress(ValueError):
        parse(text)
    assert time.process_time() - began < 1
