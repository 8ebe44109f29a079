"""What stands around the agent in tests, all on real sockets: a front desk, an LLM, tools."""

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hints import HINTS_HEADER, SIGNATURE_HEADER, Hints, HintsKey, format_hints, parse_keys, sign_hints
from servers import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Received,
    Script,
    ScriptedUpstream,
    chunk,
    completion,
    delta,
    json_answer,
    open_client,
)
from settings import Settings
from tools import Call, Tool

Log = Callable[[int], list[dict[str, Any]]]
Serve = Callable[..., AbstractContextManager[str]]
KEYS = parse_keys("new1:" + "secret-of-the-tests-" * 2)
LINE: Mapping[str, Any] = {
    "type": "object",
    "properties": {"line": {"type": "string", "pattern": "^[0-9]{2,4}$"}},
    "required": ["line"],
}
NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}}
STRONG = Hints(
    topic="bus.next", confidence=0.9, lang="en", reason="topic_forwards", complexity="single",
    tools=("next_bus",), slots={"line": "42"},
)  # fmt: skip
_request_ids = count(1)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


ASK = [user("When does the 42 leave?")]


@dataclass
class Lookup:
    """A tool of the agent's that notes its calls; ``does`` is run in each."""

    name: str = "next_bus"
    result: object = field(default_factory=lambda: {"leaves": "09:42"})
    parameters: Mapping[str, Any] = field(default_factory=lambda: LINE)
    does: Callable[[], Any] | None = None
    calls: list[tuple[dict[str, Any], str | None]] = field(default_factory=list)

    def tool(self, **changes: Any) -> Tool:
        async def run(arguments: Mapping[str, Any], call: Call) -> object:
            self.calls.append((dict(arguments), call.user))
            if self.does is not None:
                await self.does()
            return self.result

        return Tool(self.name, "When a bus leaves.", self.parameters, run, **changes)


def planned(*calls: tuple[str, Mapping[str, Any]], more: bool = False) -> str:
    """A plan as an LLM writes it."""
    listed = [{"tool": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps({"calls": listed, "more": more})


class Llm:
    """An OpenAI-compatible server: ``plans`` for requests with a response format, then ``answer``, streamed or not.

    ``plan_script`` and ``answer_script`` take the place of either.
    """

    def __init__(self, upstream: ScriptedUpstream, *plans: str) -> None:
        self.upstream = upstream
        self.plans = deque(plans)
        self.plan_script: Script | None = None
        self.answer_script: Script | None = None
        self.answer = "At 09:42."
        self.usage = {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 60},
        }
        upstream.script = self._script

    def _script(self, received: Received) -> Script:
        body = received.json()
        if "response_format" in body:
            if self.plan_script is not None:
                return self.plan_script
            text = self.plans.popleft() if self.plans else planned()
            return json_answer(json.dumps({**json.loads(completion(text)), "usage": self.usage}).encode())
        if self.answer_script is not None:
            return self.answer_script
        if not body.get("stream"):
            return json_answer(
                json.dumps({**json.loads(completion(self.answer)), "usage": self.usage}).encode()
            )
        return [SSE_HEAD, chunk(delta(self.answer)), chunk(DONE), LAST_CHUNK]

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies it got."""
        return [received.json() for received in self.upstream.requests]

    @property
    def told(self) -> list[dict[str, Any]]:
        """The conversation of the last request: what the answer was written from."""
        messages: list[dict[str, Any]] = self.asked[-1]["messages"]
        return messages

    @property
    def settings(self) -> Settings:
        return Settings(base_url=self.upstream.url, hints_keys=KEYS, identity_header="x-user")


def ask(
    url: str,
    messages: Sequence[Mapping[str, Any]] = ASK,
    hints: Hints | None = None,
    key: HintsKey | None = KEYS[0],
    signed_at: float | None = None,
    user: str | None = None,
    **fields: Any,
) -> Any:
    """Ask the agent as Frontdesk would; ``key`` None: unsigned. The whole response."""
    body = json.dumps({"model": "any", "messages": messages, **fields}).encode()
    headers = {"x-request-id": f"turn.{next(_request_ids)}"}
    if user is not None:
        headers["x-user"] = user
    if hints is not None:
        headers[HINTS_HEADER] = format_hints(hints)
        if key is not None:
            now = int(time.time() if signed_at is None else signed_at)
            headers[SIGNATURE_HEADER] = sign_hints(
                headers[HINTS_HEADER], headers["x-request-id"], body, key, now
            )
    with open_client(url) as client:
        response = client.post("/v1/chat/completions", content=body, headers=headers)
    assert response.status_code == 200, response.text
    return response


class FrontDesk:
    """The prefetch endpoint as Frontdesk has it, on a scripted server: signed, and one read of each id.

    ``results``: id → a result, or a script of its own.
    """

    def __init__(self, upstream: ScriptedUpstream, results: Mapping[str, Any]) -> None:
        self.results = dict(results)
        self.refused: list[str] = []
        self._upstream = upstream
        self._lock = threading.Lock()
        upstream.script = self._script

    @property
    def url(self) -> str:
        return self._upstream.url.removesuffix("/v1")

    @property
    def asked(self) -> list[str]:
        return [received.target for received in self._upstream.requests]

    def _script(self, received: Received) -> Script:
        headers = received.headers
        match = re.fullmatch(r"kid=new1,t=([0-9]+),attempt=1,v1=[0-9a-f]+", headers.get(SIGNATURE_HEADER, ""))
        told = f"GET {received.target}"
        at = int(match[1]) if match else 0
        wanted = sign_hints(told, headers["x-request-id"], b"", KEYS[0], at)
        if headers.get(SIGNATURE_HEADER) != wanted or abs(at - time.time()) > 60:
            self.refused.append(received.target)
            return json_answer(b'{"error": {"code": "unauthorized"}}', "401 Unauthorized")
        with self._lock:
            result = self.results.pop(received.target.rpartition("/")[2], None)
        if result is None:
            return json_answer(b'{"error": {"code": "not_found"}}', "404 Not Found")
        return result if isinstance(result, list) else json_answer(json.dumps(result).encode())
