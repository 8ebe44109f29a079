"""What `frontdesk observe` says of tools, by hand and from a real server's log."""

import io
import json
from typing import Any

import pytest

from edge.cli import main
from edge.observe import read_log, table
from edge.sinks.jsonlog import record
from edge.telemetry import Served, ToolCall


def line(*calls: ToolCall, route: str = "/v1/chat/completions") -> str:
    event = Served("r", "", route, 200, "ok", False, None, (), 1.0, 2.0, tools=calls)
    return json.dumps(record(event) | {"reason": "topic_forwards", "path": "agent"})


LOG = [
    line(ToolCall("get_order", "prefetch", "prefetched", gain_ms=200.0)),
    line(ToolCall("get_order", "prefetch", "prefetched", gain_ms=-100.0)),
    line(ToolCall("get_order", "prefetch", "collected", 300.0), route="/v1/prefetch/pf_1"),
    line(ToolCall("get_price", "answer", "ok", 40.0), ToolCall("get_stock", "answer", "status_500", 9.0)),
    line(ToolCall("get_price", "answer", "ok", 0.0, cached=True)),
]


def test_calls_are_counted_by_tool() -> None:
    told = read_log(LOG).as_dict()
    order, price, stock = (told["tools"][name] for name in ("get_order", "get_price", "get_stock"))
    assert (order["prefetched"], order["collected"], order["dropped"]) == (2, 1, 1)
    assert order["calls"] == {"prefetch": 2}
    assert order["expected_gain_ms"] == 50.0
    assert order["ms"] == {"calls": 1, "p50": 300.0, "p95": 300.0}
    assert (price["cached"], price["ms"]["calls"], price["outcomes"]) == (1, 1, {"ok": 2})
    assert stock["outcomes"] == {"status_500": 1}
    assert told["turns"] == 4
    assert told["skipped_lines"] == 0


def test_the_table_names_every_tool() -> None:
    rows = {r.split()[0]: r.split()[1:] for r in table(read_log(LOG)).splitlines() if r.startswith("  get_")}
    assert rows == {
        "get_order": ["2", "0", "0", "300", "300", "2", "1", "50"],
        "get_price": ["2", "0", "1", "40", "40", "0", "0", "–"],
        "get_stock": ["1", "1", "0", "–", "–", "0", "0", "–"],
    }


@pytest.mark.parametrize(
    "tools",
    ["x", 5, [5], [{}], [{"name": 1}], [{"name": "a", "level": "b"}], [{"name": "a", "level": "l", "outcome": "ok", "ms": "x"}],
     [{"name": "a", "level": "l", "outcome": "ok", "ms": 1e300, "gain_ms": True}]],
)  # fmt: skip
def test_a_log_can_hold_anything(tools: Any) -> None:
    broken = json.dumps(json.loads(LOG[0]) | {"tools": tools})
    observed = read_log([broken, *LOG])
    assert observed.tools["get_order"].prefetched == 2
    assert table(observed)


def test_a_log_of_ten_thousand_tools_is_bounded() -> None:
    assert len(read_log(line(ToolCall(f"t{i}", "answer", "ok")) for i in range(3000)).tools) == 1000


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(LOG)))
    assert main(["observe", "-"]) == 0
    assert "expected gain ms" in capsys.readouterr().out
