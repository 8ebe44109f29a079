"""The scripted LLM's plans: by plain rules over the question, or as a file says. No model is asked."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

from company.people import DAYS
from company.shop import PRODUCTS
from company.town import CITIES
from script import LABEL, question_of
from tokens import split
from tools import today

# Words of a question → tool; a tool is called if everything that it requires is said, too.
_RULES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "get_leave_balance": ("leave|vacation|days off|年假|假期", ()),
    "get_attendance": ("attendance|clock|punch|考勤|打卡|迟到", ("month",)),
    "get_payslip": ("payslip|salary|wage|earn|工资|薪", ("month", "employee?")),
    "get_expense_status": ("expense|claim|报销", ("claim_no?",)),
    "get_menu": ("canteen|menu|lunch|dinner|食堂|菜单|吃什么", ("day",)),
    "get_free_rooms": ("meeting room|free room|会议室", ("day", "time?")),
    "get_order": ("order|parcel|package|订单|快递|包裹", ("order_id",)),
    "get_refund": ("refund|退款", ("order_id",)),
    "get_points": ("points|积分", ()),
    "get_stock": ("stock|available|sold out|有货|库存|现货", ("product",)),
    "get_price": ("price|how much is|cost|多少钱|价格", ("product",)),
    "find_store": ("store|shop|门店|专卖店", ("city",)),
    "get_weather": ("weather|rain|umbrella|天气|下雨", ("city", "day")),
    "get_exchange_rate": ("exchange|yuan|rmb|汇率|人民币", ("currency", "amount?")),
}
_DAYS_ZH = ("周一", "周二", "周三", "周四", "周五", "周六", "周日")
_DAY_WORDS = {"today": "今天", "tomorrow": "明天", **dict(zip(DAYS, _DAYS_ZH, strict=True))}
_CURRENCIES = {
    "usd": "dollar|美元", "eur": "euro|欧元", "gbp": "pound|英镑", "jpy": "yen|日元", "hkd": "港币|hkd",
    "krw": "won|韩元", "chf": "franc|法郎", "thb": "baht|泰铢",
}  # fmt: skip
_WORDS: Mapping[str, Mapping[str, str]] = {
    "product": {key: f"{en.removeprefix('Skylark ')}|{zh}" for key, (en, zh, *_) in PRODUCTS.items()},
    "city": {key: f"{en}|{zh}" for key, (en, zh, *_) in CITIES.items()},
    "day": {en: f"{en}|{zh}" for en, zh in _DAY_WORDS.items()},
    "currency": _CURRENCIES,
}
_DIGITS = {
    "order_id": "(?<![0-9])([0-9]{4,12})(?![0-9])",
    "claim_no": "(?<![0-9])([0-9]{4,12})(?![0-9])",
    "employee": "(?:employee|员工) ?([0-9]+)",
    "month": "(20[0-9]{2}-[01][0-9])",
    "time": "([0-2][0-9]:[0-5][0-9])",
    "amount": "([0-9]+(?:[.][0-9]+)?)",
}
_FILLER = " Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor."


@dataclass(frozen=True, slots=True)
class Plans:
    """What a file of JSON lines says of questions, by their whole text; rules for the others.

    A line is ``{"text": …, "calls": [{"tool", "arguments"}], "answer": …, "tokens": n}``. All but ``text``
    may be left out: ``tokens`` cuts or fills the answer to that many.
    """

    rows: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, path: str | None) -> "Plans":
        """The file's rows, none without a file. Raises ValueError, which names the line."""
        rows: dict[str, Mapping[str, Any]] = {}
        lines = Path(path).read_text("utf-8").split("\n") if path else []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                rows[row["text"].strip()] = row
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise ValueError(f"SCRIPTED_PLANS {path}:{number} is no JSON object with a text.") from error
        return cls(rows)

    def plan(self, messages: Sequence[Mapping[str, Any]], tools: set[str]) -> dict[str, Any]:
        """The calls that a question needs and that were not made yet."""
        question = question_of(messages)
        row = self.rows.get(question, {})
        calls = row["calls"] if "calls" in row else _by_rules(question, tools)
        made = _made(messages)
        left = [
            call
            for call in calls
            if (call["tool"], json.dumps(call["arguments"], sort_keys=True)) not in made
        ]
        return {"calls": left, "more": False}

    def answer(self, question: str) -> str | None:
        """The answer that the file has for a question, or filler of the length that it states."""
        row = self.rows.get(question, {})
        if "answer" not in row and "tokens" not in row:
            return None
        tokens = split((LABEL + row.get("answer", "")).rstrip())
        if (length := row.get("tokens")) is not None:
            filler = cycle(split(_FILLER))
            tokens += [next(filler) for _ in range(length - len(tokens))]
            tokens = tokens[:length]
        return "".join(tokens)


def _by_rules(question: str, tools: set[str]) -> list[dict[str, Any]]:
    calls = []
    for tool, (words, names) in _RULES.items():
        if tool not in tools or not re.search(words, question, re.IGNORECASE):
            continue
        said = {name.rstrip("?"): _said(name.rstrip("?"), question) for name in names}
        if all(said[name] is not None for name in names if not name.endswith("?")):
            arguments = {name: value for name, value in said.items() if value is not None}
            calls.append({"tool": tool, "arguments": arguments})
    return calls


def _said(name: str, question: str) -> object:
    """The value of an argument in the question's words; the longest name wins: X1 Pro is no X1."""
    if name in _WORDS:
        found = [
            (len(match.group()), value)
            for value, words in _WORDS[name].items()
            if (match := re.search(words, question, re.IGNORECASE))
        ]
        return max(found)[1] if found else "today" if name == "day" else None
    if match := re.search(_DIGITS[name], question, re.IGNORECASE):
        return float(match[1]) if name == "amount" else match[1]
    # Without a month the last one is meant.
    return f"{today().replace(day=1) - timedelta(1):%Y-%m}" if name == "month" else None


def _made(messages: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """The calls whose results stand in the conversation since the last user turn."""
    made: set[tuple[str, str]] = set()
    for message in messages:
        if message.get("role") == "user" and question_of([message]):
            made.clear()
        try:
            for call in message.get("tool_calls") or ():
                function = call["function"]
                made.add((function["name"], json.dumps(json.loads(function["arguments"]), sort_keys=True)))
        except (LookupError, TypeError, ValueError):
            continue  # a client may send any JSON
    return made
