"""The heads of a desk on frozen embeddings: topics, in-scope, needs-context; fitted, then calibrated.

A head is calibrated on texts that it has not seen: the examples are cut into folds (near-duplicates
stay together), each fold is judged by heads fitted on the others, and the temperature of the topics
(Guo et al. 2017) and the slope and offset of the two probabilities (Platt 1999) are fitted to that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

from export.near import near_groups

FOLDS = 4
# Chosen on the demo desk's calibration questions (docs/base.md has the table). Inverse regularisation on
# unit-length embeddings; C is flat between 10 and 30.
TOPIC_C = 20.0
TOLERANCE = 1e-4  # of the gradient; at 1e-3 a desk of 150 topics lost three points of accuracy
CONTEXT_C = 30.0
SCOPE_C = 5.0
CENTRES = 256
GAMMA = 2.0


@dataclass(frozen=True, slots=True)
class Head:
    """``x @ weight + bias``; weight float32 ``[dim, outputs]``, bias float32 ``[outputs]``."""

    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Scores ``[rows, outputs]``."""
        return np.asarray(x @ self.weight + self.bias)

    def scaled(self, slope: float, offset: float = 0.0) -> "Head":
        """The head whose scores are ``slope * score + offset``."""
        return Head((self.weight * slope).astype(np.float32), (self.bias * slope + offset).astype(np.float32))


@dataclass(frozen=True, slots=True)
class ScopeHead:
    """A radial basis function network (Broomhead and Lowe 1988) on unit-length embeddings.

    What a desk answers is a set of islands, which no plane cuts from the rest. The features are
    exp(-GAMMA * |x - centre|²), which for unit length is exp(2 * GAMMA * (x · centre - 1));
    ``centres`` float32 ``[CENTRES, dim]``, ``head`` a linear head on the features.
    """

    centres: np.ndarray
    head: Head

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Scores ``[rows, 1]``."""
        return self.head(self.features(x))

    def features(self, x: np.ndarray) -> np.ndarray:
        """How near each row is to each centre, ``[rows, CENTRES]``."""
        return np.asarray(np.exp(2 * GAMMA * (x @ self.centres.T - 1)))

    def scaled(self, slope: float, offset: float) -> "ScopeHead":
        """The head whose scores are ``slope * score + offset``."""
        return ScopeHead(self.centres, self.head.scaled(slope, offset))


@dataclass(frozen=True, slots=True)
class Heads:
    """Calibrated heads: softmax of ``topics`` and sigmoid of the other two are probabilities."""

    topics: Head
    in_scope: ScopeHead
    needs_context: Head
    temperature: float
    held: "Held"


@dataclass(frozen=True, slots=True)
class Held:
    """What heads that never saw a text say of it, calibrated; one entry a judged text.

    ``topic`` is the right one, -1 for out of scope; ``said`` the one that was found.
    """

    topic: np.ndarray
    said: np.ndarray
    confidence: np.ndarray
    in_scope: np.ndarray

    @property
    def accuracy(self) -> float:
        """The share of the texts in scope whose topic was found."""
        inside = self.topic >= 0
        return float((self.said[inside] == self.topic[inside]).mean()) if inside.any() else 0.0


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Embeddings ``[rows, dim]``; ``topic`` is an index, or -1 for out of scope.

    ``folds``: rows of one fold are judged by heads fitted without them; -1 is never judged.
    """

    embeddings: np.ndarray
    topic: np.ndarray
    folds: np.ndarray


def fit_heads(training: TrainingSet, context: np.ndarray, needs_context: np.ndarray, seed: int) -> Heads:
    """The heads of a desk.

    ``context`` and ``needs_context`` are embeddings and labels of turns that do or do not need their
    history; the desk's own examples are added as turns that do not.
    """
    x, topic, folds = training.embeddings, training.topic, training.folds
    scope, judged = topic >= 0, folds >= 0
    topics = int(topic.max()) + 1
    held_topics, held_scope = np.full((len(x), topics), -np.inf), np.zeros(len(x))
    for fold in np.unique(folds[judged]):
        out = folds == fold
        head = _fit_topics(x[~out & scope], topic[~out & scope], topics, seed)
        held_topics[out] = head(x[out])
        held_scope[out] = _fit_scope(x[~out], scope[~out], seed)(x[out])[:, 0]
    temperature = _temperature(held_topics[judged & scope], topic[judged & scope])
    slope, offset = _platt(held_scope[judged], scope[judged])
    return Heads(
        topics=_fit_topics(x[scope], topic[scope], topics, seed).scaled(1 / temperature),
        in_scope=_fit_scope(x, scope, seed).scaled(slope, offset),
        needs_context=_fit_context(x[scope], context, needs_context, seed),
        temperature=temperature,
        held=_held(held_topics[judged] / temperature, slope * held_scope[judged] + offset, topic[judged]),
    )


