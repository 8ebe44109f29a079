"""Near-duplicates: texts that share most of their letter trigrams."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

# Trigram Jaccard similarity from which on two texts are the same question to a person who skims.
NEAR = 0.6


def trigrams(text: str) -> set[str]:
    """The runs of three letters or digits of a text; a text without any is one run of its own."""
    letters = re.sub(r"[\W_]", "", text.lower())
    return {letters[i : i + 3] for i in range(max(1, len(letters) - 2))} if letters else {text}


def near_pairs(texts: Sequence[str], least: float = NEAR) -> Iterator[tuple[int, int]]:
    """The pairs (i, j), j < i, of texts whose trigrams have a Jaccard similarity of ``least`` or more."""
    grams = [trigrams(text) for text in texts]
    by_gram: dict[str, list[int]] = defaultdict(list)
    for i, own in enumerate(grams):
        shared: dict[int, int] = defaultdict(int)
        for gram in own:
            for j in by_gram[gram]:
                shared[j] += 1
            by_gram[gram].append(i)
        for j, count in shared.items():
            if count >= least * (len(own) + len(grams[j]) - count):
                yield i, j


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
