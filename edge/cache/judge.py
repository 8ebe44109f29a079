"""Whether one answer does for two questions: a guard compares their words, a threshold how alike they are."""

from functools import lru_cache

from edge.normaliser import Lang
from edge.pairs import PairGuard, unshared

_READ = 4096


class Judge:
    """A guard and the least cosine, in [0, 1], from which on two questions share an answer.

    Nothing may differ, and neither question may speak of anything that the other does not: in a long question
    one word more ("a cheap laptop", "X1 Pro") moves neither the cosine nor the score of the pair.
    """

    def __init__(self, guard: PairGuard, min_similarity: float) -> None:
        self.min_similarity = min_similarity
        self._guard = guard
        self._read = lru_cache(_READ)(guard.read)  # what is stored is compared again and again

    def apart(self, similarity: float, a: str, b: str, lang: Lang) -> str | None:
        """Why two questions need two answers, in snake_case; None where one will do.

        ``unlike``, ``unshared`` or what differs, as ``PairGuard`` names it. ``a`` and ``b``: as
        ``Normaliser.typed`` gives them.
        """
        if not similarity >= self.min_similarity:  # neither for NaN
            return "unlike"
        one, two = self._read(a), self._read(b)
        return self._guard.difference(one, two, lang) or ("unshared" if unshared(one, two) else None)
