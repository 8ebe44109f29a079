"""The benchmark of the whole path: its draw, its network, its judgement, and a short run of all of it."""

import asyncio
import itertools
import json
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servers import DEMO, ROOT

from edge.bundle import Bundle, load_bundle

MODULES = ("agent_path", "agent_path_draw", "agent_path_judged", "agent_path_legs", "agent_path_report")
TODAY = date(2026, 12, 1)
DESK = ROOT / "examples/desk"


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules, imported as a script imports its neighbours."""
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield SimpleNamespace(**{name: __import__(name) for name in MODULES})
    finally:
        sys.path[:] = before


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return load_bundle(DEMO)


@pytest.fixture(scope="module")
def turns(bench: SimpleNamespace, bundle: Bundle) -> list[Any]:
    return list(bench.agent_path_draw.draw(200, 1, DESK, bundle, TODAY))


def test_the_draw_has_the_stated_shares(bench: SimpleNamespace, turns: list[Any]) -> None:
    kinds = Counter(turn.kind for turn in turns)
    for kind, share in bench.agent_path_draw.KINDS.items():
        assert kinds[kind] == pytest.approx(200 * share, abs=2)
    assert Counter(turn.lang for turn in turns) == {"zh": len(turns) / 2, "en": len(turns) / 2}
    assert sum(bool(turn.history) for turn in turns) == pytest.approx(0.27 * 200, abs=3)
    assert all(40 <= turn.answer_tokens <= 200 for turn in turns)


def test_the_draw_follows_from_the_seed(bench: SimpleNamespace, bundle: Bundle, turns: list[Any]) -> None:
    draw = bench.agent_path_draw.draw
    assert draw(200, 1, DESK, bundle, TODAY) == turns
    assert draw(200, 2, DESK, bundle, TODAY) != turns


def test_what_a_turn_needs_is_known(turns: list[Any]) -> None:
    for turn in turns:
        assert len(turn.calls) == {"one_tool": 1, "two_tools": 2}.get(turn.kind, 0), turn.text
        assert len(turn.topics) == (2 if turn.kind == "two_tools" else 1)
        assert bool(turn.before) == bool(turn.history)
        # Who asks is who may know: the demo's orders and claims belong to the person of their last digit.
        for call in turn.calls:
            number = call.arguments.get("order_id") or call.arguments.get("claim_no")
            people = ("ana", "bo", "chen", "dana", "eva", "feng", "gao", "hana", "ivan", "jin")
            assert number is None or people[int(number[-1])] == turn.user


def test_a_long_conversation_only_grows(turns: list[Any], bench: SimpleNamespace) -> None:
    conversations: dict[int, list[Any]] = {}
    for turn in turns:
        if turn.conversation is not None:
            conversations.setdefault(turn.conversation, []).append(turn)
    grown = [pair for own in conversations.values() for pair in itertools.pairwise(own)]
    assert len(grown) >= 4
    for first, second in grown:
        assert second.messages[: len(first.messages)] == first.messages
    for own in conversations.values():
        assert 2000 <= bench.agent_path_draw.tokens(own[0].before) <= 8300


def test_months_are_those_of_the_day(bench: SimpleNamespace) -> None:
    dated = bench.agent_path_draw._dated
    first = date(2026, 3, 2)  # a Monday
    for word, month in {
        "this month": "2026-03",
        "yesterday": "2026-03",
        "last month": "2026-02",
        "last week": "2026-02",
        "monday": "2026-03",
        "march": "2026-03",
        "april": "2025-04",
    }.items():
        assert dated({"month": word}, first) == {"month": month}, word


def test_a_leg_takes_its_time_and_keeps_the_order(bench: SimpleNamespace) -> None:
    legs = bench.agent_path_legs

    async def measured() -> tuple[list[float], bytes, bytes]:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        stop = asyncio.Event()
        leg = legs.Leg("test", port, server.sockets[0].getsockname()[1], 60.0)
        relaying = asyncio.create_task(legs.relay([leg], stop))
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        took = []
        for _ in range(5):
            begun = time.perf_counter()
            writer.write(b"x")
            await reader.readexactly(1)
            took.append(1000 * (time.perf_counter() - begun))
        sent = b"".join(b"%09d," % number for number in range(20_000))
        for start in range(0, len(sent), 7777):
            writer.write(sent[start : start + 7777])
            await asyncio.sleep(0)
        got = await reader.readexactly(len(sent))
        writer.close()
        await asyncio.sleep(0.2)
        stop.set()
        await relaying
        server.close()
        await server.wait_closed()
        return took, sent, got

    took, sent, got = asyncio.run(measured())
    assert got == sent
    assert 59 <= min(took) < 75  # one round trip: half of it each way


def test_calls_are_held_against_what_is_needed(bench: SimpleNamespace) -> None:
    judged, draw = bench.agent_path_judged, bench.agent_path_draw
    rooms = draw.Call("get_free_rooms", {"day": "today", "time": "14:00", "people": 4})
    turn = draw.Turn("a room", "one_tool", "in_scope", "en", ("staff.room_availability",), (rooms,))

    def why(target: str) -> list[str]:
        return list(judged.against(judged.call_of(target), turn))

    assert why("/tools/free_rooms/today?time=14%3A00&people=4") == []
    assert why("/tools/free_rooms/today?time=&people=4") == ["fewer_arguments"]
    assert why("/tools/free_rooms/tomorrow?time=14%3A00&people=4") == ["other_call"]
    assert why("/tools/points") == ["not_needed"]
    rate = draw.Call("get_exchange_rate", {"currency": "usd", "amount": 300})
    asked = draw.Turn("300 dollars", "one_tool", "in_scope", "en", ("common.exchange_rate",), (rate,))
    for amount in ("300", "300.0"):
        call = judged.call_of(f"/tools/exchange_rates/usd?amount={amount}")
        assert list(judged.against(call, asked)) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_run_adds_up(
    bench: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    out = tmp_path / "result.json"
    bench.agent_path.main(["--turns", "40", "--block", "40", "--rate", "12", "-o", str(out)])
    assert "| straight | first token |" in capsys.readouterr().out
    found = json.loads(out.read_text("utf-8"))
    setups = found["setups"]
    assert list(setups) == ["straight", "answers", "hints", "tools", "pruning"]
    count = len(found["draw"])
    for name, one in setups.items():
        assert one["failed"] == 0, name
        for what, (left, right) in one["accounts"].items():
            assert left == right, (name, what)
        assert sum(part["turns"] for part in one["routes"].values()) == count
        assert sum(part["turns"] for part in one["kinds"].values()) == count
        assert sum(one["llm"]["kinds"].values()) == one["llm"]["calls"]
    straight, answers = setups["straight"], setups["answers"]
    # Each turn is planned and answered, and the plans are right.
    assert straight["llm"]["kinds"]["plan"] == straight["llm"]["kinds"]["answer"] == count
    assert (
        straight["tools"]["by_agent"]
        == straight["tools"]["needed"]
        == sum(len(t["calls"]) for t in found["draw"])
    )
    assert straight["wrong"]["turns"] == 0
    # What is answered at the edge costs no LLM call, and nothing else changes without hints.
    assert 0 < answers["local"] < count
    assert answers["llm"]["kinds"]["plan"] == count - answers["local"]
    assert setups["hints"]["llm"]["kinds"]["plan"] < answers["llm"]["kinds"]["plan"]
    # No answer can be there before its waits: planning, first token and the way.
    assert straight["quantiles"]["first_ms"][0] > 280 + 320 + 120
