"""The grey release of answering itself: off, observe, a share that is sticky per user."""

import httpx2
import pytest
from servers import Desk, ScriptedUpstream, completion, json_answer

from edge.config import Answering
from edge.pipeline import Pipeline, place
from edge.query import Query

BODY = b'{"model":"m",  "messages":[{"role":"user","content":"what time do we start"}], "temperature":1.50}'
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(("mode", "hinted"), [("off", True), ("observe", False)])
def test_off_and_observe_forward_the_body_as_it_came(
    desk: Desk, shared_upstream: ScriptedUpstream, mode: str, hinted: bool
) -> None:
    shared_upstream.reset()
    shared_upstream.script = json_answer(completion("agent"))
    with desk(shared_upstream.url, Answering.of(mode)) as relay:
        response = httpx2.post(
            f"{relay.url}/v1/chat/completions", content=BODY, headers=JSON | {"x-frontdesk-debug": "1"}
        )
        event = relay.event()
    assert response.json()["choices"][0]["message"]["content"] == "agent"
    assert response.headers["x-frontdesk-reason"] == {"off": "answering_off", "observe": "observe"}[mode]
    assert response.headers["x-frontdesk-observed"] == "faq;exact"
    assert shared_upstream.last().body == BODY
    assert ("x-frontdesk-hints" in shared_upstream.last().headers) is hinted
    assert event.decision is not None
    assert event.decision.observed is not None
    assert (event.decision.observed.path, event.decision.observed.topic) == ("faq", "staff.working_hours")


def test_a_share_is_sticky_and_about_as_large_as_stated(demo: Pipeline) -> None:
    pipeline = Pipeline(demo.runtime, Answering.of("0.3"))
    normaliser = demo.runtime.bundle.normaliser
    body = {"messages": [{"role": "user", "content": "what time do we start"}]}
    users = [f"user-{i}" for i in range(1000)]
    first = [pipeline.decide(Query.of_body(body, normaliser, user)) for user in users]
    again = [pipeline.decide(Query.of_body(body, normaliser, user)) for user in users]
    assert [d.path for d in first] == [d.path for d in again]
    answered = sum(d.path == "faq" for d in first)
    assert 250 < answered < 350
    assert {d.reason for d in first if d.path == "agent"} == {"control_group"}


def test_places_spread_over_the_unit_interval() -> None:
    places = [place(str(i)) for i in range(2000)]
    assert 0 <= min(places) < 0.01
    assert 0.99 < max(places) < 1
    assert place("\ud800") == place("\ud800")
