"""Pruning on real sockets: what the agent gets is valid, signed as it was sent, and told to whoever debugs."""

import json
import time
from typing import Any

import pytest
from servers import Desk, Received, ScriptedUpstream, Start, completion, json_answer, open_client
from talks import long_talk

from edge import context
from edge.config import Answering, Context, Settings
from edge.conversation import read
from edge.hints import HintsKey, Seen, verify_hints
from edge.telemetry import ContextUse

CHAT = "/v1/chat/completions"
DEBUG = {"x-frontdesk-debug": "1", "x-frontdesk-budget-ms": "100000"}
KEYS = (HintsKey("new", b"n" * 32),)
BODY: dict[str, Any] = {"model": "m", "messages": long_talk(30), "temperature": 0.5, "x": {"é": None}}
SENT = json.dumps(BODY, indent=1).encode()
BEFORE = sum(one.tokens for one in read(BODY["messages"]))
PRUNED = Context(max_tokens=400)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "MAX_SECONDS", 60)


@pytest.fixture
def agent(upstream: ScriptedUpstream) -> ScriptedUpstream:
    upstream.script = json_answer(completion("from the agent"))
    return upstream


def believe(received: Received) -> None:
    """Raises unless hints and body are those that were signed."""
    headers = received.headers
    names = ("x-frontdesk-hints", "x-frontdesk-signature", "x-request-id")
    verify_hints(*(headers[name] for name in names), received.body, KEYS, Seen(), time.time())


def test_the_agent_gets_a_shorter_conversation_and_can_believe_the_hints(
    desk: Desk, agent: ScriptedUpstream
) -> None:
    with desk(agent.url, context=PRUNED, hints_keys=KEYS) as relay, open_client(relay.url) as client:
        response = client.post(CHAT, content=SENT, headers=DEBUG)
        event = relay.event()
    received = agent.last()
    believe(received)
    body = received.json()
    assert {**body, "messages": 0} == {**BODY, "messages": 0}
    messages = body["messages"]
    assert messages[:2] == BODY["messages"][:2]
    assert messages[-3:] == BODY["messages"][-3:]
    after = sum(one.tokens for one in read(messages))
    assert after <= 400 < BEFORE
    assert response.json()["choices"][0]["message"]["content"] == "from the agent"
    assert response.headers["x-frontdesk-context"] == f"before={BEFORE};after={after}"
    assert "context;dur=" in response.headers["server-timing"]
    assert event.context == ContextUse(BEFORE, after)
    assert "context" in dict(event.spans)


def test_the_models_name_is_mapped_too(desk: Desk, agent: ScriptedUpstream) -> None:
    settings = {"context": PRUNED, "hints_keys": KEYS, "models": {"m": "other"}}
    with desk(agent.url, **settings) as relay, open_client(relay.url) as client:
        client.post(CHAT, content=SENT, headers=DEBUG)
    believe(agent.last())
    assert agent.last().json()["model"] == "other"
    assert len(agent.last().json()["messages"]) < len(BODY["messages"])


def test_without_debug_nothing_is_told_and_without_the_setting_nothing_happens(
    desk: Desk, agent: ScriptedUpstream
) -> None:
    for settings, headers in (({"context": PRUNED}, {}), ({}, DEBUG)):
        with desk(agent.url, **settings) as relay, open_client(relay.url) as client:
            response = client.post(CHAT, content=SENT, headers=headers)
        assert "x-frontdesk-context" not in response.headers
        assert ("context;dur=" in response.headers["server-timing"]) is bool(settings)
    assert agent.last().body == SENT


@pytest.mark.parametrize(
    ("mode", "headers"), [("on", {"x-frontdesk-bypass": "1"}), ("observe", {}), ("observe", DEBUG)]
)
def test_bypassed_and_observed_turns_go_as_they_came(
    desk: Desk, agent: ScriptedUpstream, mode: str, headers: dict[str, str]
) -> None:
    with desk(agent.url, Answering.of(mode), context=PRUNED) as relay, open_client(relay.url) as client:
        response = client.post(CHAT, content=SENT, headers=headers)
        assert relay.event().context is None
    assert agent.last().body == SENT
    assert "x-frontdesk-context" not in response.headers


def test_before_the_bundle_is_loaded_nothing_is_pruned(start: Start, agent: ScriptedUpstream) -> None:
    settings = Settings(context=PRUNED, hints_keys=KEYS)
    with start(agent.url, settings=settings) as relay, open_client(relay.url) as client:
        response = client.post(CHAT, content=SENT, headers=DEBUG)
    believe(agent.last())
    assert agent.last().body == SENT
    told = response.headers["x-frontdesk-context"]
    assert told == f"before={BEFORE};after={BEFORE};unpruned=not_ready"


def test_a_doubtful_conversation_goes_as_it_came_and_the_header_says_why(
    desk: Desk, agent: ScriptedUpstream
) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    messages = [*BODY["messages"], {"role": "user", "content": [image]}]
    sent = json.dumps(BODY | {"messages": messages}, indent=1).encode()
    with desk(agent.url, context=PRUNED) as relay, open_client(relay.url) as client:
        response = client.post(CHAT, content=sent, headers=DEBUG)
    assert agent.last().body == sent
    assert response.headers["x-frontdesk-context"] == "unpruned=attachment"
