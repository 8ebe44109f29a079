"""Slots: what a text says for them in both languages, and what it does not say beyond doubt."""

import json
import time
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from hypothesis import strategies as st
from spelled import Hold

from edge.decision import Filled, Missing
from edge.hints import MAX_HEADER_BYTES, Hints, format_hints, parse_hints
from edge.normaliser import Normaliser
from edge.query import Query
from edge.slots import MAX_VALUE_CHARACTERS, SlotFiller, SlotSet, SlotValue
from export.slots import slot_data
from export.tools import tool_entry

WEDNESDAY = date(2025, 7, 16)
NORMALISER = Normaliser("單號訂現週後點兩個塊萬雲貳", "单号订现周后点两个块万云贰")
DATA = slot_data()
CITIES = {
    "beijing": ["北京", "Beijing", "Peking"],
    "xian": ["西安", "Xi'an", "Xian"],
    "hong_kong": ["香港", "Hong Kong", "HK"],
}
PRODUCTS = {
    "x1": ["X1", "Skylark X1", "云雀X1"],
    "x1_pro": ["X1 Pro", "X1Pro", "云雀X1 Pro"],
    "book": ["Book 14", "云雀笔记本14"],
}
SLOTS: dict[str, dict[str, Any]] = {
    "order": {"type": "string", "pattern": "[0-9]{4,12}"},
    "claim": {"type": "string", "pattern": "EX-[0-9]{4}"},
    "airport": {"type": "string", "pattern": "[A-Z]{3}"},
    "place": {"type": "string", "pattern": "[^/?#&%]{2,40}"},
    "note": {"type": "string"},
    "city": {"type": "string", "values": CITIES},
    "product": {"type": "string", "values": PRODUCTS},
    "size": {"type": "string", "enum": ["small", "large"]},
    "gift": {"type": "boolean", "values": {True: ["gift wrapped", "包装"], False: ["unwrapped", "不包装"]}},
    "weekday": {
        "type": "string",
        "values": {"friday": ["Friday", "周五"], "tomorrow": ["tomorrow", "明天", "明早"]},
    },
    "day": {"type": "string", "format": "date"},
    "past_day": {"type": "string", "format": "date", "when": "past"},
    "coming_day": {"type": "string", "format": "date", "when": "future"},
    "month": {"type": "string", "format": "month"},
    "past_month": {"type": "string", "format": "month", "when": "past"},
    "at": {"type": "string", "format": "time"},
    "people": {"type": "integer", "unit": "person", "minimum": 1, "maximum": 500},
    "price": {"type": "number", "unit": "yuan"},
    "number": {"type": "number"},
    "shop": {"type": "string", "default": "main"},
    "colour": {"type": "string", "enum": ["red"], "default": "red", "required": False},
    "user": {"type": "string", "description": "who asks"},
}


def filler(**tools: Mapping[str, Any]) -> SlotFiller:
    made = [
        {"name": name, "description": "d", "method": "GET", "url": "http://x", "slots": slots}
        for name, slots in tools.items()
    ]
    sets = {tool["name"]: SlotSet.of_data(tool_entry(tool, NORMALISER)) for tool in made}
    return SlotFiller.of_data(sets, DATA, NORMALISER)


EACH = filler(**{name: {name: entry} for name, entry in SLOTS.items()})


def fill(slot: str, text: str, today: date = WEDNESDAY) -> Filled | Missing:
    [suggestion] = EACH.suggest([slot], Query.of_text(text, NORMALISER), today)
    return suggestion.slots[slot]


def said(slot: str, text: str, today: date = WEDNESDAY) -> SlotValue:
    """The value, or ``?`` and why there is none."""
    found = fill(slot, text, today)
    return found.value if isinstance(found, Filled) else f"?{found.reason}"


