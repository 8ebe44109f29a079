"""Frontdesk, the agent and the demo's tools, all real: what each level of calling saves the agent."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from around import KEYS, Log, Serve
from servers import Desk, Relay, open_client
from settings import Settings

from edge.bundle import Bundle, Threshold
from edge.config import ToolSettings
from edge.decision import Level
from edge.hints import HintsKey
from edge.normaliser import Lang
from edge.templates import Template

KEY = HintsKey(KEYS[0].kid, KEYS[0].secret)
OPEN = Threshold(confidence=0.3, margin=0.0, proven=True, bound=0.0, max_wrong=0.5)
AGENT = Settings(
    prefill_ms_per_token=0, first_token_ms=0, planning_ms=0, tokens_per_second=float("inf"),
    hints_keys=KEYS, tools="company", identity_header="x-user", demo_tools_key="s3cret", strong_confidence=0.3,
)  # fmt: skip
OURS, OTHERS = "订单 1024 到哪了", "订单 1025 到哪了"


def allowing(level: Level) -> Callable[[Bundle], Bundle]:
    """The demo with get_order as its desk declares it, at some level, and every threshold passed."""

    def change(bundle: Bundle) -> Bundle:
        tool = replace(
            bundle.tools["get_order"], use=level, url="/tools/orders/{order_id}", scope="user", owner="user",
            credential="secret:DEMO_TOOLS_KEY", cache_s=0.0,
            gates={(each, lang): 0.2 for each in (Level.PREFETCH, Level.INJECT) for lang in Lang},
        )  # fmt: skip
        template = {Lang.ZH: Template.parse("订单 {get_order.order_id} {get_order.state = shipped: 在路上}")}
        topics = tuple(
            replace(topic, template=template) if topic.id == "shop.order_status" else topic
            for topic in bundle.topics
        )
        return replace(
            bundle, tools={**bundle.tools, "get_order": tool}, topics=topics,
            by_id={topic.id: topic for topic in topics}, thresholds=dict.fromkeys(bundle.thresholds, OPEN),
        )  # fmt: skip

    return change


@pytest.fixture
def way(desk: Desk, run_agent: Serve) -> Any:
    @contextmanager
    def started(level: Level, **changes: Any) -> Iterator[Relay]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        root = f"http://127.0.0.1:{port}"
        configured = {"identity_header": "x-user", "hints_keys": (KEY,)}
        tools = ToolSettings(root, {"DEMO_TOOLS_KEY": "s3cret"})
        with (
            desk(f"{root}/v1", change=allowing(level), tools=tools, **configured) as relay,
            run_agent(replace(AGENT, frontdesk_url=relay.url, **changes), None, port),
        ):
            yield relay

    return started


def ask(relay: Relay, text: str = OURS, user: str | None = "eva") -> tuple[str, str]:
    """The path and what the user is told."""
    with open_client(relay.url) as client:
        headers = {} if user is None else {"x-user": user}
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        answer = client.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-frontdesk-path"], answer.json()["choices"][0]["message"]["content"]


def chats(log_lines: Log, count: int) -> list[dict[str, Any]]:
    """The agent's lines on chats, where so many lines are written."""
    return [line for line in log_lines(count) if line["path"] == "/v1/chat/completions"]


@pytest.mark.parametrize(
    ("level", "lines", "route", "called"),
    [
        (Level.SUGGEST, 1, "hinted", [("get_order", "ok", None)]),
        (Level.PREFETCH, 2, "hinted", [("get_order", "ok", "collected")]),
        (Level.INJECT, 2, "injected", []),
    ],
)
def test_one_llm_call_at_every_level(
    way: Any, log_lines: Log, level: Level, lines: int, route: str, called: list[Any]
) -> None:
    with way(level) as relay:
        path, text = ask(relay)
        [line] = chats(log_lines, lines)
    assert path == "agent"
    assert '"user":"eva","order_id":"1024"' in text
    assert (line["route"], line["llm_calls"], line["hints_ignored"]) == (route, 1, None)
    assert [(each["tool"], each["outcome"], each.get("prefetch")) for each in line["tools"]] == called


def test_at_the_highest_level_the_agent_is_not_asked(way: Any, log_lines: Log) -> None:
    with way(Level.ANSWER) as relay:
        assert ask(relay) == ("tool", "订单 1024 在路上")
        [line] = log_lines(1)
    assert line["path"] == "/tools/orders"


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize(("text", "user"), [(OTHERS, "eva"), (OURS, "mallory"), (OURS, None)])
def test_nobody_gets_what_is_somebody_elses(
    way: Any, log_lines: Log, level: Level, text: str, user: str | None
) -> None:
    with way(level) as relay:
        path, told = ask(relay, text, user)
    assert path == "agent"
    assert "SL" not in told  # no tracking number
    line = next(line for line in log_lines(1) if line["path"] == "/v1/chat/completions")
    assert {each["outcome"] for each in line["tools"]} <= {"not_found", "unknown_user", "no_identity"}
    assert line["tools"], json.dumps(line)


def test_a_slow_tool_is_waited_for_once(way: Any, log_lines: Log) -> None:
    """Begun by Frontdesk, collected by the agent: its 600 ms are spent once."""
    with way(Level.PREFETCH, tool_delays_ms={"*": 600}) as relay:
        ask(relay)
        [line] = chats(log_lines, 2)
    assert line["tools"][0]["prefetch"] == "collected"
    assert line["stages"]["tools"] < 1100
