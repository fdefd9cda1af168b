"""Measures of retrieval from the relevance of the first K results of each query.

| measure | formula |
| --- | --- |
| recall@k | relevant rows among the first k / relevant rows |
| hit@k | 1 where one is among the first k |
| mrr@k | 1 / rank of the first, 0 after k |
| ndcg@k | Σ_{i ≤ k} rel_i / log₂(i + 1), over that of the best order |
| map@k | Σ_{i ≤ k} P@i · rel_i / min(k, relevant rows) |
Queries without relevant rows are left out; `unanswered` counts them. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from canon.errors import CanonError
from canon.metrics._checks import classes, numbers

CUTS = (1, 10, 100)


def retrieval_scores(relevant_QK: ArrayLike, totals_Q: ArrayLike, ks: Sequence[int] = (1, 10)) -> dict[str, float]:
    """The measures at each k, as means over queries with relevant rows.

    relevant_QK: whether the result at each rank is relevant; totals_Q: relevant rows of each query in all."""
    hits_QK, totals = numbers("relevant_QK", relevant_QK, dims=2) > 0, classes("totals_Q", totals_Q)
    if totals.dtype.kind == "U":
        raise CanonError("totals_Q must be whole numbers, got texts.")
    if totals.shape != hits_QK.shape[:1]:
        raise CanonError(f"Retrieval takes [queries, ranks] and [queries], got {hits_QK.shape} and {totals.shape}.")
    if (hits_QK.sum(1) > totals).any():
        raise CanonError("A query has more relevant results than relevant rows.")
    asked = totals > 0
    if not asked.any():
        raise CanonError("No query has a relevant row, so there is nothing to average.")
    hits, totals = hits_QK[asked].astype(np.float64), totals[asked]
    ranks = np.arange(1, hits.shape[1] + 1)
    discount = 1 / np.log2(ranks + 1)
    precision = np.cumsum(hits, axis=1) / ranks
    scores = {"unanswered": float((~asked).sum())}
    for k in ks:
        top, most = hits[:, :k], np.minimum(totals, k)
        ideal = np.cumsum(1 / np.log2(np.arange(1, max(int(most.max()), 1) + 1) + 1))[most - 1]
        first = np.where(top.any(1), 1 / (top.argmax(1) + 1), 0.0)
        scores |= {
            f"recall@{k}": float((top.sum(1) / totals).mean()),
            f"hit@{k}": float(top.any(1).mean()),
            f"mrr@{k}": float(first.mean()),
            f"ndcg@{k}": float(((top * discount[:k]).sum(1) / ideal).mean()),
            f"map@{k}": float(((top * precision[:, :k]).sum(1) / most).mean()),
        }
    return scores