CASES: dict[str, list[tuple[str, SlotValue]]] = {
    "order": [
        ("订单1024到哪了", "1024"),
        ("where is order 20488?", "20488"),
        ("１０２４ 到哪了", "1024"),
        ("單號 77310 今天能到嗎", "77310"),
        ("order:20488", "20488"),
        ("order #20488.", "20488"),
        ("(20488)", "20488"),
        ("1024 or 1025", "?ambiguous"),
        ("1024, I mean 1024", "1024"),
        ("订单1024和1025", "?ambiguous"),
        ("订单A1024", "?not_said"),
        ("abc1024def", "?not_said"),
        ("EX-1024", "?not_said"),
        ("order_1024", "?not_said"),
        ("123", "?not_said"),
        ("1234567890123", "?not_said"),
        ("10.2488", "?not_said"),
        ("我花了3000块的订单呢", "?not_said"),
        ("the $3000 one", "?not_said"),
        ("bought it for 3000 yuan", "?not_said"),
        ("订单1024 花了3000元", "1024"),
        ("ordered in 2025", "?not_said"),
        ("2025年的订单", "?not_said"),
        ("order 5521 from 30 June 2025", "5521"),
        ("order 5521 of 2025-06-30", "5521"),
        ("电话13800138000，订单5521", "5521"),
        ("my phone is 13800138000", "?not_said"),
        ("a 10-2048 b", "?not_said"),
        ("where is my order", "?not_said"),
        ("尾号7731的那单", "?not_said"),
        ("the order ending in 7731", "?not_said"),
        ("１０２４\u200b5", "10245"),
    ],
    "claim": [
        ("how far is EX-2041", "EX-2041"),
        ("how far is ex-2041", "EX-2041"),
        ("报销单Ex-2041批了吗", "EX-2041"),
        ("EX-20411", "?not_said"),
        ("REX-2041", "?not_said"),
        ("EX-2041 and ex-2042", "?ambiguous"),
        ("EX-2041, I repeat ex-2041", "EX-2041"),
        ("ex-2041 and ex-2042", "?ambiguous"),
    ],
    "airport": [("flight to PEK", "PEK"), ("fly to the sea", "?not_said"), ("PEK SHA", "?ambiguous")],
    "place": [("where is your shop in Hangzhou", "?free_text"), ("杭州", "?free_text")],
    "note": [("anything at all", "?free_text")],
    "city": [
        ("北京天气", "beijing"),
        ("weather in beijing?", "beijing"),
        ("XI'AN", "xian"),
        ("weather in Xi’an", "xian"),
        ("hong kong or beijing", "?ambiguous"),
        ("北京 Beijing", "beijing"),
        ("thanks HK", "hong_kong"),
        ("thinkhk", "?not_said"),
        ("xiang", "?not_said"),
        ("weather", "?not_said"),
        ("ＢＥＩＪＩＮＧ", "beijing"),
    ],
    "product": [
        ("x1 pro有货吗", "x1_pro"),
        ("X1 in stock?", "x1"),
        ("x10", "?not_said"),
        ("雲雀X1 Pro", "x1_pro"),
        ("云雀X1有货吗", "x1"),
        ("X1 or X1 Pro", "?ambiguous"),
        ("book 14寸", "book"),
        ("book 145", "?not_said"),
        ("facebook 14", "?not_said"),
        ("给我看看云雀笔记本14", "book"),
    ],
    "size": [("a LARGE one", "large"), ("larger", "?not_said"), ("small or large", "?ambiguous")],
    "gift": [("gift wrapped please", True), ("unwrapped", False), ("不包装", False), ("hello", "?not_said")],
    "colour": [("the red one", "red"), ("blue", "red")],
    "shop": [("anything", "?free_text")],
    "user": [("I am u1024", "?caller"), ("user: root", "?caller")],
    "weekday": [
        ("on Friday", "friday"),
        ("周五的菜单", "friday"),
        ("next Friday", "?invalid"),
        ("下周五的菜单", "?invalid"),
        ("the day after tomorrow", "?invalid"),
        ("明早", "tomorrow"),
        ("Friday or tomorrow", "?ambiguous"),
    ],
    "day": [
        ("今天有什么菜", "2025-07-16"),
        ("明天呢", "2025-07-17"),
        ("后天", "2025-07-18"),
        ("大后天", "2025-07-19"),
        ("大前天", "2025-07-13"),
        ("昨天几点打卡", "2025-07-15"),
        ("後天", "2025-07-18"),
        ("明早", "2025-07-17"),
        ("昨晚的", "2025-07-15"),
        ("以后天气好", "?not_said"),
        ("下周三", "2025-07-23"),
        ("下週三", "2025-07-23"),
        ("下下周一", "2025-07-28"),
        ("下个星期天", "2025-07-27"),
        ("这周五", "2025-07-18"),
        ("本周一", "2025-07-14"),
        ("上周二", "2025-07-08"),
        ("上上个礼拜六", "2025-07-05"),
        ("周五", "2025-07-18"),
        ("星期三", "2025-07-16"),
        ("周一", "2025-07-21"),
        ("周一到周五", "?ambiguous"),
        ("每周一", "?not_said"),
        ("一周一次", "?not_said"),
        ("周一直下雨", "?not_said"),
        ("3天后", "2025-07-19"),
        ("两周后", "2025-07-30"),
        ("三天前买的", "2025-07-13"),
        ("两三天前", "?not_said"),
        ("签收7天后能退吗", "?not_said"),
        ("2025年6月30日", "2025-06-30"),
        ("2025-06-30", "2025-06-30"),
        ("２０２５／６／３０", "2025-06-30"),
        ("6月30号", "2025-06-30"),
        ("六月三十号", "2025-06-30"),
        ("去年12月31日", "2024-12-31"),
        ("下个月3号", "2025-08-03"),
        ("2月30号", "?invalid"),
        ("2025-02-29", "?invalid"),
        ("6月31号", "?invalid"),
        ("13月1号", "?invalid"),
        ("2月29号", "?ambiguous"),
        ("6/30", "2025-06-30"),
        ("30/6", "2025-06-30"),
        ("3/4", "?ambiguous"),
        ("3/4的", "2025-03-04"),
        ("6/30/2025", "2025-06-30"),
        ("3/4/2025", "?ambiguous"),
        ("4/4/2025", "2025-04-04"),
        ("6/30/25", "?not_said"),
        ("31/31", "?invalid"),
        ("1月20号", "?ambiguous"),
        ("3号", "?ambiguous"),
        ("3号线", "?not_said"),
        ("30 June 2025", "2025-06-30"),
        ("June 30th, 2025", "2025-06-30"),
        ("the 30th of June", "2025-06-30"),
        ("Jun 30", "2025-06-30"),
        ("31 June", "?invalid"),
        ("5 May 2025", "2025-05-05"),
        ("may 5 people come", "?not_said"),
        ("the 3rd of last month", "2025-06-03"),
        ("the 3rd floor", "?not_said"),
        ("today", "2025-07-16"),
        ("Tomorrow!", "2025-07-17"),
        ("the day after tomorrow", "2025-07-18"),
        ("today or tomorrow", "?ambiguous"),
        ("in two weeks", "2025-07-30"),
        ("3 days ago", "2025-07-13"),
        ("a week from today", "2025-07-23"),
        ("two or three days ago", "?not_said"),
        ("a few days ago", "?not_said"),
        ("on Friday", "2025-07-18"),
        ("this Friday", "2025-07-18"),
        ("next Friday", "?ambiguous"),
        ("this coming Friday", "2025-07-18"),
        ("next Wednesday", "2025-07-23"),
        ("next Monday", "2025-07-21"),
        ("Friday next week", "2025-07-25"),
        ("last Friday", "2025-07-11"),
        ("last Monday", "?ambiguous"),
        ("every friday", "?not_said"),
        ("fridays", "?not_said"),
        ("Friday 18 July", "2025-07-18"),
        ("Friday 19 July", "?ambiguous"),
        ("open 24/7", "?not_said"),
        ("12026-01-015", "?not_said"),
        ("下周三 next week wednesday", "2025-07-23"),
    ],
    "past_day": [
        ("3号那天", "2025-07-03"),
        ("周五打卡了吗", "2025-07-11"),
        ("12月31号", "2024-12-31"),
        ("明天", "?invalid"),
        ("今天", "2025-07-16"),
        ("on the 20th", "2025-06-20"),
        ("1月20号", "2025-01-20"),
    ],
    "coming_day": [
        ("3号", "2025-08-03"),
        ("1 January", "2026-01-01"),
        ("昨天", "?invalid"),
        ("3/4", "?ambiguous"),
    ],
    "month": [
        ("这个月", "2025-07"),
        ("上个月的工资条", "2025-06"),
        ("上月", "2025-06"),
        ("上上个月", "2025-05"),
        ("下个月", "2025-08"),
        ("马上月底了", "?not_said"),
        ("7月", "2025-07"),
        ("十月份", "2025-10"),
        ("1月", "?ambiguous"),
        ("去年12月", "2024-12"),
        ("2025年6月", "2025-06"),
        ("2025-06", "2025-06"),
        ("2025-13", "?invalid"),
        ("13月", "?invalid"),
        ("三个月", "?not_said"),
        ("两个月前", "2025-05"),
        ("6月30号发的", "2025-06"),
        ("6月和7月", "?ambiguous"),
        ("每个月", "?not_said"),
        ("last month", "2025-06"),
        ("this month", "2025-07"),
        ("next month", "2025-08"),
        ("the month before last", "2025-05"),
        ("July", "2025-07"),
        ("June 2025", "2025-06"),
        ("sep 2025", "2025-09"),
        ("december last year", "2024-12"),
        ("last December", "2024-12"),
        ("last July", "2024-07"),
        ("last June", "?ambiguous"),
        ("may I see it", "?not_said"),
        ("in May", "2025-05"),
        ("two months ago", "2025-05"),
        ("June or July", "?ambiguous"),
        ("06/2025", "2025-06"),
    ],
    "past_month": [
        ("10月", "2024-10"),
        ("august", "2024-08"),
        ("next month", "?invalid"),
        ("7月", "2025-07"),
    ],
    "at": [
        ("3pm", "15:00"),
        ("3:30 p.m.", "15:30"),
        ("12am", "00:00"),
        ("12 pm", "12:00"),
        ("15:30", "15:30"),
        ("09:30", "09:30"),
        ("9:30", "?ambiguous"),
        ("at noon", "12:00"),
        ("at 4", "?ambiguous"),
        ("at 4 today", "?ambiguous"),
        ("free at 2 this afternoon for four", "?ambiguous"),
        ("at about 3, please", "?ambiguous"),
        ("at 14 on Friday", "14:00"),
        ("at 4pm", "16:00"),
        ("from 2 to 4pm", "?ambiguous"),
        ("2-4 pm", "?ambiguous"),
        ("between 2:30 and 4 pm", "?ambiguous"),
        ("from 14 until 15 o'clock", "?ambiguous"),
        ("at 9 people", "?not_said"),
        ("at 12 Nanjing Road", "?not_said"),
        ("下午三点", "15:00"),
        ("下午３点半", "15:30"),
        ("明早九点一刻", "09:15"),
        ("晚上8点", "20:00"),
        ("中午十二点", "12:00"),
        ("凌晨两点", "02:00"),
        ("16点", "16:00"),
        ("三点", "?ambiguous"),
        ("晚上十二点", "?ambiguous"),
        ("上午十五点", "?invalid"),
        ("下午兩點到四點", "?ambiguous"),
        ("25:00", "?not_said"),
        ("3pm-4pm", "?ambiguous"),
        ("上午十点到十一点", "?ambiguous"),
        ("便宜一点", "?not_said"),
        ("下午三点一起开会", "15:00"),
        ("下午3点15个人", "15:00"),
        ("下午三点十五", "15:15"),
        ("下午三点五分", "15:05"),
        ("3 minutes", "?not_said"),
    ],
    "people": [
        ("for 10 people", 10),
        ("十个人", 10),
        ("我们八位", 8),
        ("two hundred and five people", 205),
        ("twenty-five guests", 25),
        ("1 person", 1),
        ("10", "?not_said"),
        ("六七个人", "?invalid"),
        ("5-6 people", "?invalid"),
        ("5 to 8 people", "?invalid"),
        ("至少3个人", "?invalid"),
        ("二十多个人", "?invalid"),
        ("more than 20 people", "?invalid"),
        ("2.5 people", "?invalid"),
        ("five six people", "?invalid"),
        ("1,000 people", "?invalid"),
        ("0 people", "?invalid"),
        ("几个人", "?not_said"),
        ("4 people or 5 people", "?invalid"),
        ("4 people, 5 people", "?ambiguous"),
        ("10个人来开会", 10),
        ("8个人半小时", 8),
        ("20来个人", "?invalid"),
        ("10人以上", "?invalid"),
        ("10peoples", "?not_said"),
    ],
    "price": [
        ("两百块", 200),
        ("兩百塊", 200),
        ("1,024元", 1024),
        ("￥99.5", 99.5),
        ("１２８块钱", 128),
        ("三千五百元", 3500),
        ("一万块人民币", 10000),
        ("1.2万元", 12000),
        ("两百五十块", 250),
        ("200 yuan", 200),
        ("一千二的", "?not_said"),
        ("200 dollars", "?not_said"),
        ("0.0001元", "?invalid"),
        ("两块半", "?invalid"),
        ("1,0245元", "?not_said"),
    ],
    "number": [
        ("make it 350", 350),
        ("1,024", 1024),
        ("200 usd", 200),
        ("1美金多少钱", 1),
        ("3 million won", 3_000_000),
        ("1.5 billion", 1_500_000_000),
        ("3百万韩元", 3_000_000),
        ("5 k yen", 5000),
        ("12 thousand", 12_000),
        ("3 milligrams", 3),
        ("version 1.2.3", "?not_said"),
        ("a1b", "?not_said"),
        ("one of them", "?not_said"),
        ("3 of 5", "?ambiguous"),
        ("on 2025-06-30 it was 7", 7),
        ("9" * 16, "?not_said"),
    ],
}


