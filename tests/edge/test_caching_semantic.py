"""The semantic tier in the path of a turn, with the demo's own guard of pairs: what shares an answer, what never."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from servers import Desk, Relay, ScriptedUpstream, completion, json_answer, open_client

from edge.bundle import Bundle
from edge.cache.cache import Cache
from edge.cache.eligible import why_not
from edge.cache.entry import unit_vector
from edge.cache.judge import Judge
from edge.cache.settings import CacheSettings
from edge.pipeline import Pipeline
from edge.query import Query

CHAT = "/v1/chat/completions"
SETTINGS = CacheSettings(mode="semantic")
ROOT = Path(__file__).parents[2]


def shareable(bundle: Bundle) -> Bundle:
    """As if every topic of the agent's were good for everybody."""
    topics = tuple(replace(t, volatility="static") if t.route == "agent" else t for t in bundle.topics)
    return replace(bundle, topics=topics, by_id={topic.id: topic for topic in topics})


@pytest.fixture
def started(desk: Desk, upstream: ScriptedUpstream) -> Callable[..., Any]:
    upstream.script = lambda received: json_answer(
        completion(f"About: {received.json()['messages'][-1]['content']}")
    )

    @contextmanager
    def start(cache: CacheSettings = SETTINGS, **settings: Any) -> Iterator[Relay]:
        kept = Cache(cache)
        with desk(upstream.url, change=shareable, kept=kept, cache=cache, **settings) as relay:
            relay.cache = kept  # type: ignore[attr-defined]
            yield relay

    return start


def ask(relay: Relay, text: str, headers: dict[str, str] | None = None, **body: Any) -> tuple[str, str, str]:
    """Path, reason and text."""
    with open_client(relay.url) as client:
        sent = {"messages": [{"role": "user", "content": text}], **body}
        response = client.post(CHAT, json=sent, headers=headers or {})
    relay.event()
    said = response.json()["choices"][0]["message"]["content"]
    return response.headers["x-frontdesk-path"], response.headers["x-frontdesk-reason"], said


SAME = [
    ("x1 or x1 pro?", "X1 or X1 Pro - which one?"),
    ("which phone has the better camera, x1 or s5", "x1 or s5, which phone has the better camera"),
    ("recommend a laptop for a student", "Can you recommend a laptop for a student?"),
    ("S5和X1有啥区别啊", "S5 和 X1 有什么区别？"),
    ("S5和X1有啥区别啊", "S5和X1的区别是什么"),
    ("帮我推荐一款学生用的笔记本", "推荐一款学生用的笔记本电脑"),
]


@pytest.mark.parametrize(("stored", "asked"), SAME)
def test_the_same_question_in_other_words_shares_the_answer(
    started: Callable[..., Any], stored: str, asked: str
) -> None:
    with started() as relay:
        assert ask(relay, stored)[0] == "agent"
        assert ask(relay, asked) == ("cache", "matched", f"About: {stored}")
    with started(replace(SETTINGS, mode="exact")) as relay:
        assert ask(relay, stored)[0] == "agent"
        assert ask(relay, asked)[0] == "agent"


OTHER = [
    ("x1 or x1 pro?", "x2 or x2 pro?"),
    ("x1 or x1 pro?", "x1 or s5?"),
    ("recommend a laptop for a student", "please recommend a laptop for my grandma"),
    ("recommend a laptop for a student", "recommend a phone for a student"),
    ("recommend a laptop for a student", "don't recommend a laptop for a student"),
    ("recommend a phone under 2000 yuan", "recommend a phone under 3000 yuan"),
    ("recommend a phone under 2000 yuan", "recommend a phone over 2000 yuan"),
    ("which phone has the better camera, x1 or s5", "which phone has the better battery, x1 or s5"),
    ("is the x1 pro better than the s5", "is the s5 better than the x1 pro"),
    ("S5和X1有啥区别啊", "S5和X1没啥区别吧"),
    ("帮我推荐一款学生用的笔记本", "帮我推荐一款老人用的手机"),
    ("预算两千推荐个手机", "预算三千推荐个手机"),
    ("X1 Pro比X1重多少", "X1 Pro比X1贵多少"),
]


@pytest.mark.parametrize(("stored", "asked"), OTHER)
def test_another_question_in_nearly_the_same_words_does_not(
    started: Callable[..., Any], stored: str, asked: str
) -> None:
    # However low the threshold: the guard alone keeps them apart, or the topic does.
    with started(replace(SETTINGS, min_similarity=0.0, min_confidence=0.0)) as relay:
        ask(relay, stored)
        path, _, said = ask(relay, asked)
        assert (path, said) == ("agent", f"About: {asked}")


