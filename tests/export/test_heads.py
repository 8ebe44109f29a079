"""Folds, held readings and calibration of a desk's heads on embeddings made by hand."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

from export.heads import (
    FOLDS,
    GAMMA,
    Head,
    Heads,
    Held,
    ScopeHead,
    TrainingSet,
    features_of,
    fit_heads,
    fold_of,
    log_sum,
    novelty_of,
    strangers_of,
    token_shares,
    vocabulary_of,
)

DIM = 12
Floats = NDArray[np.float32]


def unit(x: NDArray[np.floating[Any]]) -> Floats:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


def clusters(topics: int, each: int, outside: int, noise: float = 0.15) -> tuple[Floats, NDArray[np.int64]]:
    """Topics around the first axes, texts out of scope around the last."""
    chance = np.random.default_rng(0)
    topic = np.repeat(np.arange(topics), each)
    x = np.eye(DIM)[topic]
    away = np.tile(np.eye(DIM)[-1], (outside, 1))
    x = np.concatenate([x, away]) + chance.standard_normal((len(topic) + outside, DIM)) * noise
    return unit(x), np.concatenate([topic, np.full(outside, -1)])


def fit(
    x: Floats,
    topic: NDArray[np.int64],
    folds: NDArray[np.int64] | None = None,
    seed: int = 0,
    words: list[list[int]] | None = None,
    answered: NDArray[np.bool_] | None = None,
) -> Heads:
    """Heads with as many turns that need context as not, told apart by one axis.

    ``words``: the tokens of each text; else all have one word, which every topic has.
    """
    chance = np.random.default_rng(1)
    needs = np.arange(40) < 20
    context = unit(
        chance.standard_normal((40, DIM)) * 0.2 + np.where(needs[:, None], 1, -1) * np.eye(DIM)[-2]
    )
    if folds is None:
        folds = np.arange(len(x)) % FOLDS
    tokens, answered = tokens_of(words or [[0]] * len(x), topic, answered)
    return fit_heads(TrainingSet(x, x, topic, folds, tokens, answered), context, needs, seed)


def tokens_of(
    words: list[list[int]], topic: NDArray[np.int64], answered: NDArray[np.bool_] | None = None
) -> tuple[csr_matrix, NDArray[np.bool_]]:
    size = 1 + max(max(row, default=0) for row in words)
    if answered is None:
        answered = np.zeros((size, topic.max() + 1), bool)
    return token_shares(words, len(answered)), answered


# --- folds -----------------------------------------------------------------------------------------


def test_near_texts_share_a_fold_and_folds_are_even() -> None:
    words = ["open", "returns", "parcel", "invoice", "coupon", "letter", "garden", "music", "bicycle", "tram"]
    texts = [f"{word} {word} {word}" for word in words] + [f"{word} {word} {word}!" for word in words]
    folds = fold_of(texts, 0)
    assert (folds[:10] == folds[10:]).all()
    sizes = Counter(folds.tolist())
    assert set(sizes) == set(range(FOLDS))
    assert max(sizes.values()) - min(sizes.values()) <= 2


def test_folds_depend_on_texts_and_seed_alone() -> None:
    texts = [f"{word} {word}" for word in ["abc", "def", "ghi", "jkl", "mno", "pqr", "stu", "vwx"]]
    assert fold_of(texts, 3).tolist() == fold_of(texts, 3).tolist()
    assert any(fold_of(texts, 3).tolist() != fold_of(texts, seed).tolist() for seed in range(4, 9))


@pytest.mark.parametrize("texts", [["one"], ["same text", "same text!", "Same text"]])
def test_a_tiny_desk_may_have_one_fold(texts: list[str]) -> None:
    assert len(set(fold_of(texts, 0).tolist())) == 1


# --- held readings ---------------------------------------------------------------------------------


def test_accuracy_by_hand() -> None:
    held = Held(
        topic=np.array([0, 1, 2, -1, 1]),
        said=np.array([0, 1, 1, 2, 0]),
        confidence=np.ones(5),
        in_scope=np.ones(5),
    )
    assert held.accuracy == 0.5


def test_clear_topics_are_found_by_heads_that_never_saw_them() -> None:
    x, topic = clusters(4, 12, 30)
    heads = fit(x, topic)
    assert heads.held.accuracy == 1
    np.testing.assert_array_equal(heads.held.topic, topic)
    inside = topic >= 0
    assert heads.held.in_scope[inside].min() > 0.5 > heads.held.in_scope[~inside].max()
    assert ((heads.held.confidence <= heads.held.in_scope) & (heads.held.confidence > 0)).all()
    assert (heads.topics(x).argmax(1) == topic)[inside].all()


def test_held_readings_are_of_heads_that_never_saw_the_text() -> None:
    """Topics drawn by lot: learnt by heart they would all be found, held out no more than by chance."""
    chance = np.random.default_rng(2)
    x = unit(chance.standard_normal((120, 60)))
    topic = chance.integers(0, 4, 120)
    rows, topics = np.concatenate([x, -x[:20]]), np.concatenate([topic, np.full(20, -1)])
    heads = fit_heads(
        TrainingSet(rows, rows, topics, np.arange(140) % FOLDS, *tokens_of([[0]] * 140, topics)),
        unit(chance.standard_normal((40, 60))),
        np.arange(40) < 20,
        0,
    )
    assert (heads.topics(x).argmax(1) == topic).mean() > 0.9
    assert heads.held.accuracy < 0.45


def test_confidence_and_scope_are_what_the_router_makes_of_scores() -> None:
    """Calibrated: of the held texts with a confidence around p, about the share p is right."""
    x, topic = clusters(5, 60, 200, noise=0.45)
    held = fit(x, topic).held
    inside = topic >= 0
    share = held.confidence / held.in_scope
    assert share[inside].mean() == pytest.approx((held.said == topic)[inside].mean(), abs=0.05)
    assert 0.5 < held.accuracy < 0.99


def test_rows_without_a_fold_teach_and_are_never_judged() -> None:
    x, topic = clusters(3, 12, 24)
    folds = np.arange(len(x)) % FOLDS
    folds[::2] = -1
    heads = fit(x, topic, folds)
    np.testing.assert_array_equal(heads.held.topic, topic[1::2])
    assert len(heads.held.said) == len(heads.held.confidence) == len(heads.held.in_scope) == len(x) // 2
    assert heads.held.accuracy == 1
    # A topic whose every text is without a fold is learnt all the same.
    folds[topic == 1] = -1
    assert (fit(x, topic, folds).topics(x).argmax(1) == topic)[topic == 1].all()


def test_the_same_rows_and_seed_give_the_same_heads() -> None:
    x, topic = clusters(3, 8, 20)
    one, two = fit(x, topic), fit(x, topic)
    for a, b in (
        (one.topics, two.topics),
        (one.in_scope.head, two.in_scope.head),
        (one.needs_context, two.needs_context),
    ):
        np.testing.assert_array_equal(a.weight, b.weight)
        np.testing.assert_array_equal(a.bias, b.bias)
    np.testing.assert_array_equal(one.in_scope.centres, two.in_scope.centres)


# --- tiny desks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("topics", [1, 2, 3])
@pytest.mark.parametrize("each", [1, 2, 5])
def test_tiny_desks_get_finite_heads(topics: int, each: int) -> None:
    x, topic = clusters(topics, each, 20)
    heads = fit(x, topic)
    assert heads.topics.weight.shape == (DIM, topics)
    known = np.zeros((len(x), topics))
    for scores in (heads.topics(x), heads.in_scope(x, heads.topics(x), known), heads.needs_context(x)):
        assert np.isfinite(scores).all()
    assert (heads.topics(x).argmax(1) == topic)[topic >= 0].all()


def test_a_topic_that_a_fold_lacks_is_not_found_there() -> None:
    x, topic = clusters(3, 8, 24)
    folds = np.where(topic == 2, 0, np.arange(len(x)) % FOLDS)
    held = fit(x, topic, folds).held
    assert not (held.said[topic == 2] == 2).any()
    assert (held.said == topic)[(topic >= 0) & (topic != 2)].all()


def test_a_topic_that_lies_in_one_fold_whole_does_not_spoil_the_calibration() -> None:
    """Its texts say nothing of a head that has heard of their topic."""
    x, topic = clusters(10, 12, 60, noise=0.3)
    folds = np.arange(len(x)) % FOLDS
    usual = fit(x, topic, folds)
    lonely = fit(x, topic, np.where(topic == 4, 0, folds))
    assert lonely.temperature == pytest.approx(usual.temperature, rel=0.5)
    assert lonely.in_scope.energy > 0


def test_one_fold_for_all_gives_heads_of_which_nothing_is_known() -> None:
    """Texts that are all nearly the same share a fold, so no head can be held out."""
    x, topic = clusters(2, 3, 6)
    heads = fit(x, topic, np.zeros(len(x), np.int64))
    assert np.isfinite(heads.topics(x)).all()
    assert np.isfinite(heads.held.confidence).all()
    assert (heads.topics(x).argmax(1) == topic)[topic >= 0].all()


# --- heads -----------------------------------------------------------------------------------------


def test_a_scaled_head_scales_its_scores() -> None:
    chance = np.random.default_rng(0)
    x = unit(chance.standard_normal((5, DIM)))
    head = Head(chance.standard_normal((DIM, 3)), chance.standard_normal(3))
    np.testing.assert_allclose(head.scaled(2.0, -1.0)(x), 2 * head(x) - 1, atol=1e-5)
    assert head.scaled(2.0).weight.dtype == np.float32
    scope = ScopeHead(x[:2], Head(np.ones((2, 1)), np.zeros(1)))
    by_hand = np.exp(-GAMMA * ((x[:, None] - x[None, :2]) ** 2).sum(2))
    np.testing.assert_allclose(scope.features(x), by_hand, atol=1e-5)
    logits = chance.standard_normal((5, 3))
    energy = np.log(np.exp(logits).sum(1))
    np.testing.assert_allclose(log_sum(logits), energy)
    np.testing.assert_allclose(log_sum(logits + 1e4), energy + 1e4)
    novelty = chance.random((5, 3))
    with_energy = ScopeHead(x[:2], scope.head, 0.5)
    np.testing.assert_allclose(with_energy(x, logits, novelty), by_hand.sum(1) + 0.5 * energy, atol=1e-4)
    whole = ScopeHead(x[:2], scope.head, 0.5, -3.0)
    of_the_best = np.array([novelty[row, topic] for row, topic in enumerate(logits.argmax(1))])
    expected = by_hand.sum(1) + 0.5 * energy - 3 * of_the_best
    np.testing.assert_allclose(whole(x, logits, novelty), expected, atol=1e-4)


def test_features_have_length_one_and_keep_the_exits_apart() -> None:
    z = np.stack([unit(np.random.default_rng(seed).standard_normal((5, DIM))) for seed in range(3)])
    found = features_of(z)
    assert found.shape == (5, 3 * DIM)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(found[:, DIM : 2 * DIM] * np.sqrt(3), z[1], atol=1e-6)


# --- near out of scope -----------------------------------------------------------------------------


@pytest.mark.parametrize("topics", [1, 2 * FOLDS - 1, 2 * FOLDS, 150])
def test_half_of_the_topics_are_left_out_by_one_fold_each(topics: int) -> None:
    left = strangers_of(topics, 0)
    counts = [int((left == fold).sum()) for fold in range(FOLDS)]
    if topics < 2 * FOLDS:
        assert (left == -1).all()
    else:
        assert max(counts) - min(counts) <= 1
        assert sum(counts) == pytest.approx(topics / 2, abs=FOLDS)


def test_what_is_near_a_topic_and_yet_none_is_out_of_scope() -> None:
    """The pool lies far away; another desk's texts lie beside ours, and energy alone tells them apart."""
    topics, chance = 10, np.random.default_rng(3)
    topic = np.repeat(np.arange(topics), 20)
    x = np.eye(DIM)[topic] + chance.standard_normal((200, DIM)) * 0.1
    far = -np.eye(DIM)[chance.integers(0, topics, 80)] + chance.standard_normal((80, DIM)) * 0.1
    heads = fit(unit(np.concatenate([x, far])), np.concatenate([topic, np.full(80, -1)]))
    near = unit(np.eye(DIM)[topics] + chance.standard_normal((60, DIM)) * 0.1)  # a topic of another desk
    known = np.zeros((200, topics))
    scores = heads.in_scope(near, heads.topics(near), known[:60])
    own = unit(x)
    assert heads.in_scope.energy > 0
    assert np.median(scores) < 0 < np.median(heads.in_scope(own, heads.topics(own), known))


