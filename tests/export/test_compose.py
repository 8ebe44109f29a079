"""The router graph of a tiny encoder: its shape, its arithmetic at every exit, and rows that stand alone."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tiny_encoder import EXITS, batch_of, embed, some_texts, tiny_weights
from tiny_heads import Readings, novelty, read, spread, tiny_heads

from export.compose import EXIT_THRESHOLDS, NEVER, ExitRules, compose_router, never_early
from export.graph import encoder_graph
from export.heads import Heads
from export.vocabulary import BOS, EOS, PAD, UNK

WIDTH, TOPICS, EARLY = 48, 7, len(EXITS) - 1
OUTPUTS = ["logits", "in_scope", "needs_context", "sentence_embedding", "exit"]
WEIGHTS = tiny_weights()
TEXTS = [list(text) for text in dict.fromkeys(map(tuple, some_texts(250)))][:200]
# Thresholds that send about as many texts to every exit.
MIXED = ExitRules(
    np.linspace(0.2, 0.4, EARLY * TOPICS, dtype=np.float32).reshape(EARLY, TOPICS),
    np.asarray([0.6, 0.5], np.float32),
    np.asarray([0.7, 0.8], np.float32),
)
Row = tuple[NDArray[np.float32], ...]


def embeddings(quantized: bool) -> NDArray[np.float32]:
    encoder = ort.InferenceSession(encoder_graph(WEIGHTS, quantized).SerializeToString())
    return np.concatenate([embed(encoder, [text]) for text in TEXTS], axis=1)


SEEN = embeddings(quantized=False)
NEW = novelty(tiny_heads(0), TEXTS)
HEADS = [spread(tiny_heads(place, place), SEEN[: place + 1], NEW) for place in range(len(EXITS))]


def always(exits: int = len(EXITS)) -> ExitRules:
    """Rules under which every row leaves at once."""
    early = exits - 1
    return ExitRules(np.zeros((early, TOPICS)), np.zeros(early), np.ones(early))


def session_of(rules: ExitRules, *, quantized: bool = True) -> ort.InferenceSession:
    model = compose_router(WEIGHTS, HEADS, rules, quantized=quantized)
    return ort.InferenceSession(model.SerializeToString())


@cache
def mixed(quantized: bool) -> ort.InferenceSession:
    return session_of(MIXED, quantized=quantized)


@cache
def readings(quantized: bool) -> tuple[NDArray[np.float32], list[Readings]]:
    """What every exit would say of every text, from the encoder's own graph and heads in numpy."""
    z = embeddings(quantized)
    return z, [read(heads, z[: place + 1], NEW, quantized=quantized) for place, heads in enumerate(HEADS)]


def leaves(rules: ExitRules, place: int, found: Readings) -> NDArray[np.bool_]:
    sure = found.confidence >= rules.confidence[place][found.topic]
    alone = found.needs_context <= rules.max_needs_context[place]
    return np.asarray(sure & (found.in_scope >= rules.min_in_scope[place]) & alone)


def exits_by_hand(rules: ExitRules, found: Sequence[Readings]) -> NDArray[np.int64]:
    """The place of the first exit where a text leaves."""
    place = np.full(len(found[0].logits), EARLY)
    for early in reversed(range(EARLY)):
        place[leaves(rules, early, found[early])] = early
    return place


def run(
    session: ort.InferenceSession,
    texts: Sequence[Sequence[int]],
    length: int = 0,
    thresholds: NDArray[np.float32] | None = None,
) -> list[NDArray[np.float32]]:
    given_too = {} if thresholds is None else {EXIT_THRESHOLDS: thresholds}
    return [np.asarray(x) for x in session.run(OUTPUTS, batch_of(texts, length) | given_too)]


