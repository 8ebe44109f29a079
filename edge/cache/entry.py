"""One answer of the agent, kept with the question that it answers and all that limits its use."""

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from edge.normaliser import Lang

# What an entry takes in memory besides its texts and vector: its record, its places in dict, heap and shelf,
# and the rows that a shelf has too many. benchmarks/cache_lookup.py measures it.
OVERHEAD_BYTES = 1500
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "scope": str,
    "question": str,
    "typed": str,
    "text": str,
    "tokens": int,
    "topic": str,
    "lang": str,
    "data_version": str,
    "bundle": str,
    "stored": (int, float),
    "fill_ms": (int, float),
}
_SKEW_SECONDS = 60.0
# A vector that is not of length 1 is none: of NaN, of a text that left early, or of another space.
_LENGTH_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class Entry:
    """``id`` stands for scope and question. ``question`` is in its reading form, ``typed`` has its capitals.

    ``stored`` and ``expires`` are in seconds since the epoch; ``expires`` None: until it is purged.
    ``fill_ms``: how long the agent took, which is what a hit saves. ``tokens``: router tokens of the text.
    ``vector``: the question's embedding, float32 ``[dim]`` of length 1; None where it is known by its words
    alone. What people asked and were told has no repr.
    """

    id: str
    scope: str
    question: str = field(repr=False)
    typed: str = field(repr=False)
    text: str = field(repr=False)
    tokens: int
    topic: str
    lang: Lang
    tags: tuple[str, ...]
    data_version: str
    bundle: str
    stored: float
    expires: float | None
    fill_ms: float
    vector: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        texts = (self.question, self.typed, self.text)
        vector = 0 if self.vector is None else self.vector.nbytes
        return OVERHEAD_BYTES + sum(len(t.encode()) for t in texts) + vector

    def age(self, now: float) -> float:
        """Seconds since it was stored; never below 0."""
        return max(0.0, now - self.stored)

    def left(self, now: float) -> float:
        """For how many seconds it may be served from ``now`` on, 0 where it may not; inf: until it is purged.

        Never longer than it was to live when it was stored: a clock that was put back must not prolong it.
        """
        if self.expires is None:
            return math.inf
        return max(0.0, min(self.expires - now, self.expires - self.stored))

    def is_believed(self, now: float) -> bool:
        """Whether it may be served: it has not ended, and was not stored by a clock that is far ahead."""
        return self.left(now) > 0 and (self.expires is None or self.stored <= now + _SKEW_SECONDS)

    def record(self) -> dict[str, Any]:
        """The entry as JSON can hold it."""
        vector = (
            None if self.vector is None else base64.b64encode(self.vector.astype("<f4").tobytes()).decode()
        )
        names = [*_KINDS, "expires"]
        return {n: getattr(self, n) for n in names} | {"tags": list(self.tags), "vector": vector}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """The entry of a record, which may come from a file or a network. Raises ValueError."""
        try:
            values = {name: record[name] for name in _KINDS}
            tags, expires, coded = record["tags"], record["expires"], record["vector"]
            good = all(isinstance(v, _KINDS[n]) and not isinstance(v, bool) for n, v in values.items())
            good &= isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
            numbers = [values["stored"], values["fill_ms"], 0.0 if expires is None else expires]
            if not good or not all(math.isfinite(number) for number in numbers):
                raise ValueError("a field is of another kind")
            vector = None
            if coded is not None:
                vector = unit_vector(np.frombuffer(base64.b64decode(coded, validate=True), "<f4"))
                if vector is None:
                    raise ValueError("the vector is no embedding")
            values |= {"lang": Lang(values["lang"]), "tags": tuple(tags), "expires": expires}
            entry = cls(**values, vector=vector)
        except (KeyError, TypeError, OverflowError) as exc:
            raise ValueError(f"no entry: {exc}") from exc
        if entry.id != entry_id(entry.scope, entry.question):
            raise ValueError("the id belongs to another question")
        return entry

    def without_vector(self) -> Self:
        """The same, known by its words alone."""
        return replace(self, vector=None)


def entry_id(scope: str, question: str) -> str:
    """The id of a question in a scope: 32 hexadecimal digits."""
    return hashlib.sha256(f"{scope}\n{question}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def unit_vector(vector: np.ndarray) -> np.ndarray | None:
    """An embedding as float32 ``[dim]`` of length 1; None where it is none.

    Zeros (a row that left early), NaN and infinity would be like everything or nothing.
    """
    if vector.ndim != 1 or vector.size == 0:
        return None
    vector = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(vector))
    if not abs(length - 1.0) <= _LENGTH_TOLERANCE:  # neither for NaN
        return None
    return vector / np.float32(length)
