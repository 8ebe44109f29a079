"""YAML and JSON lines with line numbers, so that every complaint can name file, line and fix."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from edge.errors import DeskError

# Levels of nesting that a YAML file may have; a desk needs six.
_MAX_DEPTH = 50

Problem = tuple[int, str, str]  # line, key, what is wrong with it


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
    """A safe loader that keeps lines and refuses what YAML forbids but PyYAML drops or stumbles over."""

    depth = 0
    aliases = True

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401
        """The next node; one that is nested too deeply is refused before Python's stack is full."""
        self.depth += 1
        if not self.aliases and self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _error("an alias (*name) is not read here; write out what it stands for", mark)
        if self.depth > _MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _error(f"nested more than {_MAX_DEPTH} levels deep", mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _error(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _mapping(loader: _Loader, node: yaml.Node) -> Located:
    if not isinstance(node, yaml.MappingNode):
        raise _error("expected a mapping", node.start_mark)
    found = Located()
    found.line = node.start_mark.line + 1
    found.lines = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key.__hash__ is None:
            raise _error("a list or mapping cannot be a key", key_node.start_mark)
        if key in found:
            raise _error(f"the key {key!r} stands twice", key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
        found.lines[str(key)] = key_node.start_mark.line + 1
    return found


def _sequence(loader: _Loader, node: yaml.Node) -> LocatedList:
    if not isinstance(node, yaml.SequenceNode):
        raise _error("expected a list", node.start_mark)
    found = LocatedList(loader.construct_object(child, deep=True) for child in node.value)
    found.lines = [child.start_mark.line + 1 for child in node.value]
    return found


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    text = loader.construct_scalar(node)
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise _error("half of a character (a lone surrogate) in a text", node.start_mark)
    return text


def _scalar(loader: _Loader, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - as the tag says
    """A number, truth value or date. PyYAML lets the errors of int(), date() and its tables through."""
    try:
        value = yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
        str(value)  # refuses a hexadecimal number that is too long to be printed
    except (ValueError, LookupError, AttributeError) as exc:
        kind = node.tag.rpartition(":")[2]
        raise _error(f"{node.value!r} is no {kind}; put a text in quotes", node.start_mark) from exc
    return value


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _sequence)
_Loader.add_constructor("tag:yaml.org,2002:str", _text)
for _kind in ("bool", "int", "float", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _scalar)


def read_yaml(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """The value of a YAML file. Raises DeskError with the file and the line."""
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: Path, *, aliases: bool = True) -> Any:  # noqa: ANN401 - whatever it holds
    """The value of a YAML text. Without ``aliases`` nothing in it is larger than it looks."""
    loader = None
    try:
        loader = _Loader(text)
        loader.aliases = aliases
        return loader.get_single_data()
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise DeskError([f"{path}:{line}: not valid YAML: {exc.problem}."]) from exc
    except yaml.reader.ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        raise DeskError([f"{path}:{line}: the control character {chr(exc.character)!r}; remove it."]) from exc
    except (ValueError, OverflowError) as exc:  # of chr()
        line = loader.line + 1 if loader else 1
        raise DeskError([f"{path}:{line}: an escape such as \\U00110000 names no character."]) from exc


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of a JSON lines file. Raises DeskError with the file and the line."""
    return parse_json_lines(read_text(path), path)


def parse_json_lines(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of a JSON lines text."""
    # Only "\n" ends a line: JSON strings may hold the others that str.splitlines knows.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            json.dumps(value, ensure_ascii=False).encode()  # refuses half a character, as "\ud800"
        except ValueError as exc:
            raise DeskError([f"{path}:{number}: not valid JSON: {exc}."]) from exc
        except RecursionError as exc:
            raise DeskError([f"{path}:{number}: nested too deeply."]) from exc
        if not isinstance(value, dict):
            raise DeskError([f"{path}:{number}: expected a JSON object, got {type(value).__name__}."])
        yield number, value


def read_text(path: Path) -> str:
    """The text of a UTF-8 file. Raises DeskError with the file, and the line of what is not UTF-8."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as exc:
        raise DeskError([f"{path}: the file is missing."]) from exc
    except OSError as exc:
        raise DeskError([f"{path}:1: cannot be read ({exc.strerror}); expected a file here."]) from exc
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise DeskError([f"{path}:{line}: not UTF-8 (byte {exc.start}); save the file as UTF-8."]) from exc
