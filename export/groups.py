"""Groups of texts that ask the same: what the student is taught to tell from what only looks the same."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edge.normaliser import Normaliser
from export.corpus import POOLS, TATOEBA, held_out, read_rows

PARAPHRASES = POOLS / "paraphrases"
# Class A sets with intent labels; train rows only, as everywhere.
INTENT_SETS = ("clinc150/full.jsonl.gz", "banking77/train.jsonl", "nlupp/train_valid.jsonl")


@dataclass(frozen=True, slots=True)
class Family:
    """Groups that are hard to tell apart; texts of one group ask the same, in whichever language."""

    groups: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Groups:
    """``paraphrases``: our own, with near misses. ``intents``: a family for each labelled set."""

    paraphrases: tuple[Family, ...]
    intents: tuple[Family, ...]
    pairs: Family


def gather_groups(
    data: Path, normaliser: Normaliser, paraphrases: Path = PARAPHRASES, without: str = ""
) -> Groups:
    """Every group, in reading form, but of sets whose path begins with ``without``."""
    barred = held_out(data, normaliser)
    own = []
    for path in sorted(paraphrases.glob("*.jsonl")):
        for row in read_rows(path):
            sides = [row, *row["near"]]
            groups = (tuple(normaliser.reading(t) for t in [*s["en"], *s["zh"]]) for s in sides)
            own.append(Family(tuple(groups)))
    intents = []
    for name in INTENT_SETS:
        if without and name.startswith(without):
            continue
        by_label: dict[str, list[str]] = defaultdict(list)
        for row in read_rows(data / name):
            text = normaliser.reading(row["text"])
            if row["split"] == "train" and row["label"] != "oos" and text not in barred:
                by_label[row["label"]].append(text)
        intents.append(Family(tuple(tuple(texts) for texts in by_label.values() if len(texts) > 3)))
    pairs = (
        (normaliser.reading(row["en"]), normaliser.reading(row["zh"])) for row in read_rows(data / TATOEBA)
    )
    return Groups(tuple(own), tuple(intents), Family(tuple(pairs)))


def contrast_batches(groups: Groups, seed: int) -> Iterator[tuple[list[str], list[int]]]:
    """Endless batches (texts, group numbers).

    Each holds ten of our families with their near misses, sixteen intents of one set and twelve
    translations. Intents of one set, and near misses of one family, are each other's hard negatives.
    """
    chance = random.Random(seed)  # noqa: S311 - it only draws samples
    while True:
        drawn = [
            (group, 2 if place else 3)
            for family in chance.sample(groups.paraphrases, min(10, len(groups.paraphrases)))
            for place, group in enumerate(family.groups)
        ]
        drawn += [(group, 2) for group in chance.sample(chance.choice(groups.intents).groups, 16)]
        drawn += [(group, 2) for group in chance.sample(groups.pairs.groups, 12)]
        rows = [
            (text, number)
            for number, (group, count) in enumerate(drawn)
            for text in chance.sample(group, min(count, len(group)))
        ]
        yield [text for text, _ in rows], [number for _, number in rows]
