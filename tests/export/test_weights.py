"""What a base model stores is read back, and stored again as the same integers."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from tiny_encoder import embed, some_texts, tiny_weights

from export.graph import encoder_graph
from export.weights import Affine, EncoderWeights, join_attention, read_weights


def stored(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("exits", "heads", "width"), [((0, 1, 3), 4, 48), ((2,), 3, 21), ((1, 2), 1, 32)])
def test_the_same_integers_are_stored_again(
    seed: int, exits: tuple[int, ...], heads: int, width: int
) -> None:
    weights = tiny_weights(seed, width=width, exits=exits, heads=heads)
    first = encoder_graph(weights, quantized=True)
    again = encoder_graph(read_weights(first, heads), quantized=True)
    assert [(n.op_type, n.name) for n in first.graph.node] == [(n.op_type, n.name) for n in again.graph.node]
    before, after = stored(first), stored(again)
    assert list(before) == list(after)
    for name, value in before.items():
        if value.dtype == np.float32:  # a factor that was divided out and put back: the last bit
            np.testing.assert_allclose(after[name], value, rtol=3e-7, err_msg=name)
        else:
            np.testing.assert_array_equal(after[name], value, err_msg=name)


def test_what_is_read_is_within_half_a_step_of_what_was_written() -> None:
    weights = tiny_weights()
    found = read_weights(encoder_graph(weights, quantized=True), weights.heads)
    assert (found.heads, found.eps) == (weights.heads, weights.eps)
    assert [exit_.layer for exit_ in found.exits] == [0, 1, 3]
    assert len(found.layers) == 3
    for was, got in zip(weights.exits, found.exits, strict=True):
        np.testing.assert_array_equal(got.gate, was.gate)
        near(got.projection, was.projection, 127)
    for before, after in zip(weights.layers, found.layers, strict=True):
        near(join_attention(after, 4), join_attention(before, 4), 63)
        for part in ("attended", "rise", "fall"):
            near(getattr(after, part), getattr(before, part), 63)
        for part in ("attended_norm", "norm"):
            np.testing.assert_array_equal(getattr(after, part).weight, getattr(before, part).weight)
    np.testing.assert_array_equal(found.positions, weights.positions)
    step = np.abs(weights.words).max(1, keepdims=True) / 127
    assert (np.abs(found.words - weights.words) <= step * 0.5001).all()


def near(found: Affine, expected: Affine, top: int) -> None:
    step = np.abs(expected.weight).max(1, keepdims=True) / top
    assert (np.abs(found.weight - expected.weight) <= step * 0.5001).all()
    np.testing.assert_allclose(found.bias, expected.bias, rtol=3e-7)


def test_rows_of_zeros_and_of_almost_nothing_come_back() -> None:
    weights = tiny_weights()
    words = weights.words.copy()
    words[5], words[6] = 0, 1e-12
    projection = weights.exits[0].projection
    flat = replace(weights.exits[0], projection=replace(projection, weight=projection.weight * 0))
    odd = replace(weights, words=words, exits=(flat, *weights.exits[1:]))
    first = encoder_graph(odd, quantized=True)
    again = encoder_graph(read_weights(first, 4), quantized=True)
    for name in ("words.values", "words.scales", "exit0.projection.weight", "exit0.projection.scales"):
        np.testing.assert_array_equal(stored(again)[name], stored(first)[name])


def test_the_model_that_is_read_computes_what_the_file_computes() -> None:
    weights = tiny_weights()
    model = encoder_graph(weights, quantized=True)
    texts = some_texts(20)

    def run(one: onnx.ModelProto) -> NDArray[np.float32]:
        return embed(ort.InferenceSession(one.SerializeToString()), texts)

    def again(found: EncoderWeights) -> onnx.ModelProto:
        return encoder_graph(found, quantized=True)

    assert (run(again(read_weights(model, 4))) * run(model)).sum(2).min() > 0.9999
