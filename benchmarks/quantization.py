"""The router of a bundle in float32 and in INT8, on onnxruntime and on onnxruntime-web's plain WASM build.

    npm ci --prefix benchmarks/web --ignore-scripts
    python benchmarks/quantization.py [--bundle models/demo] [--texts FILE.jsonl] [-o FILE.json]

The float32 router is the bundle's own with every integer product undone: the same heads, thresholds and
weights as they are stored, so what differs is the arithmetic. What rounding the weights cost when the base
was made and the heads were packed cannot be seen here: no bundle has the numbers from before.

onnxruntime-web shows no ``exit_thresholds`` among the inputs, so a caller there cannot hold rows back from
early exits; full depth is therefore a file of its own, for both runtimes. Token ids are Python's.

Integer products are exact on both runtimes, but what is rounded before them comes of float operators that
differ in the last bit, and one step up or down there is as large as in any other INT8 error.

All is one thread and one text a run. Blocks of texts go through every form in turn, so that a busy moment of
the machine falls on all of them, and a text's time is the median of its rounds.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from router import has_vnni
from scores import percent
from sklearn.metrics import roc_auc_score
from tokenizers import Tokenizer

from edge.bundle import ROUTER_FILE, Bundle, load_bundle
from edge.router import OUTPUTS
from export.compose import EXIT_THRESHOLDS, NEVER
from export.desk import OUT_OF_SCOPE, Question
from export.questions import load_questions

WEB = Path(__file__).parent / "web"
INT8, FLOAT32 = "int8", "float32"
NATIVE, WASM = "native", "web"
SHIPPED, FULL = "as_shipped", "full_depth"
FORMS = [(number, runtime) for number in (FLOAT32, INT8) for runtime in (NATIVE, WASM)]
BLOCK = 50  # texts that a form reads before the next form's turn: one at a time would time cold caches
WARM = 30
# What Encoder.linear and Encoder.dense (export/graph.py) put around a product to make it one of integers.
_AROUND = {"size", "top", "step", "scale", "ratio", "steps", "shifted", "values"}
_AROUND |= {"cast", "float", "by_row", "by_column", "scaled"}
_OF_INTEGERS = {"activation_zero", "row_step", "shift"}  # constants that float products do not need
_INTEGERS = {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=Path("models/demo"))
    parser.add_argument("--texts", type=Path, default=Path("examples/desk/eval/test.jsonl"))
    parser.add_argument("--limit", type=int, help="so many texts, drawn at random; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--out", type=Path, default=Path("benchmarks/results/quantization.json"))
    args = parser.parse_args()
    if not (WEB / "node_modules/onnxruntime-web").is_dir():
        parser.error(f"onnxruntime-web is not installed: npm ci --prefix {WEB} --ignore-scripts")

    bundle = load_bundle(args.bundle)
    rows = Rows.of(args.texts, bundle, args.limit)
    with tempfile.TemporaryDirectory() as folder:
        files = write_forms(onnx.load(args.bundle / ROUTER_FILE), Path(folder))
        work = Path(folder, "work.json")
        models = {f"{number} {depth}": str(path) for (number, depth), path in files.items()}
        work.write_text(json.dumps({"models": models, "rows": rows.ids}))
        with web_runtime(work) as web:
            runtimes: dict[str, Native | Web] = {NATIVE: Native(files, rows.ids), WASM: web}
            reads = {key: Reads.empty(rows, args.rounds) for key in keys()}
            read_all(runtimes, reads, len(rows.ids), args.rounds)
            judge = Judge(rows, reads, ExitGate.of(files[INT8, SHIPPED]))
            result = {
                "bundle": bundle.version,
                "texts": {
                    "file": args.texts.name,
                    "read": len(rows.ids),
                    "in_scope": int(rows.inside.sum()) + rows.unread["in_scope"],
                    "out_of_scope": int(rows.outside.sum()) + rows.unread["out_of_scope"],
                    "unread": rows.unread,
                },
                "cpus": os.cpu_count(),
                "vnni": has_vnni(),
                "load": os.getloadavg()[0],
                "rounds": args.rounds,
                "onnxruntime": ort.__version__,
                **web.hello,
                "file_mb": {n: round(files[n, SHIPPED].stat().st_size / 1e6, 2) for n in (FLOAT32, INT8)},
                "forms": {f"{n} {runtime}": judge.form(n, runtime) for n, runtime in FORMS},
                "pairs": judge.pairs(),
            }
    args.out.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", "utf-8")
    print(table(result))


def keys() -> Iterator[tuple[str, str, str]]:
    """Every number format, runtime and depth."""
    return ((number, runtime, depth) for depth in (SHIPPED, FULL) for number, runtime in FORMS)


def write_forms(shipped: onnx.ModelProto, folder: Path) -> dict[tuple[str, str], Path]:
    files = {}
    for number, model in {INT8: shipped, FLOAT32: in_float32(shipped)}.items():
        for depth in (SHIPPED, FULL):
            files[number, depth] = folder / f"{number}.{depth}.onnx"
            onnx.save(model if depth == SHIPPED else to_the_end(model), files[number, depth])
    return files


def to_the_end(model: onnx.ModelProto) -> onnx.ModelProto:
    """The router with thresholds that no row reaches."""
    deep = onnx.ModelProto()
    deep.CopyFrom(model)
    for tensor in deep.graph.initializer:
        if tensor.name == EXIT_THRESHOLDS:
            never = np.full_like(numpy_helper.to_array(tensor), NEVER)
            tensor.CopyFrom(numpy_helper.from_array(never, EXIT_THRESHOLDS))
    return deep


def in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """The router that ``Encoder(quantized=False)`` would write of the stored weights, from its INT8 file."""
    floating = onnx.ModelProto()
    floating.CopyFrom(model)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    _undo(floating.graph, stored)
    constants = [
        _floats(tensor, stored)
        for tensor in floating.graph.initializer
        if not tensor.name.endswith(".scales") and tensor.name not in _OF_INTEGERS
    ]
    del floating.graph.initializer[:]
    floating.graph.initializer.extend(constants)
    if any(tensor.data_type in _INTEGERS for tensor in constants):
        raise ValueError("An integer weight is left over: export/graph.py writes them in another way now.")
    onnx.checker.check_model(floating, full_check=True)
    return floating


def _floats(tensor: onnx.TensorProto, stored: dict[str, np.ndarray]) -> onnx.TensorProto:
    if tensor.data_type not in _INTEGERS:
        return tensor
    name = tensor.name.removesuffix(".weight").removesuffix(".values")
    return numpy_helper.from_array(stored[tensor.name] * stored[f"{name}.scales"], f"{name}.weight")


def _undo(graph: onnx.GraphProto, stored: dict[str, np.ndarray]) -> None:
    """Replaces the graph's integer products by those of floats, in its branches too."""
    maps = {name.removesuffix(".scales") for name in stored if name.endswith(".scales")} - {"words"}
    sources = {node.name: node.input[0] for node in graph.node}
    kept = []
    for node in graph.node:
        base, _, part = node.name.rpartition(".")
        if (base in maps and part in _AROUND) or node.name in ("words.row", "words.scale", "words.float"):
            continue
        if base in maps and part == "product":
            x = sources.get(f"{base}.size", node.input[0])
            node = helper.make_node("MatMul", [x, f"{base}.weight"], [node.name], name=node.name)
        elif node.name in maps:
            node = helper.make_node(
                "Add", [f"{node.name}.product", f"{node.name}.bias"], [node.name], name=node.name
            )
        elif node.name == "words":
            node = helper.make_node("Gather", ["words.weight", "input_ids"], ["words"], name="words", axis=0)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _undo(attribute.g, stored)
        kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)


