"""The encoder graph against its arithmetic in numpy at every exit, and a row's independence from its mates."""

from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest
from tiny_encoder import EXITS, batch_of, embed, reference, some_texts, tiny_weights

from export.graph import ATTENTION_MASK, INPUT_IDS, OPSET, OUTPUT, encoder_graph
from export.quantize import SCALE_FLOOR, WEIGHT_TOP, quantize_rows
from export.weights import EncoderWeights

TEXTS = [[0, 7, 9, 2], [0, 11, 12, 13, 14, 15, 16, 17, 2], [0, 2], [0, 30, 31, 32, 33, 2], [0, 49, 49, 2]]


@pytest.fixture(scope="module")
def weights() -> EncoderWeights:
    return tiny_weights()


@pytest.fixture(scope="module")
def exact(weights: EncoderWeights) -> ort.InferenceSession:
    return ort.InferenceSession(encoder_graph(weights, quantized=False).SerializeToString())


@pytest.fixture(scope="module")
def small(weights: EncoderWeights) -> ort.InferenceSession:
    return ort.InferenceSession(encoder_graph(weights, quantized=True).SerializeToString())


def test_every_exit_has_its_output_and_the_last_is_the_sentence(exact: ort.InferenceSession) -> None:
    outputs = [(o.name, o.type, o.shape) for o in exact.get_outputs()]
    assert outputs == [(n, "tensor(float)", ["batch", 48]) for n in ("exit_0", "exit_1", OUTPUT)]


def test_the_float_graph_does_the_arithmetic_at_every_exit(
    weights: EncoderWeights, exact: ort.InferenceSession
) -> None:
    expected = np.stack([reference(weights, text) for text in TEXTS], axis=1)
    assert np.abs(embed(exact, TEXTS) - expected).max() < 1e-4


def test_the_exits_say_different_things_and_gates_matter(weights: EncoderWeights) -> None:
    """Else the test above would not notice an exit that reads at the wrong place, or a pool without gate."""
    found = reference(weights, TEXTS[1])
    assert np.abs(found @ found.T - np.eye(len(EXITS))).max() < 0.9
    plain = reference(with_gates(weights, 0.0), TEXTS[1])
    assert (found * plain).sum(1).max() < 0.999


def with_gates(weights: EncoderWeights, factor: float) -> EncoderWeights:
    return replace(weights, exits=tuple(replace(e, gate=e.gate * factor) for e in weights.exits))


def test_a_gate_of_zeros_is_the_plain_mean_and_a_huge_one_picks_one_token() -> None:
    weights = tiny_weights(exits=(0,))
    for factor in (0.0, 1e4):
        gated = with_gates(weights, factor)
        session = ort.InferenceSession(encoder_graph(gated, quantized=False).SerializeToString())
        states = gated.words[TEXTS[1]] + gated.positions[: len(TEXTS[1])]
        states = states - states.mean(1, keepdims=True)
        states = states / states.std(1, keepdims=True) * gated.norm.weight + gated.norm.bias
        pooled = states[(states @ gated.exits[0].gate).argmax()] if factor else states.mean(0)
        z = pooled @ gated.exits[0].projection.weight.T + gated.exits[0].projection.bias
        assert embed(session, [TEXTS[1]], 12)[0, 0] == pytest.approx(z / np.linalg.norm(z), abs=1e-4)


def test_int8_stays_near_float_at_every_exit(
    exact: ort.InferenceSession, small: ort.InferenceSession
) -> None:
    texts = some_texts(64)
    cosine = (embed(exact, texts) * embed(small, texts)).sum(2)
    assert cosine.shape == (len(EXITS), 64)
    assert cosine.min() > 0.98


@pytest.mark.parametrize("kind", ["exact", "small"])
def test_a_row_depends_neither_on_mates_nor_on_padding(kind: str, request: pytest.FixtureRequest) -> None:
    session: ort.InferenceSession = request.getfixturevalue(kind)
    together = embed(session, TEXTS, length=16)
    alone = np.concatenate([embed(session, [text]) for text in TEXTS], axis=1)
    assert np.abs(together - alone).max() < 1e-6


def test_vectors_have_length_one(small: ort.InferenceSession) -> None:
    assert np.linalg.norm(embed(small, TEXTS), axis=2) == pytest.approx(1, abs=1e-5)


def test_an_empty_row_gives_numbers(small: ort.InferenceSession) -> None:
    ids = np.ones((1, 3), np.int64)
    for out in small.run(None, {INPUT_IDS: ids, ATTENTION_MASK: np.zeros_like(ids)}):
        assert np.isfinite(out).all()


def test_what_stands_under_the_padding_does_not_matter(small: ort.InferenceSession) -> None:
    feed = batch_of(TEXTS, 16)
    other = feed | {INPUT_IDS: np.where(feed[ATTENTION_MASK] == 1, feed[INPUT_IDS], 23)}
    for a, b in zip(small.run(None, feed), small.run(None, other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_file_holds_standard_operators_and_int8(weights: EncoderWeights) -> None:
    model = encoder_graph(weights, quantized=True)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", OPSET)]
    assert {node.domain for node in model.graph.node} == {""}
    whole = encoder_graph(weights, quantized=False)
    assert model.ByteSize() < 0.6 * whole.ByteSize()
    assert [i.name for i in model.graph.input] == [INPUT_IDS, ATTENTION_MASK]


def test_quantised_rows_come_back_within_half_a_step() -> None:
    matrix = np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32)
    matrix[3] = 0
    found = quantize_rows(matrix, WEIGHT_TOP)
    assert np.abs(found.values).max() == WEIGHT_TOP
    assert (np.abs(found.restored() - matrix) <= found.scale[:, None] * 0.5001).all()
    assert found.scale[3] == np.float32(SCALE_FLOOR)
