"""The processes of agent_path.py: for each set-up a Frontdesk and an agent, and the network between them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from agent_path_draw import AGENT, HERE, Turn

STRAIGHT = "straight"
# What each set-up has of Frontdesk beyond the one before it.
SETUPS = {
    STRAIGHT: "straight to the agent",
    "answers": "Frontdesk answers, and says nothing else",
    "hints": "+ signed hints",
    "tools": "+ tools: answers, injected and prefetched results",
    "pruning": "+ long conversations pruned",
}
# Round trips in ms. The user is near the edge; agent, LLM and tools stand in the centre.
LEGS = {"user to edge": 23.0, "user to centre": 120.0, "edge to centre": 97.0, "agent to tools": 1.0}
LLM = {
    "SCRIPTED_PLANNING_MS": 280.0,
    "SCRIPTED_FIRST_TOKEN_MS": 320.0,
    "SCRIPTED_PREFILL_MS_PER_TOKEN": 0.2,
    "SCRIPTED_TOKENS_PER_SECOND": 60.0,
}
TOOLS_MS = {
    "get_price": 100,
    "get_stock": 150,
    "get_menu": 200,
    "get_points": 250,
    "find_store": 300,
    "get_leave_balance": 350,
    "get_exchange_rate": 400,
    "get_order": 500,
    "get_weather": 600,
    "get_free_rooms": 700,
    "get_expense_status": 800,
    "get_refund": 1000,
    "get_attendance": 1200,
    "get_payslip": 1500,
}
MAX_TOKENS = 3000  # of a forwarded conversation, with pruning
IDENTITY_HEADER = "x-user"
_KEY = "bench:not-a-secret-but-of-the-length-of-one"
_TOOLS_KEY = "not-a-secret-either"
_START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Running:
    """A set-up that runs. ``url``: where its users' client connects; ``pids`` and ``logs`` by role."""

    name: str
    url: str
    pids: Mapping[str, int]
    logs: Mapping[str, Path]

    def lines(self, role: str) -> list[dict[str, Any]]:
        """The JSON lines that a process has logged so far."""
        return json_lines(self.logs[role])


@dataclass(slots=True)
class Network:
    """The legs that are wanted, by name."""

    legs: list[dict[str, Any]] = field(default_factory=list)

    def leg(self, name: str, to: int, round_trip_ms: float) -> str:
        """The near end of a new leg, as a base address."""
        port = _free_port()
        self.legs.append({"name": name, "port": port, "to": to, "round_trip_ms": round_trip_ms})
        return f"http://127.0.0.1:{port}"


@contextmanager
def running(
    names: Sequence[str], bundle: Path, turns: Sequence[Turn], folder: Path
) -> Iterator[tuple[list[Running], Path, int]]:
    """The set-ups, ready; what the network tells (complete once this has ended), and its process."""
    plans = folder / "plans.jsonl"
    plans.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in oracle(turns)), "utf-8")
    network = Network()
    with ExitStack() as stack:
        ready = [_start(name, network, bundle, plans, folder, stack) for name in names]
        legs, told = folder / "legs.json", folder / "legs.jsonl"
        legs.write_text(json.dumps(network.legs), "utf-8")
        relays = _process(
            [str(HERE / "agent_path_legs.py"), str(legs)], {}, folder / "legs.log", stack, stdout=told
        )
        _wait(lambda: bool(json_lines(told)), relays, folder / "legs.log")
        yield ready, told, relays.pid


def oracle(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """What the scripted LLM plans and how long it answers: the labels, so its plans are never wrong."""
    for turn in turns:
        calls = [{"tool": call.tool, "arguments": call.arguments} for call in turn.calls]
        yield {"text": turn.text, "calls": calls, "tokens": turn.answer_tokens}


def _start(name: str, network: Network, bundle: Path, plans: Path, folder: Path, stack: ExitStack) -> Running:
    agent, edge = _free_port(), _free_port()
    environ = {
        **{name: str(value) for name, value in LLM.items()},
        "SCRIPTED_PLANS": str(plans),
        "AGENT_TOOLS": "company",
        "IDENTITY_HEADER": IDENTITY_HEADER,
        "DEMO_TOOLS_KEY": _TOOLS_KEY,
        "TOOL_DELAYS_MS": ",".join(f"{t}={ms + LEGS['agent to tools']:g}" for t, ms in TOOLS_MS.items()),
        "FRONTDESK_HINTS_KEYS": _KEY,
        "FRONTDESK_URL": network.leg(f"{name}: agent to edge", edge, LEGS["edge to centre"]),
    }
    logs = {"agent": folder / f"{name}.agent.log"}
    command = [str(AGENT / "agent.py"), "--port", str(agent)]
    processes = {"agent": _process(command, environ, logs["agent"], stack)}
    _wait(lambda: _answers(agent, "/health/readiness"), processes["agent"], logs["agent"])
    if name == STRAIGHT:
        url = network.leg(f"{name}: user to centre", agent, LEGS["user to centre"])
    else:
        config = folder / f"{name}.toml"
        config.write_text(_configuration(name, bundle, edge, agent, network), "utf-8")
        logs["edge"] = folder / f"{name}.edge.log"
        command = ["-m", "edge.cli", "serve", "--config", str(config)]
        processes["edge"] = _process(command, {}, logs["edge"], stack)
        _wait(lambda: _answers(edge, "/health/readiness"), processes["edge"], logs["edge"])
        url = network.leg(f"{name}: user to edge", edge, LEGS["user to edge"])
    return Running(name, url, {role: process.pid for role, process in processes.items()}, logs)


def _configuration(name: str, bundle: Path, port: int, agent: int, network: Network) -> str:
    level = list(SETUPS).index(name)
    upstream = network.leg(f"{name}: edge to agent", agent, LEGS["edge to centre"])
    lines = [
        f'bundle = "{bundle.resolve()}"',
        f"port = {port}",
        'auth = "proxy"',
        f'identity_header = "{IDENTITY_HEADER}"',
        f'[upstream]\nbase_url = "{upstream}/v1"',
    ]
    if level >= 2:
        lines.append(f'[hints]\nkeys = ["{_KEY}"]')
    if level >= 3:
        tools = network.leg(f"{name}: edge to tools", agent, LEGS["edge to centre"])
        lines.append(f'[tools]\nbase_url = "{tools}"\n[tools.secrets]\nDEMO_TOOLS_KEY = "{_TOOLS_KEY}"')
    if level >= 4:
        lines.append(f"[context]\nmax_tokens = {MAX_TOKENS}")
    return "\n".join(lines) + "\n"


def _process(
    command: Sequence[str],
    environ: Mapping[str, str],
    log: Path,
    stack: ExitStack,
    stdout: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start Python with a command, with none of the caller's own settings; stopped with the stack."""
    ours = ("FRONTDESK_", "SCRIPTED_", "AGENT_", "BASE_URL", "API_KEY", "MODEL_NAME")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    err = stack.enter_context(log.open("wb"))
    out = stack.enter_context(stdout.open("wb")) if stdout else err
    process = subprocess.Popen(
        [sys.executable, *command], env={**inherited, **environ}, stdout=out, stderr=err
    )
    stack.callback(_stop, process)
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(true: Any, process: subprocess.Popen[bytes], log: Path) -> None:  # noqa: ANN401 - a function
    deadline = time.monotonic() + _START_SECONDS
    while not true():
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"{process.args} did not start:\n{log.read_text('utf-8')[-2000:]}")
        time.sleep(0.05)


def _answers(port: int, path: str) -> bool:
    try:
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}{path}", timeout=1) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects among a file's complete lines."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
