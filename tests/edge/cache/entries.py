"""Entries, questions and clocks for the tests of the cache."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from edge.cache.cache import Question
from edge.cache.clock import Clock
from edge.cache.entry import Entry, entry_id
from edge.normaliser import Lang

DIM = 16
NOON = 1_796_115_600.0  # a day in December 2026


def vector_of(*near: float) -> np.ndarray:
    """A vector of length 1 with these first coordinates."""
    vector = np.zeros(DIM, np.float32)
    vector[: len(near)] = near
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def entry_of(question: str = "which phone", scope: str = "s", **fields: Any) -> Entry:
    values: dict[str, Any] = {
        "text": f"the answer to {question}",
        "tokens": 5,
        "topic": "agent.recommend",
        "lang": Lang.EN,
        "tags": ("agent",),
        "data_version": "",
        "bundle": "demo@1",
        "stored": NOON,
        "expires": None,
        "fill_ms": 1000.0,
        "vector": vector_of(1.0),
    }
    return Entry(entry_id(scope, question), scope, question, question, **{**values, **fields})


def question_of(normal: str = "which phone", scope: str = "s", **fields: Any) -> Question:
    values: dict[str, Any] = {
        "lang": Lang.EN,
        "topic": "agent.recommend",
        "tags": ("agent",),
        "bundle": "demo@1",
        "volatility": "static",
        "vector": vector_of(1.0),
    }
    return Question(entry_id(scope, normal), scope, normal, normal, **{**values, **fields})


@dataclass
class SetClock:
    """Clocks that a test sets."""

    wall: float = NOON
    mono: float = 1000.0

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.mono += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.mono)