# --- its shape -------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantized", [True, False])
def test_names_shapes_and_types(quantized: bool) -> None:
    session = mixed(quantized)
    ids = ["batch", "tokens"]
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("input_ids", "tensor(int64)", ids),
        ("attention_mask", "tensor(int64)", ids),
    ]
    assert [(i.name, i.type, i.shape) for i in session.get_overridable_initializers()] == [
        (EXIT_THRESHOLDS, "tensor(float)", [EARLY, TOPICS])
    ]
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()] == [
        ("logits", "tensor(float)", ["batch", TOPICS]),
        ("in_scope", "tensor(float)", ["batch"]),
        ("needs_context", "tensor(float)", ["batch"]),
        ("sentence_embedding", "tensor(float)", ["batch", WIDTH]),
        ("exit", "tensor(int64)", ["batch"]),
    ]
    for count in (1, 5):
        shapes = [x.shape for x in run(session, TEXTS[:count])]
        assert shapes == [(count, TOPICS), (count,), (count,), (count, WIDTH), (count,)]


def graphs(graph: onnx.GraphProto) -> Iterable[onnx.GraphProto]:
    """A graph and the branches inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


@pytest.mark.parametrize("quantized", [True, False])
def test_only_standard_operators_also_inside_branches(quantized: bool) -> None:
    model = compose_router(WEIGHTS, HEADS, MIXED, quantized=quantized)
    [opset] = model.opset_import
    assert (opset.domain, opset.version <= 21) == ("", True)
    assert not model.functions
    every = list(graphs(model.graph))
    assert len(every) == 1 + 2 * EARLY
    nodes = [node for graph in every for node in graph.node]
    assert {node.domain for node in nodes} == {""}
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert {node.op_type for node in nodes} <= known
    assert [len(graph.initializer) for graph in every[1:]] == [0] * (2 * EARLY)
    names = [name for graph in every for node in graph.node for name in node.output]
    assert len(names) == len(set(names))
    onnx.checker.check_model(model, full_check=True)


def test_the_same_parts_give_the_same_bytes() -> None:
    one, two = (compose_router(WEIGHTS, HEADS, MIXED).SerializeToString(deterministic=True) for _ in range(2))
    assert one == two


# --- its arithmetic --------------------------------------------------------------------------------


@pytest.mark.parametrize("quantized", [True, False])
def test_a_row_has_the_readings_of_its_exit(quantized: bool) -> None:
    z, expected = readings(quantized)
    place = exits_by_hand(MIXED, expected)
    assert np.bincount(place).min() > 20  # every exit is put to the test
    logits, in_scope, needs_context, embedding, exit_ = run(mixed(quantized), TEXTS)
    np.testing.assert_array_equal(exit_, np.asarray(EXITS)[place])
    rows = np.arange(len(TEXTS))
    for found, name in ((logits, "logits"), (in_scope, "in_scope"), (needs_context, "needs_context")):
        by_exit = np.stack([getattr(one, name) for one in expected])
        np.testing.assert_allclose(found, by_exit[place, rows], atol=1e-4, err_msg=name)
    last = place == EARLY
    np.testing.assert_allclose(embedding[last], z[-1][last], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(embedding[last], axis=1), 1, atol=1e-5)
    assert not embedding[~last].any()


@pytest.mark.parametrize("quantized", [True, False])
def test_no_confidence_reaches_never(quantized: bool) -> None:
    z, expected = readings(quantized)
    found = run(session_of(never_early(len(EXITS), TOPICS), quantized=quantized), TEXTS)
    assert set(found[4]) == {EXITS[-1]}
    np.testing.assert_allclose(found[0], expected[-1].logits, atol=1e-4)
    np.testing.assert_allclose(found[3], z[-1], atol=1e-5)


def test_thresholds_of_zero_let_all_leave_at_the_first() -> None:
    found = run(session_of(always()), TEXTS)
    assert set(found[4]) == {EXITS[0]}
    assert not found[3].any()
    np.testing.assert_allclose(found[0], readings(quantized=True)[1][0].logits, atol=1e-4)


@pytest.mark.parametrize("place", range(EARLY))
def test_thresholds_belong_to_exit_and_topic(place: int) -> None:
    """Only texts whose best topic at this exit is the open one leave there; the others go to the last."""
    found = readings(quantized=True)[1][place]
    topic = int(np.bincount(found.topic).argmax())
    confidence = np.full((EARLY, TOPICS), NEVER, np.float32)
    confidence[place, topic] = 0
    exit_ = run(session_of(replace(always(), confidence=confidence)), TEXTS)[4]
    np.testing.assert_array_equal(exit_, np.where(found.topic == topic, EXITS[place], EXITS[-1]))


def test_a_text_leaves_at_its_very_threshold_and_not_above() -> None:
    text = TEXTS[:1]
    first = run(session_of(always(), quantized=False), text)
    shares = np.exp(first[0][0] - first[0][0].max())
    confidence = first[1][0] / shares.sum()
    for factor, expected in ((1 - 1e-5, EXITS[0]), (1 + 1e-5, EXITS[-1])):
        rules = replace(always(), confidence=np.full((EARLY, TOPICS), NEVER, np.float32))
        rules.confidence[0] = confidence * factor
        assert run(session_of(rules, quantized=False), text)[4] == [expected]


@pytest.mark.parametrize("place", range(EARLY))
@pytest.mark.parametrize("name", ["min_in_scope", "max_needs_context"])
def test_limits_hold_texts_back(name: str, place: int) -> None:
    found = getattr(readings(quantized=True)[1][place], name.partition("_")[2])
    ordered = np.sort(found)
    limit = (ordered[99] + ordered[100]) / 2
    confidence = np.full((EARLY, TOPICS), NEVER, np.float32)
    confidence[place] = 0
    rules = replace(always(), confidence=confidence)
    getattr(rules, name)[place] = limit
    exit_ = run(session_of(rules), TEXTS)[4]
    left = found >= limit if name == "min_in_scope" else found <= limit
    assert left.sum() == 100
    np.testing.assert_array_equal(exit_, np.where(left, EXITS[place], EXITS[-1]))


def test_a_caller_may_give_other_thresholds() -> None:
    never = np.full((EARLY, TOPICS), NEVER, np.float32)
    session = mixed(True)
    assert set(run(session, TEXTS, thresholds=never)[4]) == {EXITS[-1]}
    np.testing.assert_array_equal(run(session, TEXTS, thresholds=MIXED.confidence)[4], run(session, TEXTS)[4])
    some = exits_by_hand(replace(MIXED, confidence=np.flip(MIXED.confidence)), readings(quantized=True)[1])
    found = run(session, TEXTS, thresholds=np.ascontiguousarray(np.flip(MIXED.confidence)))[4]
    np.testing.assert_array_equal(found, np.asarray(EXITS)[some])


def test_a_topic_head_of_one_exit_reads_that_exit_alone() -> None:
    """A tuned head is as wide as one embedding, a head on a frozen base as all exits so far."""
    narrow = [spread(tiny_heads(place), SEEN[place : place + 1], NEW) for place in range(len(EXITS))]
    session = ort.InferenceSession(
        compose_router(WEIGHTS, narrow, never_early(len(EXITS), TOPICS), quantized=False).SerializeToString()
    )
    expected = read(narrow[-1], SEEN[-1:], NEW, quantized=False)
    found = run(session, TEXTS)
    np.testing.assert_allclose(found[0], expected.logits, atol=1e-3)
    np.testing.assert_allclose(found[1], expected.in_scope, atol=1e-3)


@pytest.mark.parametrize("exits", [(2,), (0,), (1, 2), (0, 1, 2, 3)])
def test_any_number_of_exits(exits: tuple[int, ...]) -> None:
    weights = tiny_weights(exits=exits)
    heads = [tiny_heads(e, place) for place, e in enumerate(exits)]
    for rules, expected in ((never_early(len(exits), TOPICS), exits[-1]), (always(len(exits)), exits[0])):
        session = ort.InferenceSession(compose_router(weights, heads, rules).SerializeToString())
        found = run(session, TEXTS[:9])
        assert set(found[4]) == {expected}
        assert found[3].any() == (expected == exits[-1])


# --- new words -------------------------------------------------------------------------------------

# Texts of no and of one token, unknown letters, a special token inside, and others.
WORDY = [
    [0, 2],
    [0, 5, 2],
    [0, UNK, 2],
    [0, UNK, 7, UNK, 2],
    [0, EOS, 9, 2],
    [0, 9, PAD, BOS, 2],
    *TEXTS[:26],
]


@pytest.mark.parametrize("topics", [1, 7, 8, 9, 17])
@pytest.mark.parametrize("leaving", [True, False])
def test_the_graph_counts_new_words_as_the_heads_do(topics: int, leaving: bool) -> None:
    """At the first and at the last exit, alone and with 31 others, with padding and without."""
    encoder = ort.InferenceSession(encoder_graph(WEIGHTS, quantized=False).SerializeToString())
    z = embed(encoder, WORDY)
    heads = [tiny_heads(place, place, topics=topics) for place in range(len(EXITS))]
    new = novelty(special_known(heads[0]), WORDY)
    heads = [spread(one, z[: place + 1], new) for place, one in enumerate(heads)]
    assert not heads[0].vocabulary[[BOS, EOS, PAD]].all()  # the heads do not care, the graph must
    place = 0 if leaving else EARLY
    expected = read(heads[place], z[: place + 1], new, quantized=False)
    assert np.ptp(new[np.arange(len(WORDY)), expected.topic]) > 0.5
    rules = never_early(len(EXITS), topics)
    rules.confidence[:] = 0 if leaving else NEVER
    rules = replace(rules, min_in_scope=np.zeros(EARLY), max_needs_context=np.ones(EARLY))
    model = compose_router(WEIGHTS, heads, rules, quantized=False)
    session = ort.InferenceSession(model.SerializeToString())
    for length in (0, 16):
        together = run(session, WORDY, length)
        assert set(together[4]) == {EXITS[place]}
        np.testing.assert_allclose(together[1], expected.in_scope, atol=1e-4)
    alone = np.concatenate([run(session, [text])[1] for text in WORDY])
    np.testing.assert_allclose(alone, expected.in_scope, atol=1e-4)


def special_known(heads: Heads) -> Heads:
    vocabulary = heads.vocabulary.copy()
    vocabulary[[BOS, EOS, PAD]] = True
    return replace(heads, vocabulary=vocabulary)


def test_one_new_word_lowers_the_score_by_its_share() -> None:
    """The same text, once with all its words known and once with all but one of four."""
    text = [0, 10, 11, 12, 13, 2]
    scores = []
    for lacking in ([], [12]):
        heads = [
            replace(one, vocabulary=~np.isin(np.arange(50), lacking)[:, None].repeat(TOPICS, 1))
            for one in HEADS
        ]
        model = compose_router(WEIGHTS, heads, never_early(len(EXITS), TOPICS))
        session = ort.InferenceSession(model.SerializeToString())
        share = float(run(session, [text])[1][0])
        scores.append(np.log(share / (1 - share)))
    assert scores[1] - scores[0] == pytest.approx(HEADS[-1].in_scope.novelty / 4, rel=1e-2)


# --- rows that stand alone -------------------------------------------------------------------------


def check_row(found: Row, expected: Row) -> None:
    assert found[4] == expected[4]
    assert found[0].argmax() == expected[0].argmax()
    for a, b in zip(found[:4], expected[:4], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    length = np.linalg.norm(found[3])
    assert length == (0 if found[4] != EXITS[-1] else pytest.approx(1, abs=1e-5))


ROWS = st.lists(st.integers(3, 49), max_size=14).map(lambda inner: [0, *inner, 2])
BATCHES = st.lists(ROWS, min_size=1, max_size=12) | st.lists(st.sampled_from(TEXTS), min_size=1, max_size=40)


@pytest.mark.parametrize("quantized", [True, False])
@settings(max_examples=150, deadline=None, derandomize=True)
@given(batch=BATCHES, length=st.integers(0, 16))
def test_a_row_of_any_batch_has_the_result_it_has_alone(
    quantized: bool, batch: list[list[int]], length: int
) -> None:
    """Any rows, also the same twice, in any order and with any padding."""
    session = mixed(quantized)
    together = run(session, batch, length)
    for row, text in enumerate(batch):
        check_row(tuple(x[row] for x in together), tuple(x[0] for x in run(session, [text])))
