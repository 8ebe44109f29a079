"""The router on the demo bundle: shapes, limits, and rows that depend on nothing but themselves."""

import json

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import DEMO

from edge.pipeline import Pipeline
from edge.router import OUTPUTS, RouterError

EXITS = json.loads((DEMO / "config.json").read_text("utf-8"))["exits"]


def test_names_shapes_and_types_of_the_graph() -> None:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(DEMO / "onnx/model_quantized.onnx"), options)
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("input_ids", "tensor(int64)", ["batch", "tokens"]),
        ("attention_mask", "tensor(int64)", ["batch", "tokens"]),
    ]
    outputs = {o.name: (o.type, o.shape) for o in session.get_outputs()}
    assert outputs["logits"] == ("tensor(float)", ["batch", 72])
    assert outputs["in_scope"] == outputs["needs_context"] == ("tensor(float)", ["batch"])
    assert outputs["sentence_embedding"] == ("tensor(float)", ["batch", 384])
    assert outputs["exit"] == ("tensor(int64)", ["batch"])
    overridable = [(i.name, i.type, i.shape) for i in session.get_overridable_initializers()]
    assert overridable == [("exit_thresholds", "tensor(float)", [len(EXITS) - 1, 72])]


def test_a_row_does_not_depend_on_its_batch_mates_or_padding(demo: Pipeline) -> None:
    session, tokenizer = demo.runtime.router._session, demo.runtime.router._tokenizer
    texts = ["几点上班", "how many days of annual leave do i get in my second year", "hi", "x" * 20]
    ids = [tokenizer.encode(text).ids for text in texts]
    width = max(map(len, ids)) + 7
    assert width <= 64
    batch = np.zeros((len(ids), width), np.int64)
    mask = np.zeros_like(batch)
    for row, values in enumerate(ids):
        batch[row, : len(values)] = values
        mask[row, : len(values)] = 1
    together = session.run(OUTPUTS, {"input_ids": batch, "attention_mask": mask})
    for row, values in enumerate(ids):
        one = np.array([values], np.int64)
        alone = session.run(OUTPUTS, {"input_ids": one, "attention_mask": np.ones_like(one)})
        assert alone[4][0] == together[4][row]
        for a, b in zip(alone[:4], together[:4], strict=True):
            np.testing.assert_allclose(a[0], b[row], atol=1e-4)


def test_other_thresholds_send_every_row_to_the_exit_they_name(demo: Pipeline) -> None:
    session, tokenizer = demo.runtime.router._session, demo.runtime.router._tokenizer
    ids = np.array([tokenizer.encode("how many days of annual leave do i get").ids], np.int64)
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    for thresholds, expected in ((2.0, [EXITS[-1]]), (0.0, EXITS)):
        given_too = {"exit_thresholds": np.full((len(EXITS) - 1, 72), thresholds, np.float32)}
        assert session.run(["exit"], feed | given_too)[0][0] in expected


def test_embeddings_are_those_of_the_last_exit(demo: Pipeline) -> None:
    router = demo.runtime.router
    texts = ["几点上班", "how many days of annual leave do i get in my second year", "hi", "", "x" * 20]
    vectors = router.embed(texts)
    assert (vectors.shape, vectors.dtype) == ((5, 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(router.embed([text])[0], vector, atol=1e-4)
        reading = router.read(text)
        assert reading is not None
        if reading.exit == EXITS[-1]:
            np.testing.assert_allclose(reading.embedding, vector, atol=1e-4)
    readings = [router.read(text) for text in texts]
    assert {reading.exit for reading in readings if reading} > {EXITS[-1]}


def test_of_a_long_text_the_head_is_embedded(demo: Pipeline) -> None:
    router = demo.runtime.router
    head = "may i carry the rest of my leave over into the next year "
    long = [head * 6 + more for more in ("", "and the parking lot " * 9, "x" * 2000)]
    assert [router.read(text) for text in long] == [None] * 3
    first, second, third = router.embed(long)
    np.testing.assert_allclose(first, second, atol=1e-4)
    np.testing.assert_allclose(first, third, atol=1e-4)
    ids = router._tokenizer.encode(long[0]).ids
    row = np.array([[*ids[:63], ids[-1]]], np.int64)  # the text's end has a token of its own
    feed = {"input_ids": row, "attention_mask": np.ones_like(row), **router._no_early_exit}
    np.testing.assert_allclose(first, router._session.run(["sentence_embedding"], feed)[0][0], atol=1e-4)
    near, far = router.embed([head, "hi"])
    assert float(first @ near) > 0.8 > 0.5 > float(first @ far)


def test_no_embedding_is_an_error(demo: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    router = demo.runtime.router
    zero = {name: given * 0 for name, given in router._no_early_exit.items()}
    monkeypatch.setattr(router, "_no_early_exit", zero)
    with pytest.raises(RouterError, match="no embedding"):
        router.embed(["几点上班", "how many days of annual leave do i get"])


@pytest.mark.parametrize("text", ["", " ", "😀", "\u200b", "a" * 3000, "退" * 3000, "𠮷" * 20])
def test_odd_texts_are_read_or_too_long_but_never_fail(demo: Pipeline, text: str) -> None:
    reading = demo.runtime.router.read(demo.runtime.bundle.normaliser.reading(text))
    if reading is None:
        assert len(text) > 64
    else:
        assert reading.tokens <= 64
        assert 0 <= reading.confidence <= reading.in_scope <= 1
        assert reading.exit in EXITS
        length = np.linalg.norm(reading.embedding)
        assert length == (pytest.approx(1, abs=1e-3) if reading.exit == EXITS[-1] else 0)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_any_text_gives_a_decision_and_only_sure_ones_an_answer(demo: Pipeline, text: str) -> None:
    from edge.query import Query

    bundle = demo.runtime.bundle
    decision = demo.decide(Query.of_text(text, bundle.normaliser))
    if decision.answer is not None and decision.reading is not None:
        threshold = bundle.thresholds[str(decision.lang)]
        assert decision.reading.confidence >= threshold.confidence
    assert (decision.answer is not None) == (decision.path == "faq")
