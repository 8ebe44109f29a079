"""The topics of a desk, read and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from edge.errors import DeskError
from edge.normaliser import Lang
from export.desk import OUT_OF_SCOPE, ROUTES, TOPIC_ID, DeskTopic, Question, Risk
from export.entries import Entries, given
from export.located import Located, LocatedList
from export.questions import load_questions
from export.templates import template_problems
from export.tools import use_of

VOLATILITIES = ("static", "daily", "live", "personal")
_TOPIC_KEYS = {
    "id", "title", "route", "group", "examples", "answer", "valid_until", "volatility", "tags", "tools",
    "template", "max_wrong",
}  # fmt: skip


def is_share(value: object) -> bool:
    """A risk. Nearer to 0 or 1 than this, the number of answers that prove it is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-6 <= value <= 1 - 1e-6


class TopicReader(Entries):
    """Reads the topics of a desk folder, and the examples that stand in files of their own."""

    def __init__(
        self, folder: Path, languages: Sequence[Lang], tools: Sequence[Located], problems: list[str]
    ) -> None:
        super().__init__(problems)
        self.folder, self.languages = folder, languages
        self.tools = {str(tool.get("name")): tool for tool in tools}

    def topics(self) -> list[DeskTopic]:
        """Every topic once. Raises DeskError where there is no file or one cannot be read."""
        files = sorted((self.folder / "topics").glob("*.yaml"))
        if not files:
            raise DeskError([f"{self.folder}/topics: there is no topic file; add topics/NAME.yaml."])
        topics: dict[str, DeskTopic] = {}
        for file in files:
            for entry in self.entries(
                file, "a list of topics", "each topic is a mapping that begins with '- id:'"
            ):
                topic = self._topic(entry)
                if topic.id in topics:
                    self.problem(entry, "id", f"{topic.id!r} stands also at {topics[topic.id].where}")
                topics[topic.id] = topic
        if not topics and not self.problems:
            self.problems.append(f"{files[0]}:1: there is no topic; add one that begins with '- id:'.")
        return list(topics.values())

    def _topic(self, entry: Located) -> DeskTopic:
        self.unknown(entry, _TOPIC_KEYS, "topic")
        id_ = self.text(entry, "id", "")
        if id_ == OUT_OF_SCOPE or not TOPIC_ID.fullmatch(id_):
            self.problem(entry, "id", f"{id_!r} must match {TOPIC_ID.pattern} and not be '{OUT_OF_SCOPE}'")
        route = self.one_of(entry, "route", ROUTES, "agent")
        answer = self.texts(entry, "answer", given(entry, "answer", {}))
        if route == "answer" and entry.get("answer") in (None, {}):
            self.problem(
                entry, "answer", "is missing: a topic with route 'answer' needs a text in each language"
            )
        if route != "answer" and answer:
            self.problem(entry, "answer", f"belongs to route 'answer', the route here is {route!r}")
        used = self.strings(entry, "tools", [])
        if route == "tool" and not used:
            self.problem(entry, "tools", "is missing: name the tools that this topic calls")
        for name in sorted(set(used) - self.tools.keys()):
            self.problem(entry, "tools", f"names {name!r}, which tools.yaml does not declare")
        template = self._template(entry, route, used)
        until = entry.get("valid_until")
        if until is not None and type(until) is not date:  # a datetime is a date too
            self.problem(entry, "valid_until", f"must be a date such as 2027-03-31, got {str(until)!r}")
            until = None
        title = given(entry, "title", id_ or "-")
        titles = dict.fromkeys(self.languages, title) if isinstance(title, str) else title
        max_wrong = entry.get("max_wrong")
        if max_wrong is not None and not is_share(max_wrong):
            self.problem(entry, "max_wrong", f"must be a number between 0 and 1, got {max_wrong!r}")
            max_wrong = None
        return DeskTopic(
            id=id_,
            title={str(lang): text for lang, text in self.texts(entry, "title", titles).items()},
            route=route,
            examples=self._examples(entry),
            answer={lang: text.strip() for lang, text in answer.items()},
            group=None if entry.get("group") is None else self.text(entry, "group", ""),
            valid_until=until,
            volatility=self.one_of(entry, "volatility", VOLATILITIES, "static"),
            tags=self.strings(entry, "tags", []),
            tools=used,
            template={lang: text.strip() for lang, text in template.items()},
            max_wrong=max_wrong,
            where=f"{self.file}:{entry.line}",
            places=_places_of(entry.get("examples"), self.file),
        )

    def _template(self, entry: Located, route: str, used: Sequence[str]) -> dict[Lang, str]:
        found = given(entry, "template", {})
        if not found:
            return {}
        if route != "tool":
            self.problem(entry, "template", f"belongs to route 'tool', the route here is {route!r}")
        tools = {name: self.tools[name] for name in used if name in self.tools}
        for name, tool in tools.items():
            if use_of(tool) != "answer":
                self.problem(
                    entry, "template",
                    f"needs every tool's word that it may answer; write use: answer at {name} in tools.yaml, "
                    "or leave the template out",
                )  # fmt: skip
        texts = self.texts(entry, "template", found)
        for lang, text in texts.items():
            for problem in template_problems(text, tools):
                self.problems.append(f"{self.file}:{found.line_of(lang)}: 'template.{lang}' {problem}.")
        return texts

    def _examples(self, entry: Located) -> dict[Lang, tuple[str, ...]]:
        found = entry.get("examples")
        if not isinstance(found, dict) or not any(found.values()):
            self.problem(entry, "examples", "is missing: write what people type, under en: and zh:")
            return {}
        examples = {}
        for key, texts in found.items():
            listed = texts if isinstance(texts, list) else []
            bad = [t for t in listed if not isinstance(t, str) or not t.strip()]
            if key not in self.languages or bad or not isinstance(texts, list):
                self.problem(
                    entry, "examples",
                    f"under {key!r} must be a list of texts in one of {', '.join(self.languages)}"
                    + (f"; {bad[0]!r} is no text, put it in quotes" if bad else ""),
                )  # fmt: skip
            else:
                examples[Lang(key)] = tuple(texts)
        return examples

    def more_examples(self, topics: Sequence[DeskTopic]) -> tuple[list[DeskTopic], tuple[str, ...]]:
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
            if row.lang not in self.languages
        ]
        own: dict[str, list[Question]] = {}
        for row in rows:
            own.setdefault(row.topic, []).append(row)
        more = [_with(topic, own.get(topic.id, ())) for topic in topics]
        return more, tuple(row.text for row in own.get(OUT_OF_SCOPE, ()))

    def check_rates(self, topics: Sequence[DeskTopic], groups: Mapping[str, float], risk: Risk) -> None:
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