ADDED = [
    ("S5和X1有啥区别啊", "S5和X1 Pro有啥区别啊"),
    ("is the x1 good for gaming", "is the x1 pro good for gaming"),
    ("compare the s5 and the x1", "compare the s5 and the x1 pro"),
    ("iPhone 15和X1哪个好", "iPhone 15 Pro和X1哪个好"),
    ("recommend a laptop for a student", "recommend a cheap laptop for a student"),
    ("recommend a laptop for a student", "recommend a second hand laptop for a student"),
    ("帮我推荐一款学生用的笔记本", "帮我推荐一款学生用的二手笔记本"),
    (
        "for my grandma who only calls and uses wechat: s5 or x1, which suits her better?",
        "for my grandma who only calls and uses wechat: s5 or x1 pro, which suits her better?",
    ),
    ("我妈只会打电话和用微信，S5和X1哪个更适合她", "我妈只会打电话和用微信，S5和X1 Pro哪个更适合她"),
    (
        "recommend a laptop for a first year architecture student who travels a lot",
        "recommend a laptop for a first year architecture student who travels a lot by train",
    ),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("one", "two"), ADDED)
def test_a_word_more_is_another_question(
    started: Callable[..., Any], one: str, two: str, turned: bool
) -> None:
    stored, asked = (two, one) if turned else (one, two)
    with started(replace(SETTINGS, min_similarity=0.0, min_confidence=0.0)) as relay:
        ask(relay, stored)
        path, _, said = ask(relay, asked)
        assert (path, said) == ("agent", f"About: {asked}")


def test_what_is_similar_under_other_circumstances_is_not_shared(started: Callable[..., Any]) -> None:
    stored, asked = SAME[0]
    named = {"identity_header": "x-user", "tenant_header": "x-tenant"}
    with started(**named) as relay:
        ask(relay, stored, {"x-user": "u", "x-tenant": "acme"})
        for headers, body in (
            ({"x-user": "u", "x-tenant": "globex"}, {}),
            ({"x-user": "u", "x-tenant": "acme", "accept-language": "de"}, {}),
            ({"x-user": "u", "x-tenant": "acme"}, {"temperature": 0.1}),
            ({"x-user": "u", "x-tenant": "acme"}, {"model": "another"}),
        ):
            assert ask(relay, asked, headers, **body)[0] == "agent"
        assert ask(relay, asked, {"x-user": "v", "x-tenant": "acme"})[:2] == ("cache", "matched")


def test_the_log_says_what_kept_questions_apart(started: Callable[..., Any]) -> None:
    with started(replace(SETTINGS, min_similarity=0.3)) as relay:
        ask(relay, "x1 or x1 pro?")
        ask(relay, "x2 or x2 pro?")
        assert {name for name in relay.cache.counts if name.startswith("apart_")} == {"apart_named_value"}


@pytest.mark.timeout(300)
def test_no_two_held_out_questions_of_the_demo_share_an_answer(demo: Pipeline) -> None:
    """They were written to be different: whatever hits is wrong. Cosine alone would let dozens pass."""
    bundle = shareable(demo.runtime.bundle)
    cache = Cache(SETTINGS)
    cache.pairs = Judge(bundle.pairs, SETTINGS.min_similarity)
    by_cosine, by_judge, stored = 0, [], []
    for line in (ROOT / "examples/desk/eval/test.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        query = Query.of_text(row["text"], bundle.normaliser)
        decision = demo.decide(query)
        if row.get("history") or why_not(decision, query, {"messages": [{}]}, bundle, SETTINGS) is not None:
            continue
        assert decision.reading is not None
        vector, typed = unit_vector(decision.reading.embedding), bundle.normaliser.typed(query.typed)
        for other in stored:
            if (other[0], other[1]) == (decision.reading.topic, query.lang):
                cosine = float(vector @ other[2])
                by_cosine += cosine >= SETTINGS.min_similarity
                if cache.pairs.apart(cosine, typed, other[3], query.lang) is None:
                    by_judge.append((typed, other[3]))
        stored.append((decision.reading.topic, query.lang, vector, typed))
    assert by_judge == []
    assert len(stored) > 20
    assert by_cosine > 0
