"""The normaliser: what it folds, and that folding twice changes nothing."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edge.normaliser import Lang, LangRule, Normaliser

NORMALISER = Normaliser("請問門後", "请问门后")
# Code points that NFKC, lower case or the tables treat in some special way, beside plain ones.
ODD = st.text(
    st.sampled_from(
        "HJTWYaΣσİıßſŉ´’＇ﬁ①ｶﾞ가가᷀請門后 \u3000\t\u200b\u00ad\ufe0f\ud800\u0331\u030c\u0308\u030a\u0301ʾ¨"
    )
)


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("Hello,  World! ", "hello, world!"),
        ("ＡＢＣ１２３！？", "abc123!?"),
        ("請問門後", "请问门后"),
        ("a\u200bb\u2060c\ufeff", "abc"),
        ("👍\ufe0f ok", "👍 ok"),
        ("I can’t “wait” I´m", "i can't \"wait\" i'm"),
        ("ŉ", "'n"),
        ("a\u00a0b\u3000c\u2028d\te\r\nf", "a b c d e f"),
        ("x\ud800y\udfffz", "xyz"),
        ("co\u00adoperate", "cooperate"),
        ("\u202eevil\u202c", "evil"),
        ("\x00a\x1bb\x7f", "ab"),
        ("ﬁne ②", "fine 2"),
        ("H\u0331", "\u1e96"),
        ("cafe\u0301", "café"),
        ("\u200b \u3000", ""),
        ("", ""),
    ],
)
def test_reading(text: str, reading: str) -> None:
    assert NORMALISER.reading(text) == reading


@given(st.text(st.characters()) | ODD)
@example("H\u0331")
@example("ŉ")
@example("J\u00ad\u030c")
def test_reading_twice_changes_nothing(text: str) -> None:
    once = NORMALISER.reading(text)
    assert NORMALISER.reading(once) == once


def test_every_character_is_stable() -> None:
    for char in map(chr, range(0x110000)):
        if unicodedata.normalize("NFKC", char).lower() != char:  # the others are left as they are
            # Between letters, so that nothing is stripped and combining marks have a base.
            once = NORMALISER.reading(f"A{char}B")
            assert NORMALISER.reading(once) == once, hex(ord(char))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_the_ascii_path_equals_the_other(text: str) -> None:
    # A zero-width space sends the text down the other path, which removes it.
    assert NORMALISER.reading(text) == NORMALISER.reading(text + "\u200b")


@given(st.text(st.characters()) | ODD)
def test_a_reading_can_be_encoded_and_has_single_spaces(text: str) -> None:
    reading = NORMALISER.reading(text)
    reading.encode("utf-8")
    assert "  " not in reading
    assert reading == reading.strip()


def test_the_shipped_tables_fold_once_and_for_all() -> None:
    tables = json.loads((Path(__file__).parents[2] / "models/base/normaliser.json").read_text("utf-8"))
    normaliser = Normaliser(tables["traditional"], tables["simplified"])
    once = normaliser.reading(tables["traditional"])
    assert once == tables["simplified"]
    assert normaliser.reading(once) == once


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("几点开门？", "几点开门"),
        ("几点 开门！！", "几点开门"),
        ("我 想 请 假", "我想请假"),
        ("wi fi 密码", "wi fi 密码"),
        ("《年假》……", "年假"),
        ("What time?", "what time"),
        ("**bold**", "bold"),
        ("c++", "c++"),
        ("it's 5-6", "it's 5-6"),
        ("?!", ""),
    ],
)
def test_exact_keys(text: str, key: str) -> None:
    assert NORMALISER.exact(NORMALISER.reading(text)) == key


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("几点开门", Lang.ZH),
        ("what time do you open", Lang.EN),
        ("怎么连wifi", Lang.ZH),
        ("how do i say 你 in my annual report", Lang.EN),
        ("café déjà vu", Lang.EN),
        ("何時に開きますか", None),
        ("カタカナ", None),
        ("когда вы открыты", None),
        ("متى تفتح", None),
        ("언제 열어요", None),
        ("🙂👍", None),
        ("12:30?", None),
        ("", None),
        ("what does β mean here", Lang.EN),
        ("\U00020000\U00020001", Lang.ZH),
    ],
)
def test_lang(text: str, lang: Lang | None) -> None:
    assert NORMALISER.lang(NORMALISER.reading(text)) is lang


def test_the_lang_rule_has_its_limits_where_it_says() -> None:
    assert NORMALISER.lang("中" + "a" * 4) is Lang.ZH
    assert NORMALISER.lang("中" + "a" * 5) is Lang.EN
    assert NORMALISER.lang("я" + "a" * 4) is Lang.EN
    assert NORMALISER.lang("яя" + "a" * 7) is None
    assert Normaliser(lang_rule=LangRule(han_share=0.0)).lang("abc") is Lang.EN


def test_tables_of_two_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 traditional and 1 simplified"):
        Normaliser("請門", "请")
