"""Regular expressions for two hosts: what Python and JavaScript read alike, and that no text makes slow."""

import math
import re
from collections.abc import Iterable
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

# What Python and JavaScript read differently, or only one of them reads at all.
_NOT_SHARED = re.compile(r"\\[dDwWbBsSAZ !\"#%&',:;<=>@_`~]|\(\?P|\(\?[aiLmsux]|\(\?#|[*+?}]\+|\(\?>|\{,")
_MAX_WAYS = 1000


def not_shared(pattern: str) -> str | None:
    """The part of a pattern that the two hosts do not read alike, if there is one."""
    found = _NOT_SHARED.search(pattern)
    return found.group() if found else None


def trie(words: Iterable[str], end: str = "") -> str:
    """A regular expression of words that share their beginnings, longest first.

    Both hosts' engines try alternatives one by one: a flat list of 600 words costs 15 times as much.
    ``end`` must follow a word whose last character is a Latin letter or a digit.
    """
    return _trie([(word, word[-1:]) for word in set(words)], end)


def _trie(words: list[tuple[str, str]], end: str) -> str:
    branches: dict[str, list[tuple[str, str]]] = {}
    ended = None
    for word, last in words:
        if word:
            branches.setdefault(word[0], []).append((word[1:], last))
        else:
            ended = end if last.isascii() and last.isalnum() else ""
    parts = [_escaped(char) + _trie(rest, end) for char, rest in sorted(branches.items())]
    if not parts:
        return ended or ""
    if ended is not None:
        return f"(?:{'|'.join(parts)}|{ended})" if ended else f"(?:{'|'.join(parts)})?"
    return f"(?:{'|'.join(parts)})" if len(parts) > 1 else parts[0]


def _escaped(char: str) -> str:
    """The character itself. JavaScript refuses the other backslashes that ``re.escape`` writes."""
    return f"\\{char}" if char in ".^$*+?{}[]\\|()/" else char


def problem_of(pattern: str, longest: int) -> str | None:
    """Why a pattern of an operator cannot be used; None where it can.

    It must be read alike by both hosts, match texts of 1 to ``longest`` characters, hold no anchors, groups
    with names or references, and match a text in few ways: (a{1,9}){1,9} would take for ever.
    """
    if part := not_shared(pattern):
        return f"holds {part!r}, which Python and JavaScript read differently; write classes as [0-9]"
    try:
        parsed = _parser.parse(pattern)
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as exc:
        return f"is no regular expression ({exc})"
    ways = _ways(parsed)
    if ways is None:
        return "holds ^, $, a reference or what JavaScript lacks; it describes the whole value by itself"
    shortest, most = parsed.getwidth()
    if shortest < 1:
        return "matches the empty text"
    if most > longest:
        return f"matches texts of more than {longest} characters; write {{1,12}} in place of + and *"
    if ways > _MAX_WAYS:
        return "can match one text in too many ways; repeat nothing that repeats itself"
    return None


def _ways(parsed: Any) -> float | None:  # noqa: ANN401 - the standard library's parse tree
    """In how many ways a pattern can match at one place; None where it holds what is not allowed."""
    ways: float = 1
    for code, value in parsed:
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            if code is op.IN and any(kind is op.CATEGORY for kind, _ in value):
                return None
            continue
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, body = value
            inner = _ways(body)
            if inner is not None:
                most = min(int(most), _MAX_WAYS + 1)
                inner = _repeated(inner, int(least), most)
        elif code is op.BRANCH:
            branches = [_ways(branch) for branch in value[1]]
            inner = None if None in branches else sum(filter(None, branches))
        elif code is op.SUBPATTERN:
            inner = _ways(value[3])
        elif code in (op.ASSERT, op.ASSERT_NOT):
            inner = _ways(value[1])
        else:
            inner = None
        if inner is None:
            return None
        ways *= inner
    return ways


def _repeated(ways: float, least: int, most: int) -> float:
    total = 0.0
    for times in range(least, most + 1):
        power = times * math.log10(ways) if ways else 0.0
        if power > 6:
            return math.inf
        total += 10**power
        if total > 10 * _MAX_WAYS:
            return math.inf
    return round(total)
