"""The heads of a desk at one exit: topics, in-scope, needs-context; fitted, then calibrated.

A head is calibrated on texts that it has not seen: the examples are cut into folds (near-duplicates
stay together), each fold is judged by heads fitted on the others, and the temperature of the topics
(Guo et al. 2017) and the slopes and offsets of the two probabilities (Platt 1999) are fitted to that.

A general pool shows the in-scope head what is far out of scope, not what is near. So the heads of a fold
also never hear of some topics at all, and the texts of these are judged as out of scope.

Embeddings of near things are near, also where one word makes them another thing ("does it cover theft").
So the in-scope head also counts the words that no example and no answer of the topic has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from export.near import near_groups

FOLDS = 4
# Chosen on the demo desk's calibration questions (docs/router.md has figures). Inverse regularisation on
# unit-length embeddings; C is flat between 10 and 30.
TOPIC_C = 20.0
TOLERANCE = 1e-4  # of the gradient; at 1e-3 a desk of 150 topics lost three points of accuracy
CONTEXT_C = 30.0
SCOPE_C = 5.0
CENTRES = 256
GAMMA = 2.0
SCORE_C = 1e4
# The slope of the share of new words, before the last calibration. Cross-fitting cannot tell it: a held-out
# example differs from the others on purpose, and a topic left out is not a near miss (docs/router.md).
NOVELTY = 35.0
ABSENT = -30.0  # the logit of a topic that a head never heard of
# What a held text is: a topic's, the pool's, of a topic left out, of one that lies in its fold whole.
INSIDE, OUTSIDE, STRANGE, UNHEARD = range(4)


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
    """A radial basis function network, the energy of the topics' logits, and the share of new words, summed.

    The network (Broomhead and Lowe 1988) knows what lies far away: what a desk answers is a set of islands,
    which no plane cuts from the rest. Its features are exp(-GAMMA * |x - centre|²), for unit length
    exp(2 * GAMMA * (x · centre - 1)); ``centres`` float32 ``[CENTRES, dim]``, ``head`` linear on them. The
    energy, log Σ exp(logit) (Liu et al. 2020), knows what is near a topic and yet no topic; ``energy`` is its
    slope. ``novelty`` is the slope of the share of a text's tokens that its best topic has nowhere.
    """

    centres: np.ndarray
    head: Head
    energy: float = 0.0
    novelty: float = 0.0

    def __call__(self, x: np.ndarray, logits: np.ndarray, novelty: np.ndarray) -> np.ndarray:
        """Scores ``[rows]`` of embeddings ``[rows, dim]``, the topics' logits and ``novelty_of``.

        The last two are ``[rows, topics]``.
        """
        best = logits.argmax(1)[:, None]
        share = np.take_along_axis(novelty, best, 1)[:, 0]
        near = self.head(self.features(x))[:, 0]
        return np.asarray(near + self.energy * log_sum(logits) + self.novelty * share)

    def features(self, x: np.ndarray) -> np.ndarray:
        """How near each row is to each centre, ``[rows, CENTRES]``."""
        return np.asarray(np.exp(2 * GAMMA * (x @ self.centres.T - 1)))


def log_sum(logits: np.ndarray) -> np.ndarray:
    """log Σ exp over the last axis."""
    top = logits.max(-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(logits - top).sum(-1)))


@dataclass(frozen=True, slots=True)
class Heads:
    """Calibrated heads: softmax of ``topics`` and sigmoid of the other two are probabilities.

    ``vocabulary``: which tokens each topic has in an example or an answer, bool ``[tokens, topics]``.
    """

    topics: Head
    in_scope: ScopeHead
    needs_context: Head
    vocabulary: np.ndarray
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
    """What one exit sees; ``topic`` is an index, or -1 for out of scope.

    ``embeddings`` ``[rows, dim]`` are the exit's own. ``features`` ``[rows, dims]``, of length 1, are what
    the topic head reads: on a frozen base those of all exits so far (``features_of``), since early ones
    keep the words that later ones blur; after tuning the exit's own.
    ``folds``: rows of one fold are judged by heads fitted without them; -1 is never judged.
    ``tokens`` ``[rows, tokens]``: the share that each token has in a text. ``answered``: which tokens the
    answer of a topic has, bool ``[tokens, topics]``.
    """

    embeddings: np.ndarray
    features: np.ndarray
    topic: np.ndarray
    folds: np.ndarray
    tokens: csr_matrix
    answered: np.ndarray


def token_shares(ids: Sequence[Sequence[int]], size: int) -> csr_matrix:
    """Texts as token ids → ``[texts, size]``, the share of each token in each text."""
    lengths = [len(row) for row in ids]
    columns = [token for row in ids for token in row]
    shares = [1 / length for length in lengths for _ in range(length)]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return csr_matrix((shares, columns, ends), (len(ids), size))


def vocabulary_of(tokens: csr_matrix, topic: np.ndarray, topics: int) -> np.ndarray:
    """Which tokens occur in a topic's texts, bool ``[tokens, topics]``; texts of topic -1 are no topic's."""
    inside = np.flatnonzero(topic >= 0)
    member = csr_matrix((np.ones(len(inside)), (inside, topic[inside])), (len(topic), topics))
    return np.asarray((tokens.T @ member).toarray() > 0)


def novelty_of(tokens: csr_matrix, vocabulary: np.ndarray) -> np.ndarray:
    """The share of each text's tokens that a topic has nowhere, ``[texts, topics]``, in [0, 1]."""
    return np.asarray(tokens @ (~vocabulary).astype(np.float64))


