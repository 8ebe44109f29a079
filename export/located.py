"""YAML and JSON lines with line numbers, so that every complaint can name file, line and fix."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from edge.errors import DeskError


class Located(dict[str, Any]):
    """A mapping that knows the line of itself and of each of its keys."""

    line: int
    lines: dict[str, int]

    def line_of(self, key: str) -> int:
        """The line of a key, or of the mapping where the key is missing."""
        return self.lines.get(key, self.line)


class LocatedList(list[Any]):
    """A list that knows the line of each of its elements."""

    lines: list[int]


class _Loader(yaml.SafeLoader):
    """A safe loader that keeps lines and refuses duplicate keys, which YAML forbids and PyYAML drops."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Located:
    pairs = [(loader.construct_object(k, deep=True), k, v) for k, v in node.value]
    found = Located()
    found.line = node.start_mark.line + 1
    found.lines = {}
    for key, key_node, value_node in pairs:
        line = key_node.start_mark.line + 1
        if key in found:
            raise yaml.MarkedYAMLError(
                problem=f"the key {key!r} stands twice", problem_mark=key_node.start_mark
            )
        found[key] = loader.construct_object(value_node, deep=True)
        found.lines[str(key)] = line
    return found


def _sequence(loader: _Loader, node: yaml.SequenceNode) -> LocatedList:
    found = LocatedList(loader.construct_object(child, deep=True) for child in node.value)
    found.lines = [child.start_mark.line + 1 for child in node.value]
    return found


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _sequence)


def read_yaml(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """The value of a YAML file. Raises DeskError with the file and the line."""
    try:
        # The loader derives from SafeLoader.
        return yaml.load(path.read_text("utf-8"), _Loader)  # noqa: S506
    except FileNotFoundError as exc:
        raise DeskError([f"{path}: the file is missing."]) from exc
    except UnicodeDecodeError as exc:
        raise DeskError([f"{path}: not UTF-8 (byte {exc.start}); save the file as UTF-8."]) from exc
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise DeskError([f"{path}:{line}: not valid YAML: {exc.problem}."]) from exc
    except yaml.YAMLError as exc:
        raise DeskError([f"{path}: not valid YAML: {exc}."]) from exc


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of a JSON lines file. Raises DeskError with the file and the line."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as exc:
            raise DeskError([f"{path}:{number}: not valid JSON: {exc}."]) from exc
        if not isinstance(value, dict):
            raise DeskError([f"{path}:{number}: expected a JSON object, got {type(value).__name__}."])
        yield number, value
