"""Early dialogue as a summary: what is folded, what never is, and that the beginning stays stable."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import anyio
import pytest
from around import ASK, STRONG, Llm, Log, Lookup, Serve, ask, user
from fold import Folder
from hypothesis import given, settings
from hypothesis import strategies as st
from requestlog import Record
from scripted import ScriptedLLM
from servers import Do, ScriptedUpstream, json_answer
from settings import Settings
from wire import Chat, dumps

FAST = Settings(prefill_ms_per_token=0, first_token_ms=0, tokens_per_second=float("inf"))
SYSTEM = {"role": "system", "content": "Be kind."}


def turn(number: int, size: int, tools: int = 0) -> list[dict[str, Any]]:
    """A user's turn of about ``size`` tokens, with so many parallel tool calls."""
    calls = [
        {"id": f"call_{number}_{n}", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        for n in range(tools)
    ]
    exchange: list[dict[str, Any]] = []
    if calls:
        exchange = [{"role": "assistant", "content": None, "tool_calls": calls}]
        exchange += [{"role": "tool", "tool_call_id": call["id"], "content": "{}"} for call in calls]
    return [
        user(f"Question {number} " + "x" * 4 * size),
        *exchange,
        {"role": "assistant", "content": f"Answer {number}"},
    ]


def flat(turns: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [message for each in turns for message in each]


def fold_all(
    folder: Folder, conversations: list[list[dict[str, Any]]]
) -> list[tuple[list[dict[str, Any]], Record]]:
    """Each conversation folded, by one agent."""
    folded = []

    async def run() -> None:
        for messages in conversations:
            body = {"messages": messages}
            record = Record("r", "/", None, "scripted")
            chat = Chat(dumps(body), body, "r", None, {})
            folded.append((await folder.fold(chat, record), record))

    anyio.run(run)
    return folded


TURNS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 3)), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(TURNS, st.integers(50, 600), st.booleans())
def test_a_growing_conversation(sizes: list[tuple[int, int]], over: int, with_system: bool) -> None:
    """At every turn: a valid conversation, its end as it was, its beginning that of the turn before."""
    turns = [turn(number, size, tools) for number, (size, tools) in enumerate(sizes)]
    head = [SYSTEM] if with_system else []
    grown = [[*head, *flat(turns[:end])] for end in range(1, len(turns) + 1)]
    before: list[dict[str, Any]] = []
    summaries = 0
    for number, (messages, (folded, record)) in enumerate(
        zip(grown, fold_all(Folder(ScriptedLLM(FAST), over, 5), grown), strict=True), 1
    ):
        kept = flat(turns[max(0, number - 4) : number])
        assert folded[len(folded) - len(kept) :] == kept
        assert folded[: len(head)] == head
        if folded != messages:
            summary, seen, *rest = folded[len(head) :]
            assert (summary["role"], seen["role"], rest[0]["role"]) == ("user", "assistant", "user")
            assert rest == messages[-len(rest) :]
        open_calls: set[str] = set()
        for message in folded:
            open_calls |= {call["id"] for call in message.get("tool_calls", ())}
            if message["role"] == "tool":
                open_calls.remove(message["tool_call_id"])
        assert not open_calls
        summaries += record.llm_calls
        if not record.llm_calls and folded != messages:
            assert folded[: len(before)] == before  # no new summary: no byte before the new turn has changed
        before = folded
    total = sum(size + 8 + 14 * tools for size, tools in sizes)
    assert summaries <= total / (over / 2) + 1


def test_a_summary_is_written_once(run_agent: Serve, log_lines: Log) -> None:
    messages = [SYSTEM, *flat(turn(number, 60, 1) for number in range(13)), *ASK]
    longer = [*messages, {"role": "assistant", "content": "At 09:42."}, user("And after that?")]
    hints = replace(STRONG, tools=(), slots={})
    with ScriptedUpstream() as upstream:
        llm = Llm(upstream)
        with run_agent(replace(llm.settings, fold_over_tokens=400), [Lookup().tool()]) as url:
            for conversation in (messages, longer):
                ask(url, conversation, hints)
    written, first, second = llm.asked
    assert written["messages"][0]["content"].startswith("Summarise")
    assert "user: Question 0" in written["messages"][1]["content"]
    assert written.keys() == {"model", "messages"}
    prompt, summary, *_ = first["messages"]
    assert prompt["content"].endswith("Be kind.")
    assert summary["content"] == "(What we said before, in short.) At 09:42."
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert len(first["messages"]) < len(messages) / 2
    folded, kept = log_lines(2)
    assert (folded["llm_calls"], kept["llm_calls"]) == (2, 1)
    assert "fold" in folded["stages"]


def test_the_next_summary_carries_the_last_one_on(run_agent: Serve) -> None:
    turns = [turn(number, 60) for number in range(20)]
    hints = replace(STRONG, tools=(), slots={})
    with ScriptedUpstream() as upstream:
        llm = Llm(upstream)
        llm.answer = "They spoke of buses."
        with run_agent(replace(llm.settings, fold_over_tokens=400), [Lookup().tool()]) as url:
            for end in (9, 13):
                ask(url, [*flat(turns[:end]), *ASK], hints)
    first, _, second, _ = (body["messages"] for body in llm.asked)
    assert "Question 0" in first[1]["content"]
    assert "They spoke of buses." in second[1]["content"]
    assert "Question 0" not in second[1]["content"]


@pytest.mark.parametrize(
    "script",
    [json_answer(b"{}", "500 Internal Server Error"), [Do.STALL], json_answer(b'{"choices": [{"message": {"content": ""}}]}')],
)  # fmt: skip
def test_without_a_summary_the_conversation_stays_whole(
    run_agent: Serve, log_lines: Log, script: Any
) -> None:
    messages = [*flat(turn(number, 60) for number in range(12)), *ASK]
    with ScriptedUpstream() as upstream:
        llm = Llm(upstream)
        normal = upstream.script
        upstream.scripts.append(script)
        settings_ = replace(llm.settings, fold_over_tokens=400, plan_timeout_ms=400)
        with run_agent(settings_, [Lookup().tool()]) as url:
            assert upstream.script is normal
            ask(url, messages, replace(STRONG, tools=(), slots={}))
    assert llm.told[1:] == messages
    assert log_lines(1)[0]["skipped"]["fold"] == "no_summary"


@pytest.fixture
def folder() -> Iterator[Folder]:
    return Folder(ScriptedLLM(FAST), 400, 5)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (flat(turn(n, 200) for n in range(4)), "nothing_to_fold"),  # the last four turns alone
        ([user("x" * 8000)], "nothing_to_fold"),
        ([{"role": "assistant", "content": "x" * 8000}, *ASK], "nothing_to_fold"),
        ([*turn(0, 10), SYSTEM, *flat(turn(n, 200) for n in range(9))], "nothing_to_fold"),
        (flat(turn(n, 10) for n in range(9)), None),  # short
    ],
)
def test_what_is_never_folded(folder: Folder, messages: list[dict[str, Any]], why: str | None) -> None:
    [(folded, record)] = fold_all(folder, [messages])
    assert folded == messages
    assert record.skipped.get("fold") == why


def test_a_long_conversation_costs_little(folder: Folder) -> None:
    """2,000 messages of a kilobyte: the summary's prompt is bounded, and so is the time."""
    messages = flat(turn(number, 250) for number in range(1000))
    [(folded, record)] = fold_all(folder, [messages])
    assert len(folded) < 12
    assert record.stages["fold"] < 3000
    assert json.dumps(folded).count("Question") <= 6
