"""Whether two questions may share an answer: each kind of difference in both languages, and what is none."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import strategies as st
from spelled import Hold

from edge.moments import Calendar
from edge.normaliser import Lang, Normaliser
from edge.pairs import PairGuard, unshared
from export.pairs import pair_data
from export.slots import slot_data

ROOT = Path(__file__).parents[2]
NORMALISER = Normaliser("遊戲機買賣幾點開門們嗎換錢", "游戏机买卖几点开门们吗换钱")
DATA = pair_data()
GUARD = PairGuard.of_data(DATA, Calendar.of_data(slot_data()), NORMALISER)


def differs(a: str, b: str, lang: Lang | None = None) -> str | None:
    """By the typed forms, which must not depend on who comes first."""
    lang = lang or NORMALISER.lang(NORMALISER.reading(a)) or Lang.EN
    one, two = NORMALISER.typed(a), NORMALISER.typed(b)
    found = GUARD.differs(one, two, lang)
    assert GUARD.differs(two, one, lang) == found
    return found


DIFFERENT = {
    "polarity": [
        ("can I return an opened tablet", "can I not return an opened tablet"),
        ("features with a subscription", "features without a subscription"),
        ("which overtime is paid", "which overtime is unpaid"),
        ("countries where I need a visa", "countries where I need no visa"),
        ("can I keep the number", "can I no longer keep the number"),
        ("is that legal", "is that illegal"),
        ("why can I log in", "why can’t I log in"),
        ("拆封的能退吗", "没拆封的能退吗"),
        ("哪些人要签字", "哪些人无需签字"),
        ("方案为什么有效", "方案为什么无效"),
        ("为什么能登录", "为什么登录不了"),
    ],
    "number": [
        ("split it between 3 people", "split it between 4 people"),
        ("rooms for eight guests", "rooms for eighteen guests"),
        ("rooms for twenty one guests", "rooms for twenty two guests"),
        ("a gift under $50", "a gift under $500"),
        ("version 2.1", "version 2.11"),
        ("shifts of 2, 2 and 3 hours", "shifts of 2 and 3 hours"),
        ("the first step", "the second step"),
        ("the 1st step", "the 2nd step"),
        ("parental leave of half a year", "parental leave of a year"),
        ("三个人怎么分", "四个人怎么分"),
        ("五十块以内的礼物", "五百块以内的礼物"),
        ("报销一千二", "报销一万二"),
        ("开十分钟的会", "开二十分钟的会"),
        ("入职第一步", "入职第二步"),
        ("五月的销量", "六月的销量"),
        ("订单尾号6670今天到吗", "订单尾号6671今天到吗"),
        ("jan 120, feb 90", "jan 120, feb 97"),
    ],
    "unit": [
        ("5 kg of luggage", "5 lb of luggage"),
        ("delivery in 3 days", "delivery in 3 weeks"),
        ("send 300 dollars", "send 300 euros"),
        ("a 16GB phone", "a 16MB phone"),
        ("10km run", "10 mile run"),
        ("what is it per month", "what is it per year"),
        ("4 °C", "4 °F"),
        ("三天能到吗", "三周能到吗"),
        ("转300美元", "转300欧元"),
        ("每月多少钱", "每年多少钱"),
        ("时薪多少", "周薪多少"),
        ("苹果3斤多少钱", "苹果3两多少钱"),
    ],
    "date": [
        ("the menu on Friday", "the menu on Thursday"),
        ("the 2024 travel policy", "the 2025 travel policy"),
        ("remind me tomorrow", "remind me today"),
        ("call at 9 am", "call at 9 pm"),
        ("call at 9:30", "call at 10:30"),
        ("open at Christmas", "open at Easter"),
        ("returns last month", "returns last year"),
        ("周五的菜单", "周四的菜单"),
        ("国庆放假吗", "元旦放假吗"),
        ("昨晚谁值班", "今早谁值班"),
        ("a call at quarter past ten", "a call at quarter to ten"),
        ("十点开会", "差一刻十点开会"),
    ],
    "named_value": [
        ("order an X1", "order an S5"),
        ("compare the X1 with the S5", "compare the X1 with the Book 14"),
        ("set it up on iOS", "set it up on Android"),
        ("the weather in Beijing", "the weather in Shanghai"),
        ("how do i get to the dunmore branch", "how do i get to the kilcock branch"),
        ("parking near gate B", "parking near gate C"),
        ("can I pay", "can I pay with Klarna"),
        ("which printer is free for my report", "which printer is free for my report 《手册》"),
        ("北京的天气", "上海的天气"),
        ("A区怎么停车", "B区怎么停车"),
        ("去龙岗店怎么走", "去福田店怎么走"),
        ("三文鱼怎么做", "金枪鱼怎么做"),
        ("张伟在吗", "张威在吗"),
        ("用支付宝付", "用微信付"),
    ],
    "question_word": [
        ("when is the town hall", "where is the town hall"),
        ("why is the server down", "is the server down"),
        ("how much is the training", "how long is the training"),
        ("who signs it", "when is it signed"),
        ("how old is the house", "how tall is the house"),
        ("what is a purchase order", "who writes a purchase order"),
        ("大会什么时候开", "大会在哪开"),
        ("服务器为什么挂了", "服务器挂了吗"),
        ("培训多少钱", "培训多久"),
        ("走过去要多久", "走过去有多远"),
    ],
    "person": [
        ("can I see my appraisal", "can I see my colleague's appraisal"),
        ("change my address", "change my wife's address"),
        ("can customers park here", "can employees park here"),
        ("who sees my calendar", "who sees his calendar"),
        ("能看自己的考核吗", "能看同事的考核吗"),
        ("经理有什么奖金", "实习生有什么奖金"),
        ("谁能看我的日历", "谁能看他的日历"),
    ],
    "scope": [
        ("delete this message", "delete all messages"),
        ("are all laptops encrypted", "are some laptops encrypted"),
        ("is it for members", "is it only for members"),
        ("删除这条消息", "删除所有消息"),
        ("会员打折吗", "只有会员打折吗"),
    ],
    "direction": [
        ("flights from Beijing to Shanghai", "flights from Shanghai to Beijing"),
        ("move it from the laptop to the phone", "move it from the phone to the laptop"),
        ("convert dollars to yuan", "convert yuan to dollars"),
        ("is the X1 heavier than the S5", "is the S5 heavier than the X1"),
        ("does Anna report to Ben", "does Ben report to Anna"),
        ("how do I log in", "how do I log out"),
        ("lend a laptop", "borrow a laptop"),
        ("before the trip", "after the trip"),
        ("uploading the contract", "downloading the contract"),
        ("北京到上海的航班", "上海到北京的航班"),
        ("美元换人民币", "人民币换美元"),
        ("X1比S5重吗", "S5比X1重吗"),
        ("小王向小李汇报吗", "小李向小王汇报吗"),
        ("商品怎么上架", "商品怎么下架"),
        ("二手显示器哪里买", "二手显示器哪里卖"),
        ("今年的年假挪到明年", "明年的年假挪到今年"),
    ],
    "obligation": [
        ("do I have to wear a badge", "can I wear a badge"),
        ("必须戴工牌吗", "可以戴工牌吗"),
    ],
    "language": [("X1和S5", "X1 and S5"), ("when do you open", "你们几点开门")],
}

THE_SAME = [
    ("how do I connect to the office wifi", "How can I connect to the wifi in the office?"),
    ("what's the difference between the X1 and the S5", "how do the S5 and the X1 differ"),
    ("I can't log in", "I cannot log in"),
    ("the printer doesn't work", "the printer isn't working"),
    ("why was my claim rejected", "for what reason was my claim rejected"),
    ("how much does the training cost", "what is the price of the training"),
    ("is a visa required for Japan", "Do I need a visa for Japan?"),
    ("we are twenty people", "we're 20 people"),
    ("a gift for about 200 yuan", "a gift for about 200 RMB"),
    ("the meeting is on 3 March", "the meeting is on March 3rd"),
    ("my train leaves at 3pm", "my train leaves at 3 p.m."),
    ("within two weeks", "within 14 days"),
    ("flights from Beijing to Shanghai", "flights to Shanghai from Beijing"),
    ("the app crashes when I open a photo", "when I open a photo the app crashes"),
    ("hi there! how do i change my address?", "How do I change my address"),
    ("WHAT IS THE BEST PHONE", "what is the best phone?"),
    ("the weather in Shanghai tomorrow", "tomorrow's weather in Shanghai"),
    ("could you tell me if the gym is free", "is the gym free"),
    ("公司的wifi怎么连", "怎么连公司的wifi"),
    ("我忘了密码", "密码忘记了"),
    ("去日本要不要签证", "去日本需要签证吗"),
    ("X1和S5哪个好", "S5跟X1哪个更好"),
    ("4个客人做什么菜", "四个客人做什么菜"),
    ("两百块左右的礼物", "200元左右的礼物"),
    ("三月三号开会", "3月3日开会"),
    ("火车下午三点开", "火车15:00开"),
    ("行李5公斤", "行李10斤"),
    ("打遊戲哪款好", "打游戏哪款好"),
    ("上海明天天气怎么样", "明天上海的天气如何"),
    ("能不能带狗", "可以带狗吗"),
    ("到货了没有", "到货了吗"),
    ("您好！请问怎么改地址？", "怎么改地址"),
    ("培训费用是多少", "培训要多少钱"),
]


@pytest.mark.parametrize(
    ("kind", "a", "b"), [(kind, *pair) for kind, pairs in DIFFERENT.items() for pair in pairs]
)
def test_what_differs_is_named(kind: str, a: str, b: str) -> None:
    assert differs(a, b) == kind
    assert (differs(a, a), differs(b, b, NORMALISER.lang(NORMALISER.reading(b)))) == (None, None)


@pytest.mark.parametrize(("a", "b"), THE_SAME)
def test_other_words_for_the_same_do_not_differ(a: str, b: str) -> None:
    assert differs(a, b) is None


@pytest.mark.parametrize("word", ["Zorblax", "zorblax", '"zorblax"'])
def test_a_name_that_only_one_has_speaks_if_it_is_typed_as_one(word: str) -> None:
    found = differs("can I pay the fee for the course", f"can I pay the fee for the course with {word}")
    assert found == (None if word == "zorblax" else "named_value")


def test_a_capital_says_nothing_at_the_start_or_among_capitals() -> None:
    assert differs("pay with cash. Then leave the shop", "pay with cash. then leave the shop") is None
    assert differs("Can I Pay The Fee For The Course Online", "can i pay the fee for the course") is None


def test_a_connector_in_either_lets_two_values_change_places() -> None:
    assert differs("X1 S5 battery", "S5 X1 battery") == "direction"
    assert differs("X1 and S5 battery", "S5 X1 battery") is None
    assert differs("X1 S5 battery", "S5 and X1 battery") is None


def test_what_only_one_mentions_counts_where_little_else_differs() -> None:
    trouble = "since the new update the battery of my tablet is empty after lunch and the lid gets hot"
    told = (
        "why does my slate lose so much charge, it got an update, and it gets warm at the back after 3 hours"
    )
    assert differs(trouble, f"{trouble} within 3 hours") == "number"
    assert differs(trouble, told) is None
    assert unshared(GUARD.read(trouble), GUARD.read(told)) > 0.5


def test_the_score_is_the_cosine_less_what_is_not_shared_and_stays_in_bounds() -> None:
    a, b, c = map(GUARD.read, ("my phone is hot", "is my phone hot", "the canteen menu of the office"))
    assert GUARD.score(0.9, a, b) == 0.9
    assert GUARD.score(0.9, a, c) == pytest.approx(0.4)
    assert (GUARD.score(0.3, a, c), GUARD.score(1.0000001, a, b)) == (0.0, 1.0)
    assert GUARD.score(0.7, GUARD.read(""), GUARD.read("")) == 0.7


# --- The written pairs -------------------------------------------------------------------------------------

WRITTEN = [
    json.loads(line) for line in (ROOT / "benchmarks/data/pairs.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("kind", ["negation", "number", "unit", "date", "entity", "direction", "scope"])
def test_every_written_pair_of_these_classes_differs(kind: str) -> None:
    rows = [row for row in WRITTEN if row["class"] == kind]
    assert len(rows) > 30
    assert [(r["a"], r["b"]) for r in rows if differs(r["a"], r["b"], Lang(r["lang"])) is None] == []


def test_most_written_paraphrases_do_not_differ() -> None:
    rows = [row for row in WRITTEN if row["same"]]
    passed = sum(differs(row["a"], row["b"], Lang(row["lang"])) is None for row in rows)
    assert len(rows) > 120
    assert passed >= 0.9 * len(rows)


# --- Properties --------------------------------------------------------------------------------------------

DESK = {
    lang: [
        NORMALISER.typed(json.loads(line)["text"])
        for line in (ROOT / f"examples/desk/examples/{lang}.jsonl").read_text("utf-8").splitlines()
    ]
    for lang in Lang
}


@pytest.mark.parametrize("lang", list(Lang))
def test_a_changed_numeral_is_seen_wherever_it_stands(lang: Lang) -> None:
    asked = [text for text in DESK[lang] if NORMALISER.lang(text.lower()) is lang]
    changed = [
        (text, f"{text[: match.start()]}{int(match.group()) + 7}{text[match.end() :]}")
        for text in asked
        for match in re.finditer("[0-9]+", text)
    ]
    assert len(changed) > 500
    assert [(a, b) for a, b in changed if GUARD.differs(a, b, lang) is None] == []


OTHERS = [*"0123456789", "x1", "3.5", "9:30", "2025", "Geneva", "zorb", "鑫", "鑫淼"]
WORDS = [*sorted(word for word in DATA["terms"] if word), *OTHERS]
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=8).map(" ".join) | st.text(
    max_size=40
)


def test_a_question_never_differs_from_itself_and_no_order_matters(hold: Hold) -> None:
    def rule(pair: tuple[str, str]) -> None:
        a, b = map(NORMALISER.typed, pair)
        lang = NORMALISER.lang(a.lower()) or Lang.EN
        if NORMALISER.lang(a.lower()) is lang:
            assert GUARD.differs(a, a, lang) is None
            read = GUARD.read(a)
            assert GUARD.difference(read, GUARD.read(f"{a} "), lang) is None
            assert unshared(read, read) == 0
        assert GUARD.differs(a, b, lang) == GUARD.differs(b, a, lang)
        x, y = GUARD.read(a), GUARD.read(b)
        assert unshared(x, y) == unshared(y, x)
        assert 0 <= unshared(x, y) <= 1

    hold(rule, st.tuples(TEXTS, TEXTS))


def test_normalising_again_changes_nothing(hold: Hold) -> None:
    def rule(pair: tuple[str, str]) -> None:
        typed = [NORMALISER.typed(text) for text in pair]
        lang = NORMALISER.lang(typed[0].lower()) or Lang.EN
        assert GUARD.differs(*map(NORMALISER.typed, typed), lang) == GUARD.differs(*typed, lang)
        low = [NORMALISER.reading(text) for text in pair]
        assert GUARD.differs(*map(NORMALISER.reading, low), lang) == GUARD.differs(*low, lang)

    hold(rule, st.tuples(TEXTS, TEXTS))


def test_data_that_no_host_can_follow_are_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        PairGuard.of_data({**DATA, "terms": {"red": "colour:red"}}, GUARD.calendar, NORMALISER)
    with pytest.raises(KeyError):
        PairGuard.of_data({"terms": {}}, GUARD.calendar, NORMALISER)
