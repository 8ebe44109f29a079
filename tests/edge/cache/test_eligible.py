"""How long an answer lasts: what is told from today is no longer so tomorrow, whatever the topic says."""

import pytest

from edge.cache.eligible import lasting
from edge.pipeline import Pipeline
from edge.query import Query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x1 or x1 pro?", "static"),
        ("which phone has the best camera", "static"),
        ("X1和X1 Pro哪个好", "static"),
        ("how do I know a good laptop", "static"),  # no "now"
        ("which phone is on sale today", "daily"),
        ("what can I get by tomorrow", "daily"),
        ("what is new on Friday", "daily"),
        ("is the X2 out on 3 May", "daily"),
        ("which is the best phone right now", "daily"),
        ("the latest phone please", "daily"),
        ("is the X1 still worth it this year", "daily"),
        ("明天有什么活动", "daily"),
        ("现在哪款手机最好", "daily"),
        ("最新的平板是哪款", "daily"),
        ("周五之前能到的有哪些", "daily"),
        ("下午三点能买到的", "daily"),
    ],
)
def test_what_is_told_from_today_ends_with_the_day(demo: Pipeline, text: str, expected: str) -> None:
    bundle = demo.runtime.bundle
    query = Query.of_text(text, bundle.normaliser)
    assert lasting("static", query, bundle) == expected
    assert lasting("live", query, bundle) == "live"
    assert lasting("daily", query, bundle) == "daily"