@pytest.mark.parametrize(
    ("slot", "text", "expected"), [(slot, *case) for slot, cases in CASES.items() for case in cases]
)
def test_what_a_text_says(slot: str, text: str, expected: SlotValue) -> None:
    value = said(slot, text)
    assert (type(value), value) == (type(expected), expected)


@pytest.mark.parametrize(
    "text",
    [
        "25年6月",
        "24年12月",
        "二零二五年六月",
        "二〇二五年六月",
        "大前年6月",
        "去年 6月",
        "两年前的6月",
        "june two years ago",
        "june '25",
        "june of 24",
        "6-8月",
        "6到8月",
        "2025年6到8月",
        "the june before last",
        "除了6月",
        "not june",
        "2125年6月",
        "2205年6月",
        "3000年1月",
        "0年1月",
        "民国114年6月",
        "两年前的那个6月",
        "2025年的6月",
        "2024 june",
        "last year in june",
        "june payslip last year",
        "6、8月",
        "6月除外",
        "everything but june",
    ],
)
def test_a_month_beside_another_year_a_range_or_a_negation_is_not_guessed(text: str) -> None:
    assert said("month", text, date(2026, 12, 1)) in ("?ambiguous", "?invalid", "?not_said")
    assert said("past_month", text, date(2026, 12, 1)) in ("?ambiguous", "?invalid", "?not_said")


