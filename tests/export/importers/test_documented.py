"""The examples of docs/importing.md are imported as they stand."""

import re
from pathlib import Path

import pytest
from brought import Bring

PAGE = (Path(__file__).parents[3] / "docs/importing.md").read_text("utf-8")
EXAMPLES = dict(
    re.findall(r"^## (Rasa|CSV and TSV|JSON lines|CLINC)\n\n```\w+\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
)
EXPECTED = {
    "Rasa": ("nlu.yml", {"faq.opening_hours"}),
    "CSV and TSV": ("faq.csv", {"when-do-you-open"}),
    "JSON lines": ("faq.jsonl", {"when-do-you-open", "payment"}),
    "CLINC": ("data.json", {"payment"}),
}


@pytest.mark.parametrize("title", EXPECTED)
def test_an_example_of_the_page_is_imported(bring: Bring, title: str) -> None:
    name, topics = EXPECTED[title]
    brought = bring(name, EXAMPLES[title])
    assert set(brought.examples()) == topics
    assert brought.said["left_out"] == []
