"""YAML and JSON lines: odd bytes and odd shapes are read, or refused with file and line."""

import json
from pathlib import Path

import pytest

from edge.errors import DeskError
from export.located import read_json_lines, read_yaml


def problem_of_yaml(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DeskError) as caught:
        read_yaml(path)
    [problem] = caught.value.problems
    return problem.removeprefix(str(path))


def problem_of_json(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DeskError) as caught:
        list(read_json_lines(path))
    [problem] = caught.value.problems
    return problem.removeprefix(str(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("? [a, b]\n: 1\n", ":1: not valid YAML: a list or mapping cannot be a key"),
        ("a: 1\n{b: c}: 1\n", ":2: not valid YAML: a list or mapping cannot be a key"),
        ("a: 2027-13-45\n", ":1: not valid YAML: '2027-13-45' is no timestamp"),
        ("a: 1\nb: !!int zz\n", ":2: not valid YAML: 'zz' is no int"),
        ("a: !!int ''\n", ":1: not valid YAML: '' is no int"),
        ("a: !!float x\n", ":1: not valid YAML: 'x' is no float"),
        ("a: !!bool x\n", ":1: not valid YAML: 'x' is no bool"),
        ("a: !!timestamp x\n", ":1: not valid YAML: 'x' is no timestamp"),
        (f"a: {'9' * 5000}\n", ":1: not valid YAML: '999"),
        (f"a: 0x{'f' * 5000}\n", ":1: not valid YAML: '0xfff"),
        ("a: !!int [1]\n", ":1: not valid YAML"),
        ("a: !!map [1]\n", ":1: not valid YAML: expected a mapping"),
        ("a: !!map x\n", ":1: not valid YAML: expected a mapping"),
        ("a: !!seq {b: c}\n", ":1: not valid YAML: expected a list"),
        ("a: &a [*a]\n", ":1: not valid YAML"),
        ("a: 1\nb: \x07\n", ":2: the control character '\\x07'; remove it."),
        ('a: 1\nb: "\\ud800"\n', ":2: not valid YAML: half of a character"),
        ('a: 1\nb: "\\U00110000"\n', ":2: an escape such as"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', ":2: an escape such as"),
        ("a: 1\nb: " + "[" * 5000, ":2: not valid YAML: nested more than 50 levels deep"),
        ("- " * 5000 + "a", ":1: not valid YAML: nested more than 50 levels deep"),
        (b"a: 1\nb: \xff\n", ":2: not UTF-8"),
        ("a: 1".encode("utf-16"), ":1: not UTF-8"),
    ],
)
def test_wrong_yaml_is_refused_with_its_line(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert problem_of_yaml(tmp_path / "a.yaml", text).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{}\n{"a": "\xff"}\n', ":2: not UTF-8"),
        ('{}\n{"a": ' + "[" * 100_000, ":2: nested too deeply."),
        ('{}\n{"a": "\\ud800"}\n', ":2: not valid JSON"),
        ("{}\n[1]\n", ":2: expected a JSON object, got list."),
        ("{}\n\n\u2028\n{\n", ":4: not valid JSON"),
    ],
)
def test_wrong_json_lines_are_refused_with_their_line(
    tmp_path: Path, text: str | bytes, expected: str
) -> None:
    assert problem_of_json(tmp_path / "a.jsonl", text).startswith(expected)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DeskError, match=r":1: cannot be read \(Is a directory\)"):
        read_yaml(tmp_path)
    with pytest.raises(DeskError, match=r":1: cannot be read \(Is a directory\)"):
        list(read_json_lines(tmp_path))


def test_a_byte_order_mark_crlf_and_the_separators_of_unicode_are_read(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\u0085d"
    line = json.dumps({"a": text}, ensure_ascii=False)
    path = tmp_path / "a.jsonl"
    path.write_bytes(f"\ufeff{line}\r\n\r\n{line}".encode())
    assert list(read_json_lines(path)) == [(1, {"a": text}), (3, {"a": text})]
    path.write_bytes("\ufeffa: 1\r\nb: 2027-03-31\r\n".encode())
    assert list(read_yaml(path)) == ["a", "b"]
