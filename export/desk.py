"""The operator's source folder as frozen values. Every problem is found at once, with file and line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from edge.errors import DeskError
from edge.normaliser import Lang, Normaliser
from edge.query import Query, Turn
from export.located import Located, LocatedList, read_json_lines, read_yaml
from export.tools import json_problem, tool_problems

TOPIC_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
DESK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}")  # it becomes a header's value
ROUTES = ("answer", "tool", "agent")
VOLATILITIES = ("static", "daily", "live", "personal")
LEAST_CONFIDENCE = 0.75  # of a stated risk: under it the bounds of thinned samples are not exact
OUT_OF_SCOPE = "oos"
FOLLOW_UP = "follow_up"  # the kind of a question that needs its history: no answer to it can be right
STRATA = ("in_scope", "out_of_scope", FOLLOW_UP)
_DESK_KEYS = {
    "name",
    "title",
    "languages",
    "risk",
    "traffic",
    "public",
    "unproven",
    "groups",
    "system_prompts",
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
    """A topic with its examples; ``where`` is ``file:line``.

    ``places`` are those of the examples, ``file:line``, one each; empty where they were not read from files.
    """

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
    places: Mapping[Lang, tuple[str, ...]] = field(default_factory=dict)

    def where_of(self, lang: Lang, place: int) -> str:
        """``file:line`` of the example at a place of a language; the topic's own where it has no line."""
        places = self.places.get(lang, ())
        return places[place] if place < len(places) else self.where


@dataclass(frozen=True, slots=True)
class Question:
    """A held-out question. ``topic`` is a topic id or ``oos``.

    ``kind`` is free, for the tables, but for ``follow_up``: such a turn needs its history.
    """

    text: str
    topic: str
    lang: Lang
    kind: str = ""
    history: tuple[Turn, ...] = ()
    where: str = ""

    @property
    def stratum(self) -> str:
        """Which part of the traffic it stands for, one of STRATA."""
        if self.kind == FOLLOW_UP:
            return FOLLOW_UP
        return "out_of_scope" if self.topic == OUT_OF_SCOPE else "in_scope"

    def query(self, normaliser: Normaliser) -> Query:
        """The query that the server would make of this question."""
        return Query.of_text(self.text, normaliser, self.history)


@dataclass(frozen=True, slots=True)
class Desk:
    """The whole source folder.

    ``traffic``: the shares of STRATA that the stated risk holds for; without any, as the calibration
    questions are. ``groups``: groups of topics with the rate that each states. ``out_of_scope``: examples of
    what is no topic's.
    """

    folder: Path
    name: str
    languages: tuple[Lang, ...]
    topics: tuple[DeskTopic, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    risk: Risk = Risk()
    traffic: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, float] = field(default_factory=dict)
    out_of_scope: tuple[str, ...] = ()
    public: bool = False
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
    try:
        rows = list(read_json_lines(path))
    except DeskError as exc:
        problems.extend(exc.problems)
        return ()
    questions = []
    for line, row in rows:
        where = f"{path}:{line}"
        text, topic, lang, kind = row.get("text"), row.get("topic"), row.get("lang"), _given(row, "kind", "")
        if not isinstance(text, str):
            problems.append(f"{where}: 'text' must be a text, got {text!r}.")
        elif lang not in tuple(Lang):
            problems.append(f"{where}: 'lang' must be zh or en, got {lang!r}.")
        elif not isinstance(topic, str) or (topic != OUT_OF_SCOPE and topic not in topics):
            problems.append(f"{where}: there is no topic {topic!r}; use a topic's id or 'oos'.")
        elif not isinstance(kind, str):
            problems.append(f"{where}: 'kind' must be a text, got {kind!r}.")
        elif not _is_history(history := _given(row, "history", [])):
            problems.append(f"{where}: 'history' must be a list of objects with 'role' and 'content' texts.")
        else:
            turns = tuple(Turn(turn["role"], turn["content"]) for turn in history)
            kind = kind or ("out_of_scope" if topic == OUT_OF_SCOPE else "in_scope")
            questions.append(Question(text, topic, Lang(lang), kind, turns, where))
    return tuple(questions)


