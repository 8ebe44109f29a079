"""The router on the demo bundle: shapes, limits, and rows that depend on nothing but themselves."""

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import DEMO

from edge.pipeline import Pipeline


def test_names_shapes_and_types_of_the_graph() -> None:
    session = ort.InferenceSession(str(DEMO / "onnx/model_quantized.onnx"))
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("input_ids", "tensor(int64)", ["batch", "tokens"]),
        ("attention_mask", "tensor(int64)", ["batch", "tokens"]),
    ]
    outputs = {o.name: (o.type, o.shape) for o in session.get_outputs()}
    assert outputs["logits"] == ("tensor(float)", ["batch", 72])
    assert outputs["in_scope"] == outputs["needs_context"] == ("tensor(float)", ["batch"])
    assert outputs["sentence_embedding"] == ("tensor(float)", ["batch", 384])
    assert outputs["exit"] == ("tensor(int64)", ["batch"])


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
    names = ["logits", "in_scope", "needs_context", "sentence_embedding"]
    together = session.run(names, {"input_ids": batch, "attention_mask": mask})
    for row, values in enumerate(ids):
        one = np.array([values], np.int64)
        alone = session.run(names, {"input_ids": one, "attention_mask": np.ones_like(one)})
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_allclose(a[0], b[row], atol=2e-5)


@pytest.mark.parametrize("text", ["", " ", "😀", "\u200b", "a" * 3000, "退" * 3000, "𠮷" * 20])
def test_odd_texts_are_read_or_too_long_but_never_fail(demo: Pipeline, text: str) -> None:
    reading = demo.runtime.router.read(demo.runtime.bundle.normaliser.reading(text))
    if reading is None:
        assert len(text) > 64
    else:
        assert reading.tokens <= 64
        assert 0 <= reading.confidence <= reading.in_scope <= 1
        assert np.linalg.norm(reading.embedding) == pytest.approx(1, abs=1e-3)


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
