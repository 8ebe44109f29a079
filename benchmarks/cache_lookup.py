"""What a look into the cache costs, in memory and in Redis, at 1,000, 10,000 and 100,000 entries.

    python benchmarks/cache_lookup.py [-o FILE.json] [--redis redis://…] [--sizes 1000 10000 100000]

All entries share one scope, which is the worst case: only a scope is searched. Vectors are random and of the
demo bundle's dimension; a hit asks for one of them, moved a little. The judge of two questions is left out.
Without ``--redis`` a Redis Stack is started, as the tests do (`make test` fetches it). Last, answers a second
out of the cache, beside a curated answer and a POST route that returns the same bytes.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from local_answers import EXACT, constant, decision, load, post, request_bytes, server

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from redis_stack import RedisStack

from edge.cache.cache import Cache, Question
from edge.cache.entry import Entry, entry_id
from edge.cache.redis_store import RedisStore
from edge.cache.selector import Selector
from edge.cache.settings import CacheSettings
from edge.normaliser import Lang

DIM = 384
TIMES = 400
ANSWER = "The Pro has the better camera and a day more of battery. " * 10
CACHED = "x1 or x1 pro?"
AGENT = json.dumps(
    {"object": "chat.completion", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}]}
).encode()  # fmt: skip


class NoJudge:
    min_similarity = 0.8

    def apart(self, *_: object) -> None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--redis")
    parser.add_argument("--bundle", default="models/demo")
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    result: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "dim": DIM,
        "answer_characters": len(ANSWER),
        "local": {},
    }
    for size in args.sizes:
        result["local"][size] = local(size)
        print("local", size, result["local"][size], flush=True)
    if args.redis:
        result["redis"] = asyncio.run(redis(args.redis, args.sizes))
    elif RedisStack.is_there():
        with RedisStack() as stack:
            result["redis"] = asyncio.run(redis(stack.url, args.sizes))
    result["answers"] = answers(args.bundle)
    print("answers", result["answers"])
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


def entries(size: int) -> tuple[np.ndarray, Callable[[int], Entry]]:
    """Vectors ``[size, dim]`` and what makes the entry of each."""
    vectors = np.random.default_rng(0).normal(size=(size, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def entry(i: int) -> Entry:
        question = f"which of the two phones should I take, number {i}?"
        return Entry(
            entry_id("scope", question), "scope", question, question, ANSWER + str(i), 120, "topic",
            Lang.EN, ("agent",), "v1", "demo@1", time.time(), None, 3000.0, vectors[i],
        )  # fmt: skip

    return vectors, entry


def asked(entry: Entry, vector: np.ndarray, *, same_words: bool) -> Question:
    normal = entry.question if same_words else f"{entry.question} please"
    moved = vector + np.random.default_rng(1).normal(scale=0.01, size=DIM).astype(np.float32)
    return Question(
        entry_id("scope", normal), "scope", normal, normal, entry.lang, entry.topic, entry.tags, entry.bundle,
        "static", (moved / np.linalg.norm(moved)).astype(np.float32),
    )  # fmt: skip


def local(size: int) -> dict[str, Any]:
    vectors, entry = entries(size)
    settings = CacheSettings(mode="semantic", max_entries=size, max_bytes=10**12)
    cache = Cache(settings, pairs=NoJudge())
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    filled = 0.0
    for i in range(size):
        made = entry(i)
        start = time.perf_counter()
        cache.store(made, cache.mark())
        filled += time.perf_counter() - start
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    chosen = np.random.default_rng(2).integers(size, size=TIMES)
    kinds = {
        "exact hit": [asked(entry(i), vectors[i], same_words=True) for i in chosen],
        "semantic hit": [asked(entry(i), vectors[i], same_words=False) for i in chosen],
        "miss": [asked(entry(i), -vectors[i], same_words=False) for i in chosen],
    }
    found: dict[str, Any] = {}
    for kind, questions in kinds.items():
        times = []
        for question in questions:
            start = time.perf_counter()
            hit = cache.find(question, None)
            times.append(time.perf_counter() - start)
            assert (hit is None) == (kind == "miss")
        found[kind] = percentiles(times)
    return found | {
        "bytes_per_entry": round(used / size),
        "bytes_reckoned": round(cache.memory.bytes / size),
    }


async def redis(url: str, sizes: list[int]) -> dict[str, Any]:
    store, found = RedisStore(url, 30.0), {}
    for size in sizes:
        vectors, entry = entries(size)
        purged = await store.sync("0")
        await store.purge(Selector("all"), purged)
        purged = await store.sync("0")
        empty = int((await store._redis().info("memory"))["used_memory"])
        for start in range(0, size, 16):
            batch = range(start, min(size, start + 16))
            await asyncio.gather(*(store.put(entry(i), 3600, purged) for i in batch))
        used = int((await store._redis().info("memory"))["used_memory"]) - empty
        chosen = np.random.default_rng(2).integers(size, size=TIMES)
        row: dict[str, Any] = {}
        for kind, same in (("exact hit", True), ("semantic hit", False)):
            times = []
            for i in chosen:
                question = asked(entry(i), vectors[i], same_words=same)
                start_s = time.perf_counter()
                hits = await store.find(question.id, question.scope, question.vector, 4)
                times.append(time.perf_counter() - start_s)
                assert hits[0].entry.question == entry(i).question
            row[kind] = percentiles(times)
        found[str(size)] = row | {"bytes_per_entry": round(used / size)}
        print("redis", size, found[str(size)], flush=True)
    await store.purge(Selector("all"), purged)
    await store.close()
    return found


def percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50_ms": round(1000 * statistics.median(seconds), 4), "p99_ms": round(1000 * cuts[98], 4)}


def answers(bundle: str) -> dict[str, Any]:
    """Answers a second of the cache, of a curated answer, and of a constant route, by turns."""
    with constant(AGENT) as agent:
        env = {
            **os.environ, "FRONTDESK_BUNDLE": bundle, "FRONTDESK_LOG": "off", "FRONTDESK_CACHE_MODE": "exact",
            "FRONTDESK_UPSTREAM_BASE_URL": f"http://127.0.0.1:{agent}/v1",
        }  # fmt: skip
        with server(["--factory", "edge.app:create_app"], env, "/health/readiness") as desk:
            decision(desk, CACHED)
            body = post(desk, request_bytes(CACHED)).partition(b"\r\n\r\n")[2]
            if b"frontdesk-" not in body:
                sys.exit("The answer did not come out of the cache.")
            with constant(body) as route:
                ways = {
                    "constant route": (route, CACHED), "cache": (desk, CACHED),
                    "curated answer": (desk, EXACT),
                    "agent, a constant route": (agent, CACHED),
                }  # fmt: skip
                rates: dict[str, list[float]] = {way: [] for way in ways}
                for _ in range(5):
                    for way, (port, text) in ways.items():
                        rates[way].append(asyncio.run(load(port, request_bytes(text), 2.0)))
    base = statistics.median(rates["constant route"])
    return {
        way: {"per_second": round(statistics.median(r)), "ratio": round(statistics.median(r) / base, 3)}
        for way, r in rates.items()
    }


if __name__ == "__main__":
    main()