# --- new words -------------------------------------------------------------------------------------

WORDS = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=8)


def test_shares_of_tokens_by_hand() -> None:
    found = token_shares([[2, 0, 2, 1], [], [3]], 5).toarray()
    np.testing.assert_allclose(found, [[0.25, 0.25, 0.5, 0, 0], [0] * 5, [0, 0, 0, 1, 0]])


def test_the_vocabulary_of_topics_by_hand() -> None:
    tokens = token_shares([[0, 1], [1, 2], [3], [4]], 6)
    found = vocabulary_of(tokens, np.array([0, 0, 1, -1]), 3)
    assert found.dtype == bool
    assert [np.flatnonzero(column).tolist() for column in found.T] == [[0, 1, 2], [3], []]


def test_new_words_by_hand() -> None:
    vocabulary = np.array([[True, False], [True, True], [False, False]])
    found = novelty_of(token_shares([[0, 1], [0, 2, 2, 1], [], [2]], 3), vocabulary)
    np.testing.assert_allclose(found, [[0, 0.5], [0.5, 0.75], [0, 0], [1, 1]])


@given(words=WORDS, known=st.sets(st.integers(0, 9)))
def test_new_and_known_words_make_the_whole_text(words: list[list[int]], known: set[int]) -> None:
    """What one vocabulary lacks the opposite one has; nothing of a text is new where it taught."""
    vocabulary = np.isin(np.arange(10), list(known))[:, None]
    tokens = token_shares(words, 10)
    new, old = novelty_of(tokens, vocabulary)[:, 0], novelty_of(tokens, ~vocabulary)[:, 0]
    np.testing.assert_allclose(new + old, [float(bool(row)) for row in words])
    assert ((new >= 0) & (new <= 1 + 1e-12)).all()
    own = vocabulary_of(tokens, np.zeros(len(words), np.int64), 1)
    assert not novelty_of(tokens, own).any()


