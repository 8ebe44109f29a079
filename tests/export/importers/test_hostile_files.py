"""Whatever a file holds, reading it ends in a desk or in a sentence, never in a traceback."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.errors import FrontdeskError
from export.importers import FORMATS, read_material
from export.importers.draft import draft_desk

PIECES = st.sampled_from(
    ["question", "answer", ",", "\n", '"', "\t", ";", "|", "问题", '{"text": ', '"label": "a"', "}", "[", "]", "{",
     "nlu:\n", "- intent: ", "a\n", "  examples: |\n", "    - ", "responses:\n", "  utter_a:\n", "  - text: ", "&a ",
     "*a", "!!map ", "train", '"train": ', "null", "oos", "👍", "\x00", "\ufeff", "\u2028", "[a](b)", "7", " "]
)  # fmt: skip


@pytest.mark.parametrize("kind", ["auto", *FORMATS])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=40).map(lambda some: "".join(some).encode()))
)
def test_it_is_read_or_refused(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    told = ""
    try:
        assert draft_desk(read_material(path, kind), path, "d").topics
    except FrontdeskError as error:
        told = str(error)
    assert told.startswith(str(path)) or not told
