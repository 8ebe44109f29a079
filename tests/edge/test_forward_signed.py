"""Signed hints on real sockets: what is signed is what is sent, and no client can put a signature of its own."""

import json
import logging
import time
from dataclasses import replace
from typing import Any

import pytest
from servers import Desk, Received, ScriptedUpstream, Start, completion, json_answer, open_client

from edge.config import Answering, Settings
from edge.hints import Hints, HintsKey, Seen, verify_hints

CHAT = "/v1/chat/completions"
SECRET = "not-to-be-seen-in-any-log-or-answer"
KEYS = (HintsKey("new", SECRET.encode()), HintsKey("old", b"o" * 32))
ORDER = {"model": "m", "messages": [{"role": "user", "content": "订单 1024 到哪了"}], "temperature": 1.5}
SPOOFED = {
    "x-frontdesk-hints": "v=1, topic=spoofed",
    "x-frontdesk-signature": "kid=new,t=1,attempt=1,v1=" + "0" * 64,
    "X-Frontdesk-Signature-2": "spoofed",
    "x_frontdesk_signature": "spoofed",
    "x_frontdesk-hints": "spoofed",
}


def believed(received: Received) -> Hints:
    headers = received.headers  # each came once
    return verify_hints(
        headers["x-frontdesk-hints"],
        headers["x-frontdesk-signature"],
        headers["x-request-id"],
        received.body,
        KEYS[:1],
        Seen(),
        time.time(),
    )


@pytest.fixture
def answering(upstream: ScriptedUpstream) -> ScriptedUpstream:
    upstream.script = json_answer(completion("from the agent"))
    return upstream


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("request_id", [None, "mine=1.a:b"])
def test_the_agent_can_believe_what_was_sent(
    desk: Desk, answering: ScriptedUpstream, stream: bool, request_id: str | None
) -> None:
    body = json.dumps(ORDER | {"stream": stream}, indent=2).encode()
    with desk(answering.url, hints_keys=KEYS) as relay, open_client(relay.url) as client:
        headers = SPOOFED | ({"x-request-id": request_id} if request_id else {})
        response = client.post(CHAT, content=body, headers=headers)
    received = answering.last()
    hints = believed(received)
    assert (hints.topic, hints.tools) == ("shop.order_status", ("get_order",))
    assert (hints.complexity, hints.length, hints.tier) == ("single", "short", "small")
    assert received.body == body
    assert received.headers["x-request-id"] == response.headers["x-request-id"]
    assert received.headers["x-frontdesk-signature"].startswith("kid=new,t=")
    assert b"spoofed" not in received.head
    assert not [name for name in response.headers if "signature" in name or "hints" in name]


def test_each_of_a_clients_attempts_is_signed_anew(desk: Desk, answering: ScriptedUpstream) -> None:
    with desk(answering.url, hints_keys=KEYS) as relay, open_client(relay.url) as client:
        for _ in range(2):
            client.post(CHAT, json=ORDER)
    ids = {received.headers["x-request-id"] for received in answering.requests}
    assert len(ids) == 2
    assert all(believed(received) for received in answering.requests)


def test_the_body_is_signed_as_the_agent_gets_it(start: Start, answering: ScriptedUpstream) -> None:
    settings = Settings(models={"m": "other"}, hints_keys=KEYS)
    with start(answering.url, settings=settings) as relay, open_client(relay.url) as client:
        client.post(CHAT, json=ORDER)
    assert answering.last().json()["model"] == "other"
    assert believed(answering.last()).reason == "not_ready"


def test_without_keys_nothing_is_signed(desk: Desk, answering: ScriptedUpstream) -> None:
    with desk(answering.url) as relay, open_client(relay.url) as client:
        client.post(CHAT, json=ORDER, headers=SPOOFED)
    ours = {name for name in answering.last().headers if "frontdesk" in name}
    assert ours == {"x-frontdesk-hints"}
    assert b"spoofed" not in answering.last().head


@pytest.mark.parametrize(
    ("mode", "path", "more"),
    [
        ("on", CHAT, {"x-frontdesk-bypass": "1"}),
        ("on", "/v1/embeddings", {}),
        ("observe", CHAT, {}),
        ("observe", CHAT, {"x-frontdesk-bypass": "1"}),
        ("observe", "/v1/embeddings", {}),
    ],
)
def test_where_no_hints_go_no_signature_goes(
    desk: Desk, answering: ScriptedUpstream, mode: str, path: str, more: dict[str, str]
) -> None:
    with desk(answering.url, Answering.of(mode), hints_keys=KEYS) as relay, open_client(relay.url) as client:
        client.post(path, json=ORDER, headers=SPOOFED | more)
    assert not [name for name in answering.last().headers if "frontdesk" in name]


def test_the_secret_is_told_to_nobody(
    desk: Desk, answering: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []
    with (
        caplog.at_level(logging.DEBUG),
        desk(answering.url, hints_keys=KEYS) as relay,
        open_client(relay.url) as client,
    ):
        for body in (ORDER, ORDER | {"messages": 1}):
            response = client.post(CHAT, json=body, headers={"x-frontdesk-debug": "1"})
            seen += [response.headers, response.text, relay.event()]
    settings = replace(Settings(), hints_keys=KEYS)
    told = repr([seen, settings, caplog.text, answering.last().head])
    assert SECRET not in told
    assert "kid=new" in told
