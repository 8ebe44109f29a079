"""What becomes of texts: languages, conflicts, repeats, held-out sides."""

import json
from collections import Counter

import pytest
from brought import Bring, Refuse

from edge.normaliser import Lang
from export.near import near_pairs


def rows(*texts: tuple[str, str] | tuple[str, str, str]) -> str:
    keys = ("label", "text", "split")
    return "".join(json.dumps(dict(zip(keys, row, strict=False))) + "\n" for row in texts)


def test_a_text_under_two_topics_is_in_neither_and_said(bring: Bring) -> None:
    text = rows(
        ("a", "hello there"), ("b", "Hello there!"), ("a", "good day"), ("b", "see you"),
        ("c", "GOOD DAY"), ("d", "sing me a song"), ("oos", "sing me a song"),
    )  # fmt: skip
    brought = bring("x.jsonl", text)
    assert brought.examples() == {"b": ["see you"]}
    told = brought.left("a conflict")
    assert len(told) == 6
    assert told[0] == "'hello there' is in 'a' and 'b'"
    assert brought.left("a topic without any example left") == ["'a'", "'c'", "'d'"]


def test_one_example_is_never_held_out(bring: Bring) -> None:
    text = rows(("a", "what time is it"), ("b", "who sings that song"), ("b", "fetch my umbrella"))
    brought = bring("x.jsonl", text, "--eval-share", "0.9")
    assert len(brought.examples()["a"]) == len(brought.examples()["b"]) == 1
    assert len(brought.desk.calibrate + brought.desk.test) == 1


def test_nothing_usable_is_refused_with_the_reasons(refuse: Refuse) -> None:
    told = refuse("x.jsonl", rows(("a", "?!"), ("b", "привет"), ("oos", "sing me a song")))
    assert told.startswith("x.jsonl: nothing in this file can be an example of a topic.")
    assert "1 times: nothing but space or punctuation." in told


def test_texts_that_cannot_be_read_are_left_out(bring: Bring) -> None:
    text = rows(
        ("a", "hello"), ("a", "…"), ("a", "こんにちは"), ("a", "привет"), ("a", "x" * 2049), ("a", "HELLO!")
    )
    brought = bring("x.jsonl", text)
    assert brought.examples() == {"a": ["hello"]}
    assert brought.left("nothing but space") == ["'…'"]
    assert brought.left("neither Chinese nor English letters") == ["'こんにちは'", "'привет'"]
    assert len(brought.left("longer than 2,048 characters")) == 1
    assert brought.left("the same text again") == ["'HELLO!'"]


def test_the_language_is_that_of_the_letters_and_without_letters_the_topics(bring: Bring) -> None:
    text = rows(("a", "你好"), ("a", "👍🏽"), ("a", "1024"), ("a", "hello"), ("a", "您好啊"))
    brought = bring("x.jsonl", text, "--eval-share", "0")
    [topic] = brought.desk.topics
    assert topic.examples == {Lang.EN: ("hello",), Lang.ZH: ("你好", "👍🏽", "1024", "您好啊")}
    assert topic.title == {"en": "a", "zh": "a"}


def test_one_language_may_be_asked_for(bring: Bring) -> None:
    text = rows(("a", "你好"), ("a", "1024"), ("a", "hello"), ("b", "good bye"))
    brought = bring("x.jsonl", text, "--eval-share", "0", "--lang", "zh", "--name", "My desk")
    assert (brought.desk.languages, brought.desk.name) == (("zh",), "My desk")
    assert brought.examples() == {"a": ["你好", "1024"]}
    assert brought.left("not in the language of --lang zh") == ["'hello' (en)", "'good bye' (en)"]


def test_a_few_stray_texts_of_a_language_are_noted(bring: Bring) -> None:
    brought = bring("x.jsonl", rows(("a", "hello"), *(("a", chr(0x4E00 + n) * 4) for n in range(40))))
    assert any("--lang zh leaves them out" in note for note in brought.said["notes"])


def test_given_splits_are_kept_and_what_was_trained_on_is_not_asked(bring: Bring) -> None:
    text = rows(
        ("a", "hello", "train"), ("a", "good day", "train"), ("a", "Hello.", "test"), ("a", "hi you", "valid"),
        ("a", "hi you", "test"), ("b", "never seen", "test"),
    )  # fmt: skip
    brought = bring("x.jsonl", text)
    assert brought.examples() == {"a": ["hello", "good day"]}
    assert [q.text for q in brought.desk.test] == ["hi you"]
    assert brought.left("a held-out question that is among the train texts") == ["'Hello.'"]
    assert brought.left("a held-out question that is among the test texts") == ["'hi you'"]
    assert brought.left("a test question whose topic has no example") == ["'never seen'"]


@pytest.mark.parametrize("split", [(), ("train",)])
def test_a_share_is_held_out_where_no_side_is_given(bring: Bring, split: tuple[str, ...]) -> None:
    text = rows(*((topic, f"{topic} {word * 3} {word}", *split) for topic in "ab" for word in WORDS))
    brought = bring("x.jsonl", text)
    assert {len(texts) for texts in brought.examples().values()} == {20}
    sides = Counter(q.topic for q in brought.desk.calibrate), Counter(q.topic for q in brought.desk.test)
    assert sides[0] + sides[1] == {"a": 5, "b": 5}
    assert all(sides)


def test_a_side_that_is_given_is_not_cut_again(bring: Bring) -> None:
    text = rows(
        *(("a", f"{word * 3} {word}", "train") for word in WORDS), ("a", "quite another thing", "test")
    )
    brought = bring("x.jsonl", text)
    assert [q.text for q in brought.desk.test] == ["quite another thing"]
    assert len(brought.desk.calibrate) == 3


def test_near_duplicates_stay_on_one_side(bring: Bring) -> None:
    near = [f"{word} {word} {word}{end}" for word in WORDS for end in ("", "s", " please")]
    brought = bring("x.jsonl", rows(*(("a", text) for text in near)), "--eval-share", "0.4")
    sides = dict.fromkeys(brought.examples()["a"], "train")
    sides |= {q.text: "calibrate" for q in brought.desk.calibrate} | {
        q.text: "test" for q in brought.desk.test
    }
    assert len(sides) == len(near)
    assert Counter(sides.values())["train"] < len(near)
    assert all(sides[near[i]] == sides[near[j]] for i, j in near_pairs(near))


WORDS = [
    "amber", "brick", "cedar", "dwarf", "ember", "flint", "grape", "hazel", "ivory", "joker", "knead", "lemon",
    "mango", "nylon", "ocean", "pearl", "quilt", "raven", "sugar", "tulip", "umber", "vivid", "wheat", "xenon",
    "yacht",
]  # fmt: skip
