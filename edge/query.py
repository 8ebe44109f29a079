"""The last user turn with what surrounds it, read out of a chat-completions body."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Turn:
    """One message before the query. ``text`` is what of it is text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """What the stages decide on.

    ``normal`` is the reading form of the text, of its first MAX_CHARACTERS where it is ``clipped``.
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

    @classmethod
    def of_text(cls, text: str, normaliser: Normaliser, history: tuple[Turn, ...] = ()) -> "Query":
        """A bare query, as ``frontdesk ask`` and ``/v1/classify`` make it."""
        return cls(**_read(text, normaliser), history=history)

    @classmethod
    def of_body(cls, body: Mapping[str, Any], normaliser: Normaliser, identity: str = "") -> "Query":
        """The query of a chat body whose ``messages`` is a non-empty list of objects."""
        messages = body["messages"]
        last = messages[-1]
        text, only_text = content_text(last.get("content"))
        history, systems, tools_in_tail = _surroundings(messages)
        return cls(
            **_read(text, normaliser),
            history=history,
            system=fingerprint("\n".join(systems)) if systems else None,
            model=body["model"] if isinstance(body.get("model"), str) else "",
            stream=body.get("stream") is True,
            include_usage=_include_usage(body),
            max_tokens=_max_tokens(body),
            options=_unusual_options(body),
            client_tools=tools_in_tail or any(body.get(name) for name in TOOL_OPTIONS),
            attachment=not only_text,
            last_is_user=last.get("role") == "user",
            identity=identity,
        )

    def last_assistant(self) -> str | None:
        """The text of the assistant turn right before the query, if there is one."""
        if self.history and self.history[-1].role == "assistant":
            return self.history[-1].text
        return None


def _read(text: str, normaliser: Normaliser) -> dict[str, Any]:
    normal = normaliser.reading(text[:MAX_CHARACTERS])
    return {"normal": normal, "lang": normaliser.lang(normal), "clipped": len(text) > MAX_CHARACTERS}


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
        else:
            only_text = False
    return "\n".join(texts), only_text


def fingerprint(system: str) -> str:
    """Sixteen hexadecimal digits that stand for a system prompt."""
    return hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _surroundings(messages: Sequence[Mapping[str, Any]]) -> tuple[tuple[Turn, ...], list[str], bool]:
    """History without system prompts, the system prompts, and whether tools speak in the tail."""
    history: list[Turn] = []
    systems: list[str] = []
    for message in messages[:-1]:
        role, (text, _) = str(message.get("role")), content_text(message.get("content"))
        if role in ("system", "developer"):
            systems.append(text)
        else:
            history.append(Turn(role, text))
    tail = messages[-1]
    previous = messages[-2] if len(messages) > 1 else {}
    tools = tail.get("role") in ("tool", "function") or previous.get("role") in ("tool", "function")
    return tuple(history), systems, tools or bool(previous.get("tool_calls"))


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
    for name, kind in (("stream", bool), ("stream_options", dict), ("model", str)):
        if body.get(name) is not None and not isinstance(body[name], kind):
            unusual.add(name)
    for name in ("max_tokens", "max_completion_tokens"):
        value = body.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            unusual.add(name)
    stream_options = body.get("stream_options")
    if isinstance(stream_options, dict) and set(stream_options) - {"include_usage", "include_obfuscation"}:
        unusual.add("stream_options")
    return frozenset(unusual)
