"""A small random encoder and its arithmetic in numpy, to check graphs against."""

import math

import numpy as np
from numpy.typing import NDArray

from export.graph import Affine, EncoderWeights, LayerWeights, Norm

Floats = NDArray[np.float32]
_erf = np.vectorize(math.erf, otypes=[np.float64])


def tiny_weights(
    seed: int = 0, vocabulary: int = 50, width: int = 48, inner: int = 96, layers: int = 2
) -> EncoderWeights:
    """Random weights of a size at which every step still matters."""
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
        for _ in range(layers)
    )
    words, positions = matrix(vocabulary, width, 1.0), matrix(16, width, 0.3)
    return EncoderWeights(words, positions, norm(), stack, affine(width, width), heads=4)


def reference(weights: EncoderWeights, ids: list[int]) -> NDArray[np.float64]:
    """One unpadded text through the encoder, in float64: [width], of length 1."""

    def normed(x: NDArray[np.float64], norm: Norm) -> NDArray[np.float64]:
        x = x - x.mean(-1, keepdims=True)
        out: NDArray[np.float64] = (
            x / np.sqrt((x**2).mean(-1, keepdims=True) + weights.eps) * norm.weight + norm.bias
        )
        return out

    def linear(x: NDArray[np.float64], affine: Affine) -> NDArray[np.float64]:
        out: NDArray[np.float64] = x @ affine.weight.T.astype(np.float64) + affine.bias
        return out

    x = normed(weights.words[ids].astype(np.float64) + weights.positions[: len(ids)], weights.norm)
    tokens, width = x.shape
    for layer in weights.layers:
        q, k, v = (
            linear(x, part).reshape(tokens, weights.heads, -1).swapaxes(0, 1)
            for part in (layer.q, layer.k, layer.v)
        )
        scores = np.exp(q @ k.swapaxes(1, 2) / math.sqrt(width // weights.heads))
        mixed = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(tokens, width)
        x = normed(x + linear(mixed, layer.attended), layer.attended_norm)
        risen = linear(x, layer.rise)
        x = normed(x + linear(risen * 0.5 * (1 + _erf(risen / math.sqrt(2))), layer.fall), layer.norm)
    out = linear(x.mean(0), weights.projection)
    length: NDArray[np.float64] = out / np.linalg.norm(out)
    return length
