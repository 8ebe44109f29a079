"""The ways of a turn through the agent, over a real LLM server."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai
import pytest
from around import ASK, KEYS, NOTHING, STRONG, Llm, Log, Lookup, Serve, ask, planned, user
from hints import Hints, HintsKey
from servers import DONE, LAST_CHUNK, SSE_HEAD, Do, ScriptedUpstream, chunk, delta, json_answer, wait_until
from tools import Tool, ToolError, by_name

README = Path(__file__).parents[2] / "examples/agent/README.md"
PLAN = planned(("next_bus", {"line": "42"}))


@pytest.fixture
def llm() -> Iterator[Llm]:
    with ScriptedUpstream() as upstream:
        yield Llm(upstream)


@pytest.fixture
def bus() -> Lookup:
    return Lookup()


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


def results(messages: list[dict[str, Any]]) -> list[Any]:
    """What the tool messages say, each checked to follow its own call."""
    calls = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    told = [message for message in messages if message["role"] == "tool"]
    assert {message["tool_call_id"] for message in told} == calls
    assert len(told) == len(calls)
    return [json.loads(message["content"]) for message in told]


# --- planned ---


@pytest.mark.parametrize("stream", [False, True])
def test_plan_tools_answer(run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, stream: bool) -> None:
    llm.plans.append(PLAN)
    with run_agent(llm.settings, [bus.tool()]) as url:
        response = ask(url, stream=stream, user="eva", temperature=0.5)
    if stream:
        assert response.content == delta("At 09:42.") + DONE
    else:
        assert response.json()["choices"][0]["message"]["content"] == "At 09:42."
    assert bus.calls == [({"line": "42"}, "eva")]
    asked, answered = llm.asked
    assert asked.keys() == {"model", "messages", "response_format"}  # what every server knows
    assert roles(asked["messages"]) == ["system", "user"]
    assert asked["messages"][1]["content"].startswith("When does the 42 leave?\n\n[Plan]")
    assert (answered["temperature"], answered["stream"]) == (0.5, stream)
    assert "response_format" not in answered
    assert roles(answered["messages"]) == ["system", "user", "assistant", "tool"]
    assert answered["messages"][0] == asked["messages"][0]
    assert answered["messages"][1] == ASK[0]
    assert results(llm.told) == [{"data_of": "next_bus", "result": {"leaves": "09:42"}}]
    [line] = log_lines(1)
    assert (line["route"], line["llm_calls"]) == ("planned", 2)
    assert line["skipped"] == {"shortcut": "no_hints"}
    assert line["stages"].keys() == {"verify", "plan", "tools", "answer"}
    [tool] = line["tools"]
    assert (tool["tool"], tool["outcome"]) == ("next_bus", "ok")
    known = 1 if stream else 2  # a stream says its tokens only where it is asked to
    assert (line["prompt_tokens"], line["cached_tokens"]) == (100 * known, 60 * known)
    assert line["completion_tokens"] == 10 * known
    assert "42" not in json.dumps(
        {**line, "time": "", "total_ms": 0, "first_token_ms": 0, "stages": 0, "tools": 0}
    )


def test_a_stream_that_tells_its_tokens_is_counted(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup
) -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}\n\n'
    halves = [chunk(usage[:30]), 0.05, chunk(usage[30:])]
    llm.answer_script = [SSE_HEAD, chunk(delta("x" * 5000)), *halves, chunk(DONE), LAST_CHUNK]
    with run_agent(llm.settings, [bus.tool()]) as url:
        assert ask(url, stream=True, stream_options={"include_usage": True}).content.endswith(usage + DONE)
    [line] = log_lines(1)
    assert (line["prompt_tokens"], line["completion_tokens"]) == (107, 12)


def test_the_openai_client_sees_nothing_of_the_loop(run_agent: Serve, llm: Llm, bus: Lookup) -> None:
    llm.plans.append(PLAN)
    with (
        run_agent(llm.settings, [bus.tool()]) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
    ):
        chunks = list(client.chat.completions.create(model="any", messages=ASK, stream=True))  # type: ignore[arg-type]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "At 09:42."


def together(parties: int) -> Callable[[], Any]:
    """What returns only once so many are in it at the same time."""
    inside = 0
    everybody = anyio.Event()

    async def meet() -> None:
        nonlocal inside
        inside += 1
        if inside == parties:
            everybody.set()
        await everybody.wait()

    return meet


@pytest.mark.parametrize("hinted", [False, True])
def test_tools_run_at_the_same_time(run_agent: Serve, llm: Llm, hinted: bool) -> None:
    meet = together(3)
    tools = [Lookup(f"t{n}", result=n, parameters=NOTHING, does=meet) for n in range(3)]
    llm.plans.append(planned(*((tool.name, {}) for tool in tools)))
    hints = replace(STRONG, tools=("t0", "t1", "t2"), slots={}) if hinted else None
    with run_agent(llm.settings, [tool.tool() for tool in tools]) as url:
        ask(url, hints=hints)
    assert [each["result"] for each in results(llm.told)] == [0, 1, 2]  # in the plan's order
    assert len(llm.asked) == (1 if hinted else 2)


def test_more_asks_for_another_plan_with_the_results(run_agent: Serve, log_lines: Log, llm: Llm) -> None:
    line, bus = Lookup("line_to", result={"line": "42"}, parameters=NOTHING), Lookup()
    llm.plans += [planned(("line_to", {}), more=True), PLAN]
    with run_agent(llm.settings, [line.tool(), bus.tool()]) as url:
        ask(url)
    second = llm.asked[1]["messages"]
    assert roles(second) == ["system", "user", "assistant", "tool", "user"]
    assert second[-1]["content"].startswith("[Plan]")
    assert [each["data_of"] for each in results(llm.told)] == ["line_to", "next_bus"]
    [logged] = log_lines(1)
    assert (logged["llm_calls"], logged["skipped"]) == (3, {"shortcut": "no_hints"})


def test_the_step_limit_answers_from_what_is_there(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup
) -> None:
    llm.plans += [planned(("next_bus", {"line": str(line)}), more=True) for line in range(10, 20)]
    with run_agent(replace(llm.settings, max_steps=4), [bus.tool()]) as url:
        ask(url)
    assert [arguments["line"] for arguments, _ in bus.calls] == ["10", "11", "12", "13"]
    assert len(results(llm.told)) == 4
    [line] = log_lines(1)
    assert line["skipped"]["plan"] == "step_limit"
    assert line["llm_calls"] == 5


def test_a_call_is_made_once(run_agent: Serve, llm: Llm, bus: Lookup) -> None:
    """Twice in one plan, and again in the next: an LLM that goes in circles ends there."""
    twice = planned(("next_bus", {"line": "42"}), ("next_bus", {"line": "42"}), more=True)
    llm.plans += [twice, twice, twice]
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url)
    assert len(bus.calls) == 1
    assert len(results(llm.told)) == 1
    assert len(llm.asked) == 3


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("I would call next_bus.", "one JSON object"),
        ('{"calls": [', "one JSON object"),
        ("[" * 30_000, "one JSON object"),
        ("{" * 3000 + "}" * 3000, "one JSON object"),
        ('{"calls": {"tool": "next_bus"}}', "one JSON object"),
        (planned(("next_tram", {})), "names no tool"),
        ('{"calls": ["next_bus"]}', "names no tool"),
        (planned(("next_bus", {})), "line is missing"),
        (planned(("next_bus", {"line": "42", "user": "ana"})), "no argument user"),
        (planned(("next_bus", {"line": 42})), "line must be of type string"),
        (planned(("next_bus", {"line": "'; drop table"})), "line must match"),
        ('{"calls": [{"tool": "next_bus", "arguments": ["42"]}]}', "must be an object"),
        (planned(*(("next_bus", {"line": str(10 + n)}) for n in range(9))), "at most 8"),
    ],
)
def test_an_invalid_plan_is_repaired_once(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, wrong: str, problem: str
) -> None:
    with run_agent(llm.settings, [bus.tool()]) as url:
        llm.plans += [wrong, PLAN]
        ask(url)
        repair = llm.asked[1]["messages"]
        assert roles(repair) == ["system", "user", "assistant", "user"]
        assert repair[:2] == llm.asked[0]["messages"]
        assert problem in repair[-1]["content"]
        assert len(bus.calls) == 1
        assert len(results(llm.told)) == 1
        llm.plans += [wrong, wrong, PLAN]
        ask(url)
        assert len(llm.asked) == 3 + 3  # no third plan
        assert len(bus.calls) == 1
        assert roles(llm.told) == ["system", "user"]
    repaired, given_up = log_lines(2)
    assert repaired["stages"].keys() >= {"plan", "repair", "tools"}
    assert given_up["skipped"]["tools"] == "no_plan:invalid"


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{PLAN}\n```",
        f"<think>maybe {{}} or {{1}}</think>{PLAN}",
        f"Here you are: {PLAN}",
        PLAN.replace('"42"', '"42", "other": null'),
    ],
)
def test_plans_of_models_that_talk(run_agent: Serve, llm: Llm, bus: Lookup, text: str) -> None:
    parameters = {
        **bus.parameters,
        "properties": {**bus.parameters["properties"], "other": {"type": "string"}},
    }
    llm.plans.append(text)
    with run_agent(llm.settings, [replace(bus, parameters=parameters).tool()]) as url:
        ask(url)
    assert (len(llm.asked), bus.calls) == (2, [({"line": "42"}, None)])


def test_a_server_that_refuses_the_format_is_asked_without(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup
) -> None:
    llm.plan_script = json_answer(
        b'{"error": {"message": "response_format is not supported"}}', "400 Bad Request"
    )
    llm.answer = PLAN
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url)
        ask(url)
    assert ["response_format" in body for body in llm.asked] == [True, False, False, False, False]
    assert len(bus.calls) == 2
    assert [line["llm_calls"] for line in log_lines(2)] == [3, 2]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (json_answer(b"{}", "500 Internal Server Error"), "no_plan:llm_500"),
        (json_answer(b'{"choices": []}'), "no_plan:llm_unreadable"),
        (json_answer(b"<html>"), "no_plan:llm_unreadable"),
        ([Do.RESET], "no_plan:upstream_unavailable"),
        ([Do.STALL], "no_plan:timeout"),
    ],
)
def test_no_plan_to_be_had(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, script: Any, why: str
) -> None:
    llm.plan_script = script
    timeout_ms = 300 if script == [Do.STALL] else 10_000
    with run_agent(replace(llm.settings, plan_timeout_ms=timeout_ms), [bus.tool()]) as url:
        assert ask(url).json()["choices"][0]["message"]["content"] == "At 09:42."
    assert roles(llm.told) == ["system", "user"]
    assert log_lines(1)[0]["skipped"]["tools"] == why


# --- what hints save ---


def test_a_strong_hint_needs_no_plan(run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup) -> None:
    slots = {**STRONG.slots, "unrelated": 3}
    with run_agent(llm.settings, [bus.tool(), Lookup("other").tool()]) as url:
        ask(url, hints=replace(STRONG, slots=slots), user="eva")
    assert bus.calls == [({"line": "42"}, "eva")]
    assert len(llm.asked) == 1
    assert roles(llm.told) == ["system", "user", "assistant", "tool"]
    [line] = log_lines(1)
    assert (line["route"], line["llm_calls"], line["skipped"]) == ("hinted", 1, {"plan": "hinted"})
    assert "plan" not in line["stages"]


WEAK: list[tuple[dict[str, Any], str]] = [
    ({"confidence": 0.79}, "low_confidence"),
    ({"confidence": None}, "low_confidence"),
    ({"complexity": "multi"}, "not_single"),
    ({"complexity": None}, "not_single"),
    ({"topic": None}, "no_topic"),
    ({"tools": ("next_bus", "next_tram")}, "unknown_tool:next_tram"),
    ({"slots": {}}, "arguments:next_bus"),
    ({"slots": {"line": "forty-two"}}, "arguments:next_bus"),
    ({"slots": {"line": 42}}, "arguments:next_bus"),
    ({"reason": "needs_context"}, "reason"),
    ({"reason": "out_of_scope"}, "reason"),
    ({"reason": "something_new"}, "reason"),
    ({"reason": None}, "reason"),
]


@pytest.mark.parametrize(("weaker", "why"), WEAK)
def test_any_doubt_is_planned(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, weaker: dict[str, Any], why: str
) -> None:
    llm.plans.append(PLAN)
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url, hints=replace(STRONG, **weaker))
    assert len(llm.asked) == 2
    [line] = log_lines(1)
    assert (line["route"], line["skipped"]) == ("planned", {"shortcut": why})


@pytest.mark.parametrize(
    "hints", [STRONG, replace(STRONG, tools=()), replace(STRONG, injected=("next_bus",))]
)
@pytest.mark.parametrize(
    ("key", "signed_at", "ignored"),
    [
        (None, None, "unsigned"),
        (KEYS[0], 1_000_000, "expired"),
        (HintsKey("new1", b"another secret" * 3), None, "altered"),
    ],
)
def test_hints_that_prove_nothing_save_nothing(
    run_agent: Serve,
    log_lines: Log,
    llm: Llm,
    bus: Lookup,
    hints: Hints,
    key: Any,
    signed_at: Any,
    ignored: str,
) -> None:
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url, hints=hints, key=key, signed_at=signed_at)
    assert len(llm.asked) == 2
    assert bus.calls == []  # as the plan has it, not as the hints do
    [line] = log_lines(1)
    assert (line["route"], line["hints_ignored"]) == ("planned", ignored)


def test_without_keys_hints_shorten_nothing(run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup) -> None:
    with run_agent(replace(llm.settings, hints_keys=()), [bus.tool()]) as url:
        ask(url, hints=STRONG)
    [line] = log_lines(1)
    assert (line["route"], line["skipped"]) == ("planned", {"shortcut": "unsigned"})


def test_a_topic_without_tools_is_answered_directly(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup
) -> None:
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url, hints=replace(STRONG, tools=(), slots={}))
        ask(url, hints=replace(STRONG, tools=(), confidence=0.7))
    assert len(llm.asked) == 3
    assert [line["route"] for line in log_lines(2)] == ["direct", "planned"]


def injected(*tools: str) -> list[dict[str, Any]]:
    calls = [
        {"id": f"call_{tool}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        for tool in tools
    ]
    told = [{"role": "tool", "tool_call_id": f"call_{tool}", "content": '{"n": 1}'} for tool in tools]
    return [*ASK, {"role": "assistant", "content": None, "tool_calls": calls}, *told]


@pytest.mark.parametrize("confidence", [0.9, 0.3])
def test_injected_results_are_answered_at_once(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, confidence: float
) -> None:
    messages = injected("next_bus")
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url, messages, replace(STRONG, injected=("next_bus",), confidence=confidence))
    assert bus.calls == []
    [asked] = llm.asked
    assert asked["messages"][1:] == messages
    [line] = log_lines(1)
    assert (line["route"], line["skipped"], line["llm_calls"]) == ("injected", {"plan": "injected"}, 1)


def test_what_was_not_injected_is_called(run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup) -> None:
    """Frontdesk had one of the topic's two tools in time."""
    hints = replace(STRONG, tools=("next_tram", "next_bus"), injected=("next_tram",))
    with run_agent(llm.settings, [bus.tool(), Lookup("next_tram").tool()]) as url:
        ask(url, injected("next_tram"), hints)
        assert len(bus.calls) == 1
        assert roles(llm.told) == ["system", "user", "assistant", "tool", "assistant", "tool"]
        ask(url, injected("next_tram"), replace(hints, slots={}))
    assert roles(llm.asked[1]["messages"]) == ["system", "user", "assistant", "tool", "user"]
    assert [line["route"] for line in log_lines(2)] == ["hinted", "planned"]


