"""Entries of a desk's YAML files: read with their lines, checked, and every problem gathered."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edge.errors import DeskError
from edge.normaliser import Lang
from export.located import Located, LocatedList, read_yaml


def given(entry: Mapping[str, Any], key: str, default: object) -> Any:  # noqa: ANN401 - unchecked yet
    """The value of a key; what is null counts as left out."""
    value = entry.get(key)
    return default if value is None else value


class Entries:
    """Reads the entries of one file after the other and gathers their problems."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.file = Path()

    def load(self, path: Path, kind: type[Any], what: str) -> Any:  # noqa: ANN401 - of that kind
        """The value of a YAML file of that kind. Raises DeskError, with all problems so far."""
        self.file = path
        try:
            value = read_yaml(path)
        except DeskError as exc:
            raise DeskError([*self.problems, *exc.problems]) from exc
        if not isinstance(value, kind):
            raise DeskError([*self.problems, f"{path}:1: expected {what}."])
        return value

    def entries(self, path: Path, what: str, each: str) -> list[Located]:
        """The mappings of a list; anything else in it is a problem."""
        listed = self.load(path, LocatedList, what)
        found = []
        for line, entry in zip(listed.lines, listed, strict=True):
            if isinstance(entry, Located):
                found.append(entry)
            else:
                self.problems.append(f"{path}:{line}: {each}, got {entry!r}.")
        return found

    def unknown(self, entry: Located, known: set[str], what: str) -> None:
        """Every key that a ``what`` does not have is a problem."""
        for key in entry:
            if key not in known:
                self.problem(
                    entry, str(key), f"is no key of a {what}; its keys are {', '.join(sorted(known))}"
                )

    def text(self, entry: Located, key: str, default: str) -> str:
        """A text that is not empty, else the default."""
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            self.problem(entry, key, f"must be a text, got {value!r}")
            return default
        return value

    def texts(self, entry: Located, key: str, found: object) -> dict[Lang, str]:
        """A text in each of some languages."""
        if not isinstance(found, dict) or not all(
            k in tuple(Lang) and isinstance(v, str) and v.strip() for k, v in found.items()
        ):
            self.problem(entry, key, "must hold a text that is not empty for en, zh or both")
            return {}
        return {Lang(k): v for k, v in found.items()}

    def strings(
        self, entry: Located, key: str, default: object, what: str = "a list of texts"
    ) -> tuple[str, ...]:
        """A list of texts."""
        value = given(entry, key, default)
        if not isinstance(value, list) or not all(isinstance(x, str) and x for x in value):
            self.problem(entry, key, f"must be {what}, got {value!r}")
            return ()
        return tuple(value)

    def one_of(self, entry: Located, key: str, names: Sequence[str], default: str) -> str:
        """One of some names."""
        value = entry.get(key, default)
        if value not in names:
            self.problem(entry, key, f"must be one of {', '.join(names)}, got {value!r}")
            return default
        return str(value)

    def problem(self, entry: Located, key: str, what: str) -> None:
        """Note what is wrong with a key of an entry."""
        self.problems.append(f"{self.file}:{entry.line_of(key)}: '{key}' {what}.")
