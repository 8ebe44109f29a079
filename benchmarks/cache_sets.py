"""Pairs of questions, cut into a half to tune on and a half to report.

A pair is ``same`` where one stored answer may serve both. Public sets are cut by a hash of the sentences that
hang together, so that no sentence is in both halves. Nothing was tuned on what has only a test half.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from edge.normaliser import Lang, Normaliser
from export.corpus import read_rows

ROOT = Path(__file__).parents[1]
PUBLIC = {
    "bustm": "pairs_bustm_zh",
    "afqmc": "pairs_afqmc_zh",
    "mqp": "pairs_mqp_en",
    "covidq": "pairs_covidq_en",
}
WRITTEN, TRAPS = "written", "desk_traps"
ENTITIES, FOLLOW_UPS = "dstc9_entities", "follow_ups"
_WORD = re.compile("[a-z0-9']+|[\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions. ``kind``: in what they differ, where that was written down."""

    a: str
    b: str
    same: bool
    lang: Lang
    kind: str = ""


@dataclass(frozen=True, slots=True)
class PairSet:
    """``about``: what its pairs are, and what its labels mean."""

    name: str
    about: str
    tune: tuple[Pair, ...]
    test: tuple[Pair, ...]


def load_sets(data: Path, normaliser: Normaliser) -> list[PairSet]:
    """Every set, from the folder of public sets and from this repository."""
    return [
        *(_public(name, data / folder / "pairs.jsonl") for name, folder in PUBLIC.items()),
        _written(),
        _traps(),
        _entities(data / "dstc9_faq/faq.jsonl"),
        _follow_ups(data, normaliser),
    ]


_ABOUT = {
    "bustm": "zh, commands and chat to a phone's assistant; labelled by what is meant",
    "afqmc": "zh, customers of a payment company; labels are noisy",
    "mqp": "en, patients' questions, often several sentences, written to look alike",
    "covidq": "en; same means answered by the same FAQ entry, which is looser than a paraphrase",
}


def _public(name: str, path: Path) -> PairSet:
    rows = [Pair(r["a"], r["b"], r["same"], Lang(r["lang"])) for r in read_rows(path)]
    root = _components(rows)
    halves: dict[bool, list[Pair]] = {True: [], False: []}
    for pair in rows:
        halves[zlib.crc32(root[pair.a].encode()) % 2 == 1].append(pair)
    return PairSet(name, _ABOUT[name], tuple(halves[True]), tuple(halves[False]))


def _components(pairs: Sequence[Pair]) -> dict[str, str]:
    """Sentence → the first, by its letters, of all that pairs connect it with."""
    near: dict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        near[pair.a].add(pair.b)
        near[pair.b].add(pair.a)
    root: dict[str, str] = {}
    for start in near:
        todo, seen = [start], {start}
        while todo and start not in root:
            new = near[todo.pop()] - seen
            seen |= new
            todo += new
        root |= {} if start in root else dict.fromkeys(seen, min(seen))
    return root


def _written() -> PairSet:
    rows = list(read_rows(ROOT / "benchmarks/data/pairs.jsonl"))
    parts = {
        part: tuple(
            Pair(r["a"], r["b"], r["same"], Lang(r["lang"]), r["class"]) for r in rows if r["part"] == part
        )
        for part in ("tune", "test")
    }
    return PairSet(WRITTEN, "zh and en, written for this project: one thing differs, or nothing", **parts)


def _traps() -> PairSet:
    """The demo desk's questions with a word changed; where only the history differs no pair can tell."""
    rows = [
        Pair(r["safe"], r["trap"], same=False, lang=Lang(r["lang"]), kind=r["class"])
        for r in read_rows(ROOT / "examples/desk/eval/adversarial.jsonl")
        if r["class"] != "follow_up"
    ]
    halves = [tuple(p for p in rows if zlib.crc32(p.b.encode()) % 2 == half) for half in (1, 0)]
    return PairSet(TRAPS, "zh and en, a question of the demo desk and one that trips it up", *halves)


def _entities(path: Path) -> PairSet:
    """Each question that names a hotel or restaurant, and the likest that names another one."""
    rows = [r for r in read_rows(path) if r["entity"] and r["entity"].lower() in r["question"].lower()]
    words = [frozenset(_WORD.findall(r["question"].lower().replace(r["entity"].lower(), ""))) for r in rows]
    pairs = []
    for i, row in enumerate(rows):
        others = [j for j, other in enumerate(rows) if other["entity"] != row["entity"]]
        j = max(others, key=lambda j: _overlap(words[i], words[j]))
        pairs.append(Pair(row["question"], rows[j]["question"], same=False, lang=Lang.EN))
    return PairSet(ENTITIES, "en, the same question about two hotels or restaurants", (), distinct(pairs))


def _follow_ups(data: Path, normaliser: Normaliser) -> PairSet:
    """Each turn that needs its history, and the likest such turn of another dialogue."""
    pairs: list[Pair] = []
    for path, key in (("followup_cast", "topic"), ("followup_crosswoz_zh", "dialog")):
        rows = [r for r in read_rows(data / path / "followups.jsonl") if r["needs_context"]]
        words = [frozenset(_WORD.findall(normaliser.reading(r["text"]))) for r in rows]
        for i, row in enumerate(rows):
            others = (j for j, other in enumerate(rows) if other[key] != row[key])
            j = max(others, key=lambda j: _overlap(words[i], words[j]))
            pairs.append(Pair(row["text"], rows[j]["text"], same=False, lang=Lang(row["lang"])))
    return PairSet(FOLLOW_UPS, "zh and en, turns that need their history, of two dialogues", (), tuple(pairs))


def _overlap(one: frozenset[str], two: frozenset[str]) -> float:
    return len(one & two) / max(1, len(one | two))


def distinct(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Each pair once, whichever comes first in it."""
    return tuple({frozenset((pair.a, pair.b)): pair for pair in pairs}.values())


def paraphrases() -> list[Pair]:
    """Our own paraphrases with near misses, as pairs of one language: what heads may be trained on."""
    found: list[Pair] = []
    for path in sorted((ROOT / "export/pools/paraphrases").glob("*.jsonl")):
        for row in read_rows(path):
            sides = [row, *row["near"]]
            for lang in Lang:
                for side in sides:
                    found += [Pair(a, b, True, lang) for a, b in combinations(side[lang], 2)]
                for one, two in combinations(sides, 2):
                    found += [Pair(a, b, False, lang) for a in one[lang] for b in two[lang]]
    return found


def translations(data: Path) -> list[tuple[str, ...]]:
    """Sentences of one language that share a translation: paraphrases, in groups."""
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    rows: list[dict[str, Any]] = list(read_rows(data / "tatoeba_zh_en/pairs.jsonl.gz"))
    for row in rows:
        groups["zh", row["en"]].add(row["zh"])
        groups["en", row["zh"]].add(row["en"])
    return [tuple(sorted(group)) for group in groups.values() if len(group) > 1]


def lowered(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The same without a capital letter."""
    return tuple(replace(pair, a=pair.a.lower(), b=pair.b.lower()) for pair in pairs)
