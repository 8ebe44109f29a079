"""The messages of a chat body as pruning sees them: what is known, what belongs together, how long it is."""

import string
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PROMPTS = ("system", "developer")
# The participant's name that pins a turn: of OpenAI's own fields the one that a client is free to choose.
PINNED = "pinned"
# Hundredths of a token for a letter or space, for another ASCII character, for a byte of any other (three
# bytes are a Chinese character); fitted to what OpenAI's o200k_base counts (benchmarks/context.py).
_LETTER, _SIGN, _BYTE = 22, 60, 27
# What the roles and the ends of a message cost besides its text, as OpenAI's cookbook counts it; so a call.
PER_MESSAGE = 4
_ASCII = bytes(range(128))
_NO_SIGN = (string.ascii_letters + " ").encode() + bytes(range(128, 256))

_KEYS: Mapping[str, frozenset[str]] = {
    role: frozenset({"role", "content", "name", *more})
    for role, more in {
        "system": (),
        "developer": (),
        "user": (),
        "assistant": ("tool_calls", "refusal", "reasoning_content", "annotations"),
        "tool": ("tool_call_id",),
    }.items()
}
_SPOKEN = ("refusal", "reasoning_content")
_PART_KEYS = frozenset({"type", "text", "refusal", "cache_control"})


class Unsure(Exception):
    """Something in a conversation that is not understood; the message is the reason in snake_case."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message. ``tokens``: an estimate. ``text``: what a user said, "" for all others.

    ``closed``: every tool that was called has answered.
    """

    role: str
    tokens: int
    text: str
    pinned: bool
    closed: bool


def estimate(text: str) -> int:
    """About how many tokens an LLM reads, by the kinds of characters alone; docs/serving.md has the error."""
    data = text.encode("utf-8", "surrogatepass")
    foreign = len(data.translate(None, _ASCII))
    signs = len(data.translate(None, _NO_SIGN))
    letters = len(data) - foreign - signs
    return -(-(_LETTER * letters + _SIGN * signs + _BYTE * foreign) // 100)


def read(messages: Sequence[Mapping[str, Any]]) -> list[Said]:
    """The messages, if every one is of a known shape and every tool message has its call. Raises Unsure."""
    said: list[Said] = []
    waiting: set[str] = set()
    for message in messages:
        role, name, tokens = _text(message.get("role")), message.get("name"), PER_MESSAGE
        known = _KEYS.get(role)
        if known is None or any(value is not None and key not in known for key, value in message.items()):
            raise Unsure("unknown_shape")
        if name is not None and not isinstance(name, str):
            raise Unsure("unknown_shape")
        texts = _texts(message.get("content"), role)
        if role == "tool":
            answered = message.get("tool_call_id")
            if not isinstance(answered, str) or answered not in waiting:
                raise Unsure("tool_without_call")
            waiting.remove(answered)
        elif waiting:
            raise Unsure("open_calls")
        elif role == "assistant":
            texts += [_text(message[k]) for k in _SPOKEN if message.get(k) is not None]
            called = _calls(message.get("tool_calls"))
            waiting = set(called)
            texts += called.values()
            tokens += PER_MESSAGE * len(called)
        tokens += sum(map(estimate, texts))
        text = "\n".join(texts) if role == "user" else ""
        said.append(Said(role, tokens, text, name == PINNED, not waiting))
    if waiting:
        raise Unsure("open_calls")
    return said


def _texts(content: object, role: str) -> list[str]:
    if isinstance(content, str):
        return [content]
    if content is None and role == "assistant":
        return []
    if not isinstance(content, list):
        raise Unsure("unknown_shape")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text" and not (kind == "refusal" and role == "assistant"):
            raise Unsure("attachment")
        if not part.keys() <= _PART_KEYS:
            raise Unsure("unknown_shape")
        texts.append(_text(part.get(kind)))
    return texts


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Unsure("unknown_shape")
    return value


def _calls(calls: object) -> dict[str, str]:
    """What each call of an assistant says, by its id."""
    if calls is None:
        return {}
    called: dict[str, str] = {}
    if not isinstance(calls, list):
        raise Unsure("unknown_shape")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            raise Unsure("unknown_shape")
        called[_text(call.get("id"))] = f"{_text(function.get('name'))} {_text(function.get('arguments'))}"
    if len(called) < len(calls):
        raise Unsure("unknown_shape")  # two calls of one id: whose is the answer?
    return called


def cut(message: Mapping[str, Any], limit: int) -> Mapping[str, Any]:
    """A tool's message whose texts have at most ``limit`` tokens each; the very object if they have."""
    content = message["content"]
    if isinstance(content, str):
        short = _cut(content, limit)
        return message if short is content else {**message, "content": short}
    parts = [{**part, "text": _cut(part["text"], limit)} for part in content]
    return message if parts == content else {**message, "content": parts}


def _cut(text: str, limit: int) -> str:
    """Head and tail of a text over ``limit`` tokens, about equally long, and between them how much went."""
    whole = estimate(text)
    if whole <= limit:
        return text
    mark = f"\n[… about {whole - limit} of {whole} tokens cut here …]\n"
    half = (limit - estimate(mark)) // 2
    longest = 100 * half // _LETTER + 1
    head = bisect_right(range(longest), half, key=lambda size: estimate(text[:size])) - 1
    tail = bisect_right(range(longest), half, key=lambda size: estimate(text[len(text) - size :])) - 1
    return f"{text[:head]}{mark}{text[len(text) - tail :]}"
