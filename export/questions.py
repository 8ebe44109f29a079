"""Held-out questions, and more examples, of JSON lines files."""

from collections.abc import Sequence
from pathlib import Path

from edge.errors import DeskError
from edge.normaliser import Lang
from edge.query import Turn
from export.desk import OUT_OF_SCOPE, Question
from export.entries import given
from export.located import read_json_lines


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
        text, topic, lang, kind = row.get("text"), row.get("topic"), row.get("lang"), given(row, "kind", "")
        if not isinstance(text, str):
            problems.append(f"{where}: 'text' must be a text, got {text!r}.")
        elif lang not in tuple(Lang):
            problems.append(f"{where}: 'lang' must be zh or en, got {lang!r}.")
        elif not isinstance(topic, str) or (topic != OUT_OF_SCOPE and topic not in topics):
            problems.append(f"{where}: there is no topic {topic!r}; use a topic's id or 'oos'.")
        elif not isinstance(kind, str):
            problems.append(f"{where}: 'kind' must be a text, got {kind!r}.")
        elif not _is_history(history := given(row, "history", [])):
            problems.append(f"{where}: 'history' must be a list of objects with 'role' and 'content' texts.")
        else:
            turns = tuple(Turn(turn["role"], turn["content"]) for turn in history)
            kind = kind or ("out_of_scope" if topic == OUT_OF_SCOPE else "in_scope")
            questions.append(Question(text, topic, Lang(lang), kind, turns, where))
    return tuple(questions)


def _is_history(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str)
        for turn in value
    )
