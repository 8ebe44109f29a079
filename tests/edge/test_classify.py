"""``POST /v1/classify``: the decision and its evidence, never an upstream call."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from servers import Desk, Relay

KEYS = {
    "path", "reason", "topic", "confidence", "margin", "lang", "in_scope", "needs_context", "exit", "unproven",
    "candidates", "guards", "tools", "observed", "timing_ms",
}  # fmt: skip


@pytest.fixture(scope="module")
def local(desk: Desk) -> Iterator[Relay]:
    with desk() as relay:
        yield relay


def classify(local: Relay, value: Any) -> httpx2.Response:
    return httpx2.post(f"{local.url}/v1/classify", json={"input": value})


def test_one_text(local: Relay) -> None:
    response = classify(local, "at what hour must i be in the office")
    [row] = response.json()["data"]
    assert set(row) == KEYS
    assert row["topic"] == row["candidates"][0]["topic"]
    assert row["candidates"][0]["confidence"] == row["confidence"]
    assert response.json()["bundle"].startswith("demo@")


def test_many_texts_keep_their_order(local: Relay) -> None:
    rows = classify(local, ["公司几点上班？", "translate: what time do we start", ""]).json()["data"]
    assert [row["path"] for row in rows] == ["faq", "agent", "agent"]
    assert rows[0]["reason"] == "exact"
    assert (rows[0]["confidence"], rows[0]["in_scope"]) == (1.0, None)
    assert rows[1]["guards"][0]["name"] == "embedded_task"


def test_conversations(local: Relay) -> None:
    messages = [
        {"role": "user", "content": "几点上班"},
        {"role": "assistant", "content": "9:30"},
        {"role": "user", "content": "那周末呢"},
    ]
    [row] = classify(local, [{"messages": messages}]).json()["data"]
    assert (row["path"], row["reason"]) == ("agent", "needs_context")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "missing_required_parameter"),
        ([], "invalid_type"),
        (7, "invalid_type"),
        ([7], "invalid_request"),
        ([{"messages": []}], "invalid_type"),
        ([{}], "missing_required_parameter"),
        (["x"] * 257, "invalid_request"),
    ],
)
def test_bad_input_is_named(local: Relay, value: Any, code: str) -> None:
    response = classify(local, value)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == code
