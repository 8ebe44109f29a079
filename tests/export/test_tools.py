"""What a tool declares: each fault is named with file, line and fix; what is right loads in the runtime."""

from pathlib import Path

import pytest
from test_desk import problems, write

from edge.decision import Level
from edge.normaliser import Lang, Normaliser
from edge.tools import Tool
from export.desk_reader import load_desk
from export.tool_gates import gate_entry
from export.tools import DEFAULTS, USES, tool_entry

TOOL = """\
- name: get
  description: d
  method: GET
  url: /orders
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("use: call", "5: 'use' must be one of suggest, prefetch, inject, answer, got 'call'"),
        ("use: [answer]", "5: 'use' must be one of suggest"),
        (
            "use: answer\n  effects: write",
            "5: 'use' 'answer' calls the tool, and only tools with effects: read",
        ),
        ("effects: delete", "5: 'effects' must be one of read, write, got 'delete'"),
        ("scope: tenant", "5: 'scope' must be one of user, public"),
        ("credential: authorization", "5: 'credential' must be header:NAME"),
        ("credential: 'header:'", "5: 'credential' must be header:NAME"),
        ("credential: 'header:a b'", "5: 'credential' must be header:NAME"),
        ("credential: 'secret:demo'", "5: 'credential' must be header:NAME"),
        ("credential: 'secret:1A'", "5: 'credential' must be header:NAME"),
        ("credential: {secret: A}", "5: 'credential' must be header:NAME"),
        *(
            (f"credential: 'header:{name}'", "5: 'credential' must be header:NAME")
            for name in ("Host", "content-length", "Transfer-Encoding", "X-Frontdesk-User", "accept-encoding")
        ),
        ("timeout_ms: 0", "5: 'timeout_ms' must be whole milliseconds from 1 to 60000, got 0"),
        ("timeout_ms: 60001", "5: 'timeout_ms' must be whole milliseconds"),
        ("timeout_ms: 1.5", "5: 'timeout_ms' must be whole milliseconds"),
        ("timeout_ms: true", "5: 'timeout_ms' must be whole milliseconds"),
        ("max_concurrency: 0", "5: 'max_concurrency' must be a whole number from 1"),
        ("rate: 0", "5: 'rate' must be calls a second, more than 0"),
        ("rate: fast", "5: 'rate' must be calls a second"),
        ("cost: -1", "5: 'cost' must be milliseconds, 0 or more"),
        ("cost: .inf", "5: 'cost' must hold what JSON can"),
        ("cost: 2027-01-01", "5: 'cost' must hold what JSON can"),
        ("cache_s: -1", "5: 'cache_s' must be seconds from 0 to 86400"),
        ("cache_s: 86401", "5: 'cache_s' must be seconds from 0 to 86400"),
        ("cache_s: daily", "5: 'cache_s' must be seconds"),
        ("owner: [user]", "5: 'owner' must be the name of a field"),
        ("owner: ' '", "5: 'owner' must be the name of a field"),
        (
            "owner: user\n  scope: public",
            "5: 'owner' names whose result it is, so the tool's scope must be user",
        ),
        ("retries: 3", "5: 'retries' is no key of a tool; its keys are cache_s, cost"),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, more: str, expected: str) -> None:
    found = problems(write(tmp_path, tools_yaml=f"{TOOL}  {more}\n"))
    assert any(problem.startswith(f"/tools.yaml:{expected}") for problem in found), found


@pytest.mark.parametrize("use", USES[1:])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "GET",
            "PUT",
            "5: 'use' '{use}' calls the tool by GET or POST, got method 'PUT'; write use: suggest",
        ),
        ("name: get", "name: get.order", "1: 'name' of a tool that is called must match"),
        ("name: get", "name: slots", "1: 'name' of a tool that is called must match"),
    ],
)
def test_a_called_tool_must_be_one_that_can_be(
    tmp_path: Path, use: str, old: str, new: str, expected: str
) -> None:
    tools = TOOL.replace(old, new)
    found = problems(write(tmp_path, tools_yaml=f"{tools}  use: {use}\n"))
    assert any(problem.startswith(f"/tools.yaml:{expected.format(use=use)}") for problem in found), found
    assert load_desk(write(tmp_path, tools_yaml=tools)).tools  # to suggest, it may be any


@pytest.mark.parametrize(
    "more",
    [
        *(f"use: {use}" for use in USES),
        "use: answer\n  credential: 'header:Authorization'",
        "use: answer\n  credential: 'secret:DEMO_KEY_2'",
        "use: inject\n  owner: user\n  timeout_ms: 60000\n  max_concurrency: 1\n  rate: 0.5\n  cost: 0\n  cache_s: 86400",
        "use: prefetch\n  scope: public\n  timeout_ms: 1\n  cache_s: 0.5\n  rate: 100",
        "effects: write\n  method: POST",
        "use:\n  credential:\n  timeout_ms:\n  rate:\n  owner:\n  slots:\n  cost:\n  cache_s:\n  scope:\n  effects:",
    ],
)
def test_what_is_right_loads_in_the_runtime(tmp_path: Path, more: str) -> None:
    tools = TOOL.replace("  method: GET\n", "") if "method" in more else TOOL
    [tool] = load_desk(write(tmp_path, tools_yaml=f"{tools}  {more}\n")).tools
    entry = tool_entry(tool, Normaliser()) | gate_entry((), tool, (Lang.EN,))
    assert Tool.of_data(entry).use is Level.of(str(tool.get("use") or "suggest"))


def test_a_tool_is_compiled_with_its_defaults(tmp_path: Path) -> None:
    tools = TOOL.replace("GET", "get") + "  credential: 'header:X-Api-Key'\n  cost:\n"
    [tool] = load_desk(write(tmp_path, tools_yaml=tools)).tools
    assert tool_entry(tool, Normaliser()) == {
        "name": "get", "description": "d", "method": "GET", "url": "/orders", "slots": [], "effects": "read",
        "scope": "user", "use": "suggest", "credential": "header:x-api-key", "timeout_ms": 2000,
        "max_concurrency": 8, "rate": None, "cost": 500, "cache_s": 0, "owner": None,
    }  # fmt: skip
    assert Level.of(DEFAULTS["use"]) is Level.SUGGEST
