"""The isolate decides as the Python server does: the golden rows, run against both (docs/worker.md states the rule)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from golden import golden, without_tools
from isolates import BUILD, PROBE, Isolate, workerd
from servers import open_client

from edge.decision import Decision
from edge.pipeline import Pipeline

JSON = {"content-type": "application/json"}
# What INT8 rounding, which cascades, may make of one score on another processor.
BAND = 0.15
MOST_DIFFERENT = 0.005
BATCH = 256
DECIDED = ("path", "reason", "topic", "exit", "lang", "unproven")

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows(demo: Pipeline) -> list[Row]:
    return list(golden(without_tools(demo)))


@pytest.fixture(scope="module")
def isolate() -> Iterator[Isolate]:
    with workerd(BUILD) as isolate:
        yield isolate


def posted(isolate: Isolate, path: str, body: Any) -> Any:
    with open_client(isolate.url) as client:
        response = client.post(path, content=json.dumps(body).encode(), headers=JSON, timeout=120)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture(scope="module")
def theirs(rows: list[Row], isolate: Isolate) -> list[Row]:
    """What the isolate decides on each row."""
    found: list[Row] = []
    for at in range(0, len(rows), BATCH):
        batch = [row["input"] for row in rows[at : at + BATCH]]
        found += posted(isolate, "/v1/classify", {"input": batch})["data"]
    return found


def test_there_are_enough_rows_of_every_kind(rows: list[Row]) -> None:
    assert len(rows) > 2000
    assert sum(isinstance(row["input"], dict) for row in rows) > 300
    for path in ("faq", "agent"):
        assert sum(row["row"]["path"] == path for row in rows) > 300
    assert {row["row"]["exit"] for row in rows} == {None, 0, 2, 4}


def test_every_row_has_the_same_token_ids(rows: list[Row]) -> None:
    with workerd(PROBE) as probe:
        texts = [row["normal"] for row in rows]
        found = posted(probe, "/", {"call": "tokens", "rows": texts})
    different = [row["normal"] for row, (ids, _) in zip(rows, found, strict=True) if ids != row["ids"]]
    assert different == []
    assert all(inner == len(ids) - 2 for ids, inner in found)


def test_rows_are_decided_alike(rows: list[Row], theirs: list[Row], demo: Pipeline) -> None:
    different = []
    for row, their in zip(rows, theirs, strict=True):
        ours = row["row"]
        if all(their[name] == ours[name] for name in DECIDED):
            assert [hit["name"] for hit in their["guards"]] == [hit["name"] for hit in ours["guards"]] or is_close(ours, their)
            if their["topic"] == ours["topic"]:
                assert their["tools"] == ours["tools"], row["input"]
            continue
        different.append(shown(row, their))
        if ours["path"] == their["path"] == "faq":
            assert ours["topic"] == their["topic"], f"two different local answers: {different[-1]}"
        assert is_close(ours, their), f"outside the band: {different[-1]}"
        assert ours["exit"] == their["exit"] == 4, f"no INT8 product explains this: {different[-1]}"
    for line in different:
        print(line)
    assert len(different) <= MOST_DIFFERENT * len(rows), different


def is_close(ours: Row, theirs: Row) -> bool:
    """Whether both hosts' scores lie within the band of each other, so that rounding explains a difference."""
    names = ("confidence", "in_scope", "needs_context", "margin")
    return all(abs(ours[name] - theirs[name]) <= BAND for name in names)


def shown(row: Row, theirs: Row) -> str:
    facts = ("path", "reason", "topic", "exit", "confidence", "in_scope", "needs_context", "margin")
    ours = row["row"]
    return f"{row['normal'][:80]!r}: {[ours[f] for f in facts]} in Python, {[theirs[f] for f in facts]} in the isolate"


def test_what_leaves_at_the_first_exit_is_equal_to_the_last_digit_of_a_float(
    rows: list[Row], theirs: list[Row]
) -> None:
    """No quantised product lies before it."""
    early = [(row["row"], their) for row, their in zip(rows, theirs, strict=True) if row["row"]["exit"] == 0]
    assert len(early) > 200
    for ours, their in early:
        for name in ("confidence", "in_scope", "needs_context", "margin"):
            assert their[name] == pytest.approx(ours[name], abs=3e-6)
        assert [c["topic"] for c in their["candidates"]] == [c["topic"] for c in ours["candidates"]]


def test_a_row_holds_the_same_fields(rows: list[Row], theirs: list[Row]) -> None:
    assert isinstance(rows[0]["decision"], Decision)
    for row, their in zip(rows, theirs, strict=True):
        assert set(their) == {*row["row"], "timing_ms"}
