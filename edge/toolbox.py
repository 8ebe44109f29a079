"""Calls tools: within their limits, with the caller's own rights, and never for longer than they may take.

A call never raises. What goes wrong is a ``Failure`` with a stable code, and the turn goes on without it.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import httpx2

from edge.bundle import Bundle
from edge.config import ToolSettings
from edge.decision import Call, SlotValue
from edge.identity import Caller
from edge.results import MAX_RESULT_BYTES, Failure, Result, ResultCache, is_json, read_result
from edge.tools import Tool
from edge.transport import KEEPALIVE_SECONDS

logger = logging.getLogger("frontdesk")

# A tool's time is judged by its last calls. Gains are reckoned as if this many more results had been
# collected as often as the confidence promised, so that a few do not decide.
_REMEMBERED = 64
_DOUBT = 20.0
_TRIES = 3
_HALF_LIFE = 600.0  # of what was observed, in seconds
_Headers = tuple[tuple[bytes, bytes], ...]
_USER, _TENANT = b"x-frontdesk-user", b"x-frontdesk-tenant"


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom a tool is called: the caller, what came with the request, and the ids of its trace."""

    caller: Caller
    headers: Sequence[tuple[bytes, bytes]] = ()
    trace: Sequence[tuple[bytes, bytes]] = ()


class Toolbox:
    """The tools of a bundle that this server can call."""

    def __init__(
        self, bundle: Bundle, settings: ToolSettings, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._settings = settings
        limits = httpx2.Limits(keepalive_expiry=KEEPALIVE_SECONDS)
        self._transport = transport or httpx2.AsyncHTTPTransport(limits=limits, retries=0)
        self._declared = [bundle.tools[name] for name in sorted(bundle.called)]
        self.tools = {tool.name: tool for tool in self._declared if self._can(tool)}
        self._limits = {name: _Limits(tool) for name, tool in self.tools.items()}
        self._figures = {name: _Figures() for name in self.tools}
        self._cache = ResultCache()

    @property
    def names(self) -> frozenset[str]:
        """The tools that can be called."""
        return frozenset(self.tools)

    @property
    def lacking(self) -> list[str]:
        """Tools that may be called and whose secret this server has not: ``tool (variable)``."""
        named = ((t.name, t.credential.partition(":")) for t in self._declared)
        return [
            f"{name} (FRONTDESK_SECRET_{secret})"
            for name, (kind, _, secret) in named
            if kind == "secret" and secret not in self._settings.secrets
        ]

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def call(self, call: Call, asker: Asker) -> Result | Failure:
        """The result of a call, maybe one that the same caller got for the same arguments shortly before."""
        tool = self.tools[call.suggestion.tool]
        credential = self._credential(tool, asker)
        if credential is None:
            return Failure(tool.name, "unverified_caller")
        user = _name_of(asker.caller)
        arguments = tool.arguments(call.suggestion.values, user)
        key = _cache_key(tool, arguments, asker.caller, credential)
        if tool.cache_s and (kept := self._cache.get(key)) is not None:
            return kept
        limits = self._limits[tool.name]
        if not limits.enter():
            return Failure(tool.name, "busy")
        start = time.perf_counter()
        try:
            found = await self._ask_in_time(tool, arguments, asker, credential)
        finally:
            limits.leave()
        ms = (time.perf_counter() - start) * 1000
        self._figures[tool.name].called(None if isinstance(found, str) else ms)
        if isinstance(found, str):
            return Failure(tool.name, found, ms)
        value, text = found
        if tool.owner and not (isinstance(value, dict) and value.get(tool.owner) == user):
            return Failure(tool.name, "not_owner", ms)
        result = Result(tool.name, arguments, text, ms)
        if tool.cache_s:
            self._cache.put(key, result, tool.cache_s)
        return result

    def may_ask(self, call: Call, asker: Asker) -> bool:
        """Whether the tool can be called for this caller."""
        return self._credential(self.tools[call.suggestion.tool], asker) is not None

    def expected_ms(self, call: Call) -> float:
        """How long a tool took of late, 0 before it was ever called."""
        figures = self._figures[call.suggestion.tool]
        return figures.mean_ms() if figures.times else 0.0

    def gain_ms(self, call: Call) -> float | None:
        """What calling a tool beforehand saves by expectation: P(right) · t_tool − P(wrong) · cost, in ms.

        P(right) is the call's confidence, corrected by how often calls brought something and agents collected
        it. None before the tool brought a result, unless its first calls failed: a call is how to find out.
        """
        figures = self._figures[call.suggestion.tool]
        if not figures.times:
            return None if figures.calls() < _TRIES else -self.tools[call.suggestion.tool].cost
        right = call.confidence * min(1.0, figures.correction())
        return right * figures.mean_ms() - (1 - right) * self.tools[call.suggestion.tool].cost

    def prefetched(self, call: Call) -> None:
        """Note that a result is there to be collected."""
        self._figures[call.suggestion.tool].promise(call.confidence)

    def collected(self, tool: str) -> None:
        """Note that the agent took a result that was called beforehand."""
        self._figures[tool].collect()

    def _can(self, tool: Tool) -> bool:
        kind, _, name = tool.credential.partition(":")
        has_secret = kind != "secret" or name in self._settings.secrets
        return has_secret and (not tool.is_relative or bool(self._settings.base_url))

    def _credential(self, tool: Tool, asker: Asker) -> _Headers | None:
        """The header that the tool gets, if it declares one; None where the tool is not for this caller.

        Then nobody says who asks, or the declared header did not come, once.
        """
        if not _may_ask(tool, asker.caller):
            return None
        kind, _, name = tool.credential.partition(":")
        if kind == "secret":
            return ((b"authorization", b"Bearer " + self._settings.secrets[name].encode()),)
        if kind == "header":
            given = [(header, value) for header, value in asker.headers if header == name.encode()]
            return tuple(given) if len(given) == 1 and given[0][1] else None
        return ()

    async def _ask_in_time(
        self, tool: Tool, arguments: Mapping[str, SlotValue], asker: Asker, credential: _Headers
    ) -> tuple[Any, str] | str:
        """A result's JSON, decoded and as text, or why there is none."""
        try:
            async with asyncio.timeout(tool.timeout):
                return await self._ask(tool, arguments, asker, credential)
        except (TimeoutError, httpx2.TimeoutException):
            return "timeout"
        except httpx2.TransportError:
            return "unreachable"
        except (KeyError, ValueError, httpx2.InvalidURL):
            return "bad_argument"
        except Exception:  # a turn must not fail for its tool
            logger.exception("The tool %s could not be called.", tool.name)
            return "internal_error"

    async def _ask(
        self, tool: Tool, arguments: Mapping[str, SlotValue], asker: Asker, credential: _Headers
    ) -> tuple[Any, str] | str:
        address = tool.address(arguments)
        url = httpx2.URL(self._settings.base_url + address if tool.is_relative else address)
        content = tool.content(arguments)
        headers = [(b"accept", b"application/json"), (b"accept-encoding", b"identity"), *asker.trace]
        headers += [(b"content-type", b"application/json")] if content is not None else []
        headers += credential
        if tool.scope == "user":
            named = ((_USER, asker.caller.user), (_TENANT, asker.caller.tenant))
            headers += [(header, name.encode("latin-1")) for header, name in named if name]
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), tool.timeout)
        request = httpx2.Request(
            tool.method, url, headers=headers, content=content, extensions={"timeout": timeout}
        )
        response = await self._transport.handle_async_request(request)
        try:
            if response.status_code != 200:
                return f"status_{response.status_code}"
            encoded = "content-encoding" in response.headers
            if encoded or not is_json(response.headers.get("content-type", "")):
                return "not_json"
            body = bytearray()
            async for chunk in response.stream:  # type: ignore[union-attr]
                body += chunk
                if len(body) > MAX_RESULT_BYTES:
                    return "too_large"
        finally:
            await response.aclose()
        return read_result(bytes(body)) or "not_json"


