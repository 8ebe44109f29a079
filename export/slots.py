"""Compiles export/slots.yaml into the data by which hosts read days, times and amounts."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from export.patterns import not_shared, trie

SLOTS_FILE = Path(__file__).with_name("slots.yaml")
_MARK = re.compile("<([a-z]+)>")
_ROLE = re.compile(r"<([a-z]+):([a-z+]+)>")
_HAN = "〇一二三四五六七八九"
# Which tables take Han numerals, from which number to which.
_NUMERALS = {"month": (1, 12), "day": (1, 31), "count": (1, 99), "hour": (0, 24), "minute": (10, 59)}

# Up to 9999 as it is said; 三千五 is 3500, 六七 is no number.
_ONES = "[一二两三四五六七八九]"
_HAN_SECTION = f"(?:{_ONES}千)?零?(?:{_ONES}百)?零?(?:{_ONES}?十)?零?{_ONES}?"


def slot_data(source: Path = SLOTS_FILE) -> dict[str, Any]:
    """The ``slots`` object of a bundle. Raises ValueError where a pattern is not shared by both hosts."""
    raw = yaml.safe_load(source.read_text("utf-8"))
    tables: dict[str, dict[str, Any]] = {role: dict(parts) for role, parts in raw["tables"].items()}
    for role, (first, last) in _NUMERALS.items():
        tables[role]["zh"] = _numerals(first, last, two_is_liang=role in ("count", "hour"))
    rules = [_rule(rule, tables, raw["marks"]) for rule in raw["rules"]]
    data: dict[str, Any] = {
        "rules": rules,
        "words": {
            role: {
                word: value
                for part in parts.values()
                if isinstance(part, dict)
                for word, value in part.items()
            }
            for role, parts in tables.items()
        },
        "hours": {
            part: {str(h): hours for h, hours in table.items()} for part, table in raw["hours"].items()
        },
        "amounts": _amounts(raw["amounts"], raw["marks"]),
    }
    patterns = [rule[key] for rule in rules for key in ("if", "pattern")] + [
        data["amounts"]["regex"],
        data["amounts"]["han"],
    ]
    for pattern in patterns:
        if bad := not_shared(pattern):
            raise ValueError(f"{source}: {bad!r} is not read alike by Python and JavaScript: {pattern}")
        re.compile(pattern)
    return data


@cache
def unit_names() -> tuple[str, ...]:
    """The units that a number may be declared to have."""
    return tuple(yaml.safe_load(SLOTS_FILE.read_text("utf-8"))["amounts"]["units"])


def _rule(
    rule: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]], marks: Mapping[str, str]
) -> dict[str, Any]:
    roles: list[str] = []
    probe = rule.get("if")

    def group(match: re.Match[str]) -> str:
        nonlocal probe
        roles.append(match.group(1))
        parts = [tables[match.group(1)][name] for name in match.group(2).split("+")]
        digits = [part for part in parts if isinstance(part, str)]
        words = [word for part in parts if not isinstance(part, str) for word in part]
        if not digits:
            probe = probe or trie(words)
        return f"({'|'.join([*digits, *([trie(words)] if words else [])])})"

    pattern = _ROLE.sub(group, rule["pattern"])
    pattern = _MARK.sub(lambda match: marks[match.group(1)], pattern)
    return {
        "as": rule["as"],
        "if": probe or "[0-9]",
        "pattern": pattern,
        "roles": roles,
        "set": rule.get("set", {}),
    }


def _numerals(first: int, last: int, *, two_is_liang: bool) -> dict[str, int]:
    """Han numerals as they are said: 二十五, 十, 零五; 两 where things are counted."""
    named = {_han(number): number for number in range(first, last + 1)}
    named |= {f"零{_HAN[n]}": n for n in range(1, 10)}
    return named | ({"两": 2} if two_is_liang else {}) | ({"零": 0} if first == 0 else {})


def _han(number: int) -> str:
    tens, ones = divmod(number, 10)
    ten = "" if tens == 0 else "十" if tens == 1 else f"{_HAN[tens]}十"
    return ten + (_HAN[ones] if ones or not tens else "")


def _amounts(raw: Mapping[str, Any], marks: Mapping[str, str]) -> dict[str, Any]:
    units = {str(word): unit for unit, words in raw["units"].items() for word in words} | raw["symbols"]
    words = raw["words"]
    unit = trie([word for word in units if word not in raw["symbols"]], marks["v"])
    english = trie(words)
    numeral = (
        r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]{1,6})?|[0-9]{1,15}(?:\.[0-9]{1,6})?"
        "|[零〇一二两三四五六七八九十百千万]{1,20}"
        f"|(?:an? (?:hundred|thousand)|{english})(?:[ -](?:and )?{english}){{0,8}}{marks['v']}"
    )
    start = r"(?<![a-z0-9])(?<![0-9a-z][.,:/_-])(?<![零〇一二两三四五六七八九十百千万])"
    ranges = trie(raw["range"])
    unit_too = f"(?:[ -]?{unit})?"
    between = f"(?:{numeral}){unit_too} ?{ranges} ?|[0-9.,]{{1,20}}{unit_too} ?[-~–] ?"
    before = f"{trie(raw['vague_before'])} ?|{between}"
    about, after = f"({raw['vague_between']})?", f"(?:({raw['vague_after']}){marks['v']})?"
    symbol = trie(raw["symbols"])
    stop = r"(?![a-z0-9])(?![.,:/_-][0-9])"
    regex = (
        f"{trie(raw['neutral'], marks['v'])}"
        f"|{start}({before})?({symbol})? ?({numeral})({trie(raw['multipliers'])})?"
        f"{about}(?:[ -]?({unit}))?{after}{stop}"
    )
    return {
        "regex": regex,
        "han": f"(?:{_HAN_SECTION}万)?{_HAN_SECTION}",
        "words": words,
        "multipliers": raw["multipliers"],
        "units": units,
    }
