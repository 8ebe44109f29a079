"""Unlabelled traffic: what users typed, without what must not or need not be learnt from."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge.errors import DeskError
from edge.normaliser import Lang, Normaliser
from edge.query import MAX_CHARACTERS
from export.desk import Desk
from export.located import parse_json_lines, read_text
from export.near import near_any


@dataclass(frozen=True, slots=True)
class Said:
    """A text as it was typed; ``key`` is its normal form, under which it is met once."""

    text: str
    key: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """The distinct texts of a file in its order. ``left``: how many others there were, by reason."""

    path: Path
    said: tuple[Said, ...]
    left: Counter[str] = field(default_factory=Counter)

    def beside(self, ending: str) -> Path:
        """A file beside this one: ``traffic.jsonl`` and ``labels`` give ``traffic.labels.jsonl``."""
        return self.path.with_name(f"{self.path.stem}.{ending}.jsonl")


@dataclass(frozen=True, slots=True)
class Taught:
    """Texts that ``model`` labelled: ``examples`` with the index of their topic, and texts of no topic."""

    examples: tuple[tuple[str, int], ...] = ()
    outliers: tuple[str, ...] = ()
    model: str = ""

    def __bool__(self) -> bool:
        """Whether there is any text."""
        return bool(self.examples or self.outliers)

    def away_from(self, texts: Collection[str], normaliser: Normaliser) -> "Taught":
        """What is not, and is not nearly, one of the texts: those that judge must not be learnt."""
        own = [*(text for text, _ in self.examples), *self.outliers]
        near = near_any([normaliser.reading(t) for t in own], [normaliser.reading(t) for t in texts])
        count = len(self.examples)
        return Taught(
            tuple(row for i, row in enumerate(self.examples) if i not in near),
            tuple(text for i, text in enumerate(self.outliers, count) if i not in near),
            self.model,
        )

    def as_dict(self) -> dict[str, Any]:
        """For the evaluation of a bundle."""
        return {"model": self.model, "examples": len(self.examples), "outliers": len(self.outliers)}


NOTHING = Taught()


def read_traffic(path: Path, desk: Desk, normaliser: Normaliser) -> Traffic:
    """The texts of a file of JSON objects with ``text``, or of plain lines, that a desk may learn from.

    Left out are repeated texts, those in no language of the desk, those too long to be read whole, and what
    is, or nearly is, a held-out question: whoever trains on those measures nothing. Raises DeskError.
    """
    left: Counter[str] = Counter()
    found: dict[str, Said] = {}
    for text, lang in _lines(path):
        reading = normaliser.reading(text)
        if not reading:
            left["empty"] += 1
        elif len(text) > MAX_CHARACTERS:
            left[f"longer than {MAX_CHARACTERS:,} characters"] += 1
        elif (normaliser.lang(reading) or lang) not in desk.languages:
            left["in no language of the desk"] += 1
        elif (key := normaliser.exact(reading)) in found:
            left["repeated"] += 1
        else:
            found[key] = Said(text, key)
    said = list(found.values())
    held = [normaliser.reading(question.text) for question in (*desk.calibrate, *desk.test)]
    leaks = near_any([normaliser.reading(one.text) for one in said], held)
    left["held-out questions, or nearly: never trained on"] = len(leaks)
    return Traffic(path, tuple(one for i, one in enumerate(said) if i not in leaks), +left)


def _lines(path: Path) -> list[tuple[str, Lang | None]]:
    """(text, the language it is said to be in) of every line."""
    whole = read_text(path)
    if not whole.strip():
        raise DeskError(
            [f"{path}:1: there are no texts; write one a line, or JSON objects with 'text', one a line."]
        )
    if not whole.lstrip().startswith("{"):
        return [(line.strip(), None) for line in whole.split("\n") if line.strip()]
    rows, problems = [], []
    for line, row in parse_json_lines(whole, path):
        text, lang = row.get("text"), row.get("lang")
        if not isinstance(text, str):
            problems.append(f"{path}:{line}: 'text' must be a text, got {text!r}.")
        elif lang is not None and not isinstance(lang, str):
            problems.append(f"{path}:{line}: 'lang' must be a language such as zh or en, got {lang!r}.")
        else:
            rows.append((text, Lang(lang) if lang in tuple(Lang) else None))
    if problems:
        raise DeskError(problems)
    return rows
