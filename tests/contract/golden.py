"""The golden rows of host parity: texts and conversations, and what Python decides on each.

    python tests/contract/golden.py > golden.jsonl    one row a line: {"input", "ids", "row"}

``input`` is what ``/v1/classify`` takes, ``ids`` are its token ids, ``row`` is Python's answer. Tools are off, as in the
isolate.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edge.classify import row
from edge.decision import Decision
from edge.host import open_pipeline
from edge.normaliser import Normaliser
from edge.pipeline import Pipeline
from edge.query import Query
from edge.stages import Runtime
from edge.wire import check_messages

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "models/demo"
ASKED = "when does my working day begin"
LONG = {"en": "and what about my annual leave ", "zh": "请问年假怎么申请"}


def without_tools(pipeline: Pipeline) -> Pipeline:
    """The pipeline of a host that calls none."""
    runtime = Runtime(pipeline.runtime.bundle, pipeline.runtime.router)
    return Pipeline(runtime, pipeline.answering, pipeline.today)


def query_of(item: str | dict[str, Any], normaliser: Normaliser) -> Query:
    """An element of ``input`` as ``/v1/classify`` reads it."""
    if isinstance(item, str):
        return Query.of_text(item, normaliser)
    check_messages(item)
    return Query.of_body(item, normaliser)


def golden(pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    """Every row. ``decision`` is the decision itself, which JSON leaves out."""
    bundle, tokenizer = pipeline.runtime.bundle, pipeline.runtime.router._tokenizer
    for item in inputs(bundle.normaliser, sorted(bundle.exact)):
        query = query_of(item, bundle.normaliser)
        answer = json.loads(json.dumps(row(pipeline, query)))
        del answer["timing_ms"]
        yield {
            "input": item,
            "normal": query.normal,
            "ids": tokenizer.encode(query.normal).ids,
            "row": answer,
            "decision": pipeline.decide(query),
        }


def inputs(normaliser: Normaliser, exact: list[str]) -> list[str | dict[str, Any]]:
    """What is asked: the demo's held-out questions, traps, listed texts, odd texts and odd bodies."""
    rng = random.Random(20)
    questions = _lines("test.jsonl")
    traps = _lines("adversarial.jsonl")
    texts = [q["text"] for q in questions]
    found: list[str | dict[str, Any]] = [_conversation(q) for q in questions]
    found += [trap["trap"] for trap in traps]
    found += rng.sample([trap["safe"] for trap in traps], 100)
    found += rng.sample(exact, 120)
    found += [odd for text in rng.sample(texts, 60) for odd in _spelled(text, normaliser, rng)]
    found += _edges(normaliser)
    found += _bodies(rng.sample(texts, 12))
    return found


def _lines(name: str) -> list[dict[str, Any]]:
    lines = (ROOT / "examples/desk/eval" / name).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def _conversation(question: dict[str, Any]) -> str | dict[str, Any]:
    history = question.get("history")
    if not history:
        return str(question["text"])
    return {"messages": [*history, {"role": "user", "content": question["text"]}]}


def _spelled(text: str, normaliser: Normaliser, rng: random.Random) -> list[str]:
    """The text as other keyboards, people and programs write it; what is invisible or wide changes nothing."""
    back = dict(zip(normaliser.simplified, normaliser.traditional, strict=True))
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else "\u3000" if c == " " else c for c in text)
    place = rng.randint(0, len(text))
    return [
        wide,
        "".join(back.get(char, char) for char in text),
        text.upper(),
        f"{text[:place]}\u200b{text[place:]}",
        f"{text} 👩‍💻🙏",
        f"  {text}？！",
    ]


def _edges(normaliser: Normaliser) -> list[str]:
    """Empty, blank, at and over the limits of length, and scripts that nobody here answers."""
    texts = [
        "",
        " ",
        "\n\t",
        "?",
        "。",
        "…",
        "0",
        "👍",
        "🇨🇳🇬🇧",
        "\u200b",
        "\ufeff",
        "\ud83d",
        "a\ud800b",
        "\x00",
        "ﷺ",
        "½",
    ]
    texts += [
        "когда мы начинаем",
        "متى نبدأ",
        "何時に始まりますか",
        "몇 시에 시작해요",
        "when 我们 start 上班",
        "wann beginnt die arbeit",
    ]
    texts += [
        f"{ASKED} {odd}"
        for odd in ("\u0370", "\U0001f9ff", "\u31bb", "𝔘", "\U000323af", "\u0295", "ΣΑΣ", "\u1e9e")
    ]
    for unit in LONG.values():
        texts += [unit * count for count in range(4, 20)]
        texts += [(unit * 400)[:size] for size in (2047, 2048, 2049, 5000)]
    texts += ["a" * 2048, "你" * 2049, "👩" * 1025, "x " * 40, "1" * 70, "7天" * 30]
    signals = [
        "不",
        "没问题",
        "must",
        "don't",
        "saturday",
        "周六",
        "30天",
        "thirty days",
        "两百五十块",
        "9:30",
        "1,024",
        "北京",
        "在华为",
        "谁",
    ]
    texts += [
        f"{signal} {text}" for signal in signals for text in (ASKED, "年假怎么申请", "can i return a tablet")
    ]
    return texts


def _bodies(texts: list[str]) -> list[dict[str, Any]]:
    """Bodies with everything that speaks for or against an answer."""
    found: list[dict[str, Any]] = []
    for text in [ASKED, "公司几点上班？", *texts]:
        said = [{"role": "user", "content": text}]
        found += [
            {"messages": said, **options}
            for options in (
                {"temperature": 0.5, "stream": True, "stream_options": {"include_usage": True}, "seed": 1, "user": "u"},
                {"max_tokens": 1}, {"max_tokens": 4000.0}, {"max_completion_tokens": 4000}, {"n": 2}, {"seed": 1.0}, {"tools": []},
                {"tools": [{}]}, {"tool_choice": None}, {"stream_options": {"x": 1}}, {"metadata": {"a": "b"}}, {"store": 1},
                {"response_format": {"type": "text"}, "logprobs": False},
            )
        ]  # fmt: skip
        parts = [{"type": "text", "text": text}]
        found += [
            {"messages": [*before, {"role": "user", "content": content}]}
            for before, content in (
                ([{"role": "system", "content": "You are a bot."}], text),
                ([{"role": "developer", "content": parts}], parts),
                ([], [*parts, {"type": "image_url", "image_url": {"url": "data:"}}]),
                ([], [*parts, *parts]), ([], None), ([], 5), ([], [{"type": "text", "text": text, "cache_control": {}}]),
                ([{"role": "assistant", "content": "Hello, how can I help?"}], text),
                ([{"role": "assistant", "content": "Welcome to Amazon support."}], text),
                ([{"role": "user", "content": "hi"}], text),
                ([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "We are shut on Monday."}], text),
                ([{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [{}]}], text),
                ([{"role": "user", "content": "x"}, {"role": "tool", "content": "{}"}], text),
                ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 40, text),
            )
        ]  # fmt: skip
        found += [
            {"messages": [*said, {"role": role, "content": "go on"}]}
            for role in ("assistant", "tool", None, ["user"])
        ]
    return found


def main() -> None:
    pipeline = without_tools(open_pipeline(DEMO))
    for line in golden(pipeline):
        assert isinstance(line.pop("decision"), Decision)
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
