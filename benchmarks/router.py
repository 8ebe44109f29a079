"""The router on public intent sets: what it gets right, where it leaves, how long it takes.

    python benchmarks/router.py --data DIR [--sets snips,clinc150] [--how train|distill] -o FILE.json

Of each set a desk is made whose topics all have an answer, so that every text may leave early; the bundle
is built as ``frontdesk train`` or ``frontdesk distill`` does and judged on rows that neither was shown. A
text's score is its confidence as the router emits it, in_scope × the largest softmax probability, or that
probability alone; thresholds that keep 95 % in scope are set on validation rows. Texts of more tokens than
the router takes are read by nobody: wrong in scope, refused out of scope.

Times are of one thread and interleaved: every text goes through every setting before the next text comes.
With ``--peers DIR`` other routers are measured beside ours in one run (peers.py), in an environment of
their own that is made at DIR.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnxruntime as ort
from peers import run_peers
from scores import percent, quality
from sets import OOS, SOURCES, IntentSet, Text, load_set

from edge.bundle import ROUTER_FILE, file_sha256, load_bundle
from edge.normaliser import Lang
from edge.router import OUTPUTS, Router
from export.compose import EXIT_THRESHOLDS, NEVER, compose_router
from export.desk import Desk, DeskTopic
from export.encoder import Encoder
from export.pools import load_pools
from export.train import train_desk

SWEEP = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
TIMED = 150  # texts that are timed in every setting
ROUNDS = 3
INT8, FLOAT32 = "int8", "float32"
READ = 1000  # texts that are timed through edge.router.Router


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of public sets")
    parser.add_argument("--sets", default=",".join(SOURCES), help="names, with commas; default: all")
    parser.add_argument("--how", choices=("train", "distill"), default="train")
    parser.add_argument("--base", type=Path, default=Path("models/base"))
    parser.add_argument("--teacher", type=Path, help="an encoder that helps to distill the English sets")
    parser.add_argument("--peers", type=Path, help="the peers' environment; made there if it is missing")
    parser.add_argument("--peer-sets", default="clinc150", help="the sets on which peers are measured")
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()

    base = Encoder(args.base)
    result: dict[str, Any] = {
        "how": args.how,
        "teacher": args.teacher.name if args.teacher and args.how == "distill" else None,
        "base": file_sha256(args.base / ROUTER_FILE)[:12],
        "cpus": os.cpu_count(),
        "vnni": has_vnni(),
        "onnxruntime": ort.__version__,
        "sets": {},
    }
    for name in args.sets.split(","):
        peers = args.peers if name in args.peer_sets.split(",") else None
        found = load_set(name, args.data, base.normaliser)
        english = all(row.lang is Lang.EN for row in found.train)
        figures = measure(found, base, args.how, args.teacher if english else None, peers)
        result["sets"][name] = figures
        print(line(name, figures), flush=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


def has_vnni() -> bool | None:
    """Whether the processor multiplies INT8 in one step; None where /proc does not tell."""
    cpu = Path("/proc/cpuinfo")
    return "vnni" in cpu.read_text() if cpu.exists() else None


def line(name: str, figures: dict[str, Any]) -> str:
    shipped, whole = figures["as_shipped"], figures["all_layers"]
    oos = shipped["confidence"].get("oos_auroc", "-")
    shares = " ".join(f"{exit_}:{row['share']:.0f}%" for exit_, row in shipped["exits"].items())
    return (
        f"{name:<18} in scope {shipped['in_scope_accuracy']} (all layers {whole['in_scope_accuracy']})"
        f"  oos AUROC {oos}  leave {shares}  time {figures['exits']['time_ratio']}"
        f"  p50 {figures['router_ms']['p50']} ms"
    )


def measure(
    found: IntentSet, base: Encoder, how: str, teacher: Path | None, peers: Path | None
) -> dict[str, Any]:
    """Every figure of one set."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "bundle")
        started = time.perf_counter()
        weights, heads, rules = build(desk_of(found), base, how, teacher, out)
        seconds = time.perf_counter() - started
        rows = {part: Rows.of(getattr(found, part), found.labels, base) for part in ("valid", "test")}
        float32 = compose_router(weights, heads, rules, quantized=False).SerializeToString()
        graphs = {INT8: Graph((out / ROUTER_FILE).read_bytes()), FLOAT32: Graph(float32)}
        judged = Judged(graphs, rows["valid"], rows["test"], rules.confidence)
        bundle_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        return {
            "licence": found.licence,
            "note": found.note,
            "topics": len(found.labels),
            "rows": {
                "train": len(found.train),
                "valid_in_scope": int((rows["valid"].gold >= 0).sum()),
                "test_in_scope": int((rows["test"].gold >= 0).sum()),
                "test_oos": int((rows["test"].gold < 0).sum()),
                "left_out": found.left_out,
                "unread_test": sum(ids is None for ids in rows["test"].ids),
            },
            "seconds_to_build": round(seconds),
            "bundle_mb": round(bundle_bytes / 1e6, 2),
            "router_mb": round((out / ROUTER_FILE).stat().st_size / 1e6, 2),
            "load": os.getloadavg()[0],
            **judged.figures(),
            "router_ms": router_times(out, [row.text for row in found.test]),
            **({"peers": run_peers(found, out, peers)} if peers else {}),
        }


