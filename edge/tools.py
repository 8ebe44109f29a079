"""The declared tools: what may be done with each, and the request that calls one.

Least privilege: a tool gets the caller's name, the one credential that it declares, and slots that are valid
by their declaration. Nothing here writes: only GET and POST of tools with ``effects: read`` are ever called.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from edge.config import SECRET_NAME
from edge.decision import Level, SlotValue
from edge.normaliser import Lang
from edge.slots import Kind, SlotSet

METHODS = ("GET", "POST")
PLACE = re.compile(r"\{([^{}]*)\}")
_CREDENTIAL = re.compile(rf"header:[a-z0-9-]{{1,64}}|secret:{SECRET_NAME.pattern}")


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool.

    ``timeout`` in seconds; ``rate``: calls a second, None for no limit; ``cost``: what a needless call
    costs, in milliseconds of a user's waiting; ``cache_s``: how long a result may be used again, in seconds;
    ``owner``: the field of a result that must be the caller's name; ``gates``: from which confidence on a
    level is allowed in a language; a language without one is only suggested.
    """

    name: str
    slots: SlotSet
    method: str
    url: str
    use: Level
    scope: str = "user"
    credential: str = ""
    timeout: float = 2.0
    max_concurrency: int = 8
    rate: float | None = None
    cost: float = 500.0
    cache_s: float = 0.0
    owner: str = ""
    gates: Mapping[tuple[Level, Lang], float] = field(default_factory=dict)

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Tool":
        """A tool of a manifest. Raises KeyError, TypeError or ValueError."""
        tool = cls(
            name=data["name"],
            slots=SlotSet.of_data(data),
            method=data["method"],
            url=data["url"],
            use=Level.of(data["use"]),
            scope=data["scope"],
            credential=data["credential"] or "",
            timeout=data["timeout_ms"] / 1000,
            max_concurrency=data["max_concurrency"],
            rate=data["rate"],
            cost=float(data["cost"]),
            cache_s=float(data["cache_s"]),
            owner=data["owner"] or "",
            gates={
                (Level.of(level), Lang(lang)): confidence
                for level, by_lang in data["gates"].items()
                for lang, confidence in by_lang.items()
                if confidence is not None
            },
        )
        if tool.use is not Level.SUGGEST:
            tool._check(data["effects"])
        return tool

    def _check(self, effects: str) -> None:
        """Raise for what would load and then call what it must not, or without a bound."""
        if effects != "read" or self.method not in METHODS:
            raise ValueError(f"the tool {self.name} is called, so it must have effects read and GET or POST")
        if self.scope not in ("user", "public") or (self.owner and self.scope != "user"):
            raise ValueError(f"the tool {self.name} has the scope {self.scope!r}")
        if self.credential and not _CREDENTIAL.fullmatch(self.credential):
            raise ValueError(f"the tool {self.name} has the credential {self.credential!r}")
        parts = urlsplit(self.url)
        absolute = parts.scheme in ("http", "https") and bool(parts.hostname)
        if not (absolute or self.url.startswith("/")) or PLACE.search(parts.scheme + parts.netloc):
            raise ValueError(f"the tool {self.name} has the url {self.url!r}")
        numbers = (self.timeout, self.max_concurrency, self.cost, self.cache_s, *self.gates.values())
        positive = (self.timeout, self.max_concurrency, *([] if self.rate is None else [self.rate]))
        if not all(math.isfinite(n) and n >= 0 for n in numbers) or not all(n > 0 for n in positive):
            raise ValueError(f"the tool {self.name} has a limit that is none")

    def allows(self, level: Level, lang: Lang | None, confidence: float) -> bool:
        """Whether the tool may be used so at a confidence: by its declaration and by what was measured."""
        gate = None if lang is None else self.gates.get((level, lang))
        return self.use >= level and gate is not None and confidence >= gate

    @property
    def is_relative(self) -> bool:
        """Whether the url is a path below the server's base address of tools."""
        return self.url.startswith("/")

    def address(self, slots: Mapping[str, SlotValue]) -> str:
        """The url with its places filled; a value can neither end its segment nor begin a query.

        An optional slot that the user did not name leaves its query parameter empty. Raises KeyError or
        ValueError where a value cannot be filled in.
        """
        path, mark, query = self.url.partition("?")
        path = PLACE.sub(lambda match: _escaped(slots[match[1]]), path)
        return (
            path
            + mark
            + PLACE.sub(lambda match: _escaped(slots[match[1]]) if match[1] in slots else "", query)
        )

    def content(self, slots: Mapping[str, SlotValue]) -> bytes | None:
        """The JSON body of a POST: the slots without a place in the url; None for a GET."""
        if self.method != "POST":
            return None
        placed = set(PLACE.findall(self.url))
        return json.dumps({k: v for k, v in slots.items() if k not in placed}, ensure_ascii=False).encode()

    def arguments(self, slots: Mapping[str, SlotValue], user: str) -> dict[str, SlotValue]:
        """The slots with those that only the caller can fill."""
        own = {slot.name: user for slot in self.slots.slots if slot.kind is Kind.CALLER}
        return {**slots, **own}

    def needs_name(self) -> bool:
        """Whether a slot can be filled only with the caller's name."""
        return any(slot.kind is Kind.CALLER for slot in self.slots.slots)


def tools_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, Tool]:
    """The tools of a manifest by name. Raises KeyError, TypeError or ValueError."""
    known = [Tool.of_data(entry) for entry in entries]
    by_name = {tool.name: tool for tool in known}
    if len(by_name) < len(known):
        raise ValueError("two tools have one name")
    return by_name


def _escaped(value: SlotValue) -> str:
    """RFC 3986: everything but unreserved characters. "." and ".." would be another path, escaped or not."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text.strip("."):
        raise ValueError("a value of dots alone cannot stand in an address")
    return quote(text, safe="")
