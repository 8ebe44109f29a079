"""A desk folder, read whole. Every problem is found at once, with file and line."""

from pathlib import Path
from typing import Any

from edge.errors import DeskError
from edge.normaliser import Lang
from export.desk import DESK_NAME, STRATA, TOPIC_ID, Desk, Risk
from export.entries import Entries, given
from export.located import Located
from export.questions import load_questions
from export.tools import tool_problems
from export.topic_reader import TopicReader, is_share

LEAST_CONFIDENCE = 0.75  # of a stated risk: under it the bounds of thinned samples are not exact
_DESK_KEYS = {
    "name", "title", "languages", "risk", "traffic", "public", "unproven", "groups", "system_prompts",
}  # fmt: skip


def load_desk(folder: Path | str) -> Desk:
    """The desk of a folder. Raises DeskError with every problem found."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DeskError([f"{folder}: there is no such desk folder."])
    return _Reader(folder).desk()


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


class _Reader(Entries):
    """Reads a desk and gathers its problems."""

    def __init__(self, folder: Path) -> None:
        super().__init__([])
        self.folder = folder

    def desk(self) -> Desk:
        head = self.load(self.folder / "desk.yaml", Located, "a mapping with 'name' and 'languages'")
        self.unknown(head, _DESK_KEYS, "desk")
        languages = self._languages(head)
        name = self.text(head, "name", "demo")
        if not DESK_NAME.fullmatch(name):
            self.problem(head, "name", f"{name!r} must match {DESK_NAME.pattern}")
        risk = self._risk(head)
        unproven = self.one_of(head, "unproven", ("forward", "answer"), "forward")
        public = given(head, "public", False)
        if not isinstance(public, bool):
            self.problem(head, "public", f"must be true or false, got {public!r}")
            public = False
        traffic = self._traffic(head)
        groups = self._groups(head, risk)
        prompts: str | tuple[str, ...] = "any"
        if head.get("system_prompts", "any") != "any":
            prompts = self.strings(head, "system_prompts", None, "'any' or a list of texts")
        tools = self._tools()
        reader = TopicReader(self.folder, languages, tools, self.problems)
        topics = reader.topics()
        reader.check_rates(topics, groups, risk)
        ids = [topic.id for topic in topics]
        topics, out_of_scope = reader.more_examples(topics)
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
        names = given(head, "languages", ["en"])
        known = isinstance(names, list) and names and all(name in tuple(Lang) for name in names)
        if not known or len(set(names)) < len(names):
            self.problem(head, "languages", "takes en and zh, each once, as in [en, zh]")
            return tuple(Lang)
        return tuple(Lang(name) for name in names)

    def _traffic(self, head: Located) -> dict[str, float]:
        found = given(head, "traffic", {})
        if (
            not isinstance(found, dict)
            or not found.keys() <= set(STRATA)
            or not all(_is_count(share) for share in found.values())
            or (found and not 0 < sum(found.values()) < float("inf"))
        ):
            example = "{in_scope: 0.7, out_of_scope: 0.15, follow_up: 0.15}"
            self.problem(head, "traffic", f"takes the shares of what users ask, as in {example}")
            return {}
        return {str(name): float(share) for name, share in found.items()}

    def _groups(self, head: Located, risk: Risk) -> dict[str, float]:
        found = given(head, "groups", {})
        if not isinstance(found, dict) or not all(
            isinstance(name, str)
            and TOPIC_ID.fullmatch(name)
            and name not in tuple(Lang)
            and (entry is None or (isinstance(entry, dict) and entry.keys() <= {"max_wrong"}))
            and is_share((entry or {}).get("max_wrong", risk.max_wrong))
            for name, entry in found.items()
        ):
            self.problem(
                head,
                "groups",
                f"takes names that match {TOPIC_ID.pattern}, as in {{finance: {{max_wrong: 0.005}}}}",
            )
            return {}
        return {str(name): (entry or {}).get("max_wrong", risk.max_wrong) for name, entry in found.items()}

    def _tools(self) -> list[Located]:
        path = self.folder / "tools.yaml"
        if not path.exists():
            return []
        names: list[Any] = []
        tools = self.entries(path, "a list of tools", "each tool is a mapping that begins with '- name:'")
        for tool in tools:
            for line, key, what in tool_problems(tool):
                self.problems.append(f"{self.file}:{line}: '{key}' {what}.")
            if tool.get("name") in names:
                self.problem(tool, "name", f"{tool['name']!r} is another tool's, too")
            names.append(tool.get("name"))
        return tools

    def _risk(self, head: Located) -> Risk:
        found = given(head, "risk", {})
        if (
            not isinstance(found, dict)
            or not found.keys() <= {"max_wrong", "confidence"}
            or not all(is_share(value) for value in found.values())
            or found.get("confidence", 1) < LEAST_CONFIDENCE
        ):
            self.problem(
                head,
                "risk",
                f"takes {{max_wrong: 0.01, confidence: 0.95}}: under 1, the second from {LEAST_CONFIDENCE}",
            )
            return Risk()
        return Risk(**found)
