"""What tools answered: results as text, kept for a while for whoever may have them again."""

import json
import math
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edge.decision import SlotValue

MAX_RESULT_BYTES = 65_536
_CACHE_BYTES = 16_000_000
_ENTRY_BYTES = 1_500  # of an entry beside its text, as measured
_LOOKED_AT = 8  # entries, the longest unused, that are dropped if expired whenever one is added


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answered: JSON, held as text. It is the caller's data, so its repr is empty."""

    tool: str
    arguments: Mapping[str, SlotValue] = field(repr=False)
    text: str = field(repr=False)
    ms: float
    cached: bool = False

    @property
    def value(self) -> Any:  # noqa: ANN401 - an object or a list
        """The JSON, decoded."""
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Failure:
    """A call without a result.

    ``code``: ``unverified_caller`` (nobody says who asks, or the credential did not come), ``busy`` (the
    tool's own limits), ``timeout``, ``unreachable``, ``status_404`` and so on, ``too_large``, ``not_json``,
    ``not_owner`` (the result is somebody else's), ``bad_argument``, ``internal_error``, ``over_budget`` (it
    was not waited for).
    """

    tool: str
    code: str
    ms: float = 0.0


def is_json(content_type: str) -> bool:
    """Whether a media type is JSON (RFC 6839, section 3.1)."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def read_result(body: bytes) -> tuple[Any, str] | None:
    """The JSON of a result and its text, written anew, so that every reader finds what was checked here.

    None where it is no object or list: a text alone, or a number, has no fields.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_number, parse_float=_number)
        if not isinstance(value, dict | list):
            return None
        return value, json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None


class ResultCache:
    """Results by key until they expire, the longest unused dropped first. At most some 16 MB."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], tuple[float, Result]] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, ...]) -> Result | None:
        """The result, if it is there and has not expired."""
        until, result = self._kept.get(key, (0.0, None))
        if result is None:
            return None
        if time.monotonic() >= until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return replace(result, ms=0.0, cached=True)

    def put(self, key: tuple[str, ...], result: Result, seconds: float) -> None:
        """Keep a result; some that have expired go."""
        now = time.monotonic()
        if key in self._kept:
            self._drop(key)
        for old in [k for k, _ in zip(self._kept, range(_LOOKED_AT), strict=False)]:
            if self._kept[old][0] <= now:
                self._drop(old)
        self._kept[key] = now + seconds, result
        self._bytes += _size(result)
        while self._bytes > _CACHE_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, ...]) -> None:
        self._bytes -= _size(self._kept.pop(key)[1])


def _size(result: Result) -> int:
    return 2 * len(result.text) + _ENTRY_BYTES


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number