def features_of(embeddings: np.ndarray) -> np.ndarray:
    """The embeddings ``[exits, rows, dim]`` of all exits so far as one row of length 1, ``[rows, dims]``."""
    return np.asarray(np.concatenate(list(embeddings), axis=1) / len(embeddings) ** 0.5)


def fit_heads(
    training: TrainingSet,
    context: np.ndarray,
    needs_context: np.ndarray,
    seed: int,
    learnt: Head | None = None,
) -> Heads:
    """The heads of a desk at one exit.

    ``context`` and ``needs_context`` are embeddings and labels of turns that do or do not need their
    history; the desk's own examples and the pool are added as turns that do not. ``learnt``: a topic head
    that was tuned together with the encoder, on the rows without a fold.
    """
    x, features, topic, folds = training.embeddings, training.features, training.topic, training.folds
    scope = topic >= 0
    topics = training.answered.shape[1]
    strangers = strangers_of(topics, seed)
    parts = []
    for fold in np.unique(folds[folds >= 0]):
        strange = scope & (strangers[topic] == fold)
        known = (folds != fold) & ~strange
        judged = np.flatnonzero((folds == fold) | ((folds >= 0) & strange))
        head = learnt or fit_topics(features[known & scope], topic[known & scope], topics, seed)
        near = _fit_scope(x[known], scope[known], seed)
        unheard = scope & (learnt is None) & ~np.isin(topic, topic[known & scope])
        kind = np.select([strange, unheard, scope], [STRANGE, UNHEARD, INSIDE], OUTSIDE)[judged]
        logits = np.where(strangers == fold, ABSENT, head(features[judged]))
        vocabulary = vocabulary_of(training.tokens[known], topic[known], topics) | training.answered
        novelty = novelty_of(training.tokens[judged], vocabulary)[np.arange(len(judged)), logits.argmax(1)]
        parts.append((judged, kind, logits, near.head(near.features(x[judged]))[:, 0], novelty))
    rows, kind, logits, nearness, novelty = (np.concatenate(column) for column in zip(*parts, strict=True))
    temperature = temperature_of(logits[kind == INSIDE], topic[rows[kind == INSIDE]])
    logits = logits / temperature
    scores = np.stack([nearness, log_sum(logits), novelty], 1)
    slopes, _ = _weigh(scores[:, :2], kind)
    slopes = np.append(slopes, -NOVELTY)
    slope, shift = _weigh((scores @ slopes)[:, None], kind)
    slopes, offset = slopes * slope, shift
    near = _fit_scope(x, scope, seed)
    final = learnt or fit_topics(features[scope], topic[scope], topics, seed)
    kept = np.flatnonzero(kind != STRANGE)
    kept = kept[np.argsort(rows[kept])]
    return Heads(
        topics=final.scaled(1 / temperature),
        in_scope=ScopeHead(near.centres, near.head.scaled(slopes[0], offset), slopes[1], slopes[2]),
        needs_context=_fit_context(x, context, needs_context, seed),
        vocabulary=vocabulary_of(training.tokens, topic, topics) | training.answered,
        temperature=temperature,
        held=_held(logits[kept], (scores @ slopes + offset)[kept], topic[rows[kept]]),
    )


def strangers_of(topics: int, seed: int) -> np.ndarray:
    """The fold whose heads never hear of a topic, int ``[topics]``; half of the topics have none.

    On a small desk every topic counts, so all are known everywhere.
    """
    if topics < 2 * FOLDS:
        return np.full(topics, -1)
    return np.random.default_rng(seed).permutation(topics) % (2 * FOLDS)