def _is_share(value: object) -> bool:
    """A risk. Nearer to 0 or 1 than this, the number of answers that prove it is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-6 <= value <= 1 - 1e-6


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _given(entry: Mapping[str, Any], key: str, default: object) -> Any:  # noqa: ANN401 - unchecked yet
    value = entry.get(key)
    return default if value is None else value


def _places_of(examples: object, file: Path) -> dict[Lang, tuple[str, ...]]:
    found = examples if isinstance(examples, dict) else {}
    return {
        Lang(key): tuple(f"{file}:{line}" for line in texts.lines)
        for key, texts in found.items()
        if key in tuple(Lang) and isinstance(texts, LocatedList)
    }


def _with(topic: DeskTopic, more: Sequence[Question]) -> DeskTopic:
    """A topic with more examples."""
    examples, places = dict(topic.examples), dict(topic.places)
    for row in more:
        examples[row.lang] = (*examples.get(row.lang, ()), row.text)
        places[row.lang] = (*places.get(row.lang, ()), row.where)
    return replace(topic, examples=examples, places=places)


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
        languages = self._languages(head)
        name = self._text(head, "name", "demo")
        if not DESK_NAME.fullmatch(name):
            self._problem(head, "name", f"{name!r} must match {DESK_NAME.pattern}")
        risk = self._risk(head)
        unproven = self._one_of(head, "unproven", ("forward", "answer"), "forward")
        public = _given(head, "public", False)
        if not isinstance(public, bool):
            self._problem(head, "public", f"must be true or false, got {public!r}")
            public = False
        traffic = self._traffic(head)
        groups = self._groups(head, risk)
        prompts: str | tuple[str, ...] = "any"
        if head.get("system_prompts", "any") != "any":
            prompts = self._strings(head, "system_prompts", None, "'any' or a list of texts")
        tools = self._tools()
        topics = self._topics(languages, {str(tool.get("name")) for tool in tools})
        self._rates(topics, groups, risk)
        ids = [topic.id for topic in topics]
        topics, out_of_scope = self._more_examples(topics, languages)
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
            traffic=traffic,
            groups=groups,
            out_of_scope=out_of_scope,
            public=public,
            unproven=unproven,
            system_prompts=prompts,
            calibrate=calibrate,
            test=test,
        )

    def _languages(self, head: Located) -> tuple[Lang, ...]:
        names = _given(head, "languages", ["en"])
        known = isinstance(names, list) and names and all(name in tuple(Lang) for name in names)
        if not known or len(set(names)) < len(names):
            self._problem(head, "languages", "takes en and zh, each once, as in [en, zh]")
            return tuple(Lang)
        return tuple(Lang(name) for name in names)

    def _traffic(self, head: Located) -> dict[str, float]:
        given = _given(head, "traffic", {})
        if (
            not isinstance(given, dict)
            or not given.keys() <= set(STRATA)
            or not all(_is_count(share) for share in given.values())
            or (given and not 0 < sum(given.values()) < float("inf"))
        ):
            example = "{in_scope: 0.7, out_of_scope: 0.15, follow_up: 0.15}"
            self._problem(head, "traffic", f"takes the shares of what users ask, as in {example}")
            return {}
        return {str(name): float(share) for name, share in given.items()}

    def _groups(self, head: Located, risk: Risk) -> dict[str, float]:
        given = _given(head, "groups", {})
        if not isinstance(given, dict) or not all(
            isinstance(name, str)
            and TOPIC_ID.fullmatch(name)
            and name not in tuple(Lang)
            and (entry is None or (isinstance(entry, dict) and entry.keys() <= {"max_wrong"}))
            and _is_share((entry or {}).get("max_wrong", risk.max_wrong))
            for name, entry in given.items()
        ):
            self._problem(
                head,
                "groups",
                f"takes names that match {TOPIC_ID.pattern}, as in {{finance: {{max_wrong: 0.005}}}}",
            )
            return {}
        return {str(name): (entry or {}).get("max_wrong", risk.max_wrong) for name, entry in given.items()}

    def _rates(self, topics: Sequence[DeskTopic], groups: Mapping[str, float], risk: Risk) -> None:
        """Topics name groups that there are, and state rates that are stricter than their group's."""
        for topic in topics:
            if topic.group and topic.group not in groups:
                self.problems.append(
                    f"{topic.where}: 'group' {topic.group!r} is not in 'groups' of desk.yaml; add it there."
                )
            rate = groups.get(topic.group or "", risk.max_wrong)
            if topic.max_wrong is not None and topic.max_wrong >= rate:
                self.problems.append(
                    f"{topic.where}: 'max_wrong' of a topic must be under its group's {rate:g}, "
                    f"got {topic.max_wrong:g}."
                )

    def _tools(self) -> list[Located]:
        path = self.folder / "tools.yaml"
        if not path.exists():
            return []
        names: list[Any] = []
        tools = self._entries(path, "a list of tools", "each tool is a mapping that begins with '- name:'")
        for tool in tools:
            self._unknown(tool, _TOOL_KEYS, "tool")
            for key in ("name", "description", "method", "url"):
                self._text(tool, key, "")
            self._one_of(tool, "effects", ("read", "write"), "read")
            self._one_of(tool, "scope", ("user", "public"), "user")
            for key, value in tool.items():
                if problem := json_problem(value):
                    self._problem(tool, str(key), problem)
            for line, key, what in tool_problems(tool):
                self.problems.append(f"{self.file}:{line}: '{key}' {what}.")
            if tool.get("name") in names:
                self._problem(tool, "name", f"{tool['name']!r} is another tool's, too")
            names.append(tool.get("name"))
        return tools

    def _topics(self, languages: Sequence[Lang], tools: set[str]) -> list[DeskTopic]:
        files = sorted((self.folder / "topics").glob("*.yaml"))
        if not files:
            raise DeskError([f"{self.folder}/topics: there is no topic file; add topics/NAME.yaml."])
        topics: dict[str, DeskTopic] = {}
        for file in files:
            for entry in self._entries(
                file, "a list of topics", "each topic is a mapping that begins with '- id:'"
            ):
                topic = self._topic(entry, languages, tools)
                if topic.id in topics:
                    self._problem(entry, "id", f"{topic.id!r} stands also at {topics[topic.id].where}")
                topics[topic.id] = topic
        if not topics and not self.problems:
            self.problems.append(f"{files[0]}:1: there is no topic; add one that begins with '- id:'.")
        return list(topics.values())

    def _more_examples(
        self, topics: Sequence[DeskTopic], languages: Sequence[Lang]
    ) -> tuple[list[DeskTopic], tuple[str, ...]]:
        """The topics with the examples of ``examples/*.jsonl``, and those of ``oos``."""
        ids = [topic.id for topic in topics]
        rows = [
            row
            for file in sorted((self.folder / "examples").glob("*.jsonl"))
            for row in load_questions(file, ids, self.problems)
        ]
        self.problems += [
            f"{row.where}: an example stands alone; 'history' belongs to held-out questions."
            for row in rows
            if row.history
        ]
        self.problems += [
            f"{row.where}: {row.lang} is not among the desk's languages."
            for row in rows
            if row.lang not in languages
        ]
        own: dict[str, list[Question]] = {}
        for row in rows:
            own.setdefault(row.topic, []).append(row)
        more = [_with(topic, own.get(topic.id, ())) for topic in topics]
        return more, tuple(row.text for row in own.get(OUT_OF_SCOPE, ()))

    def _topic(self, entry: Located, languages: Sequence[Lang], tools: set[str]) -> DeskTopic:
        self._unknown(entry, _TOPIC_KEYS, "topic")
        id_ = self._text(entry, "id", "")
        if id_ == OUT_OF_SCOPE or not TOPIC_ID.fullmatch(id_):
            self._problem(entry, "id", f"{id_!r} must match {TOPIC_ID.pattern} and not be '{OUT_OF_SCOPE}'")
        route = self._one_of(entry, "route", ROUTES, "agent")
        answer = self._texts(entry, "answer", _given(entry, "answer", {}))
        if route == "answer" and entry.get("answer") in (None, {}):
            self._problem(
                entry, "answer", "is missing: a topic with route 'answer' needs a text in each language"
            )
        if route != "answer" and answer:
            self._problem(entry, "answer", f"belongs to route 'answer', the route here is {route!r}")
        used = self._strings(entry, "tools", [])
        if route == "tool" and not used:
            self._problem(entry, "tools", "is missing: name the tools that this topic calls")
        for name in sorted(set(used) - tools):
            self._problem(entry, "tools", f"names {name!r}, which tools.yaml does not declare")
        until = entry.get("valid_until")
        if until is not None and type(until) is not date:  # a datetime is a date too
            self._problem(entry, "valid_until", f"must be a date such as 2027-03-31, got {str(until)!r}")
            until = None
        title = _given(entry, "title", id_ or "-")
        titles = dict.fromkeys(languages, title) if isinstance(title, str) else title
        max_wrong = entry.get("max_wrong")
        if max_wrong is not None and not _is_share(max_wrong):
            self._problem(entry, "max_wrong", f"must be a number between 0 and 1, got {max_wrong!r}")
            max_wrong = None
        return DeskTopic(
            id=id_,
            title={str(lang): text for lang, text in self._texts(entry, "title", titles).items()},
            route=route,
            examples=self._examples(entry, languages),
            answer={lang: text.strip() for lang, text in answer.items()},
            group=None if entry.get("group") is None else self._text(entry, "group", ""),
            valid_until=until,
            volatility=self._one_of(entry, "volatility", VOLATILITIES, "static"),
            tags=self._strings(entry, "tags", []),
            tools=used,
            max_wrong=max_wrong,
            where=f"{self.file}:{entry.line}",
            places=_places_of(entry.get("examples"), self.file),
        )

    def _examples(self, entry: Located, languages: Sequence[Lang]) -> dict[Lang, tuple[str, ...]]:
        found = entry.get("examples")
        if not isinstance(found, dict) or not any(found.values()):
            self._problem(entry, "examples", "is missing: write what people type, under en: and zh:")
            return {}
        examples = {}
        for key, texts in found.items():
            listed = texts if isinstance(texts, list) else []
            bad = [t for t in listed if not isinstance(t, str) or not t.strip()]
            if key not in languages or bad or not isinstance(texts, list):
                self._problem(
                    entry, "examples",
                    f"under {key!r} must be a list of texts in one of {', '.join(languages)}"
                    + (f"; {bad[0]!r} is no text, put it in quotes" if bad else ""),
                )  # fmt: skip
            else:
                examples[Lang(key)] = tuple(texts)
        return examples

    def _texts(self, entry: Located, key: str, found: object) -> dict[Lang, str]:
        if not isinstance(found, dict) or not all(
            k in tuple(Lang) and isinstance(v, str) and v.strip() for k, v in found.items()
        ):
            self._problem(entry, key, "must hold a text that is not empty for en, zh or both")
            return {}
        return {Lang(k): v for k, v in found.items()}

    def _strings(
        self, entry: Located, key: str, default: object, what: str = "a list of texts"
    ) -> tuple[str, ...]:
        value = _given(entry, key, default)
        if not isinstance(value, list) or not all(isinstance(x, str) and x for x in value):
            self._problem(entry, key, f"must be {what}, got {value!r}")
            return ()
        return tuple(value)

    def _risk(self, head: Located) -> Risk:
        given = _given(head, "risk", {})
        if (
            not isinstance(given, dict)
            or not given.keys() <= {"max_wrong", "confidence"}
            or not all(_is_share(value) for value in given.values())
            or given.get("confidence", 1) < LEAST_CONFIDENCE
        ):
            self._problem(
                head,
                "risk",
                f"takes {{max_wrong: 0.01, confidence: 0.95}}: under 1, the second from {LEAST_CONFIDENCE}",
            )
            return Risk()
        return Risk(**given)

    def _entries(self, path: Path, what: str, each: str) -> list[Located]:
        """The mappings of a list; anything else in it is a problem."""
        listed = self._load(path, LocatedList, what)
        found = []
        for line, entry in zip(listed.lines, listed, strict=True):
            if isinstance(entry, Located):
                found.append(entry)
            else:
                self.problems.append(f"{path}:{line}: {each}, got {entry!r}.")
        return found

    def _load(self, path: Path, kind: type[Any], what: str) -> Any:  # noqa: ANN401 - of that kind
        self.file = path
        try:
            value = read_yaml(path)
        except DeskError as exc:
            raise DeskError([*self.problems, *exc.problems]) from exc
        if not isinstance(value, kind):
            raise DeskError([*self.problems, f"{path}:1: expected {what}."])
        return value

    def _unknown(self, entry: Located, known: set[str], what: str) -> None:
        for key in entry:
            if key not in known:
                self._problem(
                    entry, str(key), f"is no key of a {what}; its keys are {', '.join(sorted(known))}"
                )

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
