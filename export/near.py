"""Near-duplicates: texts that share most of their letter trigrams."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

# Trigram Jaccard similarity from which on two texts are the same question to a person who skims.
NEAR = 0.6


def trigrams(text: str) -> set[str]:
    """The runs of three letters or digits of a text; a text without any is one run of its own."""
    letters = re.sub(r"[\W_]", "", text.lower())
    return {letters[i : i + 3] for i in range(max(1, len(letters) - 2))} if letters else {text}


def near_pairs(texts: Sequence[str], least: float = NEAR) -> Iterator[tuple[int, int]]:
    """The pairs (i, j), j < i, of texts whose trigrams have a Jaccard similarity of ``least`` or more.

    Of a text with n trigrams, one of the n - ⌈least · n⌉ + 1 rarest is among the other's rarest too (the
    prefix filter of Chaudhuri et al. 2006), so only few pairs are compared.
    """
    grams = [trigrams(text) for text in texts]
    uses = Counter(gram for own in grams for gram in own)
    by_gram: dict[str, list[int]] = defaultdict(list)
    for i, own in enumerate(grams):
        rarest = sorted(own, key=lambda gram: (uses[gram], gram))[
            : len(own) - math.ceil(least * len(own)) + 1
        ]
        for j in sorted({j for gram in rarest for j in by_gram[gram]}):
            other = grams[j]
            common = len(own & other)
            if common >= least * (len(own) + len(other) - common):
                yield i, j
        for gram in rarest:
            by_gram[gram].append(i)


def near_any(texts: Sequence[str], others: Sequence[str], least: float = NEAR) -> set[int]:
    """The places of the texts that are, or nearly are, one of the others."""
    first = len(others)
    return {i - first for i, j in near_pairs([*others, *texts], least) if i >= first > j}


def near_groups(texts: Sequence[str]) -> list[list[int]]:
    """Indices of texts, grouped by nearness, transitively."""
    parent = list(range(len(texts)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, j in near_pairs(texts):
        parent[root(i)] = root(j)
    groups: dict[int, list[int]] = defaultdict(list)
    for i in range(len(texts)):
        groups[root(i)].append(i)
    return list(groups.values())