@pytest.mark.parametrize(
    ("slot", "text", "expected"),
    [
        ("past_month", "收到6月的工资条了吗", "2026-06"),
        ("past_month", "june payslip", "2026-06"),
        ("past_month", "my payslip for june, order 1024", "2026-06"),
        ("month", "2025年6月", "2025-06"),
        ("month", "june last year", "2025-06"),
        ("day", "2026-12-05 15 people", "2026-12-05"),
        ("day", "订单1024, 12月5号", "2026-12-05"),
        ("day", "25年12月5日", "?ambiguous"),
        ("day", "12月5号到北京", "2026-12-05"),
        ("day", "请年假12月5号", "2026-12-05"),
        ("day", "5 december 3pm", "2026-12-05"),
        ("day", "5 december '25", "?ambiguous"),
        ("order", "my order from 2024", "?ambiguous"),
        ("order", "我2023买的那个订单", "?ambiguous"),
        ("order", "room 2108 order", "?not_said"),
        ("order", "pin 1234 order", "?not_said"),
        ("order", "zip 100000 order", "?not_said"),
        ("order", "call me at 13812345678 about my order", "?ambiguous"),
        ("order", "order placed 20251101", "?ambiguous"),
        ("order", "密码是1234，订单", "?not_said"),
        ("order", "2108房间的订单", "?not_said"),
        ("order", "room 2108, order 5521", "5521"),
        ("people", "-5 people", "?invalid"),
        ("people", "meeting - 5 people", 5),
        ("number", "-100 usd", "?invalid"),
        ("number", "-$100", "?invalid"),
        ("number", "负100美元", "?invalid"),
    ],
)
def test_what_stands_beside_a_value_counts(slot: str, text: str, expected: SlotValue) -> None:
    assert said(slot, text, date(2026, 12, 1)) == expected


