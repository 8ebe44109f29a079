"""A base student of a tiny random encoder with exits and a small real tokenizer, and desks to train on it."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tiny_encoder import Floats, tiny_weights, unscaled

from edge.bundle import ROUTER_FILE
from edge.normaliser import NORMALISER_VERSION
from export.graph import encoder_graph
from export.pools import Pools, load_pools
from export.vocabulary import SPECIALS, UNK, Vocabulary
from export.weights import EncoderWeights

MAX_TOKENS = 64
TRADITIONAL, SIMPLIFIED = "幾開門營業時間貨", "几开门营业时间货"


@cache
def few_pools() -> Pools:
    """Every eighth text of the real pools."""
    pools = load_pools()
    return Pools(pools.out_of_scope[::8], pools.follow_ups[::8], pools.stand_alone[::8])


@cache
def vocabulary() -> Vocabulary:
    """The characters of the pools, and words and pairs of Han characters that recur in them."""
    pools = load_pools()
    texts = [text.lower() for text in (*pools.out_of_scope, *pools.follow_ups, *pools.stand_alone)]
    letters = dict.fromkeys("▁abcdefghijklmnopqrstuvwxyz0123456789?!,.-'")
    letters |= dict.fromkeys(SIMPLIFIED)
    letters |= dict.fromkeys(char for text in texts for char in text if char.isalnum())
    words = Counter(f"▁{word}" for text in texts for word in text.split() if word.isascii())
    pieces = [(special, -100.0) for special in SPECIALS]
    pieces += [(letter, -9.0) for letter in letters]
    pieces += [(word, -7.0) for word, count in words.items() if count > 2 and word not in letters]
    return Vocabulary(tuple(pieces), tuple(range(len(pieces))))


@cache
def base_weights(width: int = 48) -> EncoderWeights:
    """Random weights; what every exit makes of the mean text is taken off its bias, as in a real base."""
    weights = tiny_weights(
        vocabulary=len(vocabulary().pieces), width=width, inner=2 * width, positions=MAX_TOKENS
    )
    weights = replace(weights, positions=weights.positions * np.float32(0.1))
    texts = [text for text in few_pools().out_of_scope if len(text) < MAX_TOKENS]
    rows = [encoded.ids for encoded in vocabulary().tokenizer().encode_batch(texts)]
    means = np.mean([unscaled(weights, row) for row in rows], axis=0).astype(np.float32)
    exits = tuple(
        replace(e, projection=replace(e.projection, bias=e.projection.bias - mean))
        for e, mean in zip(weights.exits, means, strict=True)
    )
    return replace(weights, exits=exits)


def write_base(folder: Path, weights: EncoderWeights | None = None, **config: object) -> Path:
    """The files of ``models/base`` that a training reads."""
    weights = weights or base_weights()
    (folder / ROUTER_FILE).parent.mkdir(parents=True, exist_ok=True)
    (folder / ROUTER_FILE).write_bytes(encoder_graph(weights, quantized=True).SerializeToString())
    vocabulary().tokenizer().save(str(folder / "tokenizer.json"))
    tables = {"version": NORMALISER_VERSION, "traditional": TRADITIONAL, "simplified": SIMPLIFIED}
    sizes = {
        "model_type": "bert",
        "hidden_size": weights.words.shape[1],
        "num_hidden_layers": len(weights.layers),
        "num_attention_heads": weights.heads,
        "vocab_size": len(weights.words),
        "exits": [exit_.layer for exit_ in weights.exits],
        "max_tokens": len(weights.positions),
        "unk_token_id": UNK,
    }
    for name, value in (
        ("normaliser.json", tables),
        ("config.json", sizes | config),
        ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ):
        (folder / name).write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    return folder


def write_desk(
    folder: Path, topics: Mapping[str, Mapping[str, Any]], languages: str = "en, zh", **files: str
) -> Path:
    """A desk of topics by id; a topic is by default answered, in every language it has examples in."""
    (folder / "topics").mkdir(parents=True, exist_ok=True)
    (folder / "eval").mkdir(exist_ok=True)
    (folder / "desk.yaml").write_text(f"name: tiny\nlanguages: [{languages}]\nunproven: answer\n", "utf-8")
    entries = []
    for id_, topic in topics.items():
        entry = {"id": id_, "route": "answer", **topic}
        if entry["route"] == "answer":
            entry.setdefault("answer", {lang: f"{id_} {lang}" for lang in entry["examples"]})
        entries.append(entry)
    # JSON is YAML too.
    (folder / "topics/all.yaml").write_text(json.dumps(entries, ensure_ascii=False), "utf-8")
    for name, text in files.items():
        (folder / "eval" / f"{name}.jsonl").write_text(text, "utf-8")
    return folder


def constant_exits(weights: EncoderWeights, bias: Floats) -> EncoderWeights:
    """The encoder whose every embedding is ``bias``, whatever it reads."""
    exits = tuple(
        replace(e, projection=replace(e.projection, weight=e.projection.weight * 0, bias=bias))
        for e in weights.exits
    )
    return replace(weights, exits=exits)
