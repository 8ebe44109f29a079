"""What users ask and the desk does not cover: questions that fit no topic, or fit one in unusual words."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from sklearn.cluster import AgglomerativeClustering
from threadpoolctl import threadpool_limits

from export.advice.asked import Asked
from export.advice.judged import Judged, softmax
from export.check import Finding
from export.encoder import Encoder
from export.fit import away
from export.heads import features_of, fit_topics
from export.pools import Pools
from export.progress import Progress

COVERED = 0.6  # probability of the best topic; below it a question fits no topic well
ALIKE = 0.35  # mean cosine similarity of two groups of questions that are one
LEAST = 5  # questions that make a gap, counting repetitions
MOST = 5000  # different texts that are grouped, those asked most; a matrix of all pairs is made of them
UNLIKE = 0.05  # as far from a topic's examples as this share of the examples is from the others of its topic
SHOWN = 3


def find_gaps(
    judged: Judged, base: Encoder, pools: Pools, asked: Sequence[Asked], seed: int = 0
) -> list[Finding]:
    """Groups of questions that fit no topic, the largest and closest first; then topics in unusual words."""
    first: dict[str, Asked] = {}
    times: Counter[str] = Counter()
    for question in asked:
        key = base.normaliser.reading(question.text)
        first.setdefault(key, question)
        times[key] += 1
    keys = [key for key, _ in times.most_common()]
    questions = [first[key] for key in keys]
    counts = np.array([times[key] for key in keys])
    texts = [*(question.text for question in questions), *pools.out_of_scope]
    embedded = base.embed(texts, "Embedding the questions and the out-of-scope pool")
    x, pool = embedded[:, : len(questions)], embedded[:, len(questions) :]
    probability = _probability(judged, pool, x, seed)
    said, confidence = probability.argmax(1), probability.max(1)
    strangers = np.flatnonzero(confidence < COVERED)[:MOST]
    nearness = _nearness(judged, x[-1], said)
    odd = (confidence >= COVERED) & (nearness < np.quantile(_usual_nearness(judged), UNLIKE))
    return [
        *_groups(judged, questions, x[-1], said, counts, strangers),
        *_unlike(judged, questions, nearness, said, counts, odd),
    ]


def group(x: np.ndarray) -> np.ndarray:
    """The group of each row of unit-length embeddings ``[rows, dim]``, int ``[rows]``, by average linkage."""
    if len(x) < 2:
        return np.zeros(len(x), np.int64)
    model = AgglomerativeClustering(
        n_clusters=None, metric="cosine", linkage="average", distance_threshold=1 - ALIKE
    )
    return np.asarray(model.fit_predict(x))


def alikeness(x: np.ndarray) -> float:
    """Mean cosine similarity of the pairs of unit-length rows ``[rows, dim]``; 1 for a single row."""
    count = len(x)
    return 1.0 if count < 2 else float(((x.sum(0) ** 2).sum() - count) / (count * (count - 1)))


def _probability(judged: Judged, pool: np.ndarray, x: np.ndarray, seed: int) -> np.ndarray:
    """How probable each topic is for embeddings ``x`` ``[exits, rows, dim]``: ``[rows, topics]``.

    The out-of-scope pool is one more topic, which takes what is missing in a row's sum. Pool texts that
    ask what an example asks are left out.
    """
    topics = len(judged.topics)
    kept = away(pool[-1], judged.embeddings[-1])
    features = features_of(np.concatenate([judged.embeddings, pool[:, kept]], axis=1))
    topic = np.concatenate([judged.topic, np.full(int(kept.sum()), topics)])
    progress = Progress("Learning what no topic covers", 1)
    with threadpool_limits(1):
        head = fit_topics(features, topic, topics + 1, seed)
    progress.add()
    progress.end()
    return softmax(head(features_of(x)) / judged.temperature)[:, :topics]


def _nearness(judged: Judged, x: np.ndarray, said: np.ndarray) -> np.ndarray:
    """Cosine similarity of each row to the nearest example of the topic said of it, ``[rows]``."""
    out = np.empty(len(x))
    for number in np.unique(said):
        rows = said == number
        out[rows] = (x[rows] @ judged.embeddings[-1][judged.topic == number].T).max(1)
    return out


def _usual_nearness(judged: Judged) -> np.ndarray:
    """The same of each example to the nearest other one of its topic; lone ones are left out."""
    parts = []
    for number in np.unique(judged.topic):
        x = judged.embeddings[-1][judged.topic == number]
        if len(x) > 1:
            similarity = x @ x.T
            np.fill_diagonal(similarity, -1.0)
            parts.append(similarity.max(1))
    return np.concatenate(parts) if parts else np.zeros(1)


def _groups(
    judged: Judged,
    questions: Sequence[Asked],
    x: np.ndarray,
    said: np.ndarray,
    counts: np.ndarray,
    strangers: np.ndarray,
) -> list[Finding]:
    labels = group(x[strangers])
    groups = [strangers[labels == label] for label in np.unique(labels)]
    groups = [rows for rows in groups if counts[rows].sum() >= LEAST]
    # A loose group of many is less of a topic than a close one of nearly as many.
    groups.sort(key=lambda rows: -counts[rows].sum() * alikeness(x[rows]))
    found = []
    for rows in groups:
        middle = (x[rows] * counts[rows, None]).sum(0)
        typical = rows[np.argsort(-(x[rows] @ middle), kind="stable")[:SHOWN]]
        found.append(
            Finding(
                "advice",
                questions[typical[0]].where,
                f"{counts[rows].sum()} questions look alike and fit no topic well: consider a topic for them"
                + _nearest(judged, said[rows], counts[rows]),
                "gap",
                _texts(questions, typical),
            )
        )
    return found


def _nearest(judged: Judged, said: np.ndarray, counts: np.ndarray) -> str:
    """The end of the advice: the topic that most of a group are nearest to, where there is one."""
    votes = np.bincount(said, counts)
    if 2 * votes.max() < votes.sum():
        return ", or leave them to the agent."
    topic = judged.topics[int(votes.argmax())].id
    return f", or add them to {topic}, to which {int(votes.max())} of them are nearest, if they belong there."


def _unlike(
    judged: Judged,
    questions: Sequence[Asked],
    nearness: np.ndarray,
    said: np.ndarray,
    counts: np.ndarray,
    odd: np.ndarray,
) -> list[Finding]:
    sizes = np.bincount(said[odd], counts[odd], minlength=len(judged.topics))
    found = []
    for number in np.argsort(-sizes, kind="stable"):
        if sizes[number] < LEAST:
            break
        rows = np.flatnonzero(odd & (said == number))
        rows = rows[np.argsort(nearness[rows], kind="stable")[:SHOWN]]
        topic = judged.topics[number]
        found.append(
            Finding(
                "advice",
                topic.where,
                f"{int(sizes[number])} questions fall to {topic.id} though unlike its examples: add such "
                "examples to it, or to the topic that they belong to.",
                "unlike",
                _texts(questions, rows),
            )
        )
    return found


def _texts(questions: Sequence[Asked], rows: np.ndarray) -> tuple[str, ...]:
    return tuple(f"{questions[row].where}: {questions[row].text!r}" for row in rows)
