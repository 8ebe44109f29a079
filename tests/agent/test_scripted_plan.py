"""The scripted LLM's plans: by rules, by a file, in time."""

import json
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from around import Log, Serve, user
from company import TOOLS
from plan import parse_plan, plan_request, response_format, with_prompt
from scriptplan import Plans
from settings import Settings
from tools import by_name, today

NAMED = by_name(TOOLS, {})
LAST_MONTH = f"{date.today().replace(day=1) - timedelta(1):%Y-%m}"
FAST = Settings(prefill_ms_per_token=0, first_token_ms=0, planning_ms=0, tokens_per_second=float("inf"))


def plan_of(url: str, messages: list[dict[str, Any]]) -> Any:
    """A plan over the wire, as an agent with this LLM behind BASE_URL asks for one; and the completion."""
    asked = plan_request(with_prompt(messages, NAMED), today())
    body = {"messages": asked, "response_format": response_format(NAMED)}
    completion = httpx2.post(f"{url}/v1/chat/completions", json=body).json()
    return completion["choices"][0]["message"]["content"], completion


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("Where is order 1024?", [("get_order", {"order_id": "1024"})]),
        ("订单58213到哪了", [("get_order", {"order_id": "58213"})]),
        ("where is my order", []),  # which one was not said
        ("show the salary of employee 7", [("get_payslip", {"month": LAST_MONTH, "employee": "7"})]),
        ("我2026-03的工资条", [("get_payslip", {"month": "2026-03"})]),
        ("How many days off are left?", [("get_leave_balance", {})]),
        ("云雀X1 Pro还有货吗", [("get_stock", {"product": "x1_pro"})]),
        ("how much is the Buds 2", [("get_price", {"product": "buds_2"})]),
        (
            "weather in Hong Kong tomorrow, and 200 dollars in yuan?",
            [("get_weather", {"city": "hong_kong", "day": "tomorrow"}), ("get_exchange_rate", {"currency": "usd", "amount": 200.0})],
        ),
        ("周五15:30有会议室吗", [("get_free_rooms", {"day": "friday", "time": "15:30"})]),
        ("报销单20418批了吗", [("get_expense_status", {"claim_no": "20418"})]),
        ("write me a poem", []),
    ],
)  # fmt: skip
def test_rules(question: str, calls: list[Any]) -> None:
    plan = parse_plan(json.dumps(Plans({}).plan([user(question)], set(NAMED))), NAMED)
    assert [(each.tool.name, dict(each.arguments)) for each in plan.calls] == calls


def test_only_tools_that_are_offered() -> None:
    assert Plans({}).plan([user("order 1024")], {"get_refund"})["calls"] == []


def test_over_the_wire_it_still_says_that_it_is_scripted(fast: str) -> None:
    text, completion = plan_of(fast, [user("Where is order 1024?")])
    assert [each.tool.name for each in parse_plan(text, NAMED).calls] == ["get_order"]
    assert (completion["model"], completion["system_fingerprint"]) == ("scripted", "scripted")
    assert completion["usage"]["prompt_tokens"] > 400


def test_what_was_called_is_not_planned_again(fast: str) -> None:
    question = user("Where is order 1024?")
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "get_order", "arguments": '{"order_id":"1024"}'},
    }
    done = [
        question,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "{}"},
    ]
    assert json.loads(plan_of(fast, done)[0]) == {"calls": [], "more": False}
    again = [*done, {"role": "assistant", "content": "On its way."}, question]
    assert len(json.loads(plan_of(fast, again)[0])["calls"]) == 1


def test_another_json_schema_is_no_plan(fast: str) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    body = {"messages": [user("[Plan] hello")], "response_format": schema}
    text = httpx2.post(f"{fast}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    assert text.startswith("[scripted LLM]")


def test_a_plan_takes_its_time(run_agent: Serve) -> None:
    settings = Settings(prefill_ms_per_token=0, first_token_ms=0, tokens_per_second=1, planning_ms=400)
    with run_agent(settings) as url:
        start = time.perf_counter()
        plan_of(url, [user("Where is order 1024?")])
        assert 0.4 <= time.perf_counter() - start < 2  # and not a second for each of its tokens


ROWS = [
    {
        "text": "Fix my laptop.",
        "calls": [{"tool": "get_points", "arguments": {}}],
        "answer": "Done.",
        "tokens": 40,
    },
    {"text": "Count.", "tokens": 200},
    {"text": "Only an answer", "answer": "Here it is."},
]


def test_a_file_says_what_is_planned_and_answered(run_agent: Serve, log_lines: Log, tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n", "utf-8")
    settings = Settings(
        prefill_ms_per_token=0, first_token_ms=0, planning_ms=0, tokens_per_second=float("inf"),
        plans=str(path), tools="company", identity_header="x-user",
    )  # fmt: skip
    with (
        run_agent(settings) as url,
        httpx2.Client(base_url=url, headers={"x-user": "eva"}, trust_env=False) as client,
    ):
        told = [
            client.post("/v1/chat/completions", json={"messages": [user(text)]}).json()
            for text in ("Fix my laptop.", "Count.", "Only an answer", "Where is order 1024?")
        ]
    texts = [completion["choices"][0]["message"]["content"] for completion in told]
    lengths = [completion["usage"]["completion_tokens"] for completion in told]
    assert texts[0].startswith("[scripted LLM] Done.")
    assert texts[2] == "[scripted LLM] Here it is."
    assert texts[3].startswith(
        '[scripted LLM] You asked: "Where is order 1024?". A tool had returned: "{"user":"eva"'
    )
    assert lengths[:2] == [40, 200]
    assert [[each["tool"] for each in line["tools"]] for line in log_lines(4)] == [
        ["get_points"],
        [],
        [],
        ["get_order"],
    ]


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"text": 1}', "1"])
def test_a_broken_file_is_refused_at_start(tmp_path: Path, line: str) -> None:
    path = tmp_path / "plans.jsonl"
    path.write_text('{"text": "fine"}\n' + line, "utf-8")
    with pytest.raises(ValueError, match=r"plans\.jsonl:2"):
        Plans.read(str(path))
