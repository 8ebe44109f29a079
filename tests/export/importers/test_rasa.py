"""Rasa's YAML: intents, entities, responses, and what is said of the rest."""

from pathlib import Path

import pytest
from brought import Bring, Refuse

NLU = """\
version: "3.1"
nlu:
- intent: greet
  examples: |
    - hey there
    - good morning to you
- intent: faq/ask_name
  examples: |
    - who are you
    - what is your name
- intent: book
  examples: |
    - book a table in [Paris](city) please
    - a room for [two]{"entity": "number", "value": "2"} people
    - from [Rome][{"entity": "city", "role": "from"}, {"entity": "place"}] by train
- synonym: two
  examples: |
    - 2
- regex: zip
  examples: |
    - \\d{5}
- lookup: city
  examples: |
    - Paris
"""
DOMAIN = """\
version: "3.1"
intents: [greet, faq, book]
responses:
  utter_greet:
  - text: "Hello!"
  - text: "Hi."
  - text: "你好！"
  utter_faq/ask_name:
  - text: |
      I am **Frontdesk**.
      Ask me anything.
  utter_book:
  - text: "Booked for {city}."
  - text: "Which one?"
    buttons: [{title: "A", payload: "/a"}]
  utter_default:
  - text: "Sorry?"
"""


def test_intents_become_topics_and_entities_plain_text(bring: Bring) -> None:
    brought = bring("nlu.yml", NLU, "--eval-share", "0")
    assert brought.examples() == {
        "faq.ask_name": ["who are you", "what is your name"],
        "greet": ["hey there", "good morning to you"],
        "book": ["book a table in Paris please", "a room for two people", "from Rome by train"],
    }
    assert {topic.route for topic in brought.desk.topics} == {"agent"}
    for kind in ("synonym", "regex", "lookup"):
        assert len(brought.left(f"{kind} blocks")) == 1


def test_responses_become_answers(bring: Bring, tmp_path: Path) -> None:
    (tmp_path / "domain.yml").write_text(DOMAIN, "utf-8")
    brought = bring("nlu.yml", NLU, "--answers", str(tmp_path / "domain.yml"))
    topics = {topic.id: topic for topic in brought.desk.topics}
    assert topics["faq.ask_name"].answer == {"en": "I am **Frontdesk**.\nAsk me anything."}
    assert topics["greet"].answer == {"en": "Hello!"}
    assert topics["book"].route == "agent"
    assert len(brought.left("another wording")) == 2
    assert brought.left("a response with slots") == ["'Booked for {city}.'"]
    assert brought.left("a response that is more than a text") == ["'book'"]
    assert brought.left("a response that bears no intent's name") == ["'utter_default'"]


def test_responses_of_the_same_file_are_read(bring: Bring) -> None:
    both = NLU + DOMAIN.partition("\n")[2]
    brought = bring("nlu.yml", both)
    assert brought.said["topics"] == {"answer": 2, "agent": 1}
    assert brought.left("a key that is not read") == ["'intents'"]


def test_a_fallback_keeps_the_agent(bring: Bring) -> None:
    text = "nlu:\n- intent: out_of_scope\n  examples: |\n    - sing a song\n"
    brought = bring("nlu.yml", text + 'responses:\n  utter_out_of_scope:\n  - text: "I cannot."\n')
    assert [topic.route for topic in brought.desk.topics] == ["agent"]
    assert brought.left("the response of a fallback") == ["'utter_out_of_scope'"]


def test_the_long_form_and_the_intent_oos(bring: Bring) -> None:
    text = """\
nlu:
- intent: pay
  examples:
  - text: |
      - how do I pay
    metadata: {sentiment: neutral}
  - text: pay by card
- intent: OOS
  examples: |
    - sing me a song
"""
    brought = bring("nlu.yaml", text, "--eval-share", "0")
    assert brought.examples() == {"pay": ["how do I pay", "pay by card"]}
    held = brought.desk.calibrate + brought.desk.test
    assert [(question.text, question.topic) for question in held] == [("sing me a song", "oos")]


