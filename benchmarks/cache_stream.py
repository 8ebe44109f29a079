"""A cache at work: questions of FAQs are stored, others come, and the nearest stored one may answer.

An entry's question and half of its variants are stored; the other half are asked, and questions that no entry
answers. A hit is right where the stored question is of the same entry.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cache_rates import RATES
from cache_sets import ROOT

from edge.asked import Asked
from edge.normaliser import Lang
from edge.pairs import PairGuard
from export.corpus import read_rows
from export.risk import Answers, find_threshold, upper_bound

NEAREST = 10  # stored questions that are compared with one that is asked
THRESHOLDS = (0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Stream:
    """``stored`` and ``asked``: texts with their entries; what no entry answers has the entry ""."""

    about: str
    lang: Lang
    stored: tuple[tuple[str, str], ...]
    asked: tuple[tuple[str, str], ...]


def load_streams(data: Path) -> dict[str, Stream]:
    """The streams, by their names."""
    covid = [
        (row["id"], [row["question"], *row["variants"]]) for row in read_rows(data / "covidq_faq/faq.jsonl")
    ]
    nothing = [row["text"] for row in read_rows(data / "covidq_faq/no_answer.jsonl")]
    stack = [
        (row["id"], [row["question"], *row["variants"]]) for row in read_rows(data / "stackfaq/faq.jsonl")
    ]
    found = {
        "covidq_faq": _stream("people's questions of one illness", Lang.EN, covid, nothing),
        "stackfaq": _stream("questions of web applications, paraphrased by machine", Lang.EN, stack, ()),
    }
    own = [
        row for path in sorted((ROOT / "export/pools/paraphrases").glob("*.jsonl")) for row in read_rows(path)
    ]
    for lang in Lang:
        groups = [
            (f"{row['id']}/{i}", side[lang]) for row in own for i, side in enumerate([row, *row["near"]])
        ]
        about = "our own paraphrases with near misses; the base met them in its training"
        found[f"paraphrases {lang}"] = _stream(about, lang, groups, ())
    return found


def _stream(
    about: str, lang: Lang, groups: Sequence[tuple[str, Sequence[str]]], nothing: Sequence[str]
) -> Stream:
    stored, asked = [], [(text, "") for text in nothing]
    for entry, texts in groups:
        first, *others = texts
        ordered = sorted(others, key=lambda text: zlib.crc32(text.encode()))
        half = len(ordered) // 2
        stored += [(text, entry) for text in (first, *ordered[:half])]
        asked += [(text, entry) for text in ordered[half:]]
    return Stream(about, lang, tuple(stored), tuple(asked))


def run_stream(
    stream: Stream, found: Mapping[str, np.ndarray], guard: PairGuard, typed: Callable[[str], str]
) -> dict[str, Any]:
    """For cosine and for ours: what is hit at each rate of false hits, and by a threshold from a half."""
    table = np.array([found[text] for text, _ in stream.stored])
    read: dict[str, Asked] = {}

    def asked(text: str) -> Asked:
        if text not in read:
            read[text] = guard.read(typed(text))
        return read[text]

    hits: dict[str, list[tuple[float, bool]]] = {"cosine": [], "ours": []}
    for text, entry in stream.asked:
        cosines = table @ found[text]
        near = np.argsort(-cosines)[:NEAREST]
        hits["cosine"].append((float(cosines[near[0]]), stream.stored[near[0]][1] == entry))
        best = (-1.0, False)
        for i in near:
            other, owner = stream.stored[i]
            if guard.difference(asked(text), asked(other), stream.lang) is None:
                score = guard.score(float(cosines[i]), asked(text), asked(other))
                best = max(best, (score, owner == entry))
        hits["ours"].append(best)
    tuned = np.array([zlib.crc32(text.encode()) % 2 == 1 for text, _ in stream.asked])
    return {
        "about": stream.about,
        "stored": len(stream.stored),
        "asked": len(stream.asked),
        "answerable": sum(entry != "" for _, entry in stream.asked),
    } | {way: figures(np.array(rows, float), tuned) for way, rows in hits.items()}


def figures(rows: np.ndarray, tuned: np.ndarray) -> dict[str, Any]:
    """``rows``: score and rightness of each question; ``tuned``: which of them set thresholds."""
    score, right = rows[:, 0], rows[:, 1] > 0
    order = np.argsort(-score, kind="stable")
    order = order[score[order] >= 0]
    false = np.cumsum(~right[order]) / np.arange(1, len(order) + 1)
    result: dict[str, Any] = {
        f"above_{at:g}": [int((score > at).sum()), int((~right)[score > at].sum())] for at in THRESHOLDS
    }
    for rate in RATES:
        kept = np.flatnonzero(false <= rate)
        result[f"hit_{rate:g}"] = round(float(kept[-1] + 1) / len(rows), 4) if len(kept) else 0.0
        open_ = tuned & (score >= 0)
        finding = find_threshold(Answers.of(score[open_], ~right[open_], int(tuned.sum())), rate, 0.05)
        hit = ~tuned & (score >= finding.confidence)
        count, wrong = int(hit.sum()), int((~right)[hit].sum())
        result[f"threshold_{rate:g}"] = {
            "threshold": round(finding.confidence, 3),
            "proven": finding.proven,
            "bound": round(finding.bound, 4),
            "hits": [count, int((~tuned).sum())],
            "wrong": wrong,
            "at_most": round(upper_bound(wrong, count, 0.95), 4) if count else None,
        }
    return result
