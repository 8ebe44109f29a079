"""The encoder graph against its arithmetic in numpy, and a row's independence from its mates."""

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from tiny_encoder import reference, tiny_weights

from export.graph import ATTENTION_MASK, INPUT_IDS, OPSET, OUTPUT, EncoderWeights, encoder_graph
from export.quantize import SCALE_FLOOR, WEIGHT_TOP, quantize_rows

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


def embed(
    session: ort.InferenceSession, texts: list[list[int]], length: int | None = None
) -> NDArray[np.float32]:
    """Texts in one batch, padded with token 1 to ``length`` or to the longest."""
    longest = length or max(map(len, texts))
    ids = np.ones((len(texts), longest), np.int64)
    mask = np.zeros_like(ids)
    for i, text in enumerate(texts):
        ids[i, : len(text)] = text
        mask[i, : len(text)] = 1
    (out,) = session.run([OUTPUT], {INPUT_IDS: ids, ATTENTION_MASK: mask})
    return np.asarray(out)


def test_the_float_graph_does_the_arithmetic(weights: EncoderWeights, exact: ort.InferenceSession) -> None:
    expected = np.stack([reference(weights, text) for text in TEXTS])
    assert np.abs(embed(exact, TEXTS) - expected).max() < 1e-4


def test_int8_stays_near_float(exact: ort.InferenceSession, small: ort.InferenceSession) -> None:
    chance = np.random.default_rng(3)
    texts = [[0, *chance.integers(3, 50, chance.integers(1, 13)).tolist(), 2] for _ in range(64)]
    cosine = (embed(exact, texts) * embed(small, texts)).sum(1)
    assert cosine.min() > 0.98


@pytest.mark.parametrize("kind", ["exact", "small"])
def test_a_row_depends_neither_on_mates_nor_on_padding(kind: str, request: pytest.FixtureRequest) -> None:
    session: ort.InferenceSession = request.getfixturevalue(kind)
    together = embed(session, TEXTS, length=16)
    alone = np.concatenate([embed(session, [text]) for text in TEXTS])
    assert np.abs(together - alone).max() < 1e-6


def test_vectors_have_length_one(small: ort.InferenceSession) -> None:
    assert np.linalg.norm(embed(small, TEXTS), axis=1) == pytest.approx(1, abs=1e-5)


def test_an_empty_row_gives_numbers(small: ort.InferenceSession) -> None:
    ids = np.ones((1, 3), np.int64)
    (out,) = small.run([OUTPUT], {INPUT_IDS: ids, ATTENTION_MASK: np.zeros_like(ids)})
    assert np.isfinite(np.asarray(out)).all()


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