@pytest.mark.parametrize(
    "messages",
    [
        [*injected("next_bus"), user("And the 43?")],  # of an earlier turn
        injected("next_tram"),  # another tool's
        [*ASK, {"role": "tool", "tool_call_id": "call_x", "content": "{}"}],  # without a call
        [
            *ASK,
            {"role": "assistant", "tool_calls": [1, {"id": []}, {"function": 1}]},
            *injected("next_bus")[-1:],
        ],
    ],
)
def test_injected_by_the_hints_alone_is_not_injected(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, messages: Any
) -> None:
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url, messages, replace(STRONG, injected=("next_bus",)))
    assert len(bus.calls) == 1
    assert log_lines(1)[0]["route"] == "hinted"


# --- straight through ---


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        (ASK, {"tools": [{"type": "function", "function": {"name": "next_bus", "parameters": {}}}]}),
        (ASK, {"functions": [{"name": "next_bus"}]}),
        (injected("next_bus"), {}),  # the client's own loop
        ([*ASK, {"role": "assistant", "content": "It leaves at"}], {}),
    ],
)
def test_a_client_with_a_loop_of_its_own(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, messages: Any, fields: dict[str, Any]
) -> None:
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url, messages, replace(STRONG, tools=("next_bus",)), **fields)
    [received] = llm.upstream.requests
    assert received.body == json.dumps({"model": "any", "messages": messages, **fields}).encode()
    assert bus.calls == []
    [line] = log_lines(1)
    assert (line["route"], line["llm_calls"]) == ("straight", 1)
    assert line["stages"].keys() == {"verify", "answer"}


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("content", ["Be kind.", [{"type": "text", "text": "Be kind."}], None])
def test_one_system_message_always_with_the_same_beginning(
    run_agent: Serve, llm: Llm, bus: Lookup, role: str, content: Any
) -> None:
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url)
        prompt = llm.told[0]["content"]
        ask(url, [{"role": role, "content": content}, *ASK])
    told = llm.told[0]["content"]
    assert "- next_bus(line: string): When a bus leaves." in prompt
    if content is None:
        assert told == prompt
    elif isinstance(content, str):
        assert (roles(llm.told), told) == ([role, "user"], f"{prompt}\n\nBe kind.")
    else:
        assert told == [{"type": "text", "text": prompt}, *content]


