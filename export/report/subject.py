"""What a report is about: a bundle, what it promises, and how it did on a file of questions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.bundle import MANIFEST, ROUTER_FILE, Bundle, Threshold
from edge.errors import BundleError
from export.evaluate import Evaluation, answerable_in

# Which file is which part of a bundle, as the report calls them; the rest is "other".
_PARTS = {
    ROUTER_FILE: "router",
    "tokenizer.json": "tokenizer",
    "answers.jsonl": "answers",
    MANIFEST: "rules",
    "evaluation.json": "evaluation",
}


@dataclass(frozen=True, slots=True)
class Promise:
    """A threshold and the calibration questions that it rests on.

    ``to_prove``: how many more would prove it; None where more would not, or where nothing is known.
    ``questions`` is 0 where the bundle does not say what was seen.
    """

    key: str
    lang: str
    confidence: float
    bound: float
    proven: bool
    max_wrong: float
    answered: int = 0
    wrong: int = 0
    questions: int = 0
    to_prove: int | None = None


@dataclass(frozen=True, slots=True)
class Stated:
    """What the bundle states: the confidence of its bounds, the traffic's shares, the promises."""

    confidence: float
    traffic: Mapping[str, float]
    promises: tuple[Promise, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """All that a report tells.

    ``answerable``: topics that can be answered here. ``titles``: of topics, by language. ``sizes``: bytes of
    the bundle's parts.
    """

    name: str
    version: str
    day: str
    questions_file: str
    evaluation: Evaluation
    stated: Stated
    languages: tuple[str, ...]
    answer_unproven: bool
    answerable: frozenset[str]
    titles: Mapping[str, Mapping[str, str]]
    sizes: Mapping[str, int]

    def promises_of(self, lang: str) -> tuple[Promise, ...]:
        """Of a language, that of the language as a whole first."""
        found = [p for p in self.stated.promises if p.lang == lang]
        return tuple(sorted(found, key=lambda p: (p.key != lang, p.key)))


def stated_in(bundle: Bundle) -> Stated:
    """What a bundle states in its ``evaluation.json``; without that file, what its thresholds say.

    Raises BundleError for a file that is no evaluation.
    """
    path = bundle.folder / "evaluation.json"
    try:
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        seen = found.get("thresholds", {})
        return Stated(
            confidence=float(found.get("risk", {}).get("confidence", 0.95)),
            traffic={str(name): float(share) for name, share in found.get("traffic", {}).items()},
            promises=tuple(_promise(key, t, seen.get(key, {})) for key, t in bundle.thresholds.items()),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise BundleError(
            f"{path} is no evaluation ({type(exc).__name__}: {exc}); build the bundle again with "
            "`frontdesk train`."
        ) from exc


def subject_of(bundle: Bundle, stated: Stated, questions: Path, evaluation: Evaluation, day: str) -> Subject:
    """The subject of a report on a bundle. ``day``: when it was judged."""
    manifest = json.loads((bundle.folder / MANIFEST).read_text("utf-8"))
    return Subject(
        name=bundle.name,
        version=bundle.version,
        day=day,
        questions_file=questions.name,
        evaluation=evaluation,
        stated=stated,
        languages=tuple(map(str, bundle.languages)),
        answer_unproven=bundle.answer_unproven,
        answerable=frozenset(topic for topic, langs in answerable_in(bundle).items() if langs),
        titles={entry["id"]: _titles(entry.get("title")) for entry in manifest["topics"]},
        sizes=_sizes(bundle.folder, manifest["files"]),
    )


def _promise(key: str, threshold: Threshold, seen: Mapping[str, Any]) -> Promise:
    more = seen.get("questions_to_prove")
    return Promise(
        key=key,
        lang=key.rpartition("/")[2],
        confidence=threshold.confidence,
        bound=threshold.bound,
        proven=threshold.proven,
        max_wrong=threshold.max_wrong,
        answered=int(seen.get("answered", 0)),
        wrong=int(seen.get("wrong", 0)),
        questions=int(seen.get("questions", 0)),
        to_prove=None if more is None else int(more),
    )


def _titles(title: object) -> dict[str, str]:
    return {str(lang): str(text) for lang, text in title.items()} if isinstance(title, dict) else {}


def _sizes(folder: Path, files: Mapping[str, str]) -> dict[str, int]:
    """Bytes by part, the largest first."""
    sizes: dict[str, int] = {}
    for name in (*files, MANIFEST):
        part = _PARTS.get(name, "other")
        sizes[part] = sizes.get(part, 0) + (folder / name).stat().st_size
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))