@dataclass(frozen=True, slots=True)
class Rows:
    """The questions that the router reads, with their tokens and their topic's index, -1 for none.

    ``unread``: how many have too many tokens, of those in scope and of those out of scope.
    """

    questions: list[Question]
    ids: list[list[int]]
    gold: np.ndarray
    topics: list[str]
    unread: dict[str, int]

    @classmethod
    def of(cls, texts: Path, bundle: Bundle, limit: int | None) -> "Rows":
        topics, problems = [topic.id for topic in bundle.topics], list[str]()
        questions = list(load_questions(texts, topics, problems))
        if problems or not questions:
            raise SystemExit("\n".join(problems[:5]) or f"{texts} has no questions.")
        if limit is not None:
            drawn = np.random.default_rng(0).permutation(len(questions))[:limit]
            questions = [questions[i] for i in sorted(drawn)]
        tokenizer = Tokenizer.from_file(str(bundle.folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids = [tokenizer.encode(bundle.normaliser.reading(question.text)).ids for question in questions]
        fits = [len(row) <= bundle.max_tokens for row in ids]
        unread = [q for q, fit in zip(questions, fits, strict=True) if not fit]
        questions = [q for q, fit in zip(questions, fits, strict=True) if fit]
        return cls(
            questions,
            [row for row, fit in zip(ids, fits, strict=True) if fit],
            np.array([-1 if q.topic == OUT_OF_SCOPE else topics.index(q.topic) for q in questions]),
            topics,
            {kind: sum(q.kind == kind for q in unread) for kind in ("in_scope", "out_of_scope")},
        )

    @property
    def inside(self) -> np.ndarray:
        return np.array([q.kind == "in_scope" for q in self.questions])

    @property
    def outside(self) -> np.ndarray:
        return np.array([q.kind == "out_of_scope" for q in self.questions])


@dataclass(frozen=True, slots=True)
class Reads:
    """What one form says of every row: candidates' confidences, exit, and milliseconds [rounds, rows]."""

    shares: np.ndarray
    in_scope: np.ndarray
    needs_context: np.ndarray
    exit: np.ndarray
    ms: np.ndarray

    @classmethod
    def empty(cls, rows: Rows, rounds: int) -> Self:
        count = len(rows.ids)
        return cls(
            np.zeros((count, len(rows.topics))),
            np.zeros(count),
            np.zeros(count),
            np.zeros(count, int),
            np.zeros((rounds, count)),
        )

    def put(self, row: int, logits: Sequence[float], in_scope: float, needs: float, exit_: int) -> None:
        weights = np.exp(np.asarray(logits, float) - np.max(logits))
        self.shares[row] = weights / weights.sum()
        self.in_scope[row], self.needs_context[row], self.exit[row] = in_scope, needs, exit_

    @property
    def topic(self) -> np.ndarray:
        return np.asarray(self.shares.argmax(1))

    @property
    def confidence(self) -> np.ndarray:
        return np.asarray(self.shares.max(1) * self.in_scope)

    @property
    def margin(self) -> np.ndarray:
        """The distance of the best two confidences."""
        best = np.sort(self.shares, axis=1)[:, -2:]
        return np.asarray((best[:, 1] - best[:, 0]) * self.in_scope)


@dataclass(frozen=True, slots=True)
class ExitGate:
    """What a row must reach to leave early: ``thresholds`` of [exit, topic], and the limits of each exit."""

    places: dict[int, int]
    thresholds: np.ndarray
    min_in_scope: list[float]
    max_needs_context: list[float]

    @classmethod
    def of(cls, file: Path) -> "ExitGate":
        stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(file).graph.initializer}
        exits = sorted(int(name[5:].partition(".")[0]) for name in stored if name.endswith(".min_in_scope"))
        return cls(
            {exit_: place for place, exit_ in enumerate(exits)},
            stored[EXIT_THRESHOLDS],
            [float(stored[f"leave{exit_}.min_in_scope"]) for exit_ in exits],
            [float(stored[f"leave{exit_}.max_needs_context"]) for exit_ in exits],
        )

    def room(self, reads: Reads, row: int) -> float:
        """By how much a row that left early was over the nearest of the limits that hold rows back."""
        place = self.places[int(reads.exit[row])]
        needed = self.thresholds[place, reads.topic[row]]
        return float(
            min(
                reads.confidence[row] - needed,
                reads.in_scope[row] - self.min_in_scope[place],
                self.max_needs_context[place] - reads.needs_context[row],
            )
        )


class Native:
    """onnxruntime with the options of edge.router."""

    def __init__(self, files: dict[tuple[str, str], Path], ids: Sequence[list[int]]) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._ids = ids
        self._sessions = {
            form: ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            for form, path in files.items()
        }
        for form in files:
            for row in range(min(WARM, len(ids))):
                self._run(form, row)

    def _run(self, form: tuple[str, str], row: int) -> list[np.ndarray]:
        input_ids = np.array([self._ids[row]], np.int64)
        feed = {"input_ids": input_ids, "attention_mask": np.ones_like(input_ids)}
        return list(self._sessions[form].run(OUTPUTS, feed))

    def read(self, form: tuple[str, str], rows: Sequence[int], reads: Reads, round_: int) -> None:
        self._run(form, rows[0])  # the caches hold another form's weights
        for row in rows:
            started = time.perf_counter()
            logits, in_scope, needs, _, exit_ = self._run(form, row)
            reads.ms[round_, row] = 1_000 * (time.perf_counter() - started)
            reads.put(row, logits[0], float(in_scope[0]), float(needs[0]), int(exit_[0]))


class Web:
    """onnxruntime-web in a Node process (web_router.mjs) that answers line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.hello = self._reply()
        if set(self.hello.pop("inputs")) != {"input_ids", "attention_mask"}:
            raise RuntimeError("onnxruntime-web lists other inputs now: see whether thresholds can be given.")

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("Node has ended; its stderr says why.")
        return dict(json.loads(line))

    def read(self, form: tuple[str, str], rows: Sequence[int], reads: Reads, round_: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"model": " ".join(form), "rows": list(rows)}) + "\n")
        self._process.stdin.flush()
        found = self._reply()
        reads.ms[round_, list(rows)] = found["ms"]
        for row, read in zip(rows, found["reads"], strict=True):
            reads.put(row, read["logits"], read["in_scope"], read["needs_context"], read["exit"])


@contextmanager
def web_runtime(work: Path) -> Iterator[Web]:
    command = ["node", str(Path(__file__).with_name("web_router.mjs")), str(work)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield Web(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def read_all(
    runtimes: dict[str, "Native | Web"], reads: dict[tuple[str, str, str], Reads], count: int, rounds: int
) -> None:
    order = np.random.default_rng(1).permutation(count).tolist()
    blocks = [order[start : start + BLOCK] for start in range(0, count, BLOCK)]
    for round_ in range(rounds):
        for block in blocks:
            for (number, runtime, depth), found in reads.items():
                runtimes[runtime].read((number, depth), block, found, round_)


class Judge:
    """The figures of the forms and of what they agree on."""

    def __init__(self, rows: Rows, reads: dict[tuple[str, str, str], Reads], gate: ExitGate) -> None:
        self.rows, self.reads, self.gate = rows, reads, gate

    def form(self, number: str, runtime: str) -> dict[str, Any]:
        return {depth: self.quality(self.reads[number, runtime, depth]) for depth in (SHIPPED, FULL)}

    def quality(self, reads: Reads) -> dict[str, Any]:
        """Texts that the router does not read are wrong in scope and refused out of scope."""
        inside, outside, unread = self.rows.inside, self.rows.outside, self.rows.unread
        right = np.append((reads.topic == self.rows.gold)[inside], np.zeros(unread["in_scope"], bool))
        score = [reads.confidence[inside], reads.confidence[outside], np.zeros(sum(unread.values()))]
        known = [len(score[0]), len(score[1]) + unread["out_of_scope"], unread["in_scope"]]
        scope = np.repeat([True, False, True], known)
        found: dict[str, Any] = {"topic_accuracy": percent(right) if len(right) else None}
        if scope.any() and not scope.all():
            found["auroc"] = round(100 * float(roc_auc_score(scope, np.concatenate(score))), 3)
        exits, counts = np.unique(reads.exit, return_counts=True)
        ms = np.median(reads.ms, axis=0)
        p50, p99 = np.percentile(ms, [50, 99])
        return found | {
            "exits": {str(e): round(100 * int(n) / len(ms), 2) for e, n in zip(exits, counts, strict=True)},
            "ms": {"mean": round(float(ms.mean()), 3), "p50": round(p50, 3), "p99": round(p99, 3)},
        }

    def pairs(self) -> dict[str, Any]:
        found = {}
        for depth in (SHIPPED, FULL):
            for runtime in (NATIVE, WASM):
                name = f"{INT8} against {FLOAT32}, {runtime}, {depth}"
                found[name] = self.pair((INT8, runtime, depth), (FLOAT32, runtime, depth))
            for number in (FLOAT32, INT8):
                name = f"{WASM} against {NATIVE}, {number}, {depth}"
                found[name] = self.pair((number, WASM, depth), (number, NATIVE, depth))
        return found

    def pair(self, ours: tuple[str, str, str], theirs: tuple[str, str, str]) -> dict[str, Any]:
        a, b = self.reads[ours], self.reads[theirs]
        topic, exit_ = a.topic == b.topic, a.exit == b.exit
        apart = np.abs(a.confidence - b.confidence)
        return {
            "same_topic": percent(topic),
            "same_exit": percent(exit_),
            "largest_confidence_difference": float(f"{apart.max():.2g}"),
            "largest_where_exits_agree": float(f"{apart[exit_].max(initial=0):.2g}"),
            "time_ratio": round(float(np.median(a.ms, 0).mean() / np.median(b.ms, 0).mean()), 3),
            "differ": [self.differing(row, a, b) for row in np.flatnonzero(~(topic & exit_)).tolist()],
        }

    def differing(self, row: int, a: Reads, b: Reads) -> dict[str, Any]:
        """A row that two forms read otherwise; each pair of values is ours, theirs."""
        question = self.rows.questions[row]
        found: dict[str, Any] = {
            "text": question.text,
            "kind": question.kind,
            "gold": question.topic,
            "topic": [self.rows.topics[reads.topic[row]] for reads in (a, b)],
            "exit": [int(reads.exit[row]) for reads in (a, b)],
            "confidence": [round(float(reads.confidence[row]), 4) for reads in (a, b)],
            "margin": [round(float(reads.margin[row]), 4) for reads in (a, b)],
        }
        if a.exit[row] != b.exit[row]:
            found["exit_margin"] = round(self.gate.room(a if a.exit[row] < b.exit[row] else b, row), 5)
        return found


def table(result: dict[str, Any]) -> str:
    texts = result["texts"]
    lines = [
        f"bundle {result['bundle']}, {texts['read']} texts read ({texts['in_scope']} in scope, "
        f"{texts['out_of_scope']} out of scope), onnxruntime {result['onnxruntime']}, "
        f"onnxruntime-web {result['onnxruntime_web']}",
        f"{'form':<16}{'MB':>7}{'depth':>12}{'topic %':>9}{'AUROC':>8}"
        f"{'mean ms':>9}{'p50':>9}{'p99':>9}  exits %",
    ]
    for form, depths in result["forms"].items():
        mb = result["file_mb"][form.split()[0]]
        for depth, row in depths.items():
            ms = row["ms"]
            exits = " ".join(f"{exit_}:{share}" for exit_, share in row["exits"].items())
            lines.append(
                f"{form:<16}{mb:>7}{depth:>12}{row['topic_accuracy']:>9}{row.get('auroc', '-'):>8}"
                f"{ms['mean']:>9}{ms['p50']:>9}{ms['p99']:>9}  {exits}"
            )
    head = (
        f"{'pair':<46}{'topic %':>9}{'exit %':>8}{'conf. diff':>11}{'same exit':>10}{'differ':>7}{'time':>8}"
    )
    lines += ["", head]
    for name, pair in result["pairs"].items():
        lines.append(
            f"{name:<46}{pair['same_topic']:>9}{pair['same_exit']:>8}"
            f"{pair['largest_confidence_difference']:>11.2g}{pair['largest_where_exits_agree']:>10.2g}"
            f"{len(pair['differ']):>7}{pair['time_ratio']:>8}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
