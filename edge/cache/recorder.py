"""Listens to the response of a forwarded turn, and tells its text if it is an answer for everybody who asks.

Only what is beyond doubt is an answer: one choice, that ended by itself, text and nothing else. Tool calls,
refusals, errors, what was cut off and what breaks off are none, and neither is what is not understood.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edge.cache.control import may_store

# No event within it is passed over by the reader of events, whose limit is no lower.
MAX_BYTES = 1 << 20
# What may stand beside the text and is nothing when it is replayed: a model's thoughts are not the answer.
_SPOKEN = frozenset({"role", "content", "reasoning", "reasoning_content"})
# A refusal in words, or that nothing can be said now, at the beginning of an answer.
_REFUSAL = re.compile(
    r"\W*(?:(?:hi|hello|hey|你好|您好|亲)\W{1,3})?(?:"
    r"(?:i(?:['’]?m| am)|we(?:['’]?re| are))?\s*(?:very |so |really )?(?:sorry|afraid)\b"
    r"|apologies|unfortunately|as an ai\b"
    r"|i (?:can(?:no|['’])?t|couldn['’]?t|don['’]?t|won['’]?t|am (?:unable|not able))\b"
    r"|(?:an |internal )?(?:server )?error(?: has)? occurred"
    r"|(?:很|非常|十分|真的|实在)?(?:抱歉|对不起|不好意思|遗憾)"
    r"|我们?(?:暂时|目前|现在)?(?:无法|不能|没法|没有办法|不知道|不清楚)"
    r"|作为(?:一个|一名)?(?:ai|人工智能)|(?:系统|服务)(?:繁忙|出错|异常|错误))",
    re.IGNORECASE,
)
# Of a caller's name what can stand in an answer by itself: eva of eva.li@corp.example.
_PART = re.compile(r"[^\W\d_]{2,}|\d{4,}")


class Recorder:
    """Hears one response, stream or whole. ``names``: of the caller; an answer that says one is theirs."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.unfit = ""
        self._names = names
        self._is_events = False
        self._size = 0
        self._pieces: list[str] = []
        self._body = bytearray()
        self._finish: str | None = None
        self._ended = False

    def begin(self, status: int, headers: Sequence[tuple[bytes, bytes]], *, is_events: bool) -> None:
        """The head of the response, names of headers in lower case."""
        self._is_events = is_events
        kinds = [value.lower() for name, value in headers if name == b"content-type"]
        encoded = any(name == b"content-encoding" for name, _ in headers)
        if status != 200:
            self._refuse("status")
        elif encoded or not (is_events or (len(kinds) == 1 and kinds[0].startswith(b"application/json"))):
            self._refuse("kind")
        elif not may_store(headers, is_events=is_events):
            self._refuse("forbidden")

    def hear(self, chunk: bytes) -> None:
        """Some bytes of the body."""
        self._size += len(chunk)
        if self._size > MAX_BYTES:
            self._refuse("too_large")
        elif not self._is_events and not self.unfit:
            self._body += chunk

    def event(self, data: bytes) -> None:
        """The data of one event of a stream."""
        if self.unfit or data == b"[DONE]":
            return
        try:
            self._chunk(json.loads(data))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            self._refuse("unreadable")

    def end(self, *, done: bool) -> None:
        """The body has ended as its length says; ``done``: the stream said so, too."""
        if not self._is_events and not self.unfit:
            try:
                self._whole(json.loads(self._body.decode("utf-8")))
            except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
                self._refuse("unreadable")
        self._ended = done or not self._is_events

    def text(self) -> str | None:
        """The answer; None where there is none to keep, and ``unfit`` says why."""
        if not self.unfit and not self._ended:
            self._refuse("broken_off")
        if not self.unfit and self._finish != "stop":
            self._refuse("truncated" if self._finish == "length" else "finish")
        text = "".join(self._pieces)
        if not self.unfit:
            self.unfit = why_unfit(text, self._names)
        return None if self.unfit else text

    def _chunk(self, data: Mapping[str, Any]) -> None:
        if data.get("error") is not None:
            return self._refuse("error")
        choices = data["choices"]
        if len(choices) > 1 or (choices and choices[0].get("index", 0) != 0):
            return self._refuse("choices")
        for choice in choices:
            delta = choice.get("delta") or {}
            if delta.get("content") and self._finish is not None:
                return self._refuse("finish")
            self._say(delta, choice)
        return None

    def _whole(self, data: Mapping[str, Any]) -> None:
        if data.get("error") is not None:
            return self._refuse("error")
        if len(data["choices"]) != 1:
            return self._refuse("choices")
        return self._say(data["choices"][0]["message"], data["choices"][0])

    def _say(self, message: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        if message.get("tool_calls") or message.get("function_call"):
            return self._refuse("tool_calls")
        if message.get("refusal"):
            return self._refuse("refusal")
        if message.get("role", "assistant") not in ("assistant", None) or choice.get("logprobs"):
            return self._refuse("unknown_shape")
        if any(value and name not in _SPOKEN for name, value in message.items()):
            return self._refuse("unknown_shape")
        content = message.get("content")
        if content is not None:
            if not isinstance(content, str):
                return self._refuse("unknown_shape")
            self._pieces.append(content)
        if choice.get("finish_reason") is not None:
            if self._finish is not None:
                return self._refuse("finish")
            self._finish = str(choice["finish_reason"])
        return None

    def _refuse(self, why: str) -> None:
        self.unfit = self.unfit or why
        self._pieces.clear()
        self._body.clear()


def why_unfit(text: str, names: Sequence[str] = ()) -> str:
    """Why a text is not to be kept, in snake_case; "" where it may be. ``names``: of the caller."""
    if not text.strip():
        return "empty"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "unreadable"
    if "\ufffd" in text:  # somebody cut a character in two
        return "unreadable"
    if _REFUSAL.match(text):
        return "refusal"
    return "personal" if any(_says(text.casefold(), name.casefold()) for name in names) else ""


def _says(text: str, user: str) -> bool:
    """Whether a text says a name, or a part of it, as words of their own; a Chinese name needs no gaps."""
    names = {user, *_PART.findall(user.partition("@")[0])} - {""}
    for name in names:
        if not name.isascii():
            if name in text:
                return True
        elif re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text):
            return True
    return False
