"""Heads on two embeddings that were tried for the cache, and what they reach beside the cosine.

Logistic regressions on what a pair's embeddings multiply to, differ by, and share in words, trained on our
own paraphrases with near misses and on sentences with one translation; judged on public tuning halves.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from cache_sets import Pair, paraphrases, translations
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from edge.normaliser import Lang
from export.encoder import Encoder

_ROWS = 20_000
FEATURES = ("cosine", "cosine, product", "cosine, product, difference", "cosine, product, difference, words")


def heads(data: Path, base: Encoder, judged: Mapping[str, Sequence[Pair]]) -> dict[str, Any]:
    """AUROC of each head on each set."""
    chance = random.Random(0)
    own = chance.sample(paraphrases(), _ROWS)
    trained = {"own": own, "own and translations": [*own, *_translated(data, base, chance)]}
    texts = sorted({t for some in (*trained.values(), *judged.values()) for p in some for t in (p.a, p.b)})
    found = dict(zip(texts, base.embed(texts)[-1], strict=True))
    tokens = {text: frozenset(base.ids(base.normaliser.reading(text))) for text in texts}
    result: dict[str, Any] = {}
    for rows, pairs in trained.items():
        same = [pair.same for pair in pairs]
        for features in FEATURES:
            table = _table(pairs, found, tokens, features)
            head = LogisticRegression(C=0.003, max_iter=300, class_weight="balanced").fit(table, same)
            result.setdefault(rows, {})[features] = {
                name: round(
                    float(
                        roc_auc_score(
                            [pair.same for pair in some],
                            head.decision_function(_table(some, found, tokens, features)),
                        )
                    ),
                    3,
                )
                for name, some in judged.items()
            }
    return result


def _translated(data: Path, base: Encoder, chance: random.Random) -> list[Pair]:
    """Sentences that share a translation, and of others' sentences the nearest."""
    groups = translations(data)
    texts = [text for group in groups for text in group]
    owner = np.array([i for i, group in enumerate(groups) for _ in group])
    rows = base.embed(texts)[-1]
    lang = [base.normaliser.lang(base.normaliser.reading(text)) or Lang.EN for text in texts]
    pairs = [Pair(a, b, True, Lang.EN) for group in groups for a, b in combinations(group, 2)]
    for i in chance.sample(range(len(texts)), len(pairs)):
        near = rows @ rows[i]
        near[(owner == owner[i]) | np.array([other is not lang[i] for other in lang])] = -1
        pairs.append(Pair(texts[i], texts[int(near.argmax())], False, lang[i]))
    return pairs


def _table(
    pairs: Sequence[Pair],
    found: Mapping[str, np.ndarray],
    tokens: Mapping[str, frozenset[int]],
    features: str,
) -> np.ndarray:
    a = np.array([found[pair.a] for pair in pairs])
    b = np.array([found[pair.b] for pair in pairs])
    columns = [5 * (a * b).sum(1, keepdims=True)]
    if "product" in features:
        columns.append(20 * a * b)
    if "difference" in features:
        columns.append(10 * np.abs(a - b))
    if "words" in features:
        shared = [len(tokens[p.a] & tokens[p.b]) / max(1, len(tokens[p.a] | tokens[p.b])) for p in pairs]
        columns.append(5 * np.array(shared)[:, None])
    return np.concatenate(columns, axis=1)
