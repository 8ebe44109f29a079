"""The file of labels: nothing paid for is lost, nothing half written is read, a label is of its question."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edge.errors import DeskError
from edge.normaliser import Lang
from export.desk import DeskTopic
from export.label_file import LabelFile
from export.traffic import Said

HOURS = DeskTopic("hours", {"en": "Hours"}, "answer", {Lang.EN: ("opening hours",)}, {})
CHAT = DeskTopic("chat", {"en": "Chat"}, "agent", {Lang.EN: ("write a poem",)}, {})
ONE, TWO = Said("Open?", "open"), Said("几点", "几点")


def filled(path: Path) -> Path:
    with LabelFile(path, [HOURS, CHAT], "m") as file:
        file.add({ONE: "hours"})
        file.add({TWO: "oos"})
    return path


def labels(path: Path, topics: list[DeskTopic] | None = None, model: str = "m") -> list[str | None]:
    with LabelFile(path, topics or [HOURS, CHAT], model) as file:
        return [file.label(ONE), file.label(TWO)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return filled(tmp_path / "t.labels.jsonl")


def test_labels_are_there_again(path: Path) -> None:
    assert labels(path) == ["hours", "oos"]
    assert path.stat().st_mode & 0o077 == 0  # it holds what users typed
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [(row["text"], row["topic"]) for row in rows] == [("Open?", "hours"), ("几点", "oos")]


def test_a_label_is_of_its_question(path: Path) -> None:
    nothing = [None, None]
    assert labels(path, [CHAT, HOURS]) == ["hours", "oos"]
    assert labels(path, [replace(HOURS, examples={Lang.EN: ("till when",)}), CHAT]) == ["hours", "oos"]
    assert labels(path, model="other") == nothing
    assert labels(path, [HOURS]) == nothing
    assert labels(path, [HOURS, replace(CHAT, title={"en": "Letters"})]) == nothing
    with LabelFile(path, [HOURS, CHAT], "m") as file:
        assert file.label(Said("open!", "open")) == "hours"  # the same in its normal form
    assert labels(path) == ["hours", "oos"]


@pytest.mark.parametrize("cut", [1, 2, 10, 60])
def test_what_a_crash_left_half_written_is_cut_off(path: Path, cut: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert labels(path) == ["hours", "oos" if cut == 1 else None]
    with LabelFile(path, [HOURS, CHAT], "m") as file:
        file.add({TWO: "oos"})
    assert labels(path) == ["hours", "oos"]
    assert set(path.read_bytes().splitlines()) == set(whole.splitlines())


def test_a_label_may_be_put_right_by_hand(path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace('"hours"', '"chat"'), "utf-8")
    assert labels(path) == ["chat", "oos"]
    path.write_text(path.read_text("utf-8").replace('"chat"', '"chatt"'), "utf-8")
    with pytest.raises(DeskError, match=r"t\.labels\.jsonl:1: there is no topic 'chatt'"):
        labels(path)


@pytest.mark.parametrize("line", ["[]", "{}", '{"key": 1, "topic": "oos"}', "{", '{"key": "a"}'])
def test_a_line_that_is_none_is_told(path: Path, line: str) -> None:
    path.write_text(f"{line}\n{path.read_text('utf-8')}", "utf-8")
    with pytest.raises(DeskError, match=r"t\.labels\.jsonl:1: "):
        labels(path)


def test_two_runs_do_not_pay_twice(path: Path) -> None:
    with LabelFile(path, [HOURS, CHAT], "m"), pytest.raises(DeskError, match="another run is labelling"):
        labels(path)
    assert labels(path) == ["hours", "oos"]


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(DeskError, match="cannot be written"):
        labels(tmp_path / "nowhere/t.labels.jsonl")
