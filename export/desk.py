"""The operator's source folder as frozen values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from edge.normaliser import Lang, Normaliser
from edge.query import Query, Turn

TOPIC_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
DESK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}")  # it becomes a header's value
ROUTES = ("answer", "tool", "agent")
OUT_OF_SCOPE = "oos"
FOLLOW_UP = "follow_up"  # the kind of a question that needs its history: no answer to it can be right
STRATA = ("in_scope", "out_of_scope", FOLLOW_UP)


@dataclass(frozen=True, slots=True)
class Risk:
    """At most ``max_wrong`` of the local answers may be wrong, at ``confidence``."""

    max_wrong: float = 0.01
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class DeskTopic:
    """A topic with its examples; ``where`` is ``file:line``.

    ``template``: how the results of a tool topic's tools are told, where they are the answer. ``places`` are
    those of the examples, ``file:line``, one each; empty where they were not read from files.
    """

    id: str
    title: Mapping[str, str]
    route: str
    examples: Mapping[Lang, tuple[str, ...]]
    answer: Mapping[Lang, str]
    group: str | None = None
    valid_until: date | None = None
    volatility: str = "static"
    tags: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    template: Mapping[Lang, str] = field(default_factory=dict)
    max_wrong: float | None = None
    where: str = ""
    places: Mapping[Lang, tuple[str, ...]] = field(default_factory=dict)

    @property
    def answerable(self) -> frozenset[Lang]:
        """The languages in which an answer can be given here, all of them under the stated rate.

        A curated answer, or a template that the topic's tools fill: a desk loads only where each of them may
        be called for an answer.
        """
        texts = {"answer": self.answer, "tool": self.template}
        return frozenset(texts.get(self.route, ()))

    def where_of(self, lang: Lang, place: int) -> str:
        """``file:line`` of the example at a place of a language; the topic's own where it has no line."""
        places = self.places.get(lang, ())
        return places[place] if place < len(places) else self.where


@dataclass(frozen=True, slots=True)
class Question:
    """A held-out question. ``topic`` is a topic id or ``oos``.

    ``kind`` is free, for the tables, but for ``follow_up``: such a turn needs its history.
    """

    text: str
    topic: str
    lang: Lang
    kind: str = ""
    history: tuple[Turn, ...] = ()
    where: str = ""

    @property
    def stratum(self) -> str:
        """Which part of the traffic it stands for, one of STRATA."""
        if self.kind == FOLLOW_UP:
            return FOLLOW_UP
        return "out_of_scope" if self.topic == OUT_OF_SCOPE else "in_scope"

    def query(self, normaliser: Normaliser) -> Query:
        """The query that the server would make of this question."""
        return Query.of_text(self.text, normaliser, self.history)


@dataclass(frozen=True, slots=True)
class Desk:
    """The whole source folder.

    ``traffic``: the shares of STRATA that the stated risk holds for; without any, as the calibration
    questions are. ``groups``: groups of topics with the rate that each states. ``out_of_scope``: examples of
    what is no topic's.
    """

    folder: Path
    name: str
    languages: tuple[Lang, ...]
    topics: tuple[DeskTopic, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    risk: Risk = Risk()
    traffic: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, float] = field(default_factory=dict)
    out_of_scope: tuple[str, ...] = ()
    public: bool = False
    unproven: str = "forward"
    system_prompts: str | tuple[str, ...] = "any"
    calibrate: tuple[Question, ...] = ()
    test: tuple[Question, ...] = ()
