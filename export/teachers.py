"""Teachers of a desk: a Hugging Face or sentence-transformers folder, an ONNX encoder, a fine-tuned model.

An encoder's vectors become soft labels through a logistic regression that never saw the text it judges. A
folder that classifies the desk's own topics gives its probabilities as they are.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer

from edge.errors import BundleError
from export.progress import Progress

BATCH = 32
MAX_TOKENS = 128
_C = 30.0


def soft_labels(
    folder: Path, texts: Sequence[str], topic: np.ndarray, topics: Sequence[str], folds: np.ndarray
) -> np.ndarray:
    """What the teacher in a folder says of the texts: probabilities float32 ``[texts, topics]``.

    Raises BundleError where the folder holds no teacher.
    """
    classifier = _classifier(folder, topics)
    if classifier is not None:
        return np.asarray(_in_batches(classifier, texts, "Asking the teacher"), np.float32)
    vectors = _in_batches(_encoder(folder), texts, "Asking the teacher")
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-8)
    vectors -= vectors.mean(0)
    out = np.zeros((len(texts), len(topics)), np.float32)
    for fold in np.unique(folds):
        held = folds == fold
        head = LogisticRegression(C=_C, max_iter=200, tol=1e-3).fit(vectors[~held], topic[~held])
        out[np.ix_(held, head.classes_)] = head.predict_proba(vectors[held])
    return out


def _in_batches(run: Callable[[list[str]], np.ndarray], texts: Sequence[str], what: str) -> np.ndarray:
    """Rows of all texts, in their order; texts of like length go together."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    progress, parts = Progress(what, len(texts)), []
    for start in range(0, len(order), BATCH):
        some = order[start : start + BATCH]
        parts.append(run([texts[i] for i in some]))
        progress.add(len(some))
    progress.end()
    joined = np.concatenate(parts)
    out = np.empty_like(joined)
    out[order] = joined
    return out


def _classifier(folder: Path, topics: Sequence[str]) -> Callable[[list[str]], np.ndarray] | None:
    """A model with a head for exactly these topics, whatever their order."""
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    labels = {str(name): int(i) for i, name in config.get("id2label", {}).items()}
    names = config.get("architectures") or [""]
    if not names[0].endswith("ForSequenceClassification") or labels.keys() != set(topics):
        return None
    from transformers import AutoModelForSequenceClassification

    order = [labels[topic] for topic in topics]
    model, tokenize = _hugging_face(folder, AutoModelForSequenceClassification)

    def run(texts: list[str]) -> np.ndarray:
        import torch

        with torch.inference_mode():
            logits = model(**tokenize(texts)).logits
        return np.asarray(logits.softmax(-1)[:, order].numpy())

    return run


def _encoder(folder: Path) -> Callable[[list[str]], np.ndarray]:
    onnx_files = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    if onnx_files:
        return _onnx_encoder(folder, onnx_files[0])
    if not (folder / "config.json").is_file():
        raise BundleError(
            f"{folder} holds no teacher: expected an .onnx file with tokenizer.json, or a Hugging Face model."
        )
    from transformers import AutoModel

    model, tokenize = _hugging_face(folder, AutoModel)

    def run(texts: list[str]) -> np.ndarray:
        import torch

        fed = tokenize(texts)
        with torch.inference_mode():
            states = model(**fed).last_hidden_state.numpy()
        return _mean(states, fed["attention_mask"].numpy())

    return run


def _hugging_face(folder: Path, kind: Any) -> tuple[Any, Callable[[list[str]], Any]]:  # noqa: ANN401
    from transformers import AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), kind.from_pretrained(folder).eval()

    def tokenize(texts: list[str]) -> Any:  # noqa: ANN401 - transformers' own
        return tokenizer(texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")

    return model, tokenize


def _onnx_encoder(folder: Path, file: Path) -> Callable[[list[str]], np.ndarray]:
    import onnxruntime as ort

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding()
    session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    wanted = {i.name for i in session.get_inputs()}
    outputs = {o.name: len(o.shape) for o in session.get_outputs()}
    pooled = "sentence_embedding" if "sentence_embedding" in outputs else None
    name = pooled or next(iter(outputs))

    def run(texts: list[str]) -> np.ndarray:
        encoded = tokenizer.encode_batch(texts)
        mask = np.array([e.attention_mask for e in encoded], np.int64)
        feed = {
            "input_ids": np.array([e.ids for e in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        (found,) = session.run([name], {k: v for k, v in feed.items() if k in wanted})
        return np.asarray(found, np.float32) if outputs[name] == 2 else _mean(found, mask)

    return run


def _mean(states: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean state over real tokens, float32 ``[texts, width]``."""
    weight = mask[:, :, None].astype(np.float32)
    return np.asarray((states * weight).sum(1) / np.maximum(weight.sum(1), 1), np.float32)
