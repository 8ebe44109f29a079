"""The OpenAI wire: reading a chat body, rendering a completion whole or as a stream."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from edge.decision import Answer
from edge.errors import BadRequest

SSE_DONE = b"data: [DONE]\n\n"
# A curated answer is sent in pieces of about this many characters, broken after a line or a word.
_JSON_NAMES = {
    list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false",
    type(None): "null",
}  # fmt: skip
MAX_DIGITS = 4000  # Python reads at most 4300 digits, and takes long for them
_PIECE = re.compile(r"[^\n]{1,60}(?:[ ,.;，。；、]|$)|[^\n]{1,60}|\n+")


def parse_chat(body: bytes) -> dict[str, Any]:
    """The chat body as a dict whose ``messages`` is a non-empty list of objects.

    Raises BadRequest where it is not: nothing behind us could read it either. Unknown fields,
    roles and options are not judged here; they are the agent's.
    """
    data = parse_object(body)
    check_messages(data)
    return data


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is: UTF-8, finite numbers. Raises BadRequest."""
    if not body.strip():
        raise BadRequest("The body is empty: send a JSON object.", code="invalid_json")
    try:
        # Decoded here, because json.loads would also guess at UTF-16 and let lone surrogates pass.
        data = json.loads(
            body.decode("utf-8-sig"), parse_constant=_refuse, parse_float=_finite, parse_int=_whole
        )
    except (ValueError, RecursionError) as exc:
        raise BadRequest(f"The body is not valid JSON: {_short(exc)}", code="invalid_json") from exc
    if not isinstance(data, dict):
        raise BadRequest(
            f"The body must be a JSON object, got {_JSON_NAMES[type(data)]}.", code="invalid_json"
        )
    return data


def is_unambiguous(body: bytes) -> bool:
    """Whether no object of a JSON body has one name twice, of which readers take the last or the first."""
    try:
        json.loads(body.decode("utf-8-sig"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return False
    return True


def check_messages(data: Mapping[str, Any]) -> None:
    """Raise BadRequest unless ``messages`` is a non-empty list of objects."""
    messages = data.get("messages")
    if messages is None:
        raise BadRequest(
            "The field 'messages' is missing: send a list of messages.",
            "messages",
            "missing_required_parameter",
        )
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise BadRequest(
            "The field 'messages' must be a non-empty list of objects with 'role' and 'content'.",
            "messages",
            "invalid_type",
        )


def completion_json(
    answer: Answer, completion_id: str, model: str, created: int, fingerprint: str, prompt_tokens: int
) -> bytes:
    """A whole ``chat.completion``."""
    return json_bytes(
        {
            "id": completion_id,
            "object": "chat.completion",
            "created": created,
            "model": model,
            "system_fingerprint": fingerprint,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": answer.text, "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": _usage(prompt_tokens, answer.tokens),
        }
    )


def completion_events(
    answer: Answer,
    completion_id: str,
    model: str,
    created: int,
    fingerprint: str,
    prompt_tokens: int | None,
) -> bytes:
    """The same completion as server-sent events; usage only where ``prompt_tokens`` is given.

    With usage asked for, every chunk has ``usage: null`` and one more chunk with empty
    ``choices`` carries it, right before ``[DONE]``.
    """
    head: dict[str, Any] = {
        "id": completion_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "system_fingerprint": fingerprint,
    }
    usage: dict[str, Any] = {} if prompt_tokens is None else {"usage": None}
    deltas: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": piece}, None) for piece in _PIECE.findall(answer.text)]
    deltas.append(({}, "stop"))
    events = [
        _event(
            head
            | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
            | usage
        )
        for delta, finish in deltas
    ]
    if prompt_tokens is not None:
        events.append(_event(head | {"choices": [], "usage": _usage(prompt_tokens, answer.tokens)}))
    return b"".join(events) + SSE_DONE


def edited_body(body: Mapping[str, Any]) -> bytes:
    """A body that was read and changed; every field that was not keeps its value and place."""
    try:
        return json_bytes(body)
    except RecursionError as exc:  # writing takes a few frames more than reading did
        raise BadRequest(f"The body is not valid JSON: {_short(exc)}", code="invalid_json") from exc


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json_bytes(data) + b"\n\n"


def json_bytes(data: Mapping[str, Any]) -> bytes:
    """Compact JSON; a lone surrogate, which UTF-8 cannot carry, becomes the escape it came as."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a name comes twice")
    return named


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number.")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (math.inf, -math.inf):
        raise ValueError(f"the number {digits[:20]}{'…' if len(digits) > 20 else ''} is out of range.")
    return number


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; at most {MAX_DIGITS} are read.")
    return int(digits)


def _short(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "it is nested too deeply."
    if isinstance(exc, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {exc.start}); send JSON in UTF-8."
    if isinstance(exc, json.JSONDecodeError):
        return f"{exc.msg} at line {exc.lineno} column {exc.colno}."
    return str(exc)
