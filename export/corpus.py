"""The texts the base student learns from: openly licensed sets, train rows only, and our own pools."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.normaliser import Lang, Normaliser

Row = dict[str, Any]
POOLS = Path(__file__).parent / "pools"


@dataclass(frozen=True, slots=True)
class Text:
    """A text in its reading form; ``partner`` is the index of its English translation, if it has one."""

    text: str
    lang: Lang
    source: str
    partner: int | None = None


def read_rows(path: Path) -> Iterator[Row]:
    """The objects of a .jsonl or .jsonl.gz file."""
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _train_text(row: Row) -> list[str]:
    return [row["text"]] if row["split"] == "train" else []


def _faq(row: Row) -> list[str]:
    return [row["question"], *row["variants"]]


def _turns(row: Row) -> list[str]:
    return [*row["history"], row["text"], *([row["rewrite"]] if "rewrite" in row else [])]


# Sets of licence class A only; what a rule does not return never reaches the student.
SOURCES: dict[str, Callable[[Row], list[str]]] = {
    "clinc150/full.jsonl.gz": _train_text,
    "banking77/train.jsonl": _train_text,
    "nlupp/train_valid.jsonl": _train_text,
    "ohf_intents/train_valid.jsonl": _train_text,
    "dstc9_faq/faq.jsonl": _faq,
    "dolphinscheduler_faq/faq.jsonl": _faq,
    "chitchat_faq/faq.jsonl": _faq,
    "followup_crosswoz_zh/followups.jsonl": _turns,
    "followup_cast/followups.jsonl": _turns,
    "kdconv_zh/utterances.jsonl.gz": lambda row: [row["text"]],
}
TATOEBA = "tatoeba_zh_en/pairs.jsonl.gz"


def held_out(data: Path, normaliser: Normaliser) -> set[str]:
    """The valid and test texts of CLINC150: short sentences recur, and these must not be met elsewhere."""
    rows = read_rows(data / "clinc150/full.jsonl.gz")
    return {normaliser.reading(row["text"]) for row in rows if row["split"] != "train"}


def gather(
    data: Path, normaliser: Normaliser, fits: Callable[[str], bool], pools: Path = POOLS
) -> list[Text]:
    """Every distinct text that ``fits``; sets before pools, so what was computed for them stays valid."""
    found: dict[str, int] = {}
    texts: list[Text] = []
    barred = held_out(data, normaliser)

    def add(raw: str, source: str, partner: int | None = None) -> int | None:
        text = normaliser.reading(raw)
        lang = normaliser.lang(text)
        if lang is None or text in barred or not fits(text):
            return None
        if text not in found:
            found[text] = len(texts)
            texts.append(Text(text, lang, source, partner))
        return found[text]

    for name, rule in SOURCES.items():
        for row in read_rows(data / name):
            for raw in rule(row):
                add(raw, name)
    for row in read_rows(data / TATOEBA):
        add(row["zh"], TATOEBA, add(row["en"], TATOEBA))
    for path in sorted(pools.glob("*.jsonl")):
        for row in read_rows(path):
            add(row["text"], f"pools/{path.name}")
    return texts
