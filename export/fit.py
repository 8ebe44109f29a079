"""The heads of a desk at every exit of the base student."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from export.desk import Desk
from export.encoder import Encoder
from export.heads import Head, Heads, TrainingSet, features_of, fit_heads, fold_of, vocabulary_of
from export.pools import Pools
from export.progress import Progress
from export.traffic import NOTHING, Taught

# A pool text nearer than this to an example may well ask what the desk answers.
_TOO_NEAR = 0.8


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of tuning the encoder on the desk: a topic head for every exit.

    ``held``: the texts that it has not seen, which calibrate the heads. Without tuning the texts are judged
    by turns, by heads that did not see them. ``taught``: texts that it learnt beside the desk's own; they
    fit heads and judge none.
    """

    topics: tuple[Head, ...]
    held: frozenset[str]
    taught: Taught = NOTHING


def examples_of(desk: Desk) -> list[tuple[str, int]]:
    """Every example with the index of its topic."""
    return [
        (text, place)
        for place, topic in enumerate(desk.topics)
        for texts in topic.examples.values()
        for text in texts
    ]


def answered_by(desk: Desk, base: Encoder) -> np.ndarray:
    """Which tokens a topic's answer or title has, bool ``[tokens, topics]``."""
    texts = [
        (text, place)
        for place, topic in enumerate(desk.topics)
        for text in (*topic.answer.values(), *topic.title.values())
    ]
    tokens = base.tokens([text for text, _ in texts])
    return vocabulary_of(tokens, np.array([place for _, place in texts]), len(desk.topics))


def away(pool: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Which pool texts ask what no example asks: bool ``[pool]``, from embeddings of the untuned base."""
    return np.asarray((pool @ examples.T).max(1) < _TOO_NEAR)


def fit_desk(
    desk: Desk, base: Encoder, pools: Pools, seed: int, tuned: Tuned | None = None
) -> tuple[Heads, ...]:
    """The heads of every exit, the last one's last."""
    taught = NOTHING if tuned is None else tuned.taught
    examples = [*examples_of(desk), *taught.examples]
    labelled = [*desk.out_of_scope, *taught.outliers]
    out_of_scope = [*pools.out_of_scope, *labelled]
    x = base.embed([text for text, _ in examples], "Embedding the examples")
    pool = base.embed(out_of_scope, "Embedding the out-of-scope pool")
    # An encoder that was tuned on the desk has no such measure any more; its pool was sifted before.
    kept = away(pool[-1], x[-1]) if tuned is None else np.ones(pool.shape[1], bool)
    kept[len(pools.out_of_scope) :] = True  # what somebody said of this desk
    texts = [*(text for text, _ in examples), *np.array(out_of_scope, object)[kept]]
    topic = np.array([place for _, place in examples] + [-1] * int(kept.sum()))
    context = base.embed([*pools.follow_ups, *pools.stand_alone], "Embedding the follow-up pool")
    needs_context = np.arange(context.shape[1]) < len(pools.follow_ups)
    folds = fold_of(texts, seed)
    if tuned is not None:
        folds[[text not in tuned.held for text in texts]] = -1
    own = np.concatenate([x, pool[:, kept]], axis=1)
    tokens, answered = base.tokens(texts), answered_by(desk, base)
    progress = Progress("Fitting the heads", len(base.exits))

    def fit(place: int) -> Heads:
        features = features_of(own[: place + 1]) if tuned is None else own[place]
        training = TrainingSet(own[place], features, topic, folds, tokens, answered)
        learnt = None if tuned is None else tuned.topics[place]
        heads = fit_heads(training, context[place], needs_context, seed, learnt)
        progress.add(1)
        return heads

    # The exits side by side, each on one thread: threads that wait for each other within a product make
    # these fits several times as slow.
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as threads:
        heads = tuple(threads.map(fit, reversed(range(len(base.exits)))))
    progress.end()
    return heads[::-1]