def _may_ask(tool: Tool, caller: Caller) -> bool:
    """A user's tool needs the name that somebody vouches for, or the user's own credential to judge by."""
    named = bool(caller.user) and caller.vouched
    if tool.needs_name() or tool.owner:
        return named
    return tool.scope == "public" or named or tool.credential.startswith("header:")


def _cache_key(
    tool: Tool, arguments: Mapping[str, SlotValue], caller: Caller, credential: _Headers
) -> tuple[str, ...]:
    """Whose result it is, too: a public tool's is everybody's, unless it saw somebody's credential.

    And of which day it is: "today" is another day after midnight.
    """
    asked = json.dumps([date.today().isoformat(), arguments], sort_keys=True, ensure_ascii=False)
    passed_on = b"".join(value for _, value in credential) if tool.credential.startswith("header:") else b""
    secret = hashlib.sha256(passed_on).hexdigest()
    if tool.scope == "public":
        return tool.name, asked, secret
    return tool.name, asked, secret, caller.tenant, caller.user


def _name_of(caller: Caller) -> str:
    """The caller's name as text: a header's bytes are UTF-8, or what they are byte by byte."""
    try:
        return caller.user.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return caller.user


class _Limits:
    """How many calls of one tool run at once, and how many begin in a second (a token bucket)."""

    def __init__(self, tool: Tool) -> None:
        self._most = tool.max_concurrency
        self._rate = tool.rate
        self._running = 0
        self._tokens = max(1.0, tool.rate or 0.0)
        self._at = time.monotonic()

    def enter(self) -> bool:
        if self._running >= self._most:
            return False
        if self._rate is not None:
            now = time.monotonic()
            self._tokens = min(max(1.0, self._rate), self._tokens + (now - self._at) * self._rate)
            self._at = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
        self._running += 1
        return True

    def leave(self) -> None:
        self._running -= 1


class _Figures:
    """What was observed of one tool. Counts fade, so that a tool that was left alone is tried again."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._promised = self._collected = self._called = self._brought = 0.0
        self._at = time.monotonic()

    def called(self, ms: float | None) -> None:
        """Note a call, and how long it took if it brought a result."""
        self._fade()
        self._called += 1
        if ms is not None:
            self._brought += 1
            self.times = [*self.times[-_REMEMBERED + 1 :], ms]

    def calls(self) -> float:
        """How many calls there were of late."""
        self._fade()
        return self._called

    def promise(self, confidence: float) -> None:
        """Note that a result is there to be collected."""
        self._fade()
        self._promised += confidence

    def collect(self) -> None:
        """Note that it was collected."""
        self._collected += 1

    def mean_ms(self) -> float:
        """How long a result took of late."""
        return sum(self.times) / len(self.times)

    def correction(self) -> float:
        """How often calls brought a result that was collected, against what their confidences promised."""
        self._fade()
        useful = (self._collected + _DOUBT) / (self._promised + _DOUBT)
        return useful * (self._brought + 1) / (self._called + 1)

    def _fade(self) -> None:
        now = time.monotonic()
        left = 0.5 ** ((now - self._at) / _HALF_LIFE)
        self._at = now
        self._promised *= left
        self._collected *= left
        self._called *= left
        self._brought *= left