@pytest.mark.parametrize(
    ("today", "text", "expected"),
    [
        (date(2025, 7, 18), "next Friday", "2025-07-25"),  # a Friday
        (date(2025, 7, 19), "next Friday", "2025-07-25"),  # a Saturday
        (date(2025, 7, 20), "next Friday", "?ambiguous"),  # a Sunday, which begins or ends a week
        (date(2025, 7, 20), "next Sunday", "2025-07-27"),
        (date(2025, 7, 18), "next Sunday", "?ambiguous"),
        (date(2025, 7, 14), "last Sunday", "?ambiguous"),
        (date(2025, 7, 15), "last Friday", "2025-07-11"),
        (date(2025, 7, 19), "this Friday", "?ambiguous"),
        (date(2025, 12, 31), "明天", "2026-01-01"),
        (date(2024, 2, 28), "tomorrow", "2024-02-29"),
        (date(2024, 2, 1), "2月29号", "2024-02-29"),
        (date(2025, 12, 30), "1月2号", "2026-01-02"),
        (date(2025, 1, 2), "12月30号", "2024-12-30"),
    ],
)
def test_days_are_told_from_today(today: date, text: str, expected: str) -> None:
    assert said("day", text, today) == expected


@pytest.mark.parametrize(
    ("today", "text", "expected"),
    [
        (date(2025, 1, 31), "上个月", "2024-12"),
        (date(2025, 12, 1), "next month", "2026-01"),
        (date(2025, 1, 5), "12月", "2024-12"),
        (date(2025, 1, 5), "上上个月", "2024-11"),
        (date(2025, 3, 31), "last month", "2025-02"),
    ],
)
def test_months_are_told_from_today(today: date, text: str, expected: str) -> None:
    assert said("month", text, today) == expected


