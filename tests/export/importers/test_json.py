"""JSON lines and CLINC's JSON: both shapes, splits, and files that are not what they say."""

import json

import pytest
from brought import Bring, Refuse

CLINC = {
    "train": [["how do I pay", "pay"], ["take my card", "pay"], ["where are you", "place"]],
    "val": [["can I pay cash", "pay"]],
    "test": [["what is your address", "place"]],
    "oos_train": [["sing me a song", "oos"]],
    "oos_val": [["who won the cup", "oos"]],
    "oos_test": [["boil an egg", "oos"]],
}


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def test_clinc_keeps_its_splits(bring: Bring) -> None:
    brought = bring("data.json", json.dumps(CLINC))
    assert brought.examples() == {"pay": ["how do I pay", "take my card"], "place": ["where are you"]}
    calibrate = [(q.text, q.topic, q.kind) for q in brought.desk.calibrate]
    assert calibrate == [
        ("can I pay cash", "pay", "in_scope"),
        ("sing me a song", "oos", "out_of_scope"),
        ("who won the cup", "oos", "out_of_scope"),
    ]
    assert [(q.text, q.topic) for q in brought.desk.test] == [
        ("what is your address", "place"),
        ("boil an egg", "oos"),
    ]


def test_both_shapes_of_lines_may_stand_in_one_file(bring: Bring) -> None:
    text = lines(
        {"question": "When do you open?", "answer": "At 9.", "variants": ["opening hours"], "lang": "en-US"},
        {"question": "谁在", "answer": None, "id": 7},
        {"text": "how do I pay", "intent": "pay", "split": "train"},
        {"text": "can I pay cash", "label": "pay", "split": "dev"},
        {"text": "sing me a song", "label": "OOS", "split": "test"},
        {"text": "and you?", "label": "pay", "history": ["hello"]},
        {"text": "wie geht es", "label": "pay", "lang": "de"},
    )
    brought = bring("faq.jsonl", text)
    assert list(brought.examples()) == ["when-do-you-open", "topic-01b75ef9", "pay"]
    assert [t.route for t in brought.desk.topics] == ["answer", "agent", "agent"]
    assert [q.text for q in brought.desk.calibrate] == ["can I pay cash"]
    assert [q.text for q in brought.desk.test if q.topic == "oos"] == ["sing me a song"]
    assert brought.left("a follow-up") == ["'and you?'"]
    assert brought.left("in another language") == ["'wie geht es'"]
    assert brought.left("a key that is not read") == ["'id'"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("{", "faq.jsonl:2: not valid JSON"),
        ("[1]", "faq.jsonl:2: expected a JSON object, got list."),
        ('{"a": "\\ud800"}', "faq.jsonl:2: not valid JSON"),
        ('{"a": 1}', "faq.jsonl:2: expected an object with 'question' (FAQ) or with 'text' and 'label'"),
        ('{"question": 1}', "faq.jsonl:2: 'question' must be a text"),
        ('{"question": " "}', "faq.jsonl:2: 'question' must be a text"),
        ('{"question": "a", "answer": []}', "faq.jsonl:2: 'answer' must be a text or null"),
        ('{"question": "a", "variants": "b"}', "faq.jsonl:2: 'variants' must be a list of texts"),
        ('{"question": "a", "variants": [1]}', "faq.jsonl:2: 'variants' must be a list of texts"),
        ('{"text": 1, "label": "b"}', "faq.jsonl:2: 'text' must be a text"),
        ('{"text": "a"}', "faq.jsonl:2: 'label' (or 'intent') must name"),
        ('{"text": "a", "label": 3}', "faq.jsonl:2: 'label' (or 'intent') must name"),
        ('{"text": "a", "label": "b", "split": "c"}', "faq.jsonl:2: 'split' must be one of train"),
        ('{"text": "a", "label": "b", "split": 1}', "faq.jsonl:2: 'split' must be one of train"),
        ('{"text": "a", "label": "b", "lang": 1}', "faq.jsonl:2: 'lang' must be zh or en"),
    ],
)
def test_a_wrong_line_is_named(refuse: Refuse, row: str, expected: str) -> None:
    assert refuse("faq.jsonl", lines({"text": "why", "label": "b"}) + row + "\n").startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "data.json:1: not valid JSON"),
        ("[]", "data.json:1: expected a JSON object with the splits"),
        ("[" * 100_000, "data.json: nested too deeply."),
        (f'{{"train": {"9" * 5000}}}', "data.json: not valid JSON"),
        ('{"train": [], "train": []}', "data.json: not valid JSON: the key 'train' stands twice"),
        ('{"rasa_nlu_data": {}}', "data.json: there are no texts; expected"),
        ('{"train": {"a": 1}}', "data.json: 'train' must be a list"),
        ('{"train": [["a"]]}', "data.json: train[0]: expected [text, intent]"),
        ('{"train": [["a", "b"], ["a", 1]]}', "data.json: train[1]: expected [text, intent]"),
        ('{"train": [["\\ud800", "b"]]}', "data.json: train[0]: expected [text, intent]"),
        ('{"test": [["a", "b"]]}', "data.json: nothing in this file can be an example of a topic."),
        ("question,answer\n", "data.json: what kind of file is this? Say it with --format"),
    ],
)
def test_json_that_is_something_else_is_refused(refuse: Refuse, text: str, expected: str) -> None:
    assert refuse("data.json", text).startswith(expected)


def test_a_file_of_held_out_questions_alone_is_told_what_helps(refuse: Refuse) -> None:
    told = refuse("x.jsonl", lines({"text": "how do I pay", "label": "pay", "split": "test"}))
    assert told.rstrip().endswith("Without its splits the import would hold out questions itself.")


def test_json_lines_are_recognised_by_their_first_line(bring: Bring) -> None:
    assert bring("data.json", lines({"text": "how do I pay", "label": "pay"})).examples() == {
        "pay": ["how do I pay"]
    }


def test_many_problems_are_told_in_a_screenful(refuse: Refuse) -> None:
    told = refuse("faq.jsonl", lines(*({"a": n} for n in range(100)))).splitlines()
    assert len(told) == 21
    assert told[-1] == "… and 80 more problems like these."