def desk_of(found: IntentSet) -> Desk:
    langs = tuple(sorted({row.lang for row in found.train}))
    topics = []
    for label in found.labels:
        own = [row for row in found.train if row.label == label]
        examples = {lang: tuple(row.text for row in own if row.lang is lang) for lang in langs}
        answers = dict.fromkeys(langs, label)
        topics.append(DeskTopic(label, {str(lang): label for lang in langs}, "answer", examples, answers))
    return Desk(Path(), found.name, langs, tuple(topics))


def build(desk: Desk, base: Encoder, how: str, teacher: Path | None, out: Path) -> tuple[Any, Any, Any]:
    """Builds the bundle; gives the weights, heads and exit rules of which its router was composed."""
    # Sets are read by their own thresholds, so nothing is calibrated here, by cross-fitting neither.
    with (
        patch("export.opened.compose_router", wraps=compose_router) as composed,
        patch("export.train.cross_fit", return_value=[]),
    ):
        if how == "train":
            train_desk(desk, base, load_pools(), out)
        else:
            from export.desk_distill import distill_desk

            distill_desk(desk, base, load_pools(), out, teacher=teacher)
    return composed.call_args_list[0].args  # later ones are of cross-fitting


@dataclass(frozen=True, slots=True)
class Rows:
    """Texts as tokens (None: too many for the router) with their topic's index, -1 for out of scope."""

    ids: list[list[int] | None]
    gold: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[Text], labels: Sequence[str], base: Encoder) -> "Rows":
        fits = [base.token_count(row.text) + 2 <= base.max_tokens for row in texts]
        readings = [base.normaliser.reading(row.text) for row in texts]
        ids = [base.ids(text) if fit else None for text, fit in zip(readings, fits, strict=True)]
        return cls(ids, np.array([-1 if row.label == OOS else labels.index(row.label) for row in texts]))


@dataclass(frozen=True, slots=True)
class Reads:
    """What a graph says of texts; where it was shown none: topic and exit -1, probabilities 0."""

    topic: np.ndarray
    share: np.ndarray
    in_scope: np.ndarray
    exit: np.ndarray

    @property
    def scores(self) -> dict[str, np.ndarray]:
        return {"confidence": self.in_scope * self.share, "max_softmax": self.share}


class Graph:
    """A router graph on one thread, with its exit thresholds in the caller's hand."""

    def __init__(self, model: bytes) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(self, rows: Sequence[list[int]], thresholds: np.ndarray) -> list[np.ndarray]:
        """Logits, in_scope, needs_context, embedding, exit of rows in one batch."""
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, EXIT_THRESHOLDS: thresholds}
        return list(self.session.run(OUTPUTS, feed))

    def read(self, rows: Rows, thresholds: np.ndarray, batch: int = 32) -> Reads:
        count = len(rows.ids)
        reads = Reads(np.full(count, -1), np.zeros(count), np.zeros(count), np.full(count, -1))
        tokens = {i: ids for i, ids in enumerate(rows.ids) if ids is not None}
        order = sorted(tokens, key=lambda i: len(tokens[i]))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            logits, in_scope, _, _, exit_ = self.run([tokens[i] for i in chosen], thresholds)
            reads.topic[chosen] = logits.argmax(1)
            reads.share[chosen] = 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1)
            reads.in_scope[chosen], reads.exit[chosen] = in_scope, exit_
        return reads


