"""Traffic as it is read: what is met once, what is left out, and what must never be learnt."""

import json
from pathlib import Path

import pytest

from edge.errors import DeskError
from edge.normaliser import Lang, Normaliser
from export.desk import Desk, DeskTopic, Question
from export.traffic import Taught, read_traffic

TOPICS = (DeskTopic("hours", {}, "agent", {Lang.EN: ("when do you open",)}, {}),)
DESK = Desk(Path(), "d", (Lang.EN, Lang.ZH), TOPICS)


def texts(path: Path, content: str | bytes, desk: Desk = DESK) -> tuple[list[str], dict[str, int]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    traffic = read_traffic(path, desk, Normaliser())
    return [one.text for one in traffic.said], dict(traffic.left)


def lines(*rows: object) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traffic.jsonl"


def test_plain_lines_and_json_lines(path: Path) -> None:
    assert texts(path, "\ufeffopen today?\r\n\r\n 几点开门 \n") == (["open today?", "几点开门"], {})
    rows = lines({"text": "open today?", "lang": "en", "id": 1}, {"text": "几点开门", "lang": None})
    assert texts(path, rows) == (["open today?", "几点开门"], {})


def test_a_text_is_met_once(path: Path) -> None:
    assert texts(path, "Open today?\nopen  today\n打 開\nopen tonight\n") == (
        ["Open today?", "打 開", "open tonight"],
        {"repeated": 1},
    )


def test_what_is_left_out(path: Path) -> None:
    rows = lines(
        {"text": " "},
        {"text": "a" * 2048},
        {"text": "b" * 2049},
        {"text": "открыто?"},
        {"text": "1024", "lang": "en"},
        {"text": "2048"},
        {"text": "4096", "lang": "fr"},
    )
    left = {"empty": 1, "longer than 2,048 characters": 1, "in no language of the desk": 3}
    assert texts(path, rows) == (["a" * 2048, "1024"], left)
    english = Desk(Path(), "d", (Lang.EN,), TOPICS)
    assert texts(path, "open\n几点\n", english) == (["open"], {"in no language of the desk": 1})


def test_held_out_questions_are_never_learnt(path: Path) -> None:
    held = [Question("do you have parking spaces", "oos", Lang.EN), Question("那第二个呢", "oos", Lang.ZH)]
    desk = Desk(Path(), "d", DESK.languages, TOPICS, calibrate=tuple(held[:1]), test=tuple(held[1:]))
    content = "Do you have a parking space?\n那第二个呢？\ndo you have bread\n"
    reason = "held-out questions, or nearly: never trained on"
    assert texts(path, content, desk) == (["do you have bread"], {reason: 2})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ":1: there are no texts"),
        (" \n\n", ":1: there are no texts"),
        ('{"text": "a"}\nplain\n', ":2: not valid JSON"),
        ('{"text": 1}\n{"text": "a", "lang": 2}\n', ":1: 'text' must be a text, got 1.\n"),
        ('{"question": "a"}\n', ":1: 'text' must be a text, got None."),
        ("几点".encode("gb18030"), ":1: not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read(path: Path, content: str | bytes, problem: str) -> None:
    with pytest.raises(DeskError) as caught:
        texts(path, content)
    assert str(caught.value).startswith(f"{path}{problem}")


def test_a_missing_file(path: Path) -> None:
    with pytest.raises(DeskError, match="the file is missing"):
        read_traffic(path, DESK, Normaliser())


def test_what_judges_is_not_learnt_either() -> None:
    taught = Taught((("open at night", 0), ("any shoes", 1)), ("sing a song", "who won"), "m")
    kept = taught.away_from(["Open at night?", "sing a song!", "who wins the cup"], Normaliser())
    assert kept == Taught((("any shoes", 1),), ("who won",), "m")
    assert taught.away_from([], Normaliser()) == taught
    assert taught
    assert not Taught()
