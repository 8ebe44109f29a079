"""A TOML file whose values know where they stand, which tomllib does not tell."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TomlFile:
    """The values of a file, and its text with line feeds alone."""

    path: Path
    text: str
    data: Mapping[str, Any]

    def place(self, *names: str | int) -> "Place":
        """Where the value under these keys and indices is set."""
        return Place(self, names)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file. Its line is looked for only when it is told."""

    file: TomlFile
    names: tuple[str | int, ...]

    def __str__(self) -> str:
        """``frontdesk.toml:3: upstream.base_url``."""
        keys = ".".join(name for name in self.names if isinstance(name, str))
        return f"{self.file.path}:{self.line()}: {keys}"

    def line(self) -> int:
        """The line, from 1, of the statement that sets the value.

        It begins after the longest beginning of the file that reads well without the value.
        """
        lines = self.file.text.split("\n")
        before = 0
        for end in range(1, len(lines) + 1):
            try:
                data = tomllib.loads("\n".join(lines[:end]))
            except ValueError:  # the middle of a statement
                continue
            if _holds(data, self.names):
                statement = range(before + 1, end + 1)
                return next(n for n in statement if lines[n - 1].partition("#")[0].strip())
            before = end
        return 1


def read_toml(path: Path) -> TomlFile:
    """The file. Raises ConfigError, which says what is wrong in it and where."""
    try:
        text = path.read_text("utf-8-sig")
        return TomlFile(path, text, tomllib.loads(text))
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}.") from exc
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: this is not UTF-8; save the file in UTF-8.") from exc
    except ValueError as exc:
        said = "a number in it has too many digits" if "set_int_max" in str(exc) else exc
        raise ConfigError(f"{path} is not valid TOML: {said}.") from exc
    except RecursionError as exc:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply.") from exc


def _holds(data: Any, names: tuple[str | int, ...]) -> bool:  # noqa: ANN401 - any TOML value
    for name in names:
        try:
            data = data[name]
        except (KeyError, IndexError, TypeError):
            return False
    return True
