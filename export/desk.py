"""The operator's source folder as frozen values. Every problem is found at once, with file and line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from edge.errors import DeskError
from edge.normaliser import Lang, Normaliser
from edge.query import Query, Turn
from export.located import Located, LocatedList, read_json_lines, read_yaml

TOPIC_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
ROUTES = ("answer", "tool", "agent")
VOLATILITIES = ("static", "daily", "live", "personal")
OUT_OF_SCOPE = "oos"
_DESK_KEYS = {
    "name",
    "title",
    "languages",
    "risk",
    "traffic",
    "unproven",
    "groups",
    "system_prompts",
    "defaults",
}
_TOPIC_KEYS = {
    "id", "title", "route", "group", "examples", "answer", "valid_until", "volatility", "tags", "tools",
    "template", "max_wrong",
}  # fmt: skip
_TOOL_KEYS = {
    "name", "description", "method", "url", "slots", "effects", "scope", "credential", "timeout_ms",
    "max_concurrency", "rate", "cost", "cache_s",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Risk:
    """At most ``max_wrong`` of the local answers may be wrong, at ``confidence``."""

    max_wrong: float = 0.01
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class DeskTopic:
    """A topic with its examples; ``where`` is ``file:line``."""

    id: str
    title: Mapping[str, str]
    route: str
    examples: Mapping[Lang, tuple[str, ...]]
    answer: Mapping[Lang, str]
    group: str | None = None
    valid_until: date | None = None
    volatility: str = "static"
    tags: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    max_wrong: float | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A held-out question. ``topic`` is a topic id or ``oos``; ``kind`` is free, for the tables."""

    text: str
    topic: str
    lang: Lang
    kind: str = ""
    history: tuple[Turn, ...] = ()
    where: str = ""

    def query(self, normaliser: Normaliser) -> Query:
        """The query that the server would make of this question."""
        return Query.of_text(self.text, normaliser, self.history)


