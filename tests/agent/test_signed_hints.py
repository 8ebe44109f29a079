"""Frontdesk, a man in the middle and the reference agent, all on real sockets: which hints the agent believes."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from agent import create_app
from hints import HintsKey, parse_keys
from servers import Desk, RawClient, Received, ScriptedUpstream, open_client, serve
from settings import Settings

from edge.hints import HintsKey as EdgeKey

Log = Callable[[int], list[dict[str, Any]]]
# What reaches the agent is made of what Frontdesk sent: one or several requests.
Middle = Callable[[bytes, bytes], list[tuple[bytes, bytes]]]

FAST = Settings(prefill_ms_per_token=0, first_token_ms=0, tokens_per_second=float("inf"))
NEW, OLD, LATER = (f"{kid}:{kid * 16}" for kid in ("new1", "old1", "new2"))
ORDER = {"model": "any", "messages": [{"role": "user", "content": "订单 1024 到哪了"}]}
BELIEVED = "前台的提示：主题 shop.order_status，原因 topic_forwards。"
ALONE = "前台没有附带提示。"


def edge_keys(*keys: str) -> tuple[EdgeKey, ...]:
    return tuple(EdgeKey(key.kid, key.secret) for key in parse_keys(",".join(keys)))


@dataclass
class Between:
    """Stands between the two, hands every request on as ``middle`` changes it, and the last answer back."""

    agent_port: int
    middle: Middle
    got: list[bytes] = field(default_factory=list)

    def __call__(self, received: Received) -> list[bytes]:
        answer = b""
        for head, body in self.middle(received.head, received.body):
            self.got.append(body)
            with RawClient(self.agent_port) as client:
                client.send(head + b"\r\nconnection: close\r\n\r\n" + body)
                answer = client.read_all()
        return [answer]


@dataclass
class Path:
    """The whole way: ``ask`` says what the user was told."""

    url: str
    between: Between

    def ask(self, stream: bool, body: bytes | None = None) -> str:
        content = body or json.dumps(ORDER | {"stream": stream}).encode()
        with open_client(self.url) as client:
            answer = client.post("/v1/chat/completions", content=content)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-frontdesk-reason"] == "topic_forwards"
        if not stream:
            return str(answer.json()["choices"][0]["message"]["content"])
        events = answer.text.split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
        return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)


@pytest.fixture
def way(desk: Desk) -> Callable[..., Any]:
    @contextmanager
    def started(
        middle: Middle = lambda head, body: [(head, body)],
        edge: tuple[EdgeKey, ...] = edge_keys(NEW),
        agent: tuple[HintsKey, ...] = parse_keys(NEW),
        clock: Callable[[], float] = time.time,
    ) -> Iterator[Path]:
        app = create_app(replace(FAST, hints_keys=agent), clock)
        with serve(app) as central, ScriptedUpstream() as upstream:
            between = upstream.script = Between(central.port, middle)
            with desk(upstream.url, hints_keys=edge) as relay:
                yield Path(relay.url, between)

    return started


def replaced(old: bytes, new: bytes) -> Middle:
    def middle(head: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        assert head.count(old) == 1, (old, head)
        return [(head.replace(old, new), body)]

    return middle


def without(name: bytes) -> Middle:
    def middle(head: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        lines = head.split(b"\r\n")
        kept = [line for line in lines if not line.lower().startswith(name + b":")]
        assert len(kept) == len(lines) - 1
        return [(b"\r\n".join(kept), body)]

    return middle


def body_altered(head: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
    """Another order, of the same length."""
    assert body.count(b"1024") == 1
    return [(head, body.replace(b"1024", b"1025"))]


def replayed(head: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
    return [(head, body), (head, body)]


def twice(head: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
    """A second header of the name, as one who cannot take ours away would add it."""
    return [(head + b"\r\nx-frontdesk-hints: v=1, topic=evil", body)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("middle", "ignored"),
    [
        (None, [None]),
        (body_altered, ["altered"]),
        (replaced(b'topic="shop.order_status", c', b'topic="shop.delivery_cost", c'), ["altered"]),
        (replaced(b"x-request-id: req_", b"x-request-id: other_"), ["altered"]),
        (twice, ["altered"]),
        (replaced(b"kid=new1,", b"kid=new9,"), ["unknown_key"]),
        (replaced(b"kid=new1,", b"kid new1,"), ["malformed"]),
        (without(b"x-frontdesk-signature"), ["unsigned"]),
        (replayed, [None, "replayed"]),
    ],
    ids=["good", "body", "hints", "request-id", "twice", "kid", "garbage", "unsigned", "replayed"],
)
def test_the_agent_believes_only_what_frontdesk_sent(
    way: Any, log_lines: Log, stream: bool, middle: Middle | None, ignored: list[str | None]
) -> None:
    with way(*([middle] if middle else [])) as path:
        body = b" " + json.dumps(ORDER | {"stream": stream}, ensure_ascii=False, indent=1).encode()
        text = path.ask(stream, body)
    lines = log_lines(len(ignored))
    assert [line["hints_ignored"] for line in lines] == ignored
    assert {line["status"] for line in lines} == {200}
    assert all('topic="shop.' in line["hints"] for line in lines)
    assert (BELIEVED in text, ALONE in text) == ((True, False) if ignored[-1] is None else (False, True))
    if middle is not body_altered:
        assert set(path.between.got) == {body}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("late", "code"), [(30, None), (120, "expired"), (-120, "expired")])
def test_hints_expire(way: Any, log_lines: Log, stream: bool, late: int, code: str | None) -> None:
    with way(clock=lambda: time.time() + late) as path:
        assert (BELIEVED in path.ask(stream)) is (code is None)
    assert log_lines(1)[0]["hints_ignored"] == code


@pytest.mark.parametrize(
    ("edge", "agent", "code"),
    [
        ([NEW, OLD], [NEW], None),
        ([OLD], [NEW, OLD], None),  # the agent has the new key first
        ([NEW], [OLD, NEW], None),
        ([NEW], [OLD], "unknown_key"),
        ([LATER, NEW], [NEW], "unknown_key"),  # the edge signs with a key that the agent lacks
        ([], [NEW], "unsigned"),
        ([NEW], [], None),  # an agent without keys believes what comes, as before
        ([], [], None),
    ],
)
def test_keys_are_rotated(
    way: Any, log_lines: Log, edge: list[str], agent: list[str], code: str | None
) -> None:
    keys = parse_keys(",".join(agent)) if agent else ()
    with way(edge=edge_keys(*edge) if edge else (), agent=keys) as path:
        text = path.ask(stream=False)
    assert log_lines(1)[0]["hints_ignored"] == code
    assert (BELIEVED in text) is (code is None)


def test_two_secrets_of_one_name(way: Any, log_lines: Log) -> None:
    with way(agent=parse_keys("new1:" + "another-secret" * 3)) as path:
        assert ALONE in path.ask(stream=False)
    assert log_lines(1)[0]["hints_ignored"] == "altered"


def test_a_client_cannot_bring_hints_of_its_own(way: Any, log_lines: Log) -> None:
    """Neither signed for another request nor unsigned; and what it brings spoils nothing."""
    stolen: list[bytes] = []

    def middle(head: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        stolen.append(head)
        return [(head, body)]

    with way(middle) as path, open_client(path.url) as client:
        path.ask(stream=False)
        fields = dict(line.split(b": ", 1) for line in stolen[0].split(b"\r\n") if b": " in line)
        brought = {name: fields[name.encode()].decode() for name in ("x-request-id", "x-frontdesk-signature")}
        other = ORDER | {"messages": [{"role": "user", "content": "请帮我写一首诗"}]}
        for more in ({}, {"x-frontdesk-bypass": "1"}):
            hints = {"x-frontdesk-hints": fields[b"x-frontdesk-hints"].decode()}
            answer = client.post("/v1/chat/completions", json=other, headers=brought | hints | more)
            assert "order_status" not in answer.text
    first, replay, bypassed = log_lines(3)
    # The stolen id was seen before, so the second turn's own hints are lost, and that is all.
    assert [line["hints_ignored"] for line in (first, replay, bypassed)] == [None, "replayed", None]
    assert bypassed["hints"] is None


def test_many_at_once_are_all_believed(way: Any, log_lines: Log) -> None:
    texts: list[str] = []
    with way() as path:
        threads = [threading.Thread(target=lambda: texts.append(path.ask(stream=True))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [BELIEVED in text for text in texts] == [True] * 8
    assert {line["hints_ignored"] for line in log_lines(8)} == {None}
