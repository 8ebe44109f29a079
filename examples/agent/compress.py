"""A tool's result as the LLM gets it: short, and marked as data."""

import json
import math
from collections.abc import Mapping
from typing import Any

from tokens import estimate
from tools import Result

# Rows of a list or an object, characters of a text: tried in turn until the whole is short enough.
_LIMITS = ((50, 1000), (20, 300), (10, 120), (5, 60), (2, 30))
_MAX_DEPTH = 8
_EMPTY: tuple[object, ...] = (None, "", [], {})


def message_of(result: Result, call_id: str, max_tokens: int) -> dict[str, Any]:
    """The ``tool`` message of a call, also of one that failed.

    Whatever a result says stays inside this message: it never becomes part of a prompt of ours.
    """
    name = result.planned.tool.name
    if result.outcome == "ok":
        content = f'{{"data_of":"{name}","result":{compress(result.value, max_tokens)}}}'
    else:
        content = json.dumps({"data_of": name, "error": result.error}, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def compress(value: object, max_tokens: int) -> str:
    """JSON of at most about ``max_tokens`` tokens: without what is empty, long lists and texts cut.

    What is cut says so, with a count; else an LLM would answer "there are 20".
    """
    text = "null"
    for rows, characters in _LIMITS:
        text = json.dumps(
            _shorter(value, rows, characters, _MAX_DEPTH), ensure_ascii=False, separators=(",", ":")
        )
        if estimate(text) <= max_tokens:
            return text
    return json.dumps(f"{text[: 2 * max_tokens]}… (cut)", ensure_ascii=False)


def _shorter(value: object, rows: int, characters: int, depth: int) -> object:
    if isinstance(value, Mapping | list | tuple) and depth == 0:
        return "…"
    if isinstance(value, Mapping):
        shown: dict[str, object] = {}
        for index, (key, each) in enumerate(value.items()):
            if index == rows:
                shown["…"] = f"{len(value) - rows} more fields"
                break
            short = _shorter(each, rows, characters, depth - 1)
            if short not in _EMPTY:
                shown[_cut(str(key), characters)] = short
        return shown
    if isinstance(value, list | tuple):
        listed = [_shorter(each, rows, characters, depth - 1) for each in value[:rows]]
        return listed + ([f"… {len(value) - rows} more of {len(value)}"] if len(value) > rows else [])
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    return _cut(str(value), characters)


def _cut(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    return f"{text[:characters]}… ({len(text) - characters} more characters)"
