"""Values in Markdown, read by a Markdown parser: any text is shown as it is and does nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from spelled import Hold

from edge.markdown import clean, escape

# All that pages switch on: HTML, tables, struck text, links of bare addresses.
PARSER = MarkdownIt("commonmark", {"html": True, "linkify": True}).enable(
    ["table", "strikethrough", "linkify"]
)
ISOLATES = str.maketrans("", "", "\u2068\u2069")
# What remark-gfm makes links of once the backslashes are gone, which no other renderer does.
LATE_LINKS = re.compile(
    r"(?<![\da-z])(?:https?://|www(?=\.))[\w-]*\.|(?<![\w+.-])[\w+.-]+@[\w-]+(?:\.[\w-]+)+", re.I | re.A
)
PIECES = """
    http:// https:// HTTP:// ftp:// www. WWW. evil.com evil .com .cn com //evil.com // mailto:a@b.co a@b.co @b.co
    xmpp:a@b.c xn--a.xn--b javascript:alert(1) a w ww x1 [ ] ( ) ![ ]( ](http://e.co) [x] [x]: [^1] [^1]: <b> </b> <
    > <img/src=x> <!-- --> <?php & &lt; &#60; # ## - -- --- + * ** *** _ __ = === ` `` ``` ~ ~~ ~~~ | |---| 1. 1) 10 .
    .. , : :: ::: @ ; ' " ^ % $ $$ ! !!! \\ \\\\ \\[ \\] { } {{ 北京 价格 ， 。 ： 例子.com президент.рф я שלום العربية 😀
"""
BLANKS = [" ", "  ", "    ", "\n", "\r\n", "\t", "\x00", "\x0c", "\x1b", "\x85", "\u00a0", "\u2028", "\u3000"]
UNSEEN = ["\u200b", "\u200d", "\u202e", "\u2066", "\ufeff", "\u00ad", "\U000e0041", "\ud800"]
TEXTS = st.lists(st.sampled_from(PIECES.split() + BLANKS + UNSEEN), max_size=8).map("".join) | st.text(
    st.characters()
)
# Where a value stands: {}. A literal that touches it may be half of something.
PLACES = [
    "{}", "a\n{}\nb", "- {}\n- y", "1. {}\n2. y", "> {}", "# {}", "## a {}", "| h | i |\n|---|---|\n| {} | y |",
    "**{}** y", "*{}* y", "~~{}~~ y", "[{}](https://own.example) y", "![a {}](own.png) y", "a {} [b](c)", "a{}[b](c)",
    "[{}] y", "({}) y", "“{}” y", "www{} y", "http:{} y", "http:/{} y", "No.{} y", "a@{} y", "#{} y", "-{} y", "1{} y",
    "!{} y", "={} y", "{}: y", "{}! y", "{}/{} y", "价格{}元", "~~~\n{}\n~~~", "y\n{}\n\nz",
]  # fmt: skip


@dataclass
class Page:
    """What a page is made of but for its words; all of its words; those that a late link could be made of."""

    shape: list[tuple[object, ...]]
    words: str = ""
    plain: str = ""


def page(text: str) -> Page:
    """A text as a renderer shows it."""
    read = Page([])
    for token in _flat(PARSER.parse(text)):
        if token.type in ("text", "code_inline", "fence"):
            read.words += token.content
        elif token.type != "inline":
            read.shape.append((token.type, token.tag, {k: v for k, v in token.attrs.items() if k != "alt"}))
        read.plain += token.content if token.type == "text" else "\n"
    return read


def _flat(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _flat(token.children or [])


def put(place: str, *values: str) -> str:
    """The values at their places, as a template puts them there."""
    own = place.split("{}")
    shown = [escape(value, own[i], own[i + 1]) for i, value in enumerate(values) if value]
    return "".join(text + value for text, value in zip(own, [*shown, ""], strict=True))


@pytest.mark.parametrize(
    "text",
    ["2026-12-03", "1,299.00", "A-1024", "北京市", "O'Brien", "50%", "10:30", "-5", "+86 138", "3.5 kg", "a, b (c); d",
     "2026-12-03T10:30:00+08:00", "12/3", "下周三（12月3日）到达。", "C#", "½", "a 😀", "e.g. this", "{x}", "a = b"],
)  # fmt: skip
def test_words_numbers_dates_and_cjk_come_out_as_they_are(text: str) -> None:
    assert escape(clean(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b*c~d|e!f$g", r"a\_b\*c\~d\|e\!f\$g"),
        (r"C:\a`b`", "C:&#92;a&#96;b&#96;"),
        ("[a](b)", "&#91;a&#93;(b)"),
        ("<b> & &lt;", "&lt;b&gt; &amp; &amp;lt;"),
        ("# a", r"\# a"),
        ("- a", r"\- a"),
        ("-", r"\-"),
        ("+ a", r"\+ a"),
        ("=", r"\="),
        (": a", r"\: a"),
        ("1. a", r"1\. a"),
        ("12) a", r"12\) a"),
        ("3.", r"3\."),
        (". a", r"\. a"),
        (") a", r"\) a"),
        ("> a", "&gt; a"),
        ("a #", r"a \#"),
        ("http://e.co/a?b=1&c=2.", "`http://e.co/a?b=1&c=2`."),
        ("见https://e.co/a，谢谢", "见`https://e.co/a`，谢谢"),
        ("(www.e.co)", "`(www.e.co`)"),
        ("Mail a@b.co now", "Mail `a@b.co` now"),
        ("例子.com", "例子`.com`"),
        ("a@例子", "`a@`例子"),
        ("张@b", "张`@b`"),
        ("3 @ 5", "3 @ 5"),
        ("a.xn--p1ai", "`a.xn--p1ai`"),
        ("e.shop e.рф e.company", "`e.shop` `e.рф` e.company"),
        ("$//e.co|//e.co<//e.co", r"\$`//e.co`\|`//e.co`&lt;`//e.co`"),
        ("`//e.co`", "&#96;`//e.co`&#96;"),
        ("//e.co\\[//e.co!", r"`//e.co`&#92;&#91;`//e.co`\!"),
        ("שלום 5", "\u2068שלום 5\u2069"),
    ],
)
def test_what_markdown_reads_is_escaped(text: str, expected: str) -> None:
    assert escape(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\n\x00\tb", "a b"),
        (" \u3000a\u00a0", "a"),
        ("a\u3000b", "a\u3000b"),
        ("a\u2028b\x85c", "a b c"),
        ("\u202eevil\u202c \u2066x\u2069", "evil x"),
        ("A\u200b\u200d\ufeff\u00adB", "AB"),
        ("a\U000e0041\U000e007f", "a"),
        ("\ud83d", "\ufffd"),
        ("\u200b\n", ""),
    ],
)
def test_what_is_not_seen_is_left_out(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(
    ("before", "text", "after", "expected"),
    [
        ("http:/", "/evil", "", "`/evil`"),
        ("No.", "com", " a", "`com`"),
        ("a@", "b.c", "", "`b.c`"),
        ("No", ".", "com", "`.`"),
        ("", "b", "@c", "`b`"),
        ("a ", "b", " @c", "b"),
        ("http: ", "evil", "", "evil"),
    ],
)
def test_halves_of_an_address_make_none(before: str, text: str, after: str, expected: str) -> None:
    assert escape(text, before, after) == expected


@pytest.mark.parametrize("place", PLACES)
def test_any_text_is_shown_and_does_nothing(hold: Hold, place: str) -> None:
    count = place.count("{}")
    same = page(put(place, *["QQ"] * count))

    def rule(texts: tuple[str, ...]) -> None:
        values = [clean(text) for text in texts]
        if not all(values):
            return
        read = page(put(place, *values))
        assert read.shape == same.shape
        assert LATE_LINKS.findall(read.plain) == []
        if "~~~\n" not in place:  # code is shown as it stands, with what escapes
            assert read.words.translate(ISOLATES) == same.words.replace("QQ", "{}").format(*values)

    hold(rule, st.tuples(*[TEXTS] * count), 40)
