"""The last user turn with what surrounds it, read out of a chat-completions body."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edge.normaliser import Lang, Normaliser

# Options that change neither whether a curated answer is right nor how it is rendered.
HARMLESS_OPTIONS = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "seed",
        "user",
        "metadata",
        "store",
        "max_tokens",
        "max_completion_tokens",
    }
)
TOOL_OPTIONS = frozenset({"tools", "functions", "tool_choice", "function_call", "parallel_tool_calls"})


# The router reads 64 tokens, which are fewer characters than this by far; more is not even normalised, so
# that a megabyte of text costs no more than a page.
MAX_CHARACTERS = 2048
MAX_HISTORY = 64
_PROMPT_ROLES = ("system", "developer")
# What a message and a text part may hold; anything else (images, audio, files, …) is an attachment.
_MESSAGE_KEYS = frozenset({"role", "content", "name"})
_PART_KEYS = frozenset({"type", "text", "cache_control"})
_OPTION_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "model": str,
    "stream": bool,
    "stream_options": dict,
    "temperature": (int, float),
    "top_p": (int, float),
    "seed": int,
    "user": str,
    "metadata": dict,
    "store": bool,
    "max_tokens": int,
    "max_completion_tokens": int,
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One message before the query. ``text`` is what of it is text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """What the stages decide on.

    ``normal`` is the reading form of the text, of its first MAX_CHARACTERS where it is ``clipped``.
    ``typed`` is that text as it came, for slots in which case matters; its repr is left out of logs.
    """

    normal: str
    lang: Lang | None
    clipped: bool = False
    history: tuple[Turn, ...] = ()
    system: str | None = None
    model: str = ""
    stream: bool = False
    include_usage: bool = False
    max_tokens: int | None = None
    options: frozenset[str] = frozenset()
    client_tools: bool = False
    attachment: bool = False
    last_is_user: bool = True
    identity: str = ""
    typed: str = field(default="", repr=False)

    @classmethod
    def of_text(cls, text: str, normaliser: Normaliser, history: tuple[Turn, ...] = ()) -> "Query":
        """A bare query, as ``frontdesk ask`` and ``/v1/classify`` make it."""
        return cls(**_read(text, normaliser), history=history)

    @classmethod
    def of_body(cls, body: Mapping[str, Any], normaliser: Normaliser, identity: str = "") -> "Query":
        """The query of a chat body whose ``messages`` is a non-empty list of objects."""
        messages = body["messages"]
        last = messages[-1]
        text, _ = content_text(last.get("content"))
        history, systems = _surroundings(messages)
        return cls(
            **_read(text, normaliser),
            history=history,
            system=fingerprint("\n".join(systems)) if systems else None,
            model=body["model"] if isinstance(body.get("model"), str) else "",
            stream=body.get("stream") is True,
            include_usage=_include_usage(body),
            max_tokens=_max_tokens(body),
            options=_unusual_options(body),
            client_tools=_tools_in_tail(messages) or any(body.get(name) for name in TOOL_OPTIONS),
            attachment=_attachment(messages),
            last_is_user=last.get("role") == "user",
            identity=identity,
        )

    def last_assistant(self) -> str | None:
        """The text of the assistant turn right before the query, if there is one."""
        if self.history and self.history[-1].role == "assistant":
            return self.history[-1].text
        return None


def _read(text: str, normaliser: Normaliser) -> dict[str, Any]:
    typed = text[:MAX_CHARACTERS]
    normal = normaliser.reading(typed)
    clipped = len(text) > MAX_CHARACTERS
    return {"normal": normal, "typed": typed, "lang": normaliser.lang(normal), "clipped": clipped}


def content_text(content: object) -> tuple[str, bool]:
    """The text of a message's content, and whether that is all there is.

    Takes the string form, the parts form and null. Text parts are joined by a line break.
    """
    if isinstance(content, str):
        return content, True
    if content is None:
        return "", True
    if not isinstance(content, list):
        return "", False
    texts, only_text = [], True
    for part in content:
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
            only_text = only_text and part.keys() <= _PART_KEYS
        else:
            only_text = False
    return "\n".join(texts), only_text


def fingerprint(system: str) -> str:
    """Sixteen hexadecimal digits that stand for a system prompt."""
    return hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _surroundings(messages: Sequence[Mapping[str, Any]]) -> tuple[tuple[Turn, ...], list[str]]:
    """The last MAX_HISTORY turns before the query without system prompts, and all system prompts."""
    before = messages[:-1]
    prompts = [m for m in before if m.get("role") in _PROMPT_ROLES]
    turns = [m for m in before[-MAX_HISTORY:] if m.get("role") not in _PROMPT_ROLES]
    history = tuple(Turn(str(m.get("role")), content_text(m.get("content"))[0]) for m in turns)
    return history, [content_text(m.get("content"))[0] for m in prompts]


def _tools_in_tail(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a tool has just spoken, or was just called."""
    tail = messages[-2:]
    if any(message.get("role") in ("tool", "function") for message in tail):
        return True
    return any(message.get(name) for message in tail for name in ("tool_calls", "function_call"))


def _attachment(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether anything but text came since the last assistant turn."""
    for message in reversed(messages):
        if message.get("role") != "user":
            return False
        extra = {key for key, value in message.items() if value is not None} - _MESSAGE_KEYS
        if extra or not content_text(message.get("content"))[1]:
            return True
    return False


def _include_usage(body: Mapping[str, Any]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    limits = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    numbers = [limit for limit in limits if isinstance(limit, int)]
    return min(numbers) if numbers else None


def _unusual_options(body: Mapping[str, Any]) -> frozenset[str]:
    """Names of options that are set (null is unset) and not harmless, or harmless but malformed."""
    unusual = {
        name
        for name, value in body.items()
        if value is not None and name not in HARMLESS_OPTIONS and name not in TOOL_OPTIONS
    }
    for name, kind in _OPTION_KINDS.items():
        value = body.get(name)
        is_bool = isinstance(value, bool)
        if value is not None and (not isinstance(value, kind) or (is_bool and kind is not bool)):
            unusual.add(name)
    stream_options = body.get("stream_options")
    if isinstance(stream_options, dict) and (
        (stream_options and body.get("stream") is not True)
        or stream_options.keys() - {"include_usage", "include_obfuscation"}
    ):
        unusual.add("stream_options")
    return frozenset(unusual)
