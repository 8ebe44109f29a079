"""The deployed folder: read, checked against its own hashes, and held as frozen values."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from edge.decision import Answer
from edge.errors import BundleError
from edge.guards import Guards
from edge.normaliser import NORMALISER_VERSION, Lang, LangRule, Normaliser

SCHEMA_VERSION = 1
MANIFEST = "frontdesk.json"
ROUTER_FILE = "onnx/model_quantized.onnx"


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing users ask, as the runtime needs it."""

    id: str
    route: str
    group: str | None = None
    volatility: str = "static"
    valid_until: date | None = None
    tools: tuple[str, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Threshold:
    """From where on a group's topics are answered, and under which proof.

    ``bound``: upper bound of the wrong-answer rate at this threshold on calibration data, at
    the desk's confidence. ``proven``: whether that bound is at most ``max_wrong``.
    """

    confidence: float
    margin: float
    proven: bool
    bound: float
    max_wrong: float


@dataclass(frozen=True, slots=True)
class Bundle:
    """A whole bundle. ``topics[i]`` belongs to ``logits[:, i]``."""

    folder: Path
    name: str
    version: str
    languages: tuple[Lang, ...]
    max_tokens: int
    normaliser: Normaliser
    topics: tuple[Topic, ...]
    thresholds: Mapping[str, Threshold]
    min_in_scope: float
    max_needs_context: float
    max_needs_context_in_dialogue: float
    answer_unproven: bool
    system_prompts: frozenset[str] | None
    guards: Guards
    answers: Mapping[tuple[str, Lang], Answer]
    exact: Mapping[str, str]
    self_test: tuple[Mapping[str, Any], ...]
    by_id: Mapping[str, Topic]
    answer_topics: Mapping[str, str]

    def threshold(self, topic: Topic, lang: Lang) -> Threshold | None:
        """The threshold of a topic's group for a language; the language's own where it has none."""
        own = self.thresholds.get(f"{topic.group}/{lang}")
        return self.thresholds.get(str(lang)) if own is None else own

    def answer_topic(self, text: str) -> str | None:
        """The topic whose curated answer ``text`` is, if it is one of ours."""
        return self.answer_topics.get(text.strip())


def load_bundle(folder: Path | str) -> Bundle:
    """The bundle of a folder. Raises BundleError, which says what is wrong and what to do."""
    folder = Path(folder)
    manifest = _read_manifest(folder)
    _verify(folder, manifest)
    try:
        return _build(folder, manifest)
    except (KeyError, TypeError, ValueError) as exc:
        raise BundleError(
            f"{folder / MANIFEST} cannot be read ({type(exc).__name__}: {exc}); "
            "build the bundle again with `frontdesk train`."
        ) from exc


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise BundleError(
            f"There is no bundle at {folder}; build one with `frontdesk train DESK -o {folder}`."
        )
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError as exc:
        raise BundleError(
            f"{folder} has no {MANIFEST}: it is no bundle, or a copy that has not ended."
        ) from exc
    except ValueError as exc:
        raise BundleError(f"{path} is not valid JSON ({exc}); copy the bundle again.") from exc
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if version != SCHEMA_VERSION:
        raise BundleError(
            f"{path} has schema_version {version!r}; this Frontdesk reads {SCHEMA_VERSION}. "
            "Build the bundle with the same version of Frontdesk that serves it."
        )
    return dict(manifest)


def _verify(folder: Path, manifest: Mapping[str, Any]) -> None:
    files = manifest.get("files")
    if not isinstance(files, dict) or ROUTER_FILE not in files:
        raise BundleError(f"{folder / MANIFEST} lists no files; build the bundle again.")
    for name, digest in files.items():
        path = folder / name
        if not path.is_file():
            raise BundleError(f"{folder} lacks {name}: it is half written; copy the bundle again.")
        if file_sha256(path) != digest:
            raise BundleError(
                f"{path} is not the file that {MANIFEST} describes (its SHA-256 differs): "
                "it was altered or truncated; copy the bundle again."
            )


def _build(folder: Path, manifest: dict[str, Any]) -> Bundle:
    norm = manifest["normaliser"]
    if norm["version"] != NORMALISER_VERSION:
        raise ValueError(f"normaliser version {norm['version']}, this Frontdesk has {NORMALISER_VERSION}")
    normaliser = Normaliser(norm["traditional"], norm["simplified"], LangRule(**manifest["lang_rule"]))
    topics = tuple(_topic(entry) for entry in manifest["topics"])
    answers, exact = _read_answers(folder / "answers.jsonl")
    prompts = manifest["system_prompts"]
    return Bundle(
        folder=folder,
        name=manifest["name"],
        version=manifest["version"],
        languages=tuple(Lang(lang) for lang in manifest["languages"]),
        max_tokens=manifest["max_tokens"],
        normaliser=normaliser,
        topics=topics,
        thresholds={key: Threshold(**value) for key, value in manifest["thresholds"].items()},
        min_in_scope=manifest["limits"]["min_in_scope"],
        max_needs_context=manifest["limits"]["max_needs_context"],
        max_needs_context_in_dialogue=manifest["limits"]["max_needs_context_in_dialogue"],
        answer_unproven=manifest["unproven"] == "answer",
        system_prompts=None if prompts == "any" else frozenset(prompts),
        guards=Guards.of_data(manifest["guards"], {t["id"]: t["signals"] for t in manifest["topics"]}),
        answers=answers,
        exact=exact,
        self_test=tuple(manifest["self_test"]),
        by_id={topic.id: topic for topic in topics},
        answer_topics={answer.text.strip(): answer.topic for answer in answers.values()},
    )


def _topic(entry: Mapping[str, Any]) -> Topic:
    until = entry["valid_until"]
    return Topic(
        id=entry["id"],
        route=entry["route"],
        group=entry["group"],
        volatility=entry["volatility"],
        valid_until=None if until is None else date.fromisoformat(until),
        tools=tuple(entry["tools"]),
        confidence=entry["confidence"],
    )


def _read_answers(path: Path) -> tuple[dict[tuple[str, Lang], Answer], dict[str, str]]:
    answers: dict[tuple[str, Lang], Answer] = {}
    exact: dict[str, str] = {}
    # Only "\n" ends a line: texts may hold the others that str.splitlines knows.
    for line in path.read_text("utf-8-sig").split("\n"):
        if not line.strip():
            continue
        entry = json.loads(line)
        lang = Lang(entry["lang"])
        answers[entry["topic"], lang] = Answer(entry["topic"], lang, entry["text"], entry["tokens"])
        exact |= dict.fromkeys(entry["exact"], entry["topic"])
    return answers, exact
