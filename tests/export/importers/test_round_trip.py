"""A desk written out in a format and imported again keeps every text, and large files are no trouble."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from brought import Bring

from edge.cli import main
from edge.normaliser import Normaliser
from export.desk import Desk
from export.desk_reader import load_desk
from export.importers import FORMATS

DEMO = Path(__file__).parents[3] / "examples/desk"


@pytest.fixture(scope="module")
def demo() -> Desk:
    """The demo desk without the few texts that are in no language of ours: importers leave such out."""
    desk, normaliser = load_desk(DEMO), Normaliser()

    def ours(text: str) -> bool:
        return normaliser.lang(normaliser.reading(text)) is not None

    topics = tuple(
        replace(t, examples={lang: tuple(filter(ours, some)) for lang, some in t.examples.items()}, places={})
        for t in desk.topics
    )
    calibrate, test = (tuple(q for q in some if ours(q.text)) for some in (desk.calibrate, desk.test))
    return replace(desk, topics=topics, calibrate=calibrate, test=test)


def texts(desk: Desk) -> dict[str, list[str]]:
    return {t.id: sorted(text for some in t.examples.values() for text in some) for t in desk.topics}


def test_json_lines_keep_the_demo_desk_with_its_questions(bring: Bring, demo: Desk) -> None:
    rows = [
        {"text": text, "label": t.id, "lang": lang, "split": "train"}
        for t in demo.topics
        for lang, some in t.examples.items()
        for text in some
    ]
    for split, questions in (("valid", demo.calibrate), ("test", demo.test)):
        rows += [
            {"text": q.text, "label": q.topic, "lang": q.lang, "split": split}
            for q in questions
            if not q.history
        ]
    brought = bring("demo.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    assert brought.said["left_out"] == []
    assert texts(brought.desk) == texts(demo)
    for new, old in ((brought.desk.calibrate, demo.calibrate), (brought.desk.test, demo.test)):
        asked = [(q.text, q.topic) for q in old if not q.history]
        assert [(q.text, q.topic) for q in new] == asked


def test_rasa_keeps_the_demo_desk_with_its_answers(bring: Bring, demo: Desk) -> None:
    blocks = [
        {"intent": t.id, "examples": [{"text": text} for some in t.examples.values() for text in some]}
        for t in demo.topics
    ]
    responses = {
        f"utter_{t.id}": [{"text": text} for text in t.answer.values()] for t in demo.topics if t.answer
    }
    data = {"version": "3.1", "nlu": blocks, "responses": responses}
    brought = bring("nlu.yml", yaml.safe_dump(data, allow_unicode=True), "--eval-share", "0")
    assert brought.said["left_out"] == []
    assert texts(brought.desk) == texts(demo)
    answers = {t.id: t.answer for t in demo.topics}
    assert {t.id: t.answer for t in brought.desk.topics} == answers


def test_a_table_keeps_every_question_and_answer(bring: Bring, demo: Desk) -> None:
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["question", "answer", "variants"])
    written = {}
    for t in demo.topics:
        for lang, answer in t.answer.items():
            first, *others = t.examples[lang]
            writer.writerow([first, answer, "".join(f"{text}\n" for text in others)])
            written[first] = (sorted([first, *others]), answer)
    brought = bring("faq.csv", table.getvalue(), "--eval-share", "0")
    assert brought.said["left_out"] == []
    found = {
        t.title["en"]: (sorted(x for some in t.examples.values() for x in some), *t.answer.values())
        for t in brought.desk.topics
    }
    assert found == written


def test_clinc_keeps_the_demo_desk(bring: Bring, demo: Desk) -> None:
    rows = [[text, t.id] for t in demo.topics for some in t.examples.values() for text in some]
    brought = bring("data.json", json.dumps({"train": rows}), "--eval-share", "0")
    assert texts(brought.desk) == texts(demo)


def test_what_was_imported_can_be_imported_again(bring: Bring, tmp_path: Path) -> None:
    text = "question,answer,variants\n几点开门 😀?,九点,早上什么时候营业|你们多早开|周末呢\nhow,so,which way|by what means\n"
    first = bring("faq.csv", text).desk
    rows = [
        {"text": x, "label": t.id, "split": "train"}
        for t in first.topics
        for s in t.examples.values()
        for x in s
    ]
    rows += [{"text": q.text, "label": q.topic, "split": "test"} for q in first.calibrate + first.test]
    (tmp_path / "again.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = ["import", str(tmp_path / "again.jsonl"), "-o", str(tmp_path / "again"), "--eval-share", "0"]
    assert main(args) == 0
    again = load_desk(tmp_path / "again")
    assert texts(again) == texts(first)
    assert {q.text for q in again.test} == {q.text for q in first.calibrate + first.test}


def test_two_thousand_topics(bring: Bring) -> None:
    names = [f"{chr(0x4E00 + n)}{chr(0x5E00 + n)}😀" if n % 2 else f"Topic {n * 7919:x}" for n in range(2000)]
    rows = [{"question": name, "answer": f"**{n}**\n{name}"} for n, name in enumerate(names)]
    brought = bring("faq.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert len({t.id for t in brought.desk.topics}) == 2000
    assert sorted(t.title["zh"] for t in brought.desk.topics) == sorted(names)
    assert all(len(t.answer) == 1 for t in brought.desk.topics)


def test_the_command_offers_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    assert f"auto,{','.join(FORMATS)}" in capsys.readouterr().out
