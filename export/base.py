"""Writes the base model: ``python -m export.base --data DIR -o models/base``, after ``export.contrast``."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edge.normaliser import Normaliser
from export.base_card import write_card
from export.contrast import SHARPENED
from export.corpus import read_rows
from export.distill import STUDENT
from export.graph import encoder_graph
from export.measure import OnnxEncoder, agreement, measure
from export.student import MAX_TOKENS, encoder_weights
from export.teacher import Teacher, embed_cached, say
from export.training import CHECKPOINTS
from export.vocabulary import PAD
from export.weights import EncoderWeights

MODEL = "onnx/model_quantized.onnx"


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Indented JSON with a last newline."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_config(out: Path, weights: EncoderWeights) -> None:
    """config.json and tokenizer_config.json, in the words of Hugging Face."""
    vocabulary, width = weights.words.shape
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": width,
        "num_hidden_layers": len(weights.layers),
        "num_attention_heads": weights.heads,
        "intermediate_size": weights.layers[0].rise.weight.shape[0],
        "hidden_act": "gelu",
        "layer_norm_eps": weights.eps,
        "vocab_size": vocabulary,
        "exits": [exit_.layer for exit_ in weights.exits],
        "max_position_embeddings": len(weights.positions),
        "max_tokens": MAX_TOKENS,
        "pad_token_id": PAD,
    }
    write_json(out / "config.json", config)
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": MAX_TOKENS}
    write_json(out / "tokenizer_config.json", kind | tokens)


def read_normaliser(path: Path) -> Normaliser:
    """The normaliser that ``export.distill`` wrote."""
    tables = json.loads(path.read_text(encoding="utf-8"))
    return Normaliser(tables["traditional"], tables["simplified"])


def evaluate(data: Path, out: Path, weights: EncoderWeights) -> dict[str, Any]:
    """INT8 as shipped, beside float32."""
    normaliser, tokenizer = read_normaliser(out / "normaliser.json"), out / "tokenizer.json"
    model, exact = (encoder_graph(weights, quantized=quantized) for quantized in (True, False))
    small, large = (OnnxEncoder.load(graph, tokenizer, MAX_TOKENS) for graph in (model, exact))
    figures = measure(data, normaliser, small.embed)
    found: dict[str, Any] = {
        "int8": {str(exit_.layer): of for exit_, of in zip(weights.exits, figures, strict=True)}
    }
    rows = [row for row in read_rows(data / "clinc150/full.jsonl.gz") if row["split"] == "valid"]
    rows += read_rows(data / "smp2017/train_valid.jsonl")
    texts = [normaliser.reading(row["text"]) for row in rows]
    together = small.embed(texts)
    some = range(0, len(texts), len(texts) // 1_000)
    alone = np.concatenate([small.embed([texts[i]]) for i in some], axis=1)
    found["int8_against_float32"] = agreement(together[-1], large.embed(texts)[-1])
    found["batch_32_against_1"] = float(np.abs(together[:, list(some)] - alone).max())
    found["milliseconds_16_tokens"] = {"int8": small.milliseconds(), "float32": large.milliseconds()}
    found["megabytes"] = round(model.ByteSize() / 1e6, 2)
    return found


def evaluate_teacher(data: Path, out: Path, cache: Path) -> dict[str, Any]:
    """The teacher's figures; its vectors are centred by set."""
    teacher = Teacher.load()

    def embed(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        vectors = embed_cached(texts, cache, teacher)
        centred = vectors - vectors.mean(0)
        return np.asarray(centred / np.linalg.norm(centred, axis=1, keepdims=True), np.float32)[None]

    return measure(data, read_normaliser(out / "normaliser.json"), embed)[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("-o", "--out", type=Path, default=Path("models/base"))
    parser.add_argument("--cache", type=Path, default=CHECKPOINTS, help="where the checkpoint is")
    parser.add_argument("--without", default="", help="which sets the training left out, for the card")
    parser.add_argument("--write-only", action="store_true", help="write the model and measure nothing")
    given = parser.parse_args(arguments)
    state = torch.load(given.cache / SHARPENED, weights_only=True, map_location="cpu")
    weights = encoder_weights(state["student"], state["mean"], state["exits"])
    (given.out / "onnx").mkdir(parents=True, exist_ok=True)
    model = encoder_graph(weights, quantized=True)
    (given.out / MODEL).write_bytes(model.SerializeToString())
    write_config(given.out, weights)
    if given.write_only:
        return
    say("measures the model")
    found = evaluate(given.data, given.out, weights)
    distilled = torch.load(given.cache / STUDENT, weights_only=True, map_location="cpu")
    found["training"] = {"distilled": distilled["history"][-1], "sharpened": state["history"][-1]}
    found["without"] = given.without
    write_json(given.out / "evaluation.json", found)
    say(json.dumps(found["int8"]))
    say("measures the teacher")
    found["teacher"] = evaluate_teacher(given.data, given.out, given.cache)
    write_json(given.out / "evaluation.json", found)
    write_card(given.out, found)
    say(json.dumps(found["teacher"]))


if __name__ == "__main__":
    main()