def test_the_words_that_said_it_come_along() -> None:
    assert fill("order", "where is order 20488?") == Filled("20488", "20488")
    assert fill("city", "Weather in BEIJING") == Filled("beijing", "BEIJING")
    assert fill("day", "on the day after Tomorrow") == Filled("2025-07-18", "the day after Tomorrow")
    assert fill("price", "大概￥1,024") == Filled(1024, "1,024")
    assert fill("colour", "blue") == Filled("red", "")


def test_no_log_shows_them_by_accident() -> None:
    query = Query.of_text("order 20488", NORMALISER)
    [suggestion] = EACH.suggest(["order"], query, WEDNESDAY)
    assert suggestion.slots["order"] == Filled("20488", "20488")
    assert "20488" not in repr(suggestion)
    assert "20488" not in repr(Query(normal="", lang=None, typed="20488"))


def test_words_that_two_slots_may_mean_fill_neither() -> None:
    two = filler(convert={"from": SLOTS["city"], "to": SLOTS["city"], "amount": {"type": "number"}})
    [suggestion] = two.suggest(["convert"], Query.of_text("200 beijing", NORMALISER), WEDNESDAY)
    assert suggestion.slots == {
        "from": Missing("ambiguous"),
        "to": Missing("ambiguous"),
        "amount": Filled(200, "200"),
    }


