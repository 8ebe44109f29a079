"""Pruning of long conversations: tokens saved, how often the prefix changes, what is kept, and the time.

    python benchmarks/context.py --bundle models/demo -o benchmarks/results/context.json    # under 2 minutes

The conversations are made of the desk's held-out questions, in one language each. A conversation has six
topics, drawn by lot, and returns to them: it stays with one for one to four turns, then goes to another.
A turn asks a question of its topic that this conversation has not had. Where the topic has a curated answer
the agent gives it; where it has tools, the agent calls one, which returns JSON of up to 1,500 tokens; else it
gives another topic's curated answer, for its length. Each request brings the conversation so far.

With bpe-openai installed (it carries OpenAI's vocabularies), the estimate is compared with them, too.
"""

import argparse
import json
import os
import random
import statistics
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edge.config import Context
from edge.context import MAX_SECONDS, Embeddings, Pruner, Similar, choose
from edge.conversation import Unsure, estimate, read
from edge.host import open_pipeline
from edge.stages import Runtime

CONVERSATIONS, TURNS, TOPICS = 60, 60, 6
SYSTEM = "You are the assistant of an electronics company. Answer briefly, in the user's language. " * 8
Message = dict[str, Any]


@dataclass(slots=True)
class Talk:
    """A conversation, and the topic of each turn."""

    messages: list[Message] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)

    def requests(self) -> list[int]:
        """How many messages each request brings: up to a user's."""
        return [place + 1 for place, message in enumerate(self.messages) if message["role"] == "user"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=Path("models/demo"))
    parser.add_argument("--questions", type=Path, default=Path("examples/desk/eval"))
    parser.add_argument("--max-tokens", type=int, default=4000)
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    runtime = open_pipeline(args.bundle).runtime
    rows = [row for name in ("calibrate", "test") for row in load(args.questions / f"{name}.jsonl")]
    rows = [row for row in rows if row["kind"] == "in_scope"]
    answers = load(args.bundle / "answers.jsonl")
    talks = [make(number, rows, answers, runtime) for number in range(CONVERSATIONS)]
    found = {
        "bundle": runtime.bundle.version,
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "conversations": CONVERSATIONS,
        "requests": sum(len(talk.requests()) for talk in talks),
        "max_tokens": args.max_tokens,
        "kept_by": compare(talks, args.max_tokens, runtime),
        "time_ms": timed(talks, args.max_tokens, runtime),
        "two_thousand_messages": at_once(talks, args.max_tokens, runtime),
        "estimate": estimates(talks, rows, answers, runtime),
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", "utf-8")


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# --- conversations -------------------------------------------------------------------------------


def make(
    number: int, rows: Sequence[dict[str, Any]], answers: Sequence[dict[str, Any]], runtime: Runtime
) -> Talk:
    """The conversation of this number; English and Chinese by turns."""
    lot, lang = random.Random(number), ("en", "zh")[number % 2]
    curated = {row["topic"]: row["text"] for row in answers if row["lang"] == lang}
    asked: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["lang"] == lang:
            asked[row["topic"]].append(row["text"])
    topics = lot.sample(sorted(asked), TOPICS)
    for topic in topics:
        lot.shuffle(asked[topic])
    talk = Talk([{"role": "system", "content": SYSTEM}])
    topic = topics[0]
    while len(talk.topics) < TURNS:
        topic = lot.choice([other for other in topics if other != topic])
        for _ in range(min(lot.randint(1, 4), TURNS - len(talk.topics))):
            if not asked[topic]:
                break
            talk.messages.append({"role": "user", "content": asked[topic].pop()})
            talk.messages += answer(lot, topic, curated, runtime)
            talk.topics.append(topic)
    return talk


def answer(lot: random.Random, topic: str, curated: dict[str, str], runtime: Runtime) -> list[Message]:
    text = curated.get(topic) or curated[lot.choice(sorted(curated))]
    said: list[Message] = [{"role": "assistant", "content": text}]
    tools = runtime.bundle.by_id[topic].tools
    if not tools:
        return said
    call = {"id": f"call_{lot.randrange(10**9)}", "type": "function"}
    call["function"] = {"name": tools[0], "arguments": json.dumps({"id": str(lot.randrange(10**4))})}
    records = [
        {"id": lot.randrange(10**6), "at": f"2026-{lot.randint(1, 12):02}-{lot.randint(1, 28):02}"}
        | {"state": lot.choice(["open", "sent", "done"]), "note": curated[lot.choice(sorted(curated))][:80]}
        for _ in range(lot.randint(1, 20))
    ]
    result = {"role": "tool", "tool_call_id": call["id"]}
    result["content"] = json.dumps(records, ensure_ascii=False)
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, result, *said]


