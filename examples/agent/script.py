"""What the scripted LLM says: its label, then the question, the tool result and the hints that came."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hints import Hints
from plan import MARK
from tokens import split
from wire import text_of

LABEL = "[scripted LLM] "
# The parts are capped so that a reply is always of 40 to 140 tokens, whatever was asked.
_QUESTION_TOKENS, _TOOL_TOKENS, _HINT_TOKENS = 24, 24, 10

_TEXTS = {
    "en": {
        "asked": 'You asked: "{}". ',
        "tool": 'A tool had returned: "{}". ',
        "hints": "Hints from the front desk: topic {}, reason {}. ",
        "no_hints": "No hints from the front desk came with it. ",
        "none": "none",
        "end": "This is a fixed script and no language model: it restates the question and the hints, "
        "so that you can see what reached the central agent.",
    },
    "zh": {
        "asked": "您问的是：“{}”。",
        "tool": "工具返回了：“{}”。",
        "hints": "前台的提示：主题 {}，原因 {}。",
        "no_hints": "前台没有附带提示。",
        "none": "无",
        "end": "这是固定脚本，不是语言模型：只复述问题和提示，方便查看什么到了中央助手。",
    },
}


def language(text: str) -> Literal["zh", "en"]:
    """Chinese if there are as many Han characters as words of letters: ``iPhone 怎么退货`` is Chinese."""
    han = len(re.findall(r"[\u3400-\u4dbf\u4e00-\u9fff]", text))
    return "zh" if han and han >= len(re.findall(r"[A-Za-z]+", text)) else "en"


def question_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the user asked last, without the agent's own request for a plan."""
    asked = (
        text_of(message).partition(MARK)[0].strip() for message in messages if message.get("role") == "user"
    )
    return next((text for text in reversed(list(asked)) if text), "")


def compose(messages: Sequence[Mapping[str, Any]], hints: Hints | None) -> str:
    """The reply, the same for the same input, in the language of the last user turn."""
    question, tool = question_of(messages), None
    for message in messages:
        if message.get("role") == "user":
            tool = None
        elif message.get("role") == "tool":
            result = text_of(message).rpartition('"result":')[2]
            tool = result if tool is None else f"{tool} {result}"
    texts = _TEXTS[language(question)]
    reply = LABEL + texts["asked"].format(_cut(question, _QUESTION_TOKENS))
    if tool is not None:
        reply += texts["tool"].format(_cut(tool, _TOOL_TOKENS))
    if hints is None:
        return reply + texts["no_hints"] + texts["end"]
    topic, reason = (_cut(part or texts["none"], _HINT_TOKENS) for part in (hints.topic, hints.reason))
    return reply + texts["hints"].format(topic, reason) + texts["end"]


def _cut(text: str, tokens: int) -> str:
    """A text on one line, cut to a number of tokens."""
    parts = split(" ".join(text.split()))
    return "".join(parts) if len(parts) <= tokens else "".join(parts[:tokens]) + "…"