def test_a_day_and_a_time_may_share_a_character() -> None:
    tool = filler(t={"day": SLOTS["weekday"], "at": SLOTS["at"]})
    [suggestion] = tool.suggest(["t"], Query.of_text("那明早九点还有空的没", NORMALISER), WEDNESDAY)
    assert suggestion.slots == {"day": Filled("tomorrow", "明早"), "at": Filled("09:00", "早九点")}


def test_an_optional_slot_says_so() -> None:
    tool = filler(t={"at": SLOTS["at"] | {"required": False}})
    [suggestion] = tool.suggest(["t"], Query.of_text("hi", NORMALISER), WEDNESDAY)
    assert suggestion.slots == {"at": Missing("not_said", required=False)}


@pytest.mark.parametrize(
    "text",
    [
        "1," * 1024,
        "1" * 2048,
        "1-" * 1024,
        "a" * 2047 + "!",
        "two hundred and " * 128,
        "一" * 2048,
        "万千百十" * 512,
        "6/" * 1024,
        "2025-" * 400,
        "the " * 512,
        "下" * 2048,
        "周" * 2048,
        "1 " * 1024,
        "phone" + " " * 1000 + "1" * 900,
        "\ufdfa" * 2048,
        "至少" * 1024,
        "x1 pro " * 290,
        "5到" * 1000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    query = Query.of_text(text, NORMALISER)
    started = time.process_time()
    EACH.suggest(SLOTS, query, WEDNESDAY)
    assert time.process_time() - started < 0.5


PIECES = st.sampled_from(
    [text for cases in CASES.values() for text, _ in cases]
    + [
        *" ,.-/:0123456789年月日号周点一二两三十百千万半上下前后",
        " and ",
        "\0",
        "\ud800",
        "İ",
        "ß",
        "ﷺ",
        "\u0301",
    ]
)
TEXTS = st.lists(PIECES, max_size=8).map("".join) | st.text(st.characters(), max_size=60)


def test_any_text_fills_slots_with_values_that_are_valid(hold: Hold) -> None:
    def rule(given: tuple[str, date]) -> None:
        text, today = given
        suggestions = EACH.suggest(SLOTS, Query.of_text(text, NORMALISER), today)
        assert [suggestion.tool for suggestion in suggestions] == list(SLOTS)
        values: dict[str, SlotValue] = {}
        for suggestion in suggestions:
            [(name, found)] = suggestion.slots.items()
            [slot] = EACH.tools[name].slots
            if isinstance(found, Filled):
                assert slot.accepts(found.value)
                assert len(str(found.value)) <= MAX_VALUE_CHARACTERS
                assert len(found.text) <= len(NORMALISER.typed(text))
                values[name] = found.value
            else:
                assert found.reason in ("not_said", "ambiguous", "invalid", "free_text", "caller")
        header = format_hints(Hints(slots=values))
        assert len(header) <= MAX_HEADER_BYTES
        assert parse_hints(header).slots == values
        json.dumps(values)

    hold(rule, st.tuples(TEXTS, st.dates(date(1990, 1, 1), date(2090, 1, 1))), 150)


def test_typed_and_lower_case_have_the_same_places(hold: Hold) -> None:
    def rule(text: str) -> None:
        typed = NORMALISER.typed(text)
        assert len(typed.lower()) == len(typed)
        assert "\0" not in typed

    hold(rule, TEXTS, 200)
