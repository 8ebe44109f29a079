"""The deployed folder: read, checked against its own hashes, and held as frozen values."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from edge.decision import Answer, Level
from edge.errors import BundleError
from edge.guards import Guards
from edge.normaliser import NORMALISER_VERSION, Lang, LangRule, Normaliser
from edge.pairs import PairGuard
from edge.slots import SlotFiller
from edge.templates import Template
from edge.tools import Tool, tools_of

SCHEMA_VERSION = 4
MANIFEST = "frontdesk.json"
MAX_TOKENS = 512
ROUTER_FILE = "onnx/model_quantized.onnx"
_READ = ("tokenizer.json", "answers.jsonl")
_LIMITS = ("min_in_scope", "max_needs_context", "max_needs_context_in_dialogue")


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing users ask, as the runtime needs it."""

    id: str
    route: str
    group: str | None = None
    volatility: str = "static"
    valid_until: date | None = None
    tags: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    template: Mapping[Lang, Template] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Threshold:
    """From where on a group's topics are answered, and under which proof.

    ``bound``: upper bound of the wrong-answer rate at this threshold on calibration data.
    ``proven``: whether it is at most ``max_wrong`` at the desk's confidence, by a test fixed beforehand.
    """

    confidence: float
    margin: float
    proven: bool
    bound: float
    max_wrong: float


@dataclass(frozen=True, slots=True)
class Bundle:
    """A whole bundle. ``topics[i]`` belongs to ``logits[:, i]``.

    ``public``: its answers may be given to anybody, also to callers whom nobody vouches for.
    """

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
    public: bool
    answer_unproven: bool
    system_prompts: frozenset[str] | None
    guards: Guards
    pairs: PairGuard
    tools: Mapping[str, Tool]
    slots: SlotFiller
    answers: Mapping[tuple[str, Lang], Answer]
    exact: Mapping[str, str]
    self_test: tuple[Mapping[str, Any], ...]
    by_id: Mapping[str, Topic]
    answer_topics: Mapping[str, str]

    def threshold(self, topic: Topic, lang: Lang) -> Threshold | None:
        """The threshold of a topic for a language: its own stricter one, else that of its group.

        A topic without a group belongs to the language's own.
        """
        own = self.thresholds.get(f"topic:{topic.id}/{lang}")
        if own is not None:
            return own
        return self.thresholds.get(str(lang) if topic.group is None else f"{topic.group}/{lang}")

    def is_answered_by_tools(self, topic: Topic, lang: Lang | None) -> bool:
        """Whether a topic has a template for a language and tools that may fill it."""
        may = all(self.tools[name].use is Level.ANSWER for name in topic.tools)
        return topic.route == "tool" and lang in topic.template and may

    @property
    def called(self) -> frozenset[str]:
        """The tools that may be called, as far as their declarations go."""
        return frozenset(name for name, tool in self.tools.items() if tool.use is not Level.SUGGEST)

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
            f"{folder} has no {MANIFEST}: it is no bundle, or a copy that has not ended; "
            "copy the bundle again, or build one with `frontdesk train`."
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
    if not isinstance(files, dict) or not files.keys() >= {ROUTER_FILE, *_READ}:
        raise BundleError(
            f"{folder / MANIFEST} lists no files, or not all that are read; build the bundle again with "
            "`frontdesk train`."
        )
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
    by_id = {topic.id: topic for topic in topics}
    if len(by_id) < len(topics):
        raise ValueError("two topics have one id")
    answers, exact = _read_answers(
        folder / "answers.jsonl", {topic.id for topic in topics if topic.route == "answer"}
    )
    _check_manifest(manifest)
    tools = tools_of(manifest["tools"])
    slots = SlotFiller.of_data({t.name: t.slots for t in tools.values()}, manifest["slots"], normaliser)
    if unknown := {name for topic in topics for name in topic.tools} - tools.keys():
        raise ValueError(f"a topic names the tool {min(unknown)}, which is not in 'tools'")
    limits = {name: _share(manifest["limits"][name], f"limits.{name}") for name in _LIMITS}
    prompts = manifest["system_prompts"]
    return Bundle(
        folder=folder,
        name=manifest["name"],
        version=manifest["version"],
        languages=tuple(Lang(lang) for lang in manifest["languages"]),
        max_tokens=manifest["max_tokens"],
        normaliser=normaliser,
        topics=topics,
        thresholds={key: _threshold(key, value) for key, value in manifest["thresholds"].items()},
        **limits,
        public=manifest["public"] is True,
        answer_unproven=manifest["unproven"] == "answer",
        system_prompts=None if prompts == "any" else frozenset(prompts),
        guards=Guards.of_data(manifest["guards"], {t["id"]: t["signals"] for t in manifest["topics"]}),
        pairs=PairGuard.of_data(manifest["pairs"], slots.calendar, normaliser),
        tools=tools,
        slots=slots,
        answers=answers,
        exact=exact,
        self_test=tuple(manifest["self_test"]),
        by_id=by_id,
        answer_topics={answer.text.strip(): answer.topic for answer in answers.values()},
    )


