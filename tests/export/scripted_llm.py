"""An OpenAI-compatible LLM on a real socket that labels by a rule, and what it was asked."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from servers import Received, Script, ScriptedUpstream, json_answer

from export.llm import Llm

KEY = "sk-secret-0123456789"
Rule = Callable[[str], str]
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def llm_at(upstream: ScriptedUpstream, **changes: Any) -> Llm:
    """The LLM of a scripted upstream: one request at a time, impatient."""
    return Llm(upstream.url, "m", KEY, **{"parallel": 1, "backoff": 0.01, "timeout": 5.0, **changes})


def texts_of(request: Received) -> list[str]:
    """The texts that a request asks for, in order."""
    lines = request.json()["messages"][1]["content"].split("\n")
    rows = [json.loads(line) for line in lines]
    assert [row["n"] for row in rows] == list(range(1, len(rows) + 1))
    return [row["text"] for row in rows]


def said(content: str | None, usage: object = USAGE, **choice: Any) -> Script:
    """A completion with this text."""
    message = {"role": "assistant", "content": content, "refusal": None, **choice.pop("message", {})}
    body = {"choices": [{"index": 0, "finish_reason": "stop", **choice, "message": message}], "usage": usage}
    return json_answer(json.dumps(body).encode())


def rows(topics: Sequence[str]) -> str:
    """An answer that gives text 1 the first topic, and so on."""
    return json.dumps({"labels": [{"n": n, "topic": topic} for n, topic in enumerate(topics, 1)]})


def by(rule: Rule) -> Callable[[Received], Script]:
    """What labels every text by a rule."""
    return lambda request: said(rows([rule(text) for text in texts_of(request)]))


def failing(status: str, message: str = "no", code: str | None = None, *fields: str) -> Script:
    """An error as OpenAI writes it."""
    return json_answer(json.dumps({"error": {"message": message, "code": code}}).encode(), status, *fields)
