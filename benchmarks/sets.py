"""The public intent sets that the router is measured on, cut into train, valid and test rows.

``test`` rows are never trained on: train and valid rows that read the same are dropped. Where a set offers
no valid part, one train row in ten becomes it. Labels without a train row are left out of valid and test.
"""

import json
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge.normaliser import Lang, Normaliser
from export.corpus import Row, read_rows

OOS = "oos"
_MIN_ROWS = 5  # train rows that a combination of NLU++ intents needs to be a topic


@dataclass(frozen=True, slots=True)
class Text:
    """A labelled text; the label of what is out of scope is ``oos``."""

    text: str
    label: str
    lang: Lang


@dataclass(frozen=True, slots=True)
class IntentSet:
    """A set, cut. ``left_out``: valid and test rows whose label has no train row."""

    name: str
    licence: str
    note: str
    train: tuple[Text, ...]
    valid: tuple[Text, ...]
    test: tuple[Text, ...]
    left_out: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The topics, sorted."""
        return tuple(sorted({row.label for row in self.train}))


@dataclass(frozen=True, slots=True)
class Source:
    """Where a set's rows are, and ``part``: which rows train, validate and test."""

    path: str
    licence: str
    part: Callable[[Row], str]
    note: str = ""
    labels: Callable[[Path, Sequence[Row]], Sequence[Row]] = lambda _, rows: rows


def _tenth(row: Row) -> int:
    """0 to 9, from the row's id where it has one: a sentence and its translation go together."""
    return zlib.crc32(str(row.get("id", row["text"])).encode()) % 10


def _as_given(row: Row) -> str:
    return str(row["split"])


def _train_and_test(row: Row) -> str:
    """For a set whose second part is called valid or test."""
    if row["split"] != "train":
        return "test"
    return "valid" if _tenth(row) == 1 else "train"


def _valid_and_test(row: Row) -> str:
    return _train_and_test(row | {"split": "train" if row["split"] == "valid" else "test"})


def _only_train(row: Row) -> str:
    return {0: "test", 1: "valid"}.get(_tenth(row), "train")


def _near_oos(data: Path, rows: Sequence[Row]) -> Sequence[Row]:
    """BANKING77-OOS: 27 of the 77 intents are out of scope."""
    inside = set(json.loads((data / "banking77/id_oos_labels.json").read_text("utf-8"))["in_scope"])
    return [row if row["label"] in inside else row | {"label": OOS} for row in rows]


def _combinations(_: Path, rows: Sequence[Row]) -> Sequence[Row]:
    """NLU++: the frequent combinations of intents are topics, texts without any intent are oos."""
    counts = Counter(row["label"] for row in rows if row["split"] == "train")
    kept = [row for row in rows if counts[row["label"]] >= _MIN_ROWS]
    return [row if row["labels"] else row | {"label": OOS} for row in kept]


_MET = "the base met the train rows in its own training, hold-out included"
SOURCES = {
    "clinc150": Source("clinc150/full.jsonl.gz", "CC BY 3.0", _as_given),
    "banking77": Source(
        "banking77/train.jsonl",
        "CC BY 4.0",
        _only_train,
        f"own hold-out: a tenth of the train rows; {_MET}",
    ),
    "banking77_oos": Source(
        "banking77/train.jsonl",
        "CC BY 4.0",
        _only_train,
        f"27 of 77 intents are out of scope; own hold-out; {_MET}",
        _near_oos,
    ),
    "smp2017": Source(
        "smp2017/train_valid.jsonl", "none stated", _train_and_test, "tested on its valid rows"
    ),
    "smp2019": Source(
        "smp2019/train_valid.jsonl", "none stated", _train_and_test, "tested on its valid rows"
    ),
    "ohf_intents": Source(
        "ohf_intents/train_valid.jsonl", "CC BY 4.0", _train_and_test, "tested on its valid rows"
    ),
    "xsid": Source(
        "xsid/en_zh.jsonl", "CC BY-SA 4.0", _valid_and_test, "trained on its valid rows, both languages"
    ),
    "snips": Source("snips/all.jsonl", "CC0 1.0, not re-read", _as_given),
    "hint3_sofmattress": Source("hint3/sofmattress.jsonl", "ODbL 1.0", _train_and_test),
    "hint3_powerplay11": Source("hint3/powerplay11.jsonl", "ODbL 1.0", _train_and_test),
    "nlupp": Source(
        "nlupp/train_valid.jsonl",
        "CC BY 4.0",
        _train_and_test,
        f"combinations of intents with {_MIN_ROWS} train rows or more; no intent at all counts as oos; "
        "tested on its valid rows",
        _combinations,
    ),
}


def load_set(name: str, data: Path, normaliser: Normaliser) -> IntentSet:
    """A set by its name in SOURCES, from the folder of public sets."""
    source = SOURCES[name]
    parts: dict[str, list[Text]] = {"train": [], "valid": [], "test": []}
    for row in source.labels(data, list(read_rows(data / source.path))):
        parts[source.part(row)].append(Text(row["text"], row["label"], Lang(row["lang"])))

    def key(row: Text) -> str:
        return normaliser.exact(normaliser.reading(row.text))

    tested = {key(row) for row in parts["test"]}
    valid = [row for row in parts["valid"] if key(row) not in tested]
    barred = tested | {key(row) for row in valid}
    train: dict[str, Text] = {}  # one text cannot be an example of two topics
    for row in parts["train"]:
        if row.label != OOS and key(row) and key(row) not in barred:
            train.setdefault(key(row), row)
    known = {OOS} | {row.label for row in train.values()}
    return IntentSet(
        name=name,
        licence=source.licence,
        note=source.note,
        train=tuple(train.values()),
        valid=tuple(row for row in valid if row.label in known),
        test=tuple(row for row in parts["test"] if row.label in known),
        left_out=sum(row.label not in known for row in (*valid, *parts["test"])),
    )
