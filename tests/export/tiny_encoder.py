"""A small random encoder with exits and its arithmetic in numpy, to check graphs against."""

import math
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.graph import ATTENTION_MASK, INPUT_IDS
from export.weights import Affine, EncoderWeights, ExitWeights, LayerWeights, Norm

Floats = NDArray[np.float32]
PAD = 1
EXITS = (0, 1, 3)  # before the layers, after one, and after a group of two
_erf = np.vectorize(math.erf, otypes=[np.float64])


def tiny_weights(
    seed: int = 0,
    vocabulary: int = 50,
    width: int = 48,
    inner: int = 96,
    exits: Sequence[int] = EXITS,
    positions: int = 16,
    heads: int = 4,
) -> EncoderWeights:
    """Random weights of a size at which every step still matters; gates that are far from the plain mean."""
    chance = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float) -> Floats:
        return (chance.standard_normal((rows, columns)) * scale).astype(np.float32)

    def affine(rows: int, columns: int) -> Affine:
        return Affine(matrix(rows, columns, columns**-0.5), matrix(1, rows, 0.1)[0])

    def norm() -> Norm:
        return Norm(1 + matrix(1, width, 0.1)[0], matrix(1, width, 0.1)[0])

    stack = tuple(
        LayerWeights(
            q=affine(width, width),
            k=affine(width, width),
            v=affine(width, width),
            attended=affine(width, width),
            attended_norm=norm(),
            rise=affine(inner, width),
            fall=affine(width, inner),
            norm=norm(),
        )
        for _ in range(exits[-1])
    )
    words, table = matrix(vocabulary, width, 1.0), matrix(positions, width, 0.3)
    ways = tuple(ExitWeights(e, matrix(1, width, 0.2)[0], affine(width, width)) for e in exits)
    return EncoderWeights(words, table, norm(), stack, ways, heads)


def reference(weights: EncoderWeights, ids: Sequence[int]) -> NDArray[np.float64]:
    """One unpadded text through the encoder: [exits, width], each of length 1."""
    out = unscaled(weights, ids)
    length: NDArray[np.float64] = out / np.linalg.norm(out, axis=1, keepdims=True)
    return length


def unscaled(weights: EncoderWeights, ids: Sequence[int]) -> NDArray[np.float64]:
    """What every exit makes of one unpadded text before it is scaled to length 1, in float64."""

    def normed(x: NDArray[np.float64], norm: Norm) -> NDArray[np.float64]:
        x = x - x.mean(-1, keepdims=True)
        out: NDArray[np.float64] = (
            x / np.sqrt((x**2).mean(-1, keepdims=True) + weights.eps) * norm.weight + norm.bias
        )
        return out

    def linear(x: NDArray[np.float64], affine: Affine) -> NDArray[np.float64]:
        out: NDArray[np.float64] = x @ affine.weight.T.astype(np.float64) + affine.bias
        return out

    def shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        out: NDArray[np.float64] = np.exp(scores - scores.max(-1, keepdims=True))
        out /= out.sum(-1, keepdims=True)
        return out

    x = normed(weights.words[list(ids)].astype(np.float64) + weights.positions[: len(ids)], weights.norm)
    tokens, width = x.shape
    states = [x]
    for layer in weights.layers:
        q, k, v = (
            linear(x, part).reshape(tokens, weights.heads, -1).swapaxes(0, 1)
            for part in (layer.q, layer.k, layer.v)
        )
        attention = shares(q @ k.swapaxes(1, 2) / math.sqrt(width // weights.heads))
        mixed = (attention @ v).swapaxes(0, 1).reshape(tokens, width)
        x = normed(x + linear(mixed, layer.attended), layer.attended_norm)
        risen = linear(x, layer.rise)
        x = normed(x + linear(risen * 0.5 * (1 + _erf(risen / math.sqrt(2))), layer.fall), layer.norm)
        states.append(x)
    pooled = [shares(states[e.layer] @ e.gate) @ states[e.layer] for e in weights.exits]
    return np.stack([linear(x, e.projection) for x, e in zip(pooled, weights.exits, strict=True)])


def batch_of(texts: Sequence[Sequence[int]], length: int = 0) -> dict[str, NDArray[np.int64]]:
    """Texts as one batch, padded to ``length`` or to the longest: what a session is fed."""
    ids = np.full((len(texts), max(length, *map(len, texts))), PAD, np.int64)
    mask = np.zeros_like(ids)
    for i, text in enumerate(texts):
        ids[i, : len(text)] = text
        mask[i, : len(text)] = 1
    return {INPUT_IDS: ids, ATTENTION_MASK: mask}


def some_texts(count: int, seed: int = 3, vocabulary: int = 50, most: int = 14) -> list[list[int]]:
    """Random texts of 0 to ``most`` tokens between their two ends."""
    chance = np.random.default_rng(seed)
    return [
        [0, *chance.integers(3, vocabulary, chance.integers(0, most + 1)).tolist(), 2] for _ in range(count)
    ]


def embed(session: ort.InferenceSession, texts: Sequence[Sequence[int]], length: int = 0) -> Floats:
    """The embeddings of every output of an encoder: [exits, texts, width]."""
    names = [output.name for output in session.get_outputs()]
    return np.stack(session.run(names, batch_of(texts, length)))
