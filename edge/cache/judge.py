"""Whether two questions share their answer: a guard compares their words, a threshold how alike they are."""

from functools import lru_cache
from typing import Generic, Protocol, TypeVar

from edge.normaliser import Lang

_READ = 4096
_Asked = TypeVar("_Asked")


class Guard(Protocol[_Asked]):
    """What a bundle knows of pairs of questions."""

    def read(self, text: str) -> _Asked:
        """A question as ``Normaliser.typed`` gives it, read for comparing."""
        ...

    def score(self, cosine: float, a: _Asked, b: _Asked) -> float:
        """How alike two questions are, in [0, 1]; never above the cosine of their embeddings."""
        ...

    def difference(self, a: _Asked, b: _Asked, lang: Lang) -> str | None:
        """The name of the first thing in which two questions differ; None where nothing does."""
        ...


class Judge(Generic[_Asked]):
    """A guard and the least score, in [0, 1], from which on two questions share an answer."""

    def __init__(self, guard: Guard[_Asked], min_similarity: float) -> None:
        self.min_similarity = min_similarity
        self._guard = guard
        self._read = lru_cache(_READ)(guard.read)  # what is stored is compared again and again

    def apart(self, similarity: float, a: str, b: str, lang: Lang) -> str | None:
        """Why two questions need two answers: ``unlike``, or what differs; None where one will do."""
        one, two = self._read(a), self._read(b)
        if not self._guard.score(similarity, one, two) >= self.min_similarity:  # neither for NaN
            return "unlike"
        return self._guard.difference(one, two, lang)