def _held(logits: np.ndarray, scope_score: np.ndarray, topic: np.ndarray) -> Held:
    in_scope = 1 / (1 + np.exp(-scope_score))
    best = logits.max(1)
    share = 1 / np.exp(logits - best[:, None]).sum(1)
    return Held(topic, logits.argmax(1), share * in_scope, in_scope)


def fold_of(texts: Sequence[str], seed: int, count: int = FOLDS) -> np.ndarray:
    """The fold of each text, int ``[texts]``; texts that share most of their trigrams share a fold."""
    groups = near_groups(texts)
    order = np.random.default_rng(seed).permutation(len(groups))
    folds = np.empty(len(texts), np.int64)
    for place, index in enumerate(order):
        folds[groups[index]] = place % count
    return folds


def _fit_topics(x: np.ndarray, topic: np.ndarray, topics: int, seed: int) -> Head:
    present = np.unique(topic)
    if len(present) < 2:  # a fold of a tiny desk
        bias = np.full(topics, -30.0, np.float32)
        bias[present] = 0.0
        return Head(np.zeros((x.shape[1], topics), np.float32), bias)
    model = LogisticRegression(
        C=TOPIC_C, max_iter=500, tol=TOLERANCE, class_weight="balanced", random_state=seed
    )
    model.fit(x, topic)
    # A fold may lack a topic; it then gets a score that no softmax notices.
    weight = np.zeros((x.shape[1], topics), np.float32)
    bias = np.full(topics, -30.0, np.float32)
    if len(model.classes_) == 2:  # scikit-learn keeps one row for two classes
        weight[:, model.classes_[1]] = model.coef_[0]
        bias[model.classes_] = [0.0, model.intercept_[0]]
    else:
        weight[:, model.classes_] = model.coef_.T
        bias[model.classes_] = model.intercept_
    return Head(weight, bias)


def _fit_scope(x: np.ndarray, y: np.ndarray, seed: int) -> ScopeHead:
    # Rows drawn at random are as good centres as those of k-means (AUROC 85.1 against 84.1 by
    # cross-fitting on the demo desk), and cost nothing.
    drawn = np.random.default_rng(seed).choice(len(x), min(CENTRES, len(x)), replace=False)
    empty = ScopeHead(x[drawn].astype(np.float32), Head(np.zeros((len(drawn), 1)), np.zeros(1)))
    return ScopeHead(empty.centres, _fit_binary(empty.features(x), y, SCOPE_C, seed))


def _fit_binary(x: np.ndarray, y: np.ndarray, c: float, seed: int) -> Head:
    if y.all() or not y.any():  # a fold of a tiny desk may hold only one kind
        return Head(np.zeros((x.shape[1], 1), np.float32), np.full(1, 4.0 if y.all() else -4.0, np.float32))
    model = LogisticRegression(C=c, max_iter=1000, class_weight="balanced", random_state=seed)
    model.fit(x, y)
    return Head(model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32))


def _fit_context(examples: np.ndarray, context: np.ndarray, needs_context: np.ndarray, seed: int) -> Head:
    x = np.concatenate([examples, context])
    y = np.concatenate([np.zeros(len(examples), bool), needs_context])
    head = _fit_binary(x, y, CONTEXT_C, seed)
    folds = np.random.default_rng(seed).integers(FOLDS, size=len(x))
    held = np.empty(len(x))
    for fold in range(FOLDS):
        out = folds == fold
        held[out] = _fit_binary(x[~out], y[~out], CONTEXT_C, seed)(x[out])[:, 0]
    return head.scaled(*_platt(held, y))


def _temperature(logits: np.ndarray, topic: np.ndarray) -> float:
    if not len(topic):
        return 1.0
    rows = np.arange(len(topic))

    def loss(log_t: float) -> float:
        scaled = logits / np.exp(log_t)
        top = scaled.max(1, keepdims=True)
        log_sum = top[:, 0] + np.log(np.exp(scaled - top).sum(1))
        return float((log_sum - scaled[rows, topic]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))


def _platt(scores: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    if y.all() or not y.any():  # too few texts were held out to say anything
        return 1.0, 0.0
    model = LogisticRegression(C=1e6, class_weight="balanced").fit(scores[:, None], y)
    return float(model.coef_[0, 0]), float(model.intercept_[0])