def test_a_question_of_parts_is_left_as_it_is(run_agent: Serve, llm: Llm, bus: Lookup) -> None:
    parts = [{"type": "text", "text": "Which bus?"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url, [{"role": "user", "content": parts}])
    first = llm.asked[0]["messages"]
    assert first[1] == {"role": "user", "content": parts}
    assert first[2]["content"].startswith("[Plan]")


@pytest.mark.parametrize(
    "messages",
    [
        [
            {
                "role": "assistant",
                "tool_calls": [1, {"id": []}, {"function": 1}, {"function": {"arguments": "{"}}],
            },
            *ASK,
        ],
        [{"role": "assistant", "tool_calls": 7}, {"role": "tool", "tool_call_id": {}}, *ASK],
        [{"role": "system", "content": 1}, {"role": "user", "content": None}],
        [{"role": ["user"]}, {"content": {}}, {"role": "user", "content": [1, {"text": 2}]}],
        [user("x" * 200)] * 400,
        [{"role": "user"}],
    ],
)
@pytest.mark.parametrize("scripted", [True, False])
def test_odd_conversations(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, messages: Any, scripted: bool
) -> None:
    """A client may send any JSON: it is the LLM's to judge, and no reason to fail."""
    fast = {
        "first_token_ms": 0,
        "planning_ms": 0,
        "prefill_ms_per_token": 0,
        "tokens_per_second": float("inf"),
    }
    changes = {"base_url": None, **fast} if scripted else {}
    with run_agent(replace(llm.settings, fold_over_tokens=500, **changes), [bus.tool()]) as url:
        ask(url, messages)
        ask(url, messages, replace(STRONG, injected=("next_bus",)))
    assert {line["generation"] for line in log_lines(2)} == {"finished"}


# --- the client leaves ---


def leaves(url: str, stream: bool) -> None:
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=0.4) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        client.chat.completions.create(model="any", messages=ASK, stream=stream)  # type: ignore[call-overload]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stage", ["plan", "tools", "answer"])
def test_everything_stops_when_the_client_leaves(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup, stage: str, stream: bool
) -> None:
    stopped = threading.Event()

    async def forever() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    llm.plans.append(PLAN)
    if stage == "plan":
        llm.plan_script = [Do.STALL]
    elif stage == "tools":
        bus.does = forever
    else:
        llm.answer_script = [Do.STALL]
    with run_agent(llm.settings, [bus.tool(timeout_s=60)]) as url:
        leaves(url, stream)
        [line] = log_lines(1)
        if stage == "tools":
            assert stopped.wait(5)
        else:
            assert llm.upstream.requests[-1].closed.wait(5)
        assert len(llm.upstream.requests) == {"plan": 1, "tools": 1, "answer": 2}[stage]
    assert (line["client_left"], line["generation"]) == (True, "cancelled")
    assert stage in line["stages"]
    assert line["total_ms"] < 5000