def _held(logits: np.ndarray, scope_score: np.ndarray, topic: np.ndarray) -> Held:
    in_scope = 1 / (1 + np.exp(-scope_score))
    share = np.exp(logits.max(1) - log_sum(logits))
    return Held(topic, logits.argmax(1), share * in_scope, in_scope)


def fold_of(texts: Sequence[str], seed: int, count: int = FOLDS) -> np.ndarray:
    """The fold of each text, int ``[texts]``; texts that share most of their trigrams share a fold."""
    groups = near_groups(texts)
    order = np.random.default_rng(seed).permutation(len(groups))
    folds = np.empty(len(texts), np.int64)
    for place, index in enumerate(order):
        folds[groups[index]] = place % count
    return folds


def fit_topics(x: np.ndarray, topic: np.ndarray, topics: int, seed: int) -> Head:
    """A topic head on features ``[rows, dims]`` of length 1; topics that no row has get ``ABSENT``."""
    present = np.unique(topic)
    if len(present) < 2:  # a fold of a tiny desk
        bias = np.full(topics, ABSENT, np.float32)
        bias[present] = 0.0
        return Head(np.zeros((x.shape[1], topics), np.float32), bias)
    model = LogisticRegression(
        C=TOPIC_C, max_iter=500, tol=TOLERANCE, class_weight="balanced", random_state=seed
    )
    model.fit(x, topic)
    # A fold may lack a topic; it then gets a score that no softmax notices.
    weight = np.zeros((x.shape[1], topics), np.float32)
    bias = np.full(topics, ABSENT, np.float32)
    if len(model.classes_) == 2:  # scikit-learn keeps one row for two classes
        weight[:, model.classes_[1]] = model.coef_[0]
        bias[model.classes_] = [0.0, model.intercept_[0]]
    else:
        weight[:, model.classes_] = model.coef_.T
        bias[model.classes_] = model.intercept_
    return Head(weight, bias)


def _weigh(scores: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, float]:
    """The slopes and the offset of several scores ``[rows, scores]`` that make one logit of being in scope.

    In scope and out of it weigh the same, and so do the pool and the topics that were left out.
    """
    scores, kind = scores[kind != UNHEARD], kind[kind != UNHEARD]
    counts = np.bincount(kind, minlength=3)
    outside = [k for k in (OUTSIDE, STRANGE) if counts[k]]
    if not counts[INSIDE] or not outside:  # too few texts were held out to say anything
        return np.eye(1, scores.shape[1])[0], 0.0
    shares = np.zeros(3)
    shares[INSIDE] = 1.0
    shares[outside] = 1 / len(outside)
    middle, spread = scores.mean(0), np.maximum(scores.std(0), 1e-6)
    model = LogisticRegression(C=SCORE_C, max_iter=1000).fit(
        (scores - middle) / spread,
        kind == INSIDE,
        sample_weight=(shares / np.maximum(counts, 1))[kind] * counts[INSIDE],
    )
    slopes = model.coef_[0] / spread
    return np.asarray(slopes), float(model.intercept_[0] - slopes @ middle)


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


def _fit_context(alone: np.ndarray, context: np.ndarray, needs_context: np.ndarray, seed: int) -> Head:
    x = np.concatenate([alone, context])
    y = np.concatenate([np.zeros(len(alone), bool), needs_context])
    head = _fit_binary(x, y, CONTEXT_C, seed)
    folds = np.random.default_rng(seed).integers(FOLDS, size=len(x))
    held = np.empty(len(x))
    for fold in range(FOLDS):
        out = folds == fold
        held[out] = _fit_binary(x[~out], y[~out], CONTEXT_C, seed)(x[out])[:, 0]
    return head.scaled(*_platt(held, y))


def temperature_of(logits: np.ndarray, topic: np.ndarray) -> float:
    """What to divide logits ``[rows, topics]`` by so that their softmax is calibrated (Guo et al. 2017)."""
    if not len(topic):
        return 1.0
    rows = np.arange(len(topic))

    def loss(log_t: float) -> float:
        scaled = logits / np.exp(log_t)
        return float((log_sum(scaled) - scaled[rows, topic]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))


def _platt(scores: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    if y.all() or not y.any():  # too few texts were held out to say anything
        return 1.0, 0.0
    model = LogisticRegression(C=1e6, class_weight="balanced").fit(scores[:, None], y)
    return float(model.coef_[0, 0]), float(model.intercept_[0])