def test_an_intent_in_two_blocks_is_one_and_in_two_cases_is_two(bring: Bring) -> None:
    text = "nlu:\n" + "".join(
        f"- intent: {name}\n  examples: |\n    - {said}\n"
        for name, said in [("Pay", "how do I pay"), ("pay", "take my card"), ("Pay", "who takes cash")]
    )
    brought = bring("nlu.yml", text)
    assert brought.examples() == {"pay-2": ["how do I pay", "who takes cash"], "pay": ["take my card"]}
    assert any("'Pay' and 'pay' differ in case only" in note for note in brought.said["notes"])


def test_an_intent_without_examples_and_a_line_without_a_dash_are_told(bring: Bring) -> None:
    text = "nlu:\n- intent: a\n- intent: b\n  examples: |\n    - how are you\n    lost\n    # aside\n"
    brought = bring("nlu.yml", text)
    assert brought.examples() == {"b": ["how are you"]}
    assert brought.left("a topic without any example left") == ["'a'"]
    assert brought.left("a line without '- '") == ["'lost'"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "nlu.yml:1: the file is empty."),
        ("- a\n", "nlu.yml:1: expected a mapping"),
        ("version: 3\n", "nlu.yml:1: expected a list under 'nlu'"),
        (
            DOMAIN,
            "nlu.yml:1: expected a list under 'nlu'; a file that has only responses goes with --answers",
        ),
        ("nlu: []\n", "nlu.yml: nothing in this file can be an example of a topic."),
        ("nlu:\n- intent: [a]\n", "nlu.yml:2: expected '- intent: NAME'"),
        ("nlu:\n- hello\n", "nlu.yml:2: expected '- intent: NAME'"),
        ("nlu:\n- intent: a\n  examples: 5\n", "nlu.yml:3: 'examples' must be a block"),
        ("nlu:\n- intent: a\n  examples:\n  - {a: b}\n", "nlu.yml:4: an example must be a text"),
        ("nlu:\n- intent: a\n  examples: |\n    - b\nresponses: [a]\n", "nlu.yml:5: 'responses' must map"),
        (
            "nlu:\n- intent: a\n  examples: |\n    - b\nresponses: {utter_a: x}\n",
            "nlu.yml:5: 'utter_a' must hold a list",
        ),
        ("nlu: [\n", "nlu.yml:2: not valid YAML"),
        ("nlu:\n- &a [x]\n- *a\n", "nlu.yml:3: not valid YAML: an alias (*name) is not read here"),
        ("nlu: " + "[" * 5000, "nlu.yml:1: not valid YAML: nested more than 50 levels deep"),
        ("nlu:\n- !!python/object/apply:os.system [x]\n", "nlu.yml:2: not valid YAML"),
        ("nlu:\n- intent: 名\n".encode("gbk"), "nlu.yml:2: not UTF-8 (byte 15); if it is Chinese text"),
    ],
)
def test_what_is_no_rasa_file_is_refused_with_its_line(
    refuse: Refuse, text: str | bytes, expected: str
) -> None:
    assert refuse("nlu.yml", text).startswith(expected)


def test_a_bomb_of_aliases_is_refused_at_once(refuse: Refuse) -> None:
    bomb = 'a: &a ["lol"]\n' + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
        for old, new in zip("abcdefg", "bcdefgh", strict=True)
    )
    assert refuse("nlu.yml", bomb + "nlu: *h\n").startswith("nlu.yml:2: not valid YAML: an alias")


def test_answers_go_with_rasa_only(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "domain.yml").write_text("a: 1\n")
    answers = ("--answers", str(tmp_path / "domain.yml"))
    assert refuse("faq.csv", "question\nwhy\n", *answers, status=2).startswith(
        "--answers goes with Rasa files"
    )
    assert refuse("nlu.yml", NLU, *answers).startswith("domain.yml:1: there are no 'responses'")