# --- tools of one's own ---


async def _nothing(*_: object) -> None: ...


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}, "'format'"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "type of 'a'"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "required"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, "cannot be used"),
        ({"type": "array"}, "type object"),
        ({"type": "object", "$ref": "x"}, "'\\$ref'"),
    ],
)
def test_a_schema_that_would_check_nothing_is_refused_at_start(parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        by_name([Tool("t", "", parameters, _nothing)], {})


@pytest.mark.parametrize("names", [["a", "a"], ["a b"], [""], ["a\n"]])
def test_two_tools_of_one_name_and_odd_names(names: list[str]) -> None:
    with pytest.raises(ValueError, match="name"):
        by_name([Tool(name, "", NOTHING, _nothing) for name in names], {})


def test_the_readmes_tools_can_be_used() -> None:
    [code] = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)
    module: dict[str, Any] = {}
    exec(code, module)
    assert set(by_name(module["TOOLS"], {})) == {"get_vacation", "get_order"}


def test_a_tool_is_as_slow_as_set(run_agent: Serve, log_lines: Log, llm: Llm) -> None:
    tools = [Lookup("slow", parameters=NOTHING).tool(), Lookup("other", parameters=NOTHING).tool()]
    settings = replace(llm.settings, tool_delays_ms={"slow": 200, "*": 50})
    with run_agent(settings, tools) as url:
        start = time.perf_counter()
        ask(url, hints=replace(STRONG, tools=("slow", "other"), slots={}))
        assert time.perf_counter() - start >= 0.19  # timers may fire a little early
    noted = {each["tool"]: each["ms"] for each in log_lines(1)[0]["tools"]}
    assert 45 <= noted["other"] < 190
    assert noted["slow"] >= 190


