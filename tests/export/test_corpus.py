"""Which rows of the data sets may reach the base student."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edge.normaliser import Lang, Normaliser
from export.corpus import SOURCES, TATOEBA, Row, gather


def write(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SOURCES}
    rows["clinc150/full.jsonl.gz"] = [
        {"text": "Book a flight", "split": "train"},
        {"text": "book  a flight", "split": "train"},
        {"text": "a secret of the test rows", "split": "test"},
    ]
    rows["banking77/train.jsonl"] = [{"text": "A secret of the test rows", "split": "train"}]
    rows["nlupp/train_valid.jsonl"] = [{"text": "only for validation", "split": "valid"}]
    rows["chitchat_faq/faq.jsonl"] = [{"question": "你好嗎？", "variants": ["你好啊"], "answer": "好"}]
    rows["followup_cast/followups.jsonl"] = [
        {"history": ["one thing"], "text": "and it?", "rewrite": "what of it?"}
    ]
    rows[TATOEBA] = [{"en": "Hello there", "zh": "你好呀"}, {"en": "Привет", "zh": "嗨"}]
    for name, found in rows.items():
        write(tmp_path / "data" / name, found)
    write(tmp_path / "pools" / "own.jsonl", [{"text": "我们自己的话"}])
    return tmp_path


def test_texts_are_read_once_and_held_rows_stay_out(data: Path) -> None:
    texts = gather(data / "data", Normaliser("嗎", "吗"), lambda text: True, data / "pools")
    assert [t.text for t in texts] == [
        "book a flight",
        "你好吗?",
        "你好啊",
        "one thing",
        "and it?",
        "what of it?",
        "hello there",
        "你好呀",
        "嗨",
        "我们自己的话",
    ]


def test_a_translation_knows_its_partner_and_pools_come_last(data: Path) -> None:
    texts = gather(data / "data", Normaliser("嗎", "吗"), lambda text: True, data / "pools")
    pair = next(t for t in texts if t.text == "你好呀")
    assert pair.lang is Lang.ZH
    assert pair.partner is not None
    assert texts[pair.partner].text == "hello there"
    assert next(t for t in texts if t.text == "嗨").partner is None
    assert texts[-1].source == "pools/own.jsonl"


def test_what_does_not_fit_is_left_out(data: Path) -> None:
    texts = gather(data / "data", Normaliser(), lambda text: len(text) < 10, data / "pools")
    assert "book a flight" not in [t.text for t in texts]
