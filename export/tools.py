"""The tools of a desk: what is wrong with their declarations, and what a bundle holds of them."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edge.normaliser import Normaliser
from export.entries import given
from export.located import Located, Problem
from export.tool_slots import slot_entry, slot_problems, slots_of
from export.tool_urls import url_problems

USES = ("suggest", "prefetch", "inject", "answer")  # the most that may be done with a tool, rising
DEFAULTS: Mapping[str, Any] = {
    "effects": "read",
    "scope": "user",
    "use": "suggest",
    "credential": None,
    "timeout_ms": 2000,
    "max_concurrency": 8,
    "rate": None,
    "cost": 500,
    "cache_s": 0,
    "owner": None,
}
_TEXTS = ("name", "description", "method", "url")
_KEYS = {*_TEXTS, "slots", *DEFAULTS}
# What chat completions take for the name of a function, as far as a template can name it, too.
_CALLED = re.compile("[A-Za-z][A-Za-z0-9_]{0,63}")
_SECRET = re.compile("secret:[A-Z][A-Z0-9_]{0,63}")
_HEADER = re.compile("header:([A-Za-z0-9-]{1,64})")
# Headers that frame or route a request, or say who asks: none of them is a client's credential.
_NO_CREDENTIAL = re.compile(
    "host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept.*|proxy-.*|x-frontdesk-.*"
)


def tool_problems(tool: Located) -> Iterator[Problem]:
    """(line, key, what is wrong) of a tool."""
    for key in tool:
        if key not in _KEYS:
            what = f"is no key of a tool; its keys are {', '.join(sorted(_KEYS))}"
            yield tool.line_of(str(key)), str(key), what
    for key in _TEXTS:
        if not isinstance(tool.get(key), str) or not tool[key]:
            yield tool.line_of(key), key, f"must be a text, got {tool.get(key)!r}"
    for key, value in tool.items():
        if problem := _json_problem(value):
            yield tool.line_of(str(key)), str(key), problem
        elif value is not None and key in _SHAPES and not _SHAPES[key][0](value):
            yield tool.line_of(key), key, f"{_SHAPES[key][1]}, got {value!r}"
    yield from slot_problems(tool)
    if (slots := slots_of(tool)) is not None:
        yield from url_problems(tool, slots, called=use_of(tool) != "suggest")
    for key, what in _together(tool):
        yield tool.line_of(key), key, what


def use_of(tool: Mapping[str, Any]) -> str:
    """The most that may be done with a tool, one of USES."""
    return str(given(tool, "use", DEFAULTS["use"]))


def tool_entry(tool: Mapping[str, Any], normaliser: Normaliser) -> dict[str, Any]:
    """A tool of a bundle's manifest: its declaration with defaults, and the slots compiled."""
    slots = tool.get("slots") or {}
    credential = given(tool, "credential", None)
    if credential is not None and credential.startswith("header:"):
        credential = credential.lower()
    return {
        **{key: tool[key] for key in _TEXTS},
        "method": tool["method"].upper(),
        **{key: given(tool, key, default) for key, default in DEFAULTS.items()},
        "credential": credential,
        "slots": [slot_entry(name, entry, normaliser) for name, entry in slots.items()],
    }


def _together(tool: Located) -> Iterator[tuple[str, str]]:
    """What does not go together, each thing by itself being right."""
    use = use_of(tool)
    if given(tool, "owner", None) is not None and tool.get("scope") == "public":
        yield "owner", "names whose result it is, so the tool's scope must be user, got 'public'"
    if use == "suggest" or use not in USES:
        return
    if tool.get("effects") == "write":
        yield "use", f"{use!r} calls the tool, and only tools with effects: read are; write use: suggest"
    if isinstance(method := tool.get("method"), str) and method.upper() not in ("GET", "POST"):
        yield "use", f"{use!r} calls the tool by GET or POST, got method {method!r}; write use: suggest"
    name = tool.get("name")
    if isinstance(name, str) and (not _CALLED.fullmatch(name) or name == "slots"):
        yield (
            "name",
            f"of a tool that is called must match {_CALLED.pattern} and not be 'slots', got {name!r}",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_credential(value: object) -> bool:
    if not isinstance(value, str):
        return False
    header = _HEADER.fullmatch(value)
    named = header is not None and not _NO_CREDENTIAL.fullmatch(header[1].lower())
    return named or _SECRET.fullmatch(value) is not None


_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "effects": (("read", "write").__contains__, "must be one of read, write"),
    "scope": (("user", "public").__contains__, "must be one of user, public"),
    "use": (USES.__contains__, f"must be one of {', '.join(USES)}"),
    "credential": (
        _is_credential,
        "must be header:NAME, the header of a request that is passed on, or secret:NAME, in capitals",
    ),
    "timeout_ms": (_is_whole(1, 60_000), "must be whole milliseconds from 1 to 60000"),
    "max_concurrency": (_is_whole(1, 10_000), "must be a whole number from 1 to 10000"),
    "rate": (lambda v: _is_number(v) and 0 < v <= 1e6, "must be calls a second, more than 0"),
    "cost": (lambda v: _is_number(v) and 0 <= v <= 1e6, "must be milliseconds, 0 or more"),
    "cache_s": (lambda v: _is_number(v) and 0 <= v <= 86_400, "must be seconds from 0 to 86400, a day"),
    "owner": (
        lambda v: isinstance(v, str) and bool(v.strip()),
        "must be the name of a field of the tool's result",
    ),
}


def _json_problem(value: object) -> str | None:
    """Why a value cannot stand in a manifest."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return "must hold what JSON can: put dates in quotes, no .nan or .inf"
    return None
