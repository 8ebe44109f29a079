"""FAQ tables as spreadsheets save them, and as they break them."""

import pytest
from brought import Bring, Refuse

from export.importers.table import split_variants

TABLE = """\
Question,ANSWER,Variants
When do you open?,"At 9.
**Not** on Sundays, though.","opening hours|how early can I come"
Do you take "cards"?,Yes; all of them.,
"""
CHINESE = "问题,答案,相似问法\n几点开门？,九点。,早上什么时候营业；你们多早开\n可以退货吗,七天内可以。,\n"


def test_a_table_becomes_topics_with_answers(bring: Bring) -> None:
    text = TABLE.replace('Do you take "cards"?', '"Do you take ""cards""?"')
    brought = bring("faq.csv", text, "--eval-share", "0")
    assert brought.examples() == {
        "when-do-you-open": ["When do you open?", "opening hours", "how early can I come"],
        "do-you-take-cards": ['Do you take "cards"?'],
    }
    assert brought.desk.topics[0].answer == {"en": "At 9.\n**Not** on Sundays, though."}
    assert brought.desk.topics[0].title == {"en": "When do you open?"}


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_chinese_columns_any_separator_and_a_byte_order_mark(
    bring: Bring, delimiter: str, encoding: str
) -> None:
    text = CHINESE.replace(",", delimiter).replace("\n", "\r\n")
    brought = bring("faq.tsv", text.encode(encoding), "--eval-share", "0")
    texts = ["几点开门？", "早上什么时候营业", "你们多早开"]
    assert list(brought.examples().values()) == [texts, ["可以退货吗"]]
    assert all(id_.startswith("topic-") for id_ in brought.examples())
    assert brought.desk.languages == ("zh",)


def test_gbk_is_refused_with_the_option_that_reads_it(bring: Bring, refuse: Refuse) -> None:
    told = refuse("faq.csv", CHINESE.encode("gbk"))
    assert told.startswith("faq.csv:1: not UTF-8 (byte 0); if it is Chinese text out of Excel (GBK)")
    assert "--encoding gb18030" in told
    assert len(bring("faq.csv", CHINESE.encode("gbk"), "--encoding", "gbk").desk.topics) == 2


def test_utf_16_is_recognised(bring: Bring, refuse: Refuse) -> None:
    assert "--encoding utf-16" in refuse("faq.csv", CHINESE.encode("utf-16"))
    assert len(bring("faq.csv", CHINESE.encode("utf-16"), "--encoding", "utf-16").desk.topics) == 2
    assert "not utf-16" in refuse("b.csv", b"abc", "--encoding", "utf-16", "--format", "csv", "-o", "x")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("", []),
        (" | ", []),
        ("a", ["a"]),
        ("a|b", ["a", "b"]),
        ("a; b", ["a", " b"]),
        ("a；b", ["a", "b"]),
        ("a; b|c", ["a; b", "c"]),
        ("a; b|c\r\nd", ["a; b|c", "d"]),
        ("a; b\n", ["a; b"]),
    ],
)
def test_one_separator_splits_the_variants(cell: str, expected: list[str]) -> None:
    assert split_variants(cell) == expected


def test_rows_without_a_question_and_other_columns_are_told(bring: Bring) -> None:
    brought = bring("faq.csv", "id,question,answer\n1,why not,because\n2,,lost\n,,\n")
    assert brought.left("a column that is not read") == ["'id'"]
    assert brought.left("a row without a question") == ["'2  lost'"]


def test_the_same_question_twice_is_one_topic_or_a_conflict(bring: Bring) -> None:
    same = "question,answer\nwhy not,because\nwhy not,because\nwho are you,me\nwho are you?,you\nhow,so\n"
    brought = bring("faq.csv", same)
    assert list(brought.examples()) == ["why-not", "how"]
    assert brought.left("one question with several answers") == ["'who are you'", "'who are you?'"]
    assert brought.left("an answer whose topic has no example") == ["'me'", "'you'"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "faq.csv:1: the file is empty."),
        ("\ufeff", "faq.csv:1: there is no column 'question'"),
        ("\n\n", "faq.csv:1: the file is empty."),
        ("a,b\n1,2\n", "faq.csv:1: there is no column 'question'; the first line must name the columns"),
        ("why not,because\n", "faq.csv:1: there is no column 'question'"),
        ("question\n", "faq.csv: nothing in this file can be an example"),
        ("question,问题\na,b\n", "faq.csv:1: the columns 'question' and '问题' both hold the question"),
        ("question,answer\nwhy,a,b\n", "faq.csv:2: 3 cells where the header has 2"),
        ('question,answer\nwhy,x\nhow,"open\nmore\n', "faq.csv:3: the row that begins here is not valid CSV"),
        ('question,answer\nwhy,"a" b\n', "faq.csv:2: the row that begins here is not valid CSV"),
        ("question\n" + "a" * 200_000 + "\n", "faq.csv:2: the row that begins here is not valid CSV"),
        (b"PK\x03\x04rest", "faq.csv: this is an Excel workbook or a zip file; save the sheet as CSV"),
        (b"\x1f\x8brest", "faq.csv: this is gzipped"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(refuse: Refuse, text: str | bytes, expected: str) -> None:
    assert refuse("faq.csv", text).startswith(expected)
