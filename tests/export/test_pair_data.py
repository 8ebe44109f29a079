"""The compiled words by which two questions are told apart."""

import json
from pathlib import Path

import pytest
import yaml

from edge.words import JOINED, KINDS, Words
from export.pairs import PAIRS_FILE, pair_data

DATA = pair_data()


def items(word: str) -> set[str]:
    return set(DATA["terms"][word].split(JOINED)) - {""}


def test_they_survive_json_and_load() -> None:
    assert json.loads(json.dumps(DATA, ensure_ascii=False)) == DATA
    Words.of_data(DATA)


def test_every_item_is_of_a_known_kind() -> None:
    assert {item.partition(":")[0] for word in DATA["terms"] for item in items(word)} <= KINDS


def test_words_of_the_guards_are_read_too_each_name_by_itself() -> None:
    assert items("saturday") == {"date:saturday"} == items("星期六")
    assert items("paypal") == {"name:paypal"}
    assert items("alipay") != items("wechat")
    assert items("can't") == {"not"}
    assert items("没问题") == set()


def test_own_words_come_before_those_of_the_guards() -> None:
    assert items("boss") == {"person:boss"} == items("老板")
    assert "colleagues" not in DATA["terms"]  # its stem is that of a word of our own
    assert items("someone") == set()


def test_a_negated_word_is_the_word_and_a_negation() -> None:
    assert items("unpaid") == {"not", *items("pay")}
    assert items("无效") == {"not", *items("有效")}
    assert items("unsafe") == {"not", *items("safe")}


def test_a_word_in_two_lists_stands_for_both() -> None:
    assert len(items("退出")) == 2


@pytest.mark.parametrize("word", ["on", "no", "off", "yes", "true"])
def test_a_word_that_yaml_reads_as_a_truth_value_is_refused(word: str, tmp_path: Path) -> None:
    raw = yaml.safe_load(PAIRS_FILE.read_text("utf-8"))
    raw["filler"]["en"].append(yaml.safe_load(word))
    source = tmp_path / "pairs.yaml"
    source.write_text(yaml.safe_dump(raw, allow_unicode=True), "utf-8")
    with pytest.raises(ValueError, match="true and false"):
        pair_data(source)


def test_opposites_have_no_word_on_two_sides_but_for_both_at_once() -> None:
    for axis, sides in enumerate(yaml.safe_load(PAIRS_FILE.read_text("utf-8"))["opposites"]):
        assert len(sides) > 1, axis
        both = set(sides[0]) & set(sides[1])
        assert both <= {"优缺点", "利弊"}, both


def test_all_words_are_lower_case_and_units_have_a_base() -> None:
    assert [word for word in DATA["terms"] if word != word.lower()] == []
    assert {base for _, base in DATA["scale"].values()} <= set(DATA["units"].values())
    assert set(DATA["scale"]) <= set(DATA["units"].values())