def test_a_tool_error_is_told_to_the_llm_and_no_more(
    run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup
) -> None:
    async def refuses() -> None:
        raise ToolError(403, "not_yours", "That bus is not yours.")

    async def breaks() -> None:
        raise KeyError("a secret of the tool's")

    with run_agent(llm.settings, [bus.tool()]) as url:
        bus.does = refuses
        ask(url, hints=STRONG)
        assert results(llm.told) == [{"data_of": "next_bus", "error": "That bus is not yours."}]
        bus.does = breaks
        ask(url, hints=STRONG)
        assert results(llm.told) == [{"data_of": "next_bus", "error": "The tool failed."}]
    lines = log_lines(2)
    assert [line["tools"][0]["outcome"] for line in lines] == ["not_yours", "failed:KeyError"]
    assert "secret" not in json.dumps(lines)


def test_stats_by_route_and_stage(run_agent: Serve, log_lines: Log, llm: Llm, bus: Lookup) -> None:
    with run_agent(llm.settings, [bus.tool()]) as url:
        for _ in range(3):
            ask(url, hints=STRONG, stream=True)
        ask(url)
        log_lines(4)
        shown = httpx2.get(f"{url}/stats").json()
    assert shown.keys() == {"hinted", "planned"}
    assert shown["hinted"].keys() == {"verify", "tools", "answer", "first_token", "total"}
    assert shown["planned"].keys() == {"verify", "plan", "answer", "total"}
    assert {stage["count"] for stage in shown["hinted"].values()} == {3}
    total = shown["hinted"]["total"]
    assert 0 < total["p50"] <= total["p90"] <= total["p99"]
    assert shown["hinted"]["first_token"]["p50"] <= total["p99"]


def test_nothing_is_left_running(run_agent: Serve, llm: Llm, bus: Lookup) -> None:
    with run_agent(llm.settings, [bus.tool()]) as url:
        ask(url)
    wait_until(lambda: not llm.upstream.open, "the agent's connections to be closed")