@dataclass(frozen=True, slots=True)
class Desk:
    """The whole source folder."""

    folder: Path
    name: str
    languages: tuple[Lang, ...]
    topics: tuple[DeskTopic, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    risk: Risk = Risk()
    traffic: Mapping[str, float] = field(default_factory=dict)
    unproven: str = "forward"
    system_prompts: str | tuple[str, ...] = "any"
    calibrate: tuple[Question, ...] = ()
    test: tuple[Question, ...] = ()


def load_desk(folder: Path | str) -> Desk:
    """The desk of a folder. Raises DeskError with every problem found."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DeskError([f"{folder}: there is no such desk folder."])
    return _Reader(folder).desk()


def load_questions(path: Path, topics: Sequence[str], problems: list[str]) -> tuple[Question, ...]:
    """The questions of a JSON lines file; an empty tuple where the file is missing."""
    if not path.exists():
        return ()
    questions = []
    for line, row in read_json_lines(path):
        where = f"{path}:{line}"
        text, topic, lang = row.get("text"), row.get("topic"), row.get("lang")
        if not isinstance(text, str):
            problems.append(f"{where}: 'text' must be a text, got {text!r}.")
        elif lang not in set(Lang):
            problems.append(f"{where}: 'lang' must be zh or en, got {lang!r}.")
        elif not isinstance(topic, str) or (topic != OUT_OF_SCOPE and topic not in topics):
            problems.append(f"{where}: there is no topic {topic!r}; use a topic's id or 'oos'.")
        elif not _is_history(history := row.get("history") or []):
            problems.append(f"{where}: 'history' must be a list of objects with 'role' and 'content' texts.")
        else:
            turns = tuple(Turn(turn["role"], turn["content"]) for turn in history)
            kind = row.get("kind") or ("out_of_scope" if topic == OUT_OF_SCOPE else "in_scope")
            questions.append(Question(text, topic, Lang(lang), kind, turns, where))
    return tuple(questions)


def _is_history(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str)
        for turn in value
    )


class _Reader:
    """Reads a desk and gathers its problems."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        self.file = folder

    def desk(self) -> Desk:
        head = self._load(self.folder / "desk.yaml", Located, "a mapping with 'name' and 'languages'")
        self._unknown(head, _DESK_KEYS, "desk")
        languages = tuple(Lang(x) for x in head.get("languages") or ("en",) if x in set(Lang))
        if len(languages) != len(head.get("languages") or ("en",)):
            self._problem(head, "languages", "takes en and zh")
        name = self._text(head, "name", "demo")
        risk = self._risk(head)
        unproven = self._one_of(head, "unproven", ("forward", "answer"), "forward")
        prompts = head.get("system_prompts", "any")
        tools = self._tools()
        topics = self._topics(languages, {tool["name"] for tool in tools})
        ids = [topic.id for topic in topics]
        calibrate = load_questions(self.folder / "eval/calibrate.jsonl", ids, self.problems)
        test = load_questions(self.folder / "eval/test.jsonl", ids, self.problems)
        if self.problems:
            raise DeskError(self.problems)
        return Desk(
            folder=self.folder,
            name=name,
            languages=languages,
            topics=tuple(topics),
            tools=tuple(tools),
            risk=risk,
            traffic=dict(head.get("traffic") or {}),
            unproven=unproven,
            system_prompts=prompts if isinstance(prompts, str) else tuple(prompts),
            calibrate=calibrate,
            test=test,
        )

    def _tools(self) -> list[Mapping[str, Any]]:
        if not (self.folder / "tools.yaml").exists():
            return []
        tools = self._load(self.folder / "tools.yaml", LocatedList, "a list of tools")
        for tool in tools:
            self._unknown(tool, _TOOL_KEYS, "tool")
            for key in ("name", "description", "method", "url"):
                self._text(tool, key, "")
            self._one_of(tool, "effects", ("read", "write"), "read")
            self._one_of(tool, "scope", ("user", "public"), "user")
        return list(tools)

    def _topics(self, languages: Sequence[Lang], tools: set[str]) -> list[DeskTopic]:
        files = sorted((self.folder / "topics").glob("*.yaml"))
        if not files:
            raise DeskError([f"{self.folder}/topics: there is no topic file; add topics/NAME.yaml."])
        topics: dict[str, DeskTopic] = {}
        for file in files:
            for entry in self._load(file, LocatedList, "a list of topics"):
                if not isinstance(entry, Located):
                    self.problems.append(f"{file}: each topic is a mapping that begins with '- id:'.")
                    continue
                topic = self._topic(entry, languages, tools)
                if topic.id in topics:
                    self._problem(entry, "id", f"{topic.id!r} stands also at {topics[topic.id].where}")
                topics[topic.id] = topic
        return list(topics.values())

    def _topic(self, entry: Located, languages: Sequence[Lang], tools: set[str]) -> DeskTopic:
        self._unknown(entry, _TOPIC_KEYS, "topic")
        id_ = self._text(entry, "id", "")
        if id_ == OUT_OF_SCOPE or not TOPIC_ID.fullmatch(id_):
            self._problem(entry, "id", f"{id_!r} must match {TOPIC_ID.pattern} and not be '{OUT_OF_SCOPE}'")
        route = self._one_of(entry, "route", ROUTES, "agent")
        answer = self._texts(entry, "answer")
        if route == "answer" and not answer:
            self._problem(
                entry, "answer", "is missing: a topic with route 'answer' needs a text in each language"
            )
        if route != "answer" and answer:
            self._problem(entry, "answer", f"belongs to route 'answer', the route here is {route!r}")
        used = tuple(entry.get("tools") or ())
        if route == "tool" and not used:
            self._problem(entry, "tools", "is missing: name the tools that this topic calls")
        for name in sorted(set(used) - tools):
            self._problem(entry, "tools", f"names {name!r}, which tools.yaml does not declare")
        until = entry.get("valid_until")
        if until is not None and not isinstance(until, date):
            self._problem(entry, "valid_until", f"must be a date such as 2027-03-31, got {until!r}")
            until = None
        title = entry.get("title") or id_
        return DeskTopic(
            id=id_,
            title=dict(title) if isinstance(title, dict) else {str(lang): str(title) for lang in languages},
            route=route,
            examples=self._examples(entry, languages),
            answer={lang: text.strip() for lang, text in answer.items()},
            group=entry.get("group"),
            valid_until=until,
            volatility=self._one_of(entry, "volatility", VOLATILITIES, "static"),
            tags=tuple(entry.get("tags") or ()),
            tools=used,
            max_wrong=entry.get("max_wrong"),
            where=f"{self.file}:{entry.line}",
        )

    def _examples(self, entry: Located, languages: Sequence[Lang]) -> dict[Lang, tuple[str, ...]]:
        found = entry.get("examples")
        if not isinstance(found, dict) or not any(found.values()):
            self._problem(entry, "examples", "is missing: write what people type, under en: and zh:")
            return {}
        examples = {}
        for key, texts in found.items():
            bad = [t for t in texts or () if not isinstance(t, str) or not t.strip()]
            if key not in languages or bad or not isinstance(texts, list):
                self._problem(
                    entry, "examples",
                    f"under {key!r} must be a list of texts in one of {', '.join(languages)}"
                    + (f"; {bad[0]!r} is no text, put it in quotes" if bad else ""),
                )  # fmt: skip
            else:
                examples[Lang(key)] = tuple(texts)
        return examples

    def _texts(self, entry: Located, key: str) -> dict[Lang, str]:
        found = entry.get(key) or {}
        if not isinstance(found, dict) or not all(
            k in set(Lang) and isinstance(v, str) for k, v in found.items()
        ):
            self._problem(entry, key, "must hold a text for en, zh or both")
            return {}
        return {Lang(k): v for k, v in found.items()}

    def _risk(self, head: Located) -> Risk:
        given = head.get("risk") or {}
        try:
            risk = Risk(**given)
        except TypeError:
            risk = Risk(0, 0)
        if not (0 < risk.max_wrong < 1 and 0 < risk.confidence < 1):
            self._problem(head, "risk", "takes {max_wrong: 0.01, confidence: 0.95}, both between 0 and 1")
            return Risk()
        return risk

    def _load(self, path: Path, kind: type[Any], what: str) -> Any:  # noqa: ANN401 - of that kind
        self.file = path
        value = read_yaml(path)
        if not isinstance(value, kind):
            raise DeskError([*self.problems, f"{path}:1: expected {what}."])
        return value

    def _unknown(self, entry: Located, known: set[str], what: str) -> None:
        for key in entry:
            if key not in known:
                self._problem(entry, key, f"is no key of a {what}; its keys are {', '.join(sorted(known))}")

    def _text(self, entry: Located, key: str, default: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            self._problem(entry, key, f"must be a text, got {value!r}")
            return default
        return value

    def _one_of(self, entry: Located, key: str, names: Sequence[str], default: str) -> str:
        value = entry.get(key, default)
        if value not in names:
            self._problem(entry, key, f"must be one of {', '.join(names)}, got {value!r}")
            return default
        return str(value)

    def _problem(self, entry: Located, key: str, what: str) -> None:
        self.problems.append(f"{self.file}:{entry.line_of(key)}: '{key}' {what}.")
