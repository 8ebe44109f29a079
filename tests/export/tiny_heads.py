"""Random heads, and what a router must read in an embedding, in numpy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from export.heads import GAMMA, Head, Heads, Held, ScopeHead, features_of, novelty_of, token_shares
from export.quantize import quantize_rows

Floats = NDArray[np.float32]
NOTHING_HELD = Held(*(np.empty(0),) * 4)
TOKENS = 50  # those of a tiny encoder


def tiny_heads(seed: int, place: int = 0, width: int = 48, topics: int = 7, centres: int = 9) -> Heads:
    """Heads whose readings spread: sure and unsure topics, texts in and out of scope, turns of both kinds.

    The vocabulary is the same whatever the seed: all exits of a desk share it.
    """
    chance = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float) -> Floats:
        return (chance.standard_normal((rows, columns)) * scale).astype(np.float32)

    def head(rows: int, columns: int, scale: float) -> Head:
        return Head(matrix(rows, columns, scale), matrix(1, columns, 0.3)[0])

    places = matrix(centres, width, 1.0)
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    return Heads(
        topics=head(width * (place + 1), topics, 4.0),
        in_scope=ScopeHead(places, head(centres, 1, 20.0), 2.0, -30.0),
        needs_context=head(width, 1, 4.0),
        vocabulary=np.random.default_rng(7).random((TOKENS, topics)) < 0.6,
        temperature=1.0,
        held=NOTHING_HELD,
    )


def novelty(heads: Heads, texts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """The share of new tokens [texts, topics] of texts as token ids between their two ends."""
    return novelty_of(token_shares([text[1:-1] for text in texts], len(heads.vocabulary)), heads.vocabulary)


def spread(heads: Heads, seen: Floats, new: NDArray[np.float64]) -> Heads:
    """The heads with probabilities that spread around 0.73 (in scope) and 0.38 (needs context).

    ``seen``: the embeddings [exits so far, rows, width]; ``new``: their ``novelty``.
    """

    def slope_and_offset(scores: Floats, middle: float) -> tuple[float, float]:
        slope = 1.5 / float(scores.std())
        return slope, middle - slope * float(np.median(scores))

    scope, needs = heads.in_scope, heads.needs_context
    slope, offset = slope_and_offset(scope(seen[-1], heads.topics(features_of(seen)), new), 1.0)
    return replace(
        heads,
        in_scope=ScopeHead(
            scope.centres, scope.head.scaled(slope, offset), scope.energy * slope, scope.novelty * slope
        ),
        needs_context=needs.scaled(*slope_and_offset(needs(seen[-1]), -0.5)),
    )


@dataclass(frozen=True, slots=True)
class Readings:
    """What heads say of embeddings [rows, width]; ``confidence`` is the best topic's."""

    logits: Floats
    in_scope: Floats
    needs_context: Floats

    @property
    def topic(self) -> NDArray[np.int64]:
        return np.asarray(self.logits.argmax(1))

    @property
    def confidence(self) -> Floats:
        shares = np.exp(self.logits - self.logits.max(1, keepdims=True))
        return np.asarray(self.in_scope / shares.sum(1))


def read(heads: Heads, seen: Floats, new: NDArray[np.float64], *, quantized: bool) -> Readings:
    """The heads on embeddings [exits so far, rows, width] and their ``novelty``.

    INT8 stores topics and centres row by row.
    """

    def stored(weight: Floats) -> Floats:
        return quantize_rows(weight).restored() if quantized else weight

    z, scope = seen[-1], heads.in_scope
    centres = stored(np.asarray(2 * GAMMA * scope.centres, np.float32)) / np.float32(2 * GAMMA)
    weight = stored(np.ascontiguousarray(heads.topics.weight.T / np.sqrt(len(seen))))
    logits = np.concatenate(list(seen), axis=1) @ weight.T + heads.topics.bias
    return Readings(
        logits,
        sigmoid(replace(scope, centres=centres)(z, logits, new)),
        sigmoid(heads.needs_context(z)[:, 0]),
    )


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))
