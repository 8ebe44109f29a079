"""What users asked, read from a file: JSON lines with a ``text``, or a question a line."""

from dataclasses import dataclass
from pathlib import Path

from edge.errors import DeskError
from export.located import parse_json_lines, read_text


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and where it stands, ``file:line``."""

    text: str
    where: str


def read_asked(path: Path) -> tuple[Asked, ...]:
    """The questions of a file; those with a ``history`` are left out: their text is not all of the question.

    The file is taken for JSON lines if its first character is a brace. Raises DeskError with file and line,
    also where there is no question.
    """
    text = read_text(path)
    if text.lstrip().startswith("{"):
        asked, problems = [], []
        for line, row in parse_json_lines(text, path):
            if not isinstance(row.get("text"), str) or not row["text"].strip():
                problems.append(f"{path}:{line}: 'text' must be a text, got {row.get('text')!r}.")
            elif not row.get("history"):
                asked.append(Asked(row["text"], f"{path}:{line}"))
        if problems:
            raise DeskError(problems)
    else:
        asked = [
            Asked(line.strip(), f"{path}:{number}")
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
    if not asked:
        raise DeskError([f"{path}: there is no question; write one a line, or JSON lines with a 'text'."])
    return tuple(asked)