def _check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise ValueError for what would load and then weaken what stands between a query and an answer."""
    if not isinstance(manifest["name"], str) or not manifest["name"].isprintable():
        raise ValueError("'name' must be one line of text")
    if type(manifest["max_tokens"]) is not int or not 0 < manifest["max_tokens"] <= MAX_TOKENS:
        raise ValueError(f"'max_tokens' must be a whole number up to {MAX_TOKENS}")
    if not manifest["languages"]:
        raise ValueError("'languages' must not be empty")
    answering = [t for t in manifest["topics"] if t["route"] == "answer" or t["template"]]
    if unguarded := [t["id"] for t in answering if t["signals"] is None]:
        raise ValueError(f"the topic {unguarded[0]} can be answered here and has no 'signals'")


def _share(value: object, name: str) -> float:
    """A number in [0, 1]. Anything else would let comparisons fail towards answering."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}")
    return float(value)


def _threshold(key: str, entry: Mapping[str, Any]) -> Threshold:
    if not isinstance(entry["proven"], bool):
        raise TypeError(f"thresholds.{key}.proven must be true or false, got {entry['proven']!r}")
    names = ("confidence", "margin", "bound", "max_wrong")
    shares = {name: _share(entry[name], f"thresholds.{key}.{name}") for name in names}
    return Threshold(**shares, proven=entry["proven"])


def _topic(entry: Mapping[str, Any]) -> Topic:
    until = entry["valid_until"]
    return Topic(
        id=entry["id"],
        route=entry["route"],
        group=entry["group"],
        volatility=entry["volatility"],
        valid_until=None if until is None else date.fromisoformat(until),
        tags=tuple(entry["tags"]),
        tools=tuple(entry["tools"]),
        template={Lang(lang): Template.parse(text) for lang, text in entry["template"].items()},
    )


def _read_answers(path: Path, topics: set[str]) -> tuple[dict[tuple[str, Lang], Answer], dict[str, str]]:
    answers: dict[tuple[str, Lang], Answer] = {}
    exact: dict[str, str] = {}
    number = 0
    try:
        # Only "\n" ends a line: texts may hold the others that str.splitlines knows.
        for number, line in enumerate(path.read_text("utf-8-sig").split("\n"), 1):  # noqa: B007
            if not line.strip():
                continue
            entry = json.loads(line)
            answer = _answer(entry, topics)
            if (answer.topic, answer.lang) in answers:
                raise ValueError(f"{answer.topic} has two answers in {answer.lang}")
            answers[answer.topic, answer.lang] = answer
            if any(exact.get(key, answer.topic) != answer.topic for key in entry["exact"]):
                raise ValueError("an exact text belongs to another topic, too")
            exact |= dict.fromkeys(entry["exact"], answer.topic)
    except (KeyError, TypeError, ValueError) as exc:
        raise BundleError(
            f"{path}:{number} is no answer ({type(exc).__name__}: {exc}); "
            "build the bundle again with `frontdesk train`."
        ) from exc
    return answers, exact


def _answer(entry: Mapping[str, Any], topics: set[str]) -> Answer:
    topic, text, tokens, exact = (entry[name] for name in ("topic", "text", "tokens", "exact"))
    if topic not in topics:
        raise ValueError(f"there is no answer topic {topic!r}")
    if not isinstance(text, str) or not text.strip():
        raise TypeError("'text' must be a text")
    if type(tokens) is not int or tokens < 0:
        raise TypeError("'tokens' must be a whole number")
    if not isinstance(exact, list) or not all(isinstance(key, str) for key in exact):
        raise TypeError("'exact' must be a list of texts")
    return Answer(topic, Lang(entry["lang"]), text, tokens)
