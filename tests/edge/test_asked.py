"""What a question asks, as it is read."""

import pytest
from hypothesis import strategies as st
from spelled import Hold

from edge.asked import Asked, read
from edge.words import Words
from export.pairs import pair_data

WORDS = Words.of_data(pair_data())


def asked(text: str) -> Asked:
    return read(text, WORDS)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3 people", {"3 "}),
        ("three people", {"3 "}),
        ("twenty one people", {"21 "}),
        ("two hundred and five chairs", {"205 "}),
        ("two and three", {"2 ", "3 "}),
        ("one of them, a room", set()),
        ("a day", {"1 day"}),
        ("one day", {"1 day"}),
        ("daily", {"1 day"}),
        ("half a year", {"6 month"}),
        ("two weeks", {"14 day"}),
        ("5kg", {"5000 g"}),
        ("5 kg", {"5000 g"}),
        ("$50", {"50 dollar"}),
        ("50 USD", {"50 dollar"}),
        ("12%", {"12 percent"}),
        ("1,024.50", {"1024.5 "}),
        ("12k", {"12000 "}),
        ("the 2nd", {"2 th"}),
        ("the second", {"2 th"}),
        ("2, 2 and 3", {"2 ", "2  1", "3 "}),
        ("version 2.1.7", {"2.1.7 "}),
        ("9" * 30, {f"{'9' * 30} "}),
        ("三个人", {"3 "}),
        ("一个人", set()),
        ("一天", {"1 day"}),
        ("一千二的报销", {"1200 "}),
        ("十分钟", {"10 minute"}),
        ("十分高兴", set()),
        ("三星手机", set()),
        ("两块半", {"2.5 yuan"}),
        ("三两苹果", {"150 g"}),
        ("第二步", {"2 th"}),
        ("前三", {"3 "}),
        ("1.2万元", {"12000 yuan"}),
        ("每月", {"1 month"}),
        ("五月", {"5 calendar_month"}),
    ],
)
def test_numbers_with_their_units(text: str, numbers: set[str]) -> None:
    assert asked(text).of("number") == numbers


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("in 2025", {"2025"}),
        ("2025年", {"2025"}),
        ("20,250 yuan", set()),
        ("at 9:30", {"9:30 "}),
        ("at 9 a.m.", {"9 am"}),
        ("I am late", set()),
        ("may I go", set()),
        ("on Friday", {"friday"}),
        ("下周末", {"next_weekend"}),
        ("昨晚", {"last_night"}),
    ],
)
def test_dates(text: str, dates: set[str]) -> None:
    assert asked(text).of("date") == dates


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("an X1 and a covid19 test", {"x1", "covid19"}),
        ("3d glasses", {"3d"}),
        ("16gb", set()),
        ("A区和B区", {"a", "b"}),
        ("plan B, not a plan", {"b"}),
        ("I think, as I said", set()),
        ("北京和 Shanghai", {"北京", "shanghai"}),
    ],
)
def test_names_and_codes(text: str, names: set[str]) -> None:
    found = asked(text).of("name")
    assert names <= found
    if text.startswith(("I", "16", "plan")):
        assert found == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fly to Geneva with Anna", {"word:geneva", "word:anna"}),
        ("Geneva is nice. Anna too", set()),
        ("Fly To Geneva With Anna", set()),
        ("FLY TO GENEVA", set()),
        ('the word "zorb" there', {"word:zorb"}),
        ("订《莲花》厅", {"word:莲", "word:花"}),
        ('an open "quote', set()),
    ],
)
def test_what_is_typed_as_a_name(text: str, names: set[str]) -> None:
    assert asked(text).names == names


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("I can't", 1),
        ("it is not unpaid", 2),
        ("no longer", 1),
        ("a noble cause", 0),
        ("能不能去", 0),
        ("好吃不", 0),
        ("到了没有?", 0),
        ("没有到", 1),
        ("不同的非洲国家", 0),
        ("免费的无线网", 0),
        ("别人的级别", 0),
        ("别去", 1),
    ],
)
def test_negations(text: str, count: int) -> None:
    assert asked(text).negations == count


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("what time do you open", {"when"}),
        ("tell me when you open", {"when"}),
        ("my order broke when it arrived", set()),
        ("people who work here", set()),
        ("who works here", {"who"}),
        ("how old is it", {"how old"}),
        ("怎么这么慢", {"why"}),
        ("费用是多少", {"how_much", "how_many"}),
        ("多长时间", {"how_long"}),
    ],
)
def test_what_is_asked_for(text: str, asks: set[str]) -> None:
    assert asked(text).of("ask") - {"what", "how"} == asks


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("can I go", True),
        ("hello, is the gym free", True),
        ("can you tell me the price", False),
        ("the gym is free", False),
        ("可以去吗", True),
        ("去不去", True),
        ("我要去", False),
    ],
)
def test_what_is_answered_by_yes_or_no(text: str, is_one: bool) -> None:
    assert ("" in asked(text).of("yes_no")) is is_one


def test_synonyms_are_one_word_and_fillers_none() -> None:
    assert asked("please fix my mobile").core == asked("Could you repair the phones?").core
    assert asked("请帮我维修一下手机").core == asked("修手机").core


def test_what_follows_a_role_word_belongs_to_it() -> None:
    roles = asked("move it from the old laptop to the phone, please").roles
    assert "word:phone" in roles["to"]
    assert "word:laptop" in roles["from"]
    assert "word:phone" not in roles["from"]


def test_any_text_is_read(hold: Hold) -> None:
    def rule(text: str) -> None:
        found = asked(text)
        assert found.core == set(found.parts) - {""}
        assert found.names <= found.core
        assert found.negations >= 0

    hold(rule, st.text() | st.text('0123456789.,:/-年万k$半一两十第 xX"《》不没', max_size=30))
