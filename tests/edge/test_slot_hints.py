"""The agent gets the slots in its header, over real sockets; classify shows them, the log does not."""

import json
from collections.abc import Iterator

import httpx2
import pytest
from servers import Desk, Relay, ScriptedUpstream, completion, json_answer

from edge.hints import parse_hints
from edge.pipeline import Pipeline
from edge.query import Query
from edge.sinks.jsonlog import record

_RANDOM = ("request_id", "time")  # these may hold any digits


@pytest.fixture(scope="module")
def tools_desk(desk: Desk, shared_upstream: ScriptedUpstream) -> Iterator[Relay]:
    with desk(shared_upstream.url) as relay:
        yield relay


def ask(relay: Relay, text: str) -> httpx2.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return httpx2.post(f"{relay.url}/v1/chat/completions", json=body)


@pytest.mark.parametrize(
    ("text", "topic", "tools", "slots"),
    [
        ("订单１０２４到哪了", "shop.order_status", ("get_order",), {"order_id": "1024"}),
        ("where is my order 20488?", "shop.order_status", ("get_order",), {"order_id": "20488"}),
        ("where is my order 20488 or 20489", "shop.order_status", ("get_order",), {}),
        (
            "any room for ten people tomorrow 3pm",
            "staff.room_availability",
            ("get_free_rooms",),
            {"day": "tomorrow", "time": "15:00", "people": 10},
        ),
    ],
)
def test_the_agent_gets_the_slots(
    tools_desk: Relay,
    upstream: ScriptedUpstream,
    text: str,
    topic: str,
    tools: tuple[str, ...],
    slots: object,
) -> None:
    upstream.script = json_answer(completion("from the agent"))
    assert ask(tools_desk, text).json()["choices"][0]["message"]["content"] == "from the agent"
    header = upstream.last().headers["x-frontdesk-hints"]
    hints = parse_hints(header)
    assert (hints.topic, hints.tools, hints.slots) == (topic, tools, slots)
    if topic == "shop.order_status" and slots:
        assert f'slots=("{hints.slots["order_id"]}";n=order_id)' in header
    logged = record(tools_desk.event())
    assert logged.keys() & {"tools", "slots"} == set()
    words = json.dumps(
        {name: value for name, value in logged.items() if isinstance(value, str) and name not in _RANDOM}
    )
    assert "20488" not in words
    assert "1024" not in words


def test_a_topic_without_tools_has_no_slots(tools_desk: Relay, upstream: ScriptedUpstream) -> None:
    ask(tools_desk, "translate: what time do we start tomorrow at 15:30")
    assert parse_hints(upstream.last().headers["x-frontdesk-hints"]).slots == {}


def test_classify_shows_what_is_filled_and_what_is_missing(tools_desk: Relay) -> None:
    texts = ["订单1024到哪了", "where is my order", "公司几点上班？"]
    response = httpx2.post(f"{tools_desk.url}/v1/classify", json={"input": texts})
    filled, missing, answered = (row["tools"] for row in response.json()["data"])
    assert filled == [{"name": "get_order", "slots": [{"name": "order_id", "value": "1024", "text": "1024"}]}]
    slot = {"name": "order_id", "missing": "not_said", "required": True}
    assert missing == [{"name": "get_order", "slots": [slot]}]
    assert answered == []


def test_a_decision_that_is_withheld_keeps_its_slots(demo: Pipeline) -> None:
    query = Query.of_text("订单1024到哪了", demo.runtime.bundle.normaliser)
    decision = demo.judge(query)
    assert decision.slots == {"order_id": "1024"}
    assert "1024" not in repr(decision.tools)
    json.dumps(decision.slots)
