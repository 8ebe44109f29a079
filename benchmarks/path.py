"""Where the time of a decision goes: every part of text → decision on one thread, in microseconds.

    python benchmarks/path.py --bundle models/demo -o benchmarks/results/path.json

The parts are timed in rounds, each over all texts before the next round, and the median over the rounds
stands; one round times them as often as another, so a slow minute of the machine hits all alike. Ways to
call the tokenizer and the session that are not taken stand beside those that are.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from edge.bundle import ROUTER_FILE, load_bundle
from edge.pipeline import Pipeline
from edge.query import Query
from edge.router import OUTPUTS, Router
from edge.stages import Case, Runtime
from edge.stages.bypass import bypass
from edge.stages.exact import exact
from edge.stages.guard import guard
from edge.stages.read import read
from edge.stages.route import route

ROUNDS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=Path("models/demo"))
    parser.add_argument("--texts", type=Path, default=Path("examples/desk/eval/test.jsonl"))
    parser.add_argument("--count", type=int, default=300, help="texts, drawn by lot")
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    rows = [json.loads(line)["text"] for line in args.texts.read_text("utf-8").splitlines()]
    drawn = np.random.default_rng(0).permutation(len(rows))[: args.count]
    found = profile(args.bundle, [rows[i] for i in drawn])
    for part, row in found["parts"].items():
        print(f"{part:<44}{row['texts']:>6} texts{row['us']:>10.1f} µs")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def profile(folder: Path, texts: Sequence[str]) -> dict[str, Any]:
    """The median time of every part, and how many texts it was timed on."""
    bundle = load_bundle(folder)
    router = Router(bundle)
    runtime = Runtime(bundle, router)
    pipeline = Pipeline(runtime)
    today = pipeline.today()
    normals = [bundle.normaliser.reading(text) for text in texts]
    queries = [Query.of_text(text, bundle.normaliser) for text in texts]
    cases = [Case(query, today) for query in queries]
    read_cases = [case for case in (read(case, runtime) for case in cases) if case.reading is not None]
    guarded = [guard(case, runtime) for case in read_cases]
    tokens = [router._tokenizer.encode(normal).ids for normal in normals]
    left = [case.reading.exit for case in read_cases if case.reading]
    exits = {e: [i for i, own in enumerate(left) if own == e] for e in sorted(set(left))}
    fitting = [ids for ids in tokens if len(ids) <= bundle.max_tokens]
    feeds = [_feed(ids) for ids in fitting]
    calls: dict[str, tuple[Callable[[Any], object], Sequence[Any]]] = {
        "text → decision": (lambda text: pipeline.judge(Query.of_text(text, bundle.normaliser)), texts),
        "  normalise": (bundle.normaliser.reading, texts),
        "  language": (bundle.normaliser.lang, normals),
        "  bypass": (lambda case: bypass(case, runtime), cases),
        "  exact": (lambda case: exact(case, runtime), cases),
        "  read": (lambda case: read(case, runtime), cases),
        "    tokenize": (lambda normal: router._tokenizer.encode(normal).ids, normals),
        "    not taken: encode_batch_fast": (
            lambda normal: router._tokenizer.encode_batch_fast([normal])[0].ids,
            normals,
        ),
        "    arrays for the session": (_feed, fitting),
        "    session": (lambda feed: router._session.run(OUTPUTS, feed), feeds),
        "    not taken: session with IO binding": (_bound(router._session), feeds),
        "    not taken: session that spins": (_spinning(folder), feeds),
        **{
            f"    session, texts that leave at exit {e}": (
                lambda feed: router._session.run(OUTPUTS, feed),
                [feeds[i] for i in some],
            )
            for e, some in exits.items()
        },
        "  guard": (lambda case: guard(case, runtime), read_cases),
        "  route": (lambda case: route(case, runtime), guarded),
    }
    took: dict[str, list[float]] = {part: [] for part in calls}
    for _ in range(ROUNDS):
        for part, (call, given) in calls.items():
            started = time.perf_counter()
            for one in given:
                call(one)
            took[part].append(1e6 * (time.perf_counter() - started) / len(given))
    return {
        "bundle": bundle.version,
        "onnxruntime": ort.__version__,
        "rounds": ROUNDS,
        "parts": {
            part: {"us": round(statistics.median(rounds), 1), "texts": len(calls[part][1])}
            for part, rounds in took.items()
        },
    }


def _feed(ids: Sequence[int]) -> dict[str, np.ndarray]:
    input_ids = np.array([ids], np.int64)
    return {"input_ids": input_ids, "attention_mask": np.ones_like(input_ids)}


def _bound(session: ort.InferenceSession) -> Callable[[dict[str, np.ndarray]], object]:
    def call(feed: dict[str, np.ndarray]) -> object:
        binding = session.io_binding()
        for name, value in feed.items():
            binding.bind_cpu_input(name, value)
        for name in OUTPUTS:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()

    return call


def _spinning(folder: Path) -> Callable[[dict[str, np.ndarray]], object]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(folder / ROUTER_FILE), options, providers=["CPUExecutionProvider"])
    return lambda feed: session.run(OUTPUTS, feed)


if __name__ == "__main__":
    main()
