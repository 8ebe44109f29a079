"""The examples of a desk, each judged by heads that never saw it or a near-duplicate."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from edge.normaliser import Lang
from export.desk import Desk, DeskTopic
from export.encoder import Encoder
from export.heads import features_of, fit_topics, fold_of, log_sum, temperature_of
from export.progress import Progress


@dataclass(frozen=True, slots=True)
class Example:
    """A text of a topic; ``topic`` is the topic's place in the desk, ``where`` is ``file:line``."""

    text: str
    topic: int
    lang: Lang
    where: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found of each example.

    ``embeddings`` float32 ``[exits, rows, dim]``, L2-normalised; ``topic`` int ``[rows]``, the one in whose
    list a text stands; ``probability`` ``[rows, topics]``, calibrated, each row of sum 1, by heads that did
    not see the row; ``heard`` bool ``[rows]``: whether these heads knew its topic at all (all examples of a
    topic may be near-duplicates of each other); ``temperature`` made the logits probabilities.
    """

    topics: tuple[DeskTopic, ...]
    examples: tuple[Example, ...]
    embeddings: np.ndarray
    topic: np.ndarray
    probability: np.ndarray
    heard: np.ndarray
    temperature: float = 1.0

    @property
    def said(self) -> np.ndarray:
        """The most probable topic of each example, int ``[rows]``."""
        return np.asarray(self.probability.argmax(1))

    @property
    def own(self) -> np.ndarray:
        """The probability of the topic in whose list an example stands, ``[rows]``."""
        return np.asarray(self.probability[np.arange(len(self.topic)), self.topic])

    @property
    def recall(self) -> np.ndarray:
        """The share of a topic's examples that the others recognise, ``[topics]``; 1 if none was judged."""
        hits = np.bincount(self.topic[self.heard & (self.said == self.topic)], minlength=len(self.topics))
        counts = np.bincount(self.topic[self.heard], minlength=len(self.topics))
        return np.asarray(np.where(counts, hits / np.maximum(counts, 1), 1.0))


def examples_with_places(desk: Desk) -> tuple[Example, ...]:
    """Every example of a desk, topic by topic."""
    return tuple(
        Example(text, number, lang, topic.where_of(lang, place))
        for number, topic in enumerate(desk.topics)
        for lang, texts in topic.examples.items()
        for place, text in enumerate(texts)
    )


def judge(desk: Desk, base: Encoder, seed: int = 0) -> Judged:
    """Embed the examples and judge each by the heads of the last exit that were fitted on the other folds."""
    examples = examples_with_places(desk)
    texts = [example.text for example in examples]
    x = base.embed(texts, "Embedding the examples")
    topic = np.array([example.topic for example in examples])
    logits, heard = _cross_fit(features_of(x), topic, fold_of(texts, seed), len(desk.topics), seed)
    temperature = temperature_of(logits[heard], topic[heard])
    return Judged(desk.topics, examples, x, topic, softmax(logits / temperature), heard, temperature)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis."""
    return np.asarray(np.exp(logits - log_sum(logits)[..., None]))


def _cross_fit(
    features: np.ndarray, topic: np.ndarray, folds: np.ndarray, topics: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Logits ``[rows, topics]`` of heads that did not see the row, and whether they knew its topic."""
    logits = np.zeros((len(topic), topics))
    heard = np.zeros(len(topic), bool)
    present = [fold for fold in np.unique(folds) if (folds != fold).any()]
    progress = Progress("Judging the examples", len(present))

    def fit(fold: int) -> None:
        out = folds == fold
        logits[out] = fit_topics(features[~out], topic[~out], topics, seed)(features[out])
        heard[out] = np.isin(topic[out], topic[~out])
        progress.add(1)

    # As in training: side by side, each on one thread.
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(fit, present))
    progress.end()
    return logits, heard