def worded(topics: int, each: int, outside: int) -> tuple[Floats, NDArray[np.int64], list[list[int]]]:
    """Clusters whose texts have two of their topic's three words and one that all texts have.

    Token 0 is the common one; those of topic t begin at 1 + 3 t; what is out of scope has others.
    """
    x, topic = clusters(topics, each, outside)
    chance = np.random.default_rng(4)
    first = 1 + 3 * np.where(topic >= 0, topic, topics)
    return x, topic, [[0, *(start + chance.permutation(3)[:2]).tolist()] for start in first]


def test_heads_know_the_words_of_examples_and_answers() -> None:
    x, topic, words = worded(3, 12, 24)
    answered = np.zeros((20, 3), bool)
    answered[19, 1] = True
    known = fit(x, topic, words=words, answered=answered).vocabulary
    assert [np.flatnonzero(column).tolist() for column in known.T] == [
        [0, 1, 2, 3],
        [0, 4, 5, 6, 19],
        [0, 7, 8, 9],
    ]


def test_a_near_miss_by_one_new_word_scores_lower() -> None:
    """The same embedding and logits; each further word that the topic has nowhere counts against it."""
    x, topic, words = worded(4, 12, 30)
    heads = fit(x, topic, words=words, answered=np.zeros((30, 4), bool))
    one = x[:1].repeat(4, 0)
    asked = token_shares([[0, 1, 2], [0, 1, 29], [0, 4, 29], [28, 4, 29]], 30)
    novelty = novelty_of(asked, heads.vocabulary)
    scores = heads.in_scope(one, heads.topics(one), novelty)
    assert heads.in_scope.novelty < 0
    np.testing.assert_allclose(np.diff(scores), heads.in_scope.novelty / 3, rtol=1e-3)


def test_a_held_text_is_judged_by_the_words_of_the_others() -> None:
    """Its own words would make it look known: one with a word that no other has is held to be farther."""
    x, topic, words = worded(4, 12, 40)
    x[1::12][:4] = x[::12][:4]  # twins of the first text of each topic
    words = [list(row) for row in words]
    answered = np.zeros((30, 4), bool)
    for place in range(0, 48, 12):
        words[place] = [0, 1 + 3 * topic[place], 2 + 3 * topic[place]]
        words[place + 1] = [0, 1 + 3 * topic[place], 20 + topic[place]]
    folds = np.arange(len(x)) // 3 % FOLDS  # twins share a fold, so that the embedding tells nothing
    held = fit(x, topic, folds, words=words, answered=answered).held.in_scope
    logit = np.log(held / (1 - held))
    assert (logit[1:48:12] < logit[0:48:12] - 1).all()
    answered[20 + np.arange(4), np.arange(4)] = True  # but an answer has it, too
    held = fit(x, topic, folds, words=words, answered=answered).held.in_scope
    np.testing.assert_allclose(held[1:48:12], held[0:48:12], atol=1e-6)
