"""What is written is what is read again, whole or not at all, and pleasant to read."""

import os
from pathlib import Path

import pytest
from brought import Bring
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge.cli import main
from edge.errors import DeskError
from edge.normaliser import Lang
from export.desk import DeskTopic
from export.desk_reader import load_desk
from export.importers.desk_folder import topic_yaml, write_desk
from export.importers.draft import Draft
from export.located import parse_yaml

TEXT = st.text(min_size=1, max_size=40).filter(str.strip)


def topic(*, examples: tuple[str, ...] = ("hi",), answer: str = "", title: str = "t") -> DeskTopic:
    answers = {Lang.EN: answer} if answer else {}
    return DeskTopic("t", {"en": title}, "answer" if answer else "agent", {Lang.EN: examples}, answers)


@settings(max_examples=200, deadline=None)
@given(TEXT, TEXT, TEXT)
@example("a: b # c", "- x\n# y\n---\n", "'")
@example("\ufeff\u2028\x85\x00", "a\u2028b", "\u00a0x")
@example("👩‍👩‍👧\U0010ffff", "a\n \nb", "\\")
@example("yes", "x\n\ty\n\n  z", "1.0")
def test_every_text_comes_back(said: str, answer: str, title: str) -> None:
    answer = answer.strip().replace("\r", "\n")
    if not answer:
        return
    [entry] = parse_yaml(topic_yaml(topic(examples=(said,), answer=answer, title=title)), Path("x"))
    assert entry["examples"] == {"en": [said]}
    assert entry["answer"]["en"].strip() == answer.strip()
    assert entry["title"] == title


def test_it_reads_like_a_desk_that_was_written_by_hand() -> None:
    written = topic_yaml(topic(examples=('say "hi"', "好的👍"), answer="# At 9\n\n  - daily", title="When?"))
    assert written == (
        '- id: "t"\n  title: "When?"\n  route: answer\n  examples:\n    en:\n'
        '      - "say \\"hi\\""\n      - "好的👍"\n'
        "  answer:\n    en: |\n      # At 9\n\n        - daily\n"
    )


def draft(*topics: DeskTopic) -> Draft:
    return Draft("d", (Lang.EN,), topics, (), (), (), ())


def test_the_folder_must_be_new_or_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_desk(draft(topic()), tmp_path / "empty")
    assert load_desk(tmp_path / "empty").topics[0].id == "t"
    for taken in (tmp_path / "empty", tmp_path / "empty/desk.yaml"):
        with pytest.raises(DeskError, match="choose a new one with -o"):
            write_desk(draft(topic()), taken)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DeskError, match="choose a new one with -o"):
        write_desk(draft(topic()), tmp_path / "link")
    with pytest.raises(DeskError, match="is no folder; choose another place with -o"):
        write_desk(draft(topic()), tmp_path / "empty/desk.yaml/below")
    write_desk(draft(topic()), tmp_path / "new/below")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "link", "new"]


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DeskError, match="No space left on device"):
        write_desk(draft(topic()), tmp_path / "desk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DeskError, match="Permission denied"):
        write_desk(draft(topic()), tmp_path / "desk")
    tmp_path.chmod(0o700)


def test_topics_of_one_group_share_a_file(bring: Bring, tmp_path: Path) -> None:
    names = ["faq/name", "faq/age", "shop.hours", "greet"]
    blocks = "".join(f"- intent: {n}\n  examples: |\n    - say {n[::-1]}\n" for n in names)
    bring("nlu.yml", f"nlu:\n{blocks}")
    assert sorted(path.name for path in (tmp_path / "desk/topics").iterdir()) == ["faq.yaml", "topics.yaml"]


def test_the_summary_says_what_there_is_and_what_is_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "faq.csv"
    path.write_text(
        "question,answer,x\nwhy\x1b[31m not,because,1\nwhy\x1b[31m not,it is,2\nhow,so,3\n", "utf-8"
    )
    assert main(["import", str(path), "-o", str(tmp_path / "desk")]) == 0
    out = capsys.readouterr().out
    assert "1 topics (1 answer, 0 agent)" in out
    assert "2  one question with several answers, so it is under none of them" in out
    assert "faq.csv:2: 'why\\x1b[31m not'" in out
    assert "\x1b" not in out
    assert out.splitlines()[-1] == f"Next: frontdesk check {tmp_path}/desk"


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["--encoding", "klingon"], "there is no encoding 'klingon'"),
        (["--encoding", "rot13"], "there is no encoding 'rot13'"),
        (["--encoding", "undefined"], "there is no encoding 'undefined'"),
        (["--eval-share", "1"], "expected a share from 0 to 0.9"),
        (["--eval-share", "nan"], "expected a share from 0 to 0.9"),
        (["--eval-share", "x"], "expected a share from 0 to 0.9"),
        (["--lang", "fr"], "invalid choice"),
        (["--format", "xml"], "invalid choice"),
    ],
)
def test_misuse_is_status_2(args: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["import", "x.csv", "-o", "desk", *args])
    assert caught.value.code == 2
    assert part in capsys.readouterr().err


def test_a_wrong_name_a_missing_file_and_a_folder_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "desk")]
    assert main(["import", "x.csv", *out, "--name", "云雀"]) == 2
    assert "--name '云雀' must match" in capsys.readouterr().err
    assert main(["import", str(tmp_path / "x.csv"), *out]) == 1
    assert "x.csv: there is no such file." in capsys.readouterr().err
    assert main(["import", str(tmp_path), *out]) == 1
    assert "cannot be read (Is a directory)" in capsys.readouterr().err
