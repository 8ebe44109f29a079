"""What the scripted LLM has for a tokenizer and for a prompt cache."""

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wire import Chat, text_of

# About as many tokens as real tokenizers make: a Han character, a mark, a short word, three digits.
_TOKEN = re.compile(r"\s*(?:[A-Za-z]{1,8}|[0-9]{1,3}|\S)|\s+")
# Real chat templates mark where a message begins and whose it is.
_TOKENS_PER_MESSAGE = 4
_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")


def split(text: str) -> list[str]:
    """The tokens of a text; joined they are the text again."""
    return _TOKEN.findall(text)


def estimate(text: str) -> int:
    """About how many tokens a text has for a usual LLM: four letters of English or 1.3 Han characters each.

    A rough limit needs no tokenizer; it is cheap enough for long conversations.
    """
    return len(text.encode("utf-8", "replace")) // 4


@dataclass(frozen=True, slots=True)
class Prompt:
    """The size of a prompt, how much of it was seen before, and the keys of its prefixes."""

    tokens: int
    cached: int
    keys: tuple[bytes, ...]


class PrefixCache:
    """Remembers which beginnings of conversations were read, as inference servers do for real.

    It lets one see, without a GPU, why a proxy must keep the beginning of a conversation byte-stable: a
    changed system prompt makes all that follows cost again. A key is a hash over all messages up to its own.
    """

    def __init__(self, size: int = 10_000) -> None:
        self._size = size
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def measure(self, chat: Chat) -> Prompt:
        """Count a prompt's tokens and those of its longest known prefix of whole messages."""
        tools = chat.body.get("tools")
        declared = json.dumps(tools)  # templates put the tools first, so they are part of every prefix
        digest = hashlib.sha256(declared.encode())
        tokens = len(split(declared)) if tools else 0
        cached = 0
        keys: list[bytes] = []
        for message in chat.messages:
            shown = {name: message[name] for name in _FIELDS if message.get(name) is not None}
            digest.update(json.dumps(shown, sort_keys=True).encode() + b"\n")
            keys.append(digest.digest())
            tokens += _TOKENS_PER_MESSAGE + _count(shown)
            if keys[-1] in self._seen:
                cached = tokens
        return Prompt(tokens, cached, tuple(keys))

    def remember(self, prompt: Prompt) -> None:
        """Called once the prompt has been read: one that was cancelled before saves nobody anything."""
        for key in prompt.keys:
            self._seen[key] = None
            self._seen.move_to_end(key)
        while len(self._seen) > self._size:
            self._seen.popitem(last=False)


def _count(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls")
    return len(split(text_of(message))) + (len(split(json.dumps(calls))) if calls else 0)
