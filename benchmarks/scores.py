"""How well a score tells right from wrong and in scope from out of scope."""

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

KEEP = 0.95  # share of in-scope texts that a threshold must let through


def percent(hits: np.ndarray) -> float:
    return round(100 * float(hits.mean()), 2)


def quality(right: np.ndarray, score: np.ndarray, inside: np.ndarray, valid: np.ndarray) -> dict[str, Any]:
    """Figures of a score, in per cent.

    ``right`` and ``valid`` (scores of validation rows, which set the threshold) are of in-scope rows alone,
    ``score`` and ``inside`` of all test rows.
    """
    kept = score >= np.quantile(valid, 1 - KEEP)
    found = {"kept": percent(kept[inside]), "accuracy_of_kept": percent(right[kept[inside]])}
    if not inside.all():
        found["oos_auroc"] = round(100 * float(roc_auc_score(inside, score)), 2)
        found["oos_recall_keeping_95"] = percent(~kept[~inside])
    return found
