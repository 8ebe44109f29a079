"""Slips stay small and leave the language alone."""

import random

import pytest

from edge.normaliser import Lang
from export.noise import noisy


@pytest.mark.parametrize("seed", range(50))
def test_an_english_slip_changes_few_letters(seed: int) -> None:
    text = "how do i reset my password?"
    found = noisy(text, Lang.EN, random.Random(seed))
    assert abs(len(found) - len(text)) <= 1
    assert found[0] == "h"
    assert {"i", "my"} <= set(found.split())


@pytest.mark.parametrize("seed", range(50))
def test_a_chinese_slip_drops_one_character_or_punctuation(seed: int) -> None:
    text = "我想知道,怎么申请退货?"
    found = noisy(text, Lang.ZH, random.Random(seed))
    assert len(text) - 2 <= len(found) < len(text)


@pytest.mark.parametrize("text", ["?", "退货", "ok"])
def test_a_short_text_is_never_emptied(text: str) -> None:
    lang = Lang.ZH if text == "退货" else Lang.EN
    assert {noisy(text, lang, random.Random(seed)) for seed in range(30)} == {text}