# --- what is kept --------------------------------------------------------------------------------


def compare(talks: Sequence[Talk], most: int, runtime: Runtime) -> dict[str, Any]:
    """Our way beside the same without hysteresis, and beside dropping the oldest or any."""
    embeddings = Embeddings()

    def likest(text: str, others: Sequence[str]) -> np.ndarray:
        vectors = embeddings.of([text, *others], runtime, float("inf"))
        return np.asarray(vectors[1:] @ vectors[0])

    def newest(_: str, others: Sequence[str]) -> np.ndarray:
        return np.arange(len(others))

    def lot(text: str, others: Sequence[str]) -> np.ndarray:
        return np.array([zlib.crc32(f"{text}|{other}".encode()) for other in others], float)

    ways: dict[str, tuple[int, Similar]] = {
        "similarity": (most // 2, likest),
        "similarity, at every turn": (most, likest),
        "age": (most // 2, newest),
        "lot": (most // 2, lot),
    }
    return {"everything": judge(talks, None)} | {
        name: judge(talks, lambda said, target=target, way=way: choose(said, most, target, way).kept)
        for name, (target, way) in ways.items()
    }


def judge(talks: Sequence[Talk], choice: Callable[[Any], Sequence[bool]] | None) -> dict[str, Any]:
    """Counts over all requests of all conversations.

    ``reread``: tokens from the first message on that the request before did not have there: those which no
    prompt cache holds. ``kept_at_prunings``: of the turns that the request before still had, without the
    first and the last two, the share that a pruning leaves, of the query's topic and of others.
    ``kept_since``: at all requests that lack something, of all such turns, the share that is forwarded.
    """
    before = after = reread = changed = 0
    kept_of: dict[tuple[str, bool], list[bool]] = defaultdict(list)
    for talk in talks:
        said = read(talk.messages)
        last: list[int] = []
        for number, size in enumerate(talk.requests()):
            kept = choice(said[:size]) if choice else [True] * size
            sent = [place for place in range(size) if kept[place]]
            shared = next((n for n, (a, b) in enumerate(zip(last, sent, strict=False)) if a != b), len(last))
            changed += shared < len(last)
            before += sum(one.tokens for one in said[:size])
            after += sum(said[place].tokens for place in sent)
            reread += sum(said[place].tokens for place in sent[shared:])
            starts = talk.requests()
            for turn in range(1, number - 1) if not all(kept) else ():
                same = talk.topics[turn] == talk.topics[number]
                place = starts[turn] - 1
                kept_of["since", same].append(kept[place])
                if shared < len(last) and place in last:
                    kept_of["at_prunings", same].append(kept[place])
            last = sent
    return {
        "tokens_before": before,
        "tokens_after": after,
        "saved": round(1 - after / before, 3),
        "prefix_changed": changed,
        "reread": reread,
        **{
            f"kept_{when}": {"same_topic": mean(kept_of[when, True]), "others": mean(kept_of[when, False])}
            for when in ("at_prunings", "since")
        },
    }


def mean(values: Sequence[float]) -> float | None:
    return round(statistics.mean(values), 3) if values else None


# --- time ----------------------------------------------------------------------------------------


def timed(talks: Sequence[Talk], most: int, runtime: Runtime) -> dict[str, Any]:
    """Each request of each conversation, one after the other, with what is remembered of those before."""
    pruner, took = Pruner(Context(max_tokens=most)), defaultdict(list)
    for talk in talks:
        last = -1
        for size in talk.requests():
            messages = talk.messages[:size]
            started = time.perf_counter()
            said = read(messages)
            counted = time.perf_counter()
            took["counting"].append(1000 * (counted - started))
            if sum(one.tokens for one in said) > most:
                shorter = pruner.shorten(messages, runtime)
                kind = "replay" if shorter.pruned_at == last else "pruning"
                took[kind].append(1000 * (time.perf_counter() - counted))
                last = shorter.pruned_at
    return {name: spread(values) for name, values in took.items()}


def spread(values: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(values, [50, 99])
    return {"n": len(values), "p50": round(p50, 2), "p99": round(p99, 2), "max": round(max(values), 2)}


def at_once(talks: Sequence[Talk], most: int, runtime: Runtime) -> dict[str, Any]:
    """A conversation of 2,000 messages that no request came of before: until it is read, and after it."""
    messages = talks[0].messages[:1] + [m for talk in talks for m in talk.messages[1:]]
    messages = messages[:2000]
    while messages[-1]["role"] != "assistant" or "tool_calls" in messages[-1]:
        messages.pop()
    messages.append({"role": "user", "content": "hello"})
    pruner, started = Pruner(Context(max_tokens=most)), time.perf_counter()
    shorter, first = None, 0.0
    while shorter is None:
        try:
            shorter = pruner.shorten(messages, runtime, time.monotonic() + MAX_SECONDS)
        except Unsure:
            first = first or time.perf_counter() - started
    read_at = time.perf_counter()
    pruner.shorten(messages, runtime)
    return {
        "messages": len(messages),
        "turns": sum(message["role"] == "user" for message in messages),
        "tokens": [shorter.before, shorter.after],
        "unpruned_after_ms": round(1000 * first),
        "read_ms": round(1000 * (read_at - started)),
        "known_ms": round(1000 * (time.perf_counter() - read_at), 1),
    }


# --- the estimate --------------------------------------------------------------------------------


def estimates(
    talks: Sequence[Talk], rows: Iterable[dict[str, Any]], answers: Iterable[dict[str, Any]], runtime: Runtime
) -> dict[str, Any]:
    """Estimated by counted tokens of kinds of texts: of all together, and 5 % and 95 % of single texts."""
    texts: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        texts[f"questions, {row['lang']}"].append(row["text"])
    for row in answers:
        texts[f"answers, {row['lang']}"].append(row["text"])
    for number, talk in enumerate(talks):
        outputs = [message["content"] for message in talk.messages if message["role"] == "tool"]
        texts[f"JSON, {('en', 'zh')[number % 2]}"] += outputs
    router, reading = runtime.router, runtime.bundle.normaliser.reading
    counters: dict[str, Callable[[str], int]] = {"router": lambda text: router.token_count(reading(text))}
    try:
        import bpe_openai
    except ImportError:
        pass
    else:
        for name in ("o200k_base", "cl100k_base"):
            counters[name] = lambda text, encode=bpe_openai.get_encoding(name).encode: len(encode(text))
    return {
        kind: {name: ratio(some, count) for name, count in counters.items()} for kind, some in texts.items()
    }


def ratio(texts: Sequence[str], count: Callable[[str], int]) -> list[float]:
    pairs = [(estimate(text), max(1, count(text))) for text in texts]
    low, high = np.percentile([a / b for a, b in pairs], [5, 95])
    total = sum(a for a, _ in pairs) / sum(b for _, b in pairs)
    return [round(float(value), 2) for value in (total, low, high)]


if __name__ == "__main__":
    main()
