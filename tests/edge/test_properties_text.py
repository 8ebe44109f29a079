"""Any hints come back, any header is hints or refused, any text and body can be read and decided on."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from spelled import MESSAGES, OPTIONS, PLACES, Hold, Members, cut, spell

from edge.classify import row
from edge.hints import MAX_HEADER_BYTES, Hints, HintsError, format_hints, parse_hints
from edge.pipeline import Pipeline
from edge.query import Query

# --- hints -----------------------------------------------------------------------------------------

WORDS = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["a\r\nx: 1", '"', "\\", "%", "?1", "()", "@5"]
)
CONFIDENCES = st.floats(0, 1)
HINTS = st.builds(
    Hints,
    topic=st.none() | WORDS,
    confidence=st.none() | CONFIDENCES,
    top=st.lists(st.tuples(WORDS, CONFIDENCES), max_size=3).map(tuple),
    lang=st.none() | WORDS,
    reason=st.none() | WORDS,
    tools=st.lists(WORDS, max_size=40).map(tuple),
    slots=st.dictionaries(WORDS, st.booleans() | st.integers(-999, 999) | WORDS, max_size=9),
    complexity=st.none() | WORDS,
    length=st.none() | WORDS,
    tier=st.none() | WORDS,
    budget_ms=st.none() | st.integers(-(10**15) + 1, 10**15 - 1),
    bundle=st.none() | WORDS,
)


def test_any_hints_come_back_but_for_the_fourth_place(hold: Hold) -> None:
    """Lone surrogates, which UTF-8 cannot carry, come back as question marks."""

    def plain(text: Any) -> Any:
        return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text

    def rule(hints: Hints) -> None:
        header = format_hints(hints)
        assert len(header.encode("ascii")) <= MAX_HEADER_BYTES
        assert header.isprintable()
        back = parse_hints(header)
        assert parse_hints(format_hints(back)) == back
        if len(header) > MAX_HEADER_BYTES / 2:
            return  # something may have been dropped
        names = ("topic", "lang", "reason", "complexity", "length", "tier", "bundle")
        words = {name: plain(getattr(hints, name)) for name in names}
        tools, top = tuple(map(plain, hints.tools)), tuple((plain(t), c) for t, c in hints.top)
        slots = {plain(name): plain(value) for name, value in hints.slots.items()}
        assert replace(back, confidence=None, top=()) == replace(
            hints, **words, tools=tools, slots=slots, confidence=None, top=()
        )
        assert [topic for topic, _ in back.top] == [topic for topic, _ in top]
        pairs = [(was, got) for (_, was), (_, got) in zip(top, back.top, strict=True)]
        if hints.confidence is not None and back.confidence is not None:
            pairs.append((hints.confidence, back.confidence))
        assert all(got <= was < got + 0.0011 for was, got in pairs), pairs

    hold(rule, HINTS, 300)


def test_any_header_is_hints_or_refused(hold: Hold) -> None:
    def rule(given: tuple[Hints, bytes, list[int], str]) -> None:
        hints, junk, places, anything = given
        pieces = cut(format_hints(hints).encode(), places)
        for header in (
            junk.decode("latin-1"),
            anything,
            junk.join(pieces).decode("latin-1"),
            pieces[0].decode(),
        ):
            with suppress(HintsError):
                assert isinstance(parse_hints(header), Hints)
            with suppress(HintsError):
                parse_hints("v=1, " + header)

    anything = st.text(st.characters(), max_size=30) | st.text('v=1,;()"\\%?:@-. ab2é\t', max_size=30)
    hold(rule, st.tuples(HINTS, st.binary(max_size=6), PLACES, anything), 300)


# --- texts -----------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(st.characters(), max_size=60),
    st.text(
        "零〇一两三十百千万半几天个点0123456789.,: hundredseven不没別請問後門?？ \u0301\ud800ßŉİ", max_size=60
    ),
    st.builds(
        lambda piece, times, end: piece * times + end,
        st.text(st.characters(), min_size=1, max_size=4) | st.text("一〇9万半.,:", min_size=1, max_size=2),
        st.integers(1, 700),
        st.sampled_from(["", "天", " day", "半"]),
    ),
)


def test_any_text_is_read_the_same_twice(hold: Hold, demo: Pipeline) -> None:
    normaliser = demo.runtime.bundle.normaliser

    def rule(text: str) -> None:
        once = normaliser.reading(text)
        assert normaliser.reading(once) == once
        assert normaliser.lang(once) in ("zh", "en", None)
        key = normaliser.exact(once)
        assert normaliser.exact(normaliser.reading(key)) == key
        once.encode()

    hold(rule, TEXTS, 300)


def test_any_text_can_be_guarded(hold: Hold, demo: Pipeline) -> None:
    bundle = demo.runtime.bundle

    def rule(text: str) -> None:
        for normal in (bundle.normaliser.reading(text), text):
            bundle.guards.wordings(normal, in_dialogue=True)
            for topic in bundle.topics[::8]:
                bundle.guards.mismatches(normal, topic.id)

    hold(rule, TEXTS, 300)


@pytest.mark.parametrize("text", ["半一天", "年假能请半一天吗", "我想分一半一次付", "一" * 320 + "半天"])
def test_a_half_within_a_numeral_or_after_a_huge_one_can_be_guarded(demo: Pipeline, text: str) -> None:
    demo.runtime.bundle.guards.signals_of(text)


def test_any_body_can_be_decided_on(hold: Hold, demo: Pipeline) -> None:
    normaliser = demo.runtime.bundle.normaliser

    def rule(given: tuple[list[Members], list[tuple[str, Any]], str, str]) -> None:
        messages, options, text, identity = given
        body = Members([*options, ("messages", messages)])
        data = json.loads(spell(body, iter(lambda: "", 1), iter(lambda: "raw", 1)))
        data["messages"].append({"role": "user", "content": text})
        query = Query.of_body(data, normaliser, identity)
        assert len(query.normal) <= 20 * 2048
        decision = row(demo, query)
        assert decision["path"] in ("faq", "agent")
        json.dumps(decision)

    asked = st.tuples(st.lists(MESSAGES, max_size=4), OPTIONS, TEXTS, st.text(st.characters(), max_size=9))
    hold(rule, asked, 200)
