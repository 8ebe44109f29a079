"""Two servers with one Redis on real sockets, under load: it is killed, hangs, returns, and nobody notices."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest
from redis_stack import RedisStack
from servers import (
    Desk,
    Relay,
    ScriptedUpstream,
    completion,
    json_answer,
    open_async_client,
    open_client,
    wait_until,
)

from edge.cache.cache import Cache
from edge.cache.settings import CacheSettings

CHAT, TOKEN = "/v1/chat/completions", "an-operators-token-of-no-use-to-anybody"
ASKED = "x1 or x1 pro?"
OTHERS = [
    "x2 or x2 pro?",
    "x3 or x3 pro?",
    "compare the s5 and the x1",
    "recommend a laptop for a student",
    "recommend a phone for my grandma",
    "X1和X1 Pro哪个好",
]


@pytest.fixture
def agent(upstream: ScriptedUpstream) -> ScriptedUpstream:
    upstream.script = lambda received: json_answer(
        completion(f"You asked {received.json()['messages'][-1]['content']}")
    )
    return upstream


@pytest.fixture
def servers(desk: Desk, agent: ScriptedUpstream, redis_stack: RedisStack) -> Callable[..., Any]:
    """``with servers(2) as (one, two)``: servers that share a Redis; each has its ``cache``."""

    @contextmanager
    def start(count: int = 2, **fields: Any) -> Iterator[list[Any]]:
        settings = CacheSettings(
            mode="exact", redis_url=redis_stack.url, **{"redis_timeout_ms": 300, **fields}
        )
        with ExitStack() as stack:
            relays: list[Any] = []
            for _ in range(count):
                kept = Cache(settings)
                relay = stack.enter_context(desk(agent.url, kept=kept, cache=settings, admin_token=TOKEN))
                relay.cache = kept
                relays.append(relay)
                wait_until(lambda kept=kept: kept.shared.state()["connected"], "Redis")
            yield relays

    return start


def ask(relay: Relay, text: str = ASKED, **body: Any) -> tuple[str, str]:
    """Path and text of an answer, once the server is done with the turn."""
    with open_client(relay.url) as client:
        sent = {"messages": [{"role": "user", "content": text}], **body}
        response = client.post(CHAT, json=sent)
    relay.event()
    assert response.status_code == 200
    return response.headers["x-frontdesk-path"], response.json()["choices"][0]["message"]["content"]


def purge(relay: Relay, **body: Any) -> httpx2.Response:
    with open_client(relay.url) as client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return client.post("/admin/cache/purge", json=body, headers=headers)


def test_one_servers_answer_serves_at_the_other(servers: Any, agent: ScriptedUpstream) -> None:
    with servers() as (one, two):
        assert ask(one) == ("agent", f"You asked {ASKED}")
        assert ask(two) == ("cache", f"You asked {ASKED}")
        assert two.cache.counts["hits_exact"] == 1
    assert len(agent.requests) == 1


def test_a_purge_at_one_is_a_purge_at_the_other(servers: Any, agent: ScriptedUpstream) -> None:
    with servers() as (one, two):
        for relay in (one, two):
            ask(relay)
        response = purge(one, topic="agent.compare_products")
        assert (response.status_code, response.json()["shared"]) == (200, 1)
        wait_until(lambda: two.cache.counts["purges_heard"] == 2, "the purge")
        assert ask(two)[0] == "agent"
    assert len(agent.requests) == 2


def test_a_purge_that_does_not_reach_redis_says_so(servers: Any, redis_stack: RedisStack) -> None:
    with servers() as (one, _):
        ask(one)
        redis_stack.kill()
        response = purge(one, all=True)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "purge_incomplete")
        one.event()
        assert ask(one)[0] == "agent"


def test_many_who_ask_one_thing_ask_redis_once(servers: Any, agent: ScriptedUpstream) -> None:
    with servers() as (one, two):
        ask(one)
        calls: Counter[str] = Counter()
        find = two.cache.shared.find

        async def counted(*args: Any) -> Any:
            calls["find"] += 1
            await asyncio.sleep(0.1)
            return await find(*args)

        two.cache.shared.find = counted
        paths = asyncio.run(_paths(two, [ASKED] * 30))
        assert paths == ["cache"] * 30
        assert calls["find"] == 1
    assert len(agent.requests) == 1


async def _paths(relay: Relay, texts: list[str]) -> list[str]:
    async with open_async_client(relay.url, len(texts)) as client:
        bodies = [{"messages": [{"role": "user", "content": text}]} for text in texts]
        responses = await asyncio.gather(*(client.post(CHAT, json=body) for body in bodies))
    assert {response.status_code for response in responses} == {200}
    return [response.headers["x-frontdesk-path"] for response in responses]


class Load:
    """Asks different things all the time, and remembers how it went."""

    def __init__(self, relays: list[Relay]) -> None:
        self.relays = relays
        self.stop = threading.Event()
        self.wrong: list[str] = []
        self.waits: list[float] = []
        self.paths: Counter[str] = Counter()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(30)

    async def _run(self) -> None:
        await asyncio.gather(*(self._client(relay, start) for relay in self.relays for start in range(4)))

    async def _client(self, relay: Relay, start: int) -> None:
        async with open_async_client(relay.url, 4) as client:
            i = start
            while not self.stop.is_set():
                text = OTHERS[i % len(OTHERS)]
                i += 1
                began = time.perf_counter()
                response = await client.post(CHAT, json={"messages": [{"role": "user", "content": text}]})
                self.waits.append(time.perf_counter() - began)
                self.paths[response.headers["x-frontdesk-path"]] += 1
                said = json.loads(response.content)
                if (
                    response.status_code != 200
                    or said["choices"][0]["message"]["content"] != f"You asked {text}"
                ):
                    self.wrong.append(f"{response.status_code} {text}: {response.text[:200]}")
                await asyncio.sleep(0.01)

    def during(self, seconds: float) -> Counter[str]:
        """The paths of a while."""
        before = self.paths.copy()
        time.sleep(seconds)
        return self.paths - before


def test_redis_dies_hangs_and_returns_under_load(
    servers: Any, agent: ScriptedUpstream, redis_stack: RedisStack
) -> None:
    with servers(redis_timeout_ms=100) as relays, Load(relays) as load:
        load.during(1.0)
        calls = len(agent.requests)
        redis_stack.kill()
        assert set(load.during(1.0)) == {"cache"}  # both hold what is asked
        redis_stack.start()  # empty
        assert set(load.during(1.0)) == {"cache"}
        wait_until(lambda: all(relay.cache.shared.state()["connected"] for relay in relays), "both are back")
        redis_stack.hang()
        load.during(1.5)
        redis_stack.hang(False)
        assert purge(relays[0], all=True).status_code == 200
        load.during(1.0)
        assert "cache" in load.during(0.5)
    assert load.wrong == []
    # Each question was asked once a server at most, once more after the purge, and where it was on its way then.
    assert calls <= 2 * len(OTHERS)
    assert len(agent.requests) <= 8 * len(OTHERS)
    assert len(load.waits) > 3 * len(agent.requests)


def test_new_questions_while_redis_is_dead_cost_its_timeout_a_few_times(
    servers: Any, agent: ScriptedUpstream, redis_stack: RedisStack
) -> None:
    with servers(1, redis_timeout_ms=100) as (one,):
        ask(one)
        redis_stack.hang()
        try:
            waits = []
            for text in OTHERS:
                start = time.perf_counter()
                assert ask(one, text) == ("agent", f"You asked {text}")
                waits.append(time.perf_counter() - start)
            assert one.cache.shared.breaker.state in ("open", "half_open")
            assert sorted(waits)[len(waits) // 2] < 1.2  # storing is not waited for by the client, but by ask
        finally:
            redis_stack.hang(False)
        assert [ask(one, text)[0] for text in OTHERS] == ["cache"] * len(OTHERS)


def test_what_one_server_gave_is_judged_at_another_once(servers: Any, agent: ScriptedUpstream) -> None:
    def judge(relay: Relay, id_: str, **headers: str) -> int:
        with open_client(relay.url) as client:
            body = {"request_id": id_, "verdict": "wrong"}
            status = client.post("/v1/feedback", json=body, headers=headers).status_code
        relay.event()
        return status

    with servers() as (one, two):
        ask(one)
        with open_client(one.url) as client:
            served = client.post(CHAT, json={"messages": [{"role": "user", "content": ASKED}]})
        one.event()
        id_ = served.headers["x-request-id"]
        assert served.headers["x-frontdesk-path"] == "cache"
        one.wait_idle()
        assert judge(two, id_, authorization="Bearer another") == 404
        assert judge(two, id_) == 200
        assert judge(two, id_) == 404
        wait_until(lambda: len(one.cache.memory) == 0, "the verdict at the other server")
        assert ask(two)[0] == "agent"
