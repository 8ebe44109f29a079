"""The weights of an encoder as numpy arrays, and how to read them back out of a base model's file."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from export.quantize import Quantized

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Affine:
    """``x @ weight.T + bias``: weight [out, in], bias [out]."""

    weight: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer normalisation: gain and bias [width]."""

    weight: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One post-norm transformer layer."""

    q: Affine
    k: Affine
    v: Affine
    attended: Affine
    attended_norm: Norm
    rise: Affine
    fall: Affine
    norm: Norm


@dataclass(frozen=True, slots=True)
class ExitWeights:
    """What reads a text after ``layer`` layers: a pool weighted by ``state · gate``, and a linear map.

    ``projection`` has the mean vector already taken off its bias, so its output is centred.
    """

    layer: int
    gate: Floats
    projection: Affine


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """The whole encoder: words [vocabulary, width], positions [tokens, width], layers, exits in order."""

    words: Floats
    positions: Floats
    norm: Norm
    layers: tuple[LayerWeights, ...]
    exits: tuple[ExitWeights, ...]
    heads: int
    eps: float = 1e-12


def join_attention(layer: LayerWeights, heads: int) -> Affine:
    """Queries, keys and values as one product; the queries carry the factor 1/√depth."""
    factor = np.float32((layer.q.weight.shape[0] // heads) ** -0.5)
    return Affine(
        np.concatenate([layer.q.weight * factor, layer.k.weight, layer.v.weight]),
        np.concatenate([layer.q.bias * factor, layer.k.bias, layer.v.bias]),
    )


def read_weights(model: onnx.ModelProto, heads: int, eps: float = 1e-12) -> EncoderWeights:
    """The weights that ``encoder_graph`` stored as INT8, dequantised: quantised again they are the same."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}

    def affine(name: str) -> Affine:
        rows = Quantized(stored[f"{name}.weight"].T, stored[f"{name}.scales"])
        return Affine(rows.restored(), stored[f"{name}.bias"])

    def norm(name: str) -> Norm:
        return Norm(stored[f"{name}.weight"], stored[f"{name}.bias"])

    layers = 1 + max(int(name[5:].partition(".")[0]) for name in stored if name.startswith("layer"))
    exits = sorted({int(name[4:].partition(".")[0]) for name in stored if name.startswith("exit")})
    return EncoderWeights(
        words=Quantized(stored["words.values"], stored["words.scales"][:, 0]).restored(),
        positions=stored["positions.weight"],
        norm=norm("embeddings"),
        layers=tuple(_layer(f"layer{i}", affine, norm, heads) for i in range(layers)),
        exits=tuple(
            ExitWeights(e, stored[f"exit{e}.gate"][:, 0], affine(f"exit{e}.projection")) for e in exits
        ),
        heads=heads,
        eps=eps,
    )


def _layer(
    name: str, affine: Callable[[str], Affine], norm: Callable[[str], Norm], heads: int
) -> LayerWeights:
    joined = affine(f"{name}.qkv")
    weights, biases = np.split(joined.weight, 3), np.split(joined.bias, 3)
    factor = np.float32((len(weights[0]) // heads) ** -0.5)
    return LayerWeights(
        q=Affine(weights[0] / factor, biases[0] / factor),
        k=Affine(weights[1], biases[1]),
        v=Affine(weights[2], biases[2]),
        attended=affine(f"{name}.attended"),
        attended_norm=norm(f"{name}.attended_norm"),
        rise=affine(f"{name}.rise"),
        fall=affine(f"{name}.fall"),
        norm=norm(f"{name}.norm"),
    )
