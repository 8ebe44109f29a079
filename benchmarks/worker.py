"""A bundle in the isolate beside the Python server, in one run: decisions, times, memory, size of the upload.

    make worker
    python benchmarks/worker.py [--rounds 3] [--starts 8] [-o FILE]

Decisions are those on the golden rows of tests/contract, and on the demo's held-out questions. Times are a
client's, over one keep-alive connection each, question by question on both hosts in turn, to /v1/classify. A
first decision is told from the start of the process and, in the isolate, from its first request on. workerd
runs as in the tests, with no limit of processor time.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "tests/contract")]

from golden import DEMO, golden, query_of, without_tools  # noqa: E402
from isolates import BUILD, PROBE, WORKER, heap_bytes, workerd  # noqa: E402

from edge.classify import row  # noqa: E402
from edge.host import open_pipeline  # noqa: E402

QUESTIONS = 400
DECIDED = ("path", "reason", "topic", "exit", "lang", "unproven")
SCORES = ("confidence", "in_scope", "needs_context", "margin")
FIRST = "when does my working day begin"

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()

    ours = without_tools(open_pipeline(DEMO))
    rows = list(golden(ours))
    questions = {name: read_questions(name) for name in ("calibrate", "test")}
    asked = [one["input"] for one in rows if isinstance(one["input"], str)][:QUESTIONS]
    with workerd(BUILD, inspect=True) as isolate, client(isolate.url) as edge:
        theirs = classified(edge, [one["input"] for one in rows])
        heap = heap_bytes(isolate)
        answered = {
            name: {
                "isolate": judged(listed, classified(edge, [as_input(q) for q in listed])),
                "python": judged(
                    listed, [row(ours, query_of(as_input(q), ours.runtime.bundle.normaliser)) for q in listed]
                ),
            }
            for name, listed in questions.items()
        }
        with python_server() as url, client(url) as python:
            times = timed({"isolate": edge, "python": python}, asked, args.rounds)
    result = {
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.machine(),
        },
        "upload_kib": sizes(),
        "golden": compared(rows, theirs),
        "answered": answered,
        "first_decision_ms": {
            "isolate": starts(isolate_start, args.starts),
            "python": starts(python_start, args.starts),
        },
        "decision_ms": times,
        "memory_bytes": {"heap": heap, "wasm": wasm_bytes()},
    }
    text = json.dumps(result, indent=1, ensure_ascii=False)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", "utf-8")


@contextmanager
def client(url: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=url, trust_env=False, timeout=60) as one:
        yield one


def classified(one: httpx2.Client, inputs: list[Any]) -> list[Row]:
    found: list[Row] = []
    for at in range(0, len(inputs), 256):
        body = json.dumps({"input": inputs[at : at + 256]}).encode()  # ASCII: lone surrogates as escapes
        found += one.post("/v1/classify", content=body).raise_for_status().json()["data"]
    return found


def read_questions(name: str) -> list[Row]:
    lines = (ROOT / f"examples/desk/eval/{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def as_input(question: Row) -> str | Row:
    history = question.get("history")
    return (
        {"messages": [*history, {"role": "user", "content": question["text"]}]}
        if history
        else question["text"]
    )


def judged(questions: list[Row], rows: list[Row]) -> dict[str, int]:
    """How many held-out questions are answered by a curated text, and how many of these wrongly."""
    local = [(question, one) for question, one in zip(questions, rows, strict=True) if one["path"] == "faq"]
    wrong = sum(q["kind"] != "in_scope" or one["topic"] != q["topic"] for q, one in local)
    return {"questions": len(questions), "answered": len(local), "wrong": wrong}


def sizes() -> dict[str, float]:
    text = (WORKER / "build/sizes.txt").read_text("utf-8")
    raw, zipped = re.findall(r"([0-9.]+) KiB", text)
    return {"raw": float(raw), "gzip": float(zipped)}


def compared(rows: list[Row], theirs: list[Row]) -> dict[str, Any]:
    """How many rows are decided alike, how far scores lie apart, and each row that is decided otherwise."""
    pairs = [(one["normal"], one["row"], their) for one, their in zip(rows, theirs, strict=True)]
    different = [
        {"text": text[:120], "python": facts(ours), "isolate": facts(their)}
        for text, ours, their in pairs
        if any(ours[name] != their[name] for name in DECIDED)
    ]
    same_topic = [(o, t) for _, o, t in pairs if o["exit"] is not None and o["topic"] == t["topic"]]
    return {
        "rows": len(rows),
        "equal": len(rows) - len(different),
        "two_local_answers": sum(
            o["path"] == t["path"] == "faq" and o["topic"] != t["topic"] for _, o, t in pairs
        ),
        "largest_difference": {name: max(abs(o[name] - t[name]) for o, t in same_topic) for name in SCORES},
        "equal_to_1e-5": sum(all(abs(o[n] - t[n]) < 1e-5 for n in SCORES) for o, t in same_topic),
        "read": len(same_topic),
        "answered_by_one_alone": sum(o["path"] != t["path"] for _, o, t in pairs),
        "different": different,
    }


def facts(one: Row) -> list[Any]:
    return [one[name] for name in ("path", "reason", "topic", "exit", *SCORES)]


def timed(hosts: dict[str, httpx2.Client], texts: list[str], rounds: int) -> dict[str, Any]:
    """Milliseconds of each question on each host, in turn; by exit, as the isolate tells it."""
    spent: dict[str, dict[str, list[float]]] = {name: {} for name in hosts}
    for number in range(rounds + 1):
        for text in texts:
            for name, host in hosts.items():
                started = time.perf_counter()
                answer = host.post("/v1/classify", json={"input": text}).json()["data"][0]
                ms = (time.perf_counter() - started) * 1000
                if number > 0:  # the first round warms both
                    kind = "exact" if answer["exit"] is None else f"exit {answer['exit']}"
                    spent[name].setdefault(kind, []).append(ms)
                    spent[name].setdefault("all", []).append(ms)
    return {name: {kind: shown(ms) for kind, ms in sorted(by.items())} for name, by in spent.items()}


def shown(values: list[float]) -> dict[str, float]:
    cuts = quantiles(values, n=100, method="inclusive")
    return {"count": len(values), "p50": round(cuts[49], 2), "p99": round(cuts[98], 2)}


def starts(start: Callable[[], dict[str, float]], count: int) -> dict[str, Any]:
    found = [start() for _ in range(count)]
    return {name: {"median": round(median(values), 1), "max": round(max(values), 1)}
            for name in found[0] for values in [[one[name] for one in found]]}  # fmt: skip


def isolate_start() -> dict[str, float]:
    began = time.perf_counter()
    with workerd(BUILD) as isolate, client(isolate.url) as edge:
        listening = time.perf_counter()
        classified(edge, [FIRST])
        now = time.perf_counter()
    return {"from_start": (now - began) * 1000, "from_request": (now - listening) * 1000}


def python_start() -> dict[str, float]:
    began = time.perf_counter()
    with python_server() as url, client(url) as python:
        classified(python, [FIRST])
        return {"from_start": (time.perf_counter() - began) * 1000}


@contextmanager
def python_server() -> Iterator[str]:
    port = 8497
    command = [sys.executable, "-m", "edge.cli", "serve", "--bundle", str(DEMO), "--port", str(port)]
    environment = {**os.environ, "FRONTDESK_LOG": "off", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        while True:
            try:
                if httpx2.get(f"{url}/health/readiness", trust_env=False).status_code == 200:
                    break
            except httpx2.TransportError:
                pass
            time.sleep(0.005)
        yield url
    finally:
        process.terminate()
        process.wait()


def wasm_bytes() -> int:
    with workerd(PROBE) as isolate, client(isolate.url) as probe:
        probe.post("/", json={"call": "read", "rows": [FIRST] * 50})
        [size] = probe.post("/", json={"call": "memory", "rows": [0]}).json()
    return int(size)


if __name__ == "__main__":
    main()