class Judged:
    """The figures of a router, from its graph, its float32 twin, and what both say of the test rows."""

    def __init__(self, graphs: dict[str, Graph], valid: Rows, test: Rows, shipped: np.ndarray) -> None:
        self.graphs, self.valid, self.test = graphs, valid, test
        self.inside = test.gold >= 0
        self.thresholds = {f"{t}": np.full_like(shipped, t) for t in (*SWEEP, NEVER)}
        self.thresholds |= {"shipped": shipped, "off": self.thresholds.pop(f"{NEVER}")}
        self._reads: dict[tuple[str, str], Reads] = {}

    def reads(self, setting: str, graph: str = INT8) -> Reads:
        if (setting, graph) not in self._reads:
            self._reads[setting, graph] = self.graphs[graph].read(self.test, self.thresholds[setting])
        return self._reads[setting, graph]

    def right(self, setting: str, graph: str = INT8) -> np.ndarray:
        """Which of the in-scope rows got their topic."""
        return (self.reads(setting, graph).topic == self.test.gold)[self.inside]

    def figures(self) -> dict[str, Any]:
        timed = [(setting, INT8) for setting in self.thresholds] + [("shipped", FLOAT32), ("off", FLOAT32)]
        times = self.times(timed)
        curve = {setting: self.point(setting, times) for setting in self.thresholds}
        loss = curve["off"]["in_scope_accuracy"] - curve["shipped"]["in_scope_accuracy"]
        return {
            "as_shipped": self.judge("shipped"),
            "all_layers": self.judge("off"),
            "exits": {
                "mean_layers": curve["shipped"]["mean_layers"],
                "time_ratio": curve["shipped"]["time_ratio"],
                "accuracy_loss": round(loss, 2),
            },
            "curve": [{"threshold": setting} | point for setting, point in curve.items()],
            "float32": self.against_float32(times),
            "batch_32": self.against_batch(),
        }

    def judge(self, setting: str, graph: str = INT8) -> dict[str, Any]:
        valid, test = (
            self.graphs[graph].read(self.valid, self.thresholds[setting]),
            self.reads(setting, graph),
        )
        right, exits, known = self.right(setting, graph), test.exit[self.inside], self.valid.gold >= 0
        return {
            "in_scope_accuracy": percent(right),
            **{
                name: quality(right, score, self.inside, valid.scores[name][known])
                for name, score in test.scores.items()
            },
            "exits": {
                str(e): {"share": percent(exits == e), "accuracy": percent(right[exits == e])}
                for e in np.unique(exits[exits >= 0])
            },
        }

    def point(self, setting: str, times: dict[tuple[str, str], float]) -> dict[str, float]:
        """A point of the curve, over the in-scope rows."""
        exits = self.reads(setting).exit[self.inside]
        ms = times[setting, INT8]
        return {
            "ms": round(ms, 3),
            "time_ratio": round(ms / times["off", INT8], 3),
            "in_scope_accuracy": percent(self.right(setting)),
            "mean_layers": round(float(exits[exits >= 0].mean()), 3),
        }

    def times(self, timed: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """Milliseconds a text without the tokenizer: the mean over texts of the median over rounds."""
        tokens = [ids for ids, inside in zip(self.test.ids, self.inside, strict=True) if ids and inside]
        drawn = np.random.default_rng(0).permutation(len(tokens))[:TIMED]
        took = {one: np.zeros((ROUNDS, len(drawn))) for one in timed}
        for round_ in range(ROUNDS):
            for place, i in enumerate(drawn):
                for setting, graph in timed:
                    started = time.perf_counter()
                    self.graphs[graph].run([tokens[i]], self.thresholds[setting])
                    took[setting, graph][round_, place] = time.perf_counter() - started
        return {one: 1_000 * float(np.median(seconds, axis=0).mean()) for one, seconds in took.items()}

    def against_float32(self, times: dict[tuple[str, str], float]) -> dict[str, Any]:
        """The same heads and thresholds over float32 arithmetic."""
        ours, theirs = self.reads("shipped"), self.reads("shipped", FLOAT32)
        whole = self.judge("off", FLOAT32)
        return {
            "in_scope_accuracy": percent(self.right("shipped", FLOAT32)),
            "in_scope_accuracy_all_layers": whole["in_scope_accuracy"],
            "oos_auroc_all_layers": whole["confidence"].get("oos_auroc"),
            "same_topic": percent(ours.topic == theirs.topic),
            "same_exit": percent(ours.exit == theirs.exit),
            "int8_time_ratio": round(times["shipped", INT8] / times["shipped", FLOAT32], 3),
            "int8_time_ratio_all_layers": round(times["off", INT8] / times["off", FLOAT32], 3),
        }

    def against_batch(self) -> dict[str, Any]:
        """Whether a decision depends on who else asked."""
        alone = self.graphs[INT8].read(self.test, self.thresholds["shipped"], batch=1)
        together = self.reads("shipped")
        same = (alone.topic == together.topic) & (alone.exit == together.exit)
        apart = np.abs(alone.scores["confidence"] - together.scores["confidence"]).max()
        return {
            "texts": len(same),
            "equal_topic_and_exit": int(same.sum()),
            "largest_confidence_difference": float(f"{apart:.1e}"),
        }


def router_times(folder: Path, texts: Sequence[str]) -> dict[str, float]:
    """Milliseconds from a text to its reading through the server's own router."""
    bundle = load_bundle(folder)
    router = Router(bundle)
    drawn = np.random.default_rng(1).permutation(len(texts))[:READ]
    for i in drawn[:50]:
        router.read(bundle.normaliser.reading(texts[i]))
    took = []
    for i in drawn:
        started = time.perf_counter()
        router.read(bundle.normaliser.reading(texts[i]))
        took.append(1_000 * (time.perf_counter() - started))
    p50, p99 = np.percentile(took, [50, 99])
    return {
        "p50": round(p50, 3),
        "p99": round(p99, 3),
        "mean": round(float(np.mean(took)), 3),
        "texts": len(took),
    }


if __name__ == "__main__":
    main()
