"""The order of each query's documents, from a score for each document, whatever learned the scores.

Outputs have one row for each document, query after query. NDCG is measured in two conventions: canon's (gain 2^l − 1,
discount 1/log₂(1 + r), equal scores averaged, 0 without a relevant document) and, as `letor_ndcg@k`, that of LETOR's
Eval-Score-4.0.pl (discounts 1, 1, 1/log₂ 3 …; 0 for queries of fewer than k documents; equal scores in file order).
Relevant is a grade of 1 or more. In MAP, MRR and P@k equal scores have the least relevant first. No query is left out.
Shapes: Q queries, N documents.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon import metrics
from canon.data.batching.lists import Lists
from canon.data.schema import Columns
from canon.tasks import guesses
from canon.tasks.base import OfLists, Outputs, Task

CUTS, PRECISE = (1, 3, 5, 10), (5, 10)


class RankingScores(Task, OfLists):
    monitor = "ndcg@10"

    def names(self) -> tuple[str, ...]:
        at = tuple(f"{name}@{k}" for name in ("ndcg", "letor_ndcg") for k in CUTS)
        return (*at, *(f"precision@{k}" for k in PRECISE), "map", "mrr", "letor_ndcg")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        return measures(columns["target"], outputs["scores"])

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        grades: Any = columns["target"]
        both = (
            metrics.rank(grades.values, scores_N, sizes=grades.lengths, ties="average")
            for scores_N in (outputs["scores"], np.zeros(len(grades.values)))
        )
        reached_Q, chance_Q = (metrics.ndcg_by_query(ranked, k=10) for ranked in both)
        return guesses.of_order(reached_Q, chance_Q, self.monitor)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """The first `top` documents of each query; one without a name is called by its place in the query."""
        queries, names, start = columns["input"], columns["document"], 0
        assert isinstance(queries, Lists) and isinstance(names, Lists)
        rows = []
        for query, size in enumerate(queries.lengths.tolist()):
            scores = outputs["scores"][start : start + size]
            start += size
            order = np.argsort(-scores, kind="stable")[:top].tolist()
            best = [
                {"document": names[query][place] or str(place + 1), "score": float(scores[place])} for place in order
            ]
            name = str(columns["query"][query])  # type: ignore[index]
            rows.append({"query": name, "prediction": best[0]["document"], "top": best})
        return rows


def measures(grades: Any, scores_N: np.ndarray) -> dict[str, float]:
    """All metrics, as means over queries; grades: canon.data.batching.lists.Grades."""
    sizes, labels = grades.lengths, grades.values
    ranked = {ties: metrics.rank(labels, scores_N, sizes=sizes, ties=ties) for ties in ("average", "order", "worst")}
    letor = metrics.CONVENTIONS["letor"]
    by_query = {}
    for k in CUTS:
        by_query[f"ndcg@{k}"] = metrics.ndcg_by_query(ranked["average"], k=k)
        by_query[f"letor_ndcg@{k}"] = metrics.ndcg_by_query(
            ranked["order"], k=k, discount=letor.discount, short=letor.short
        )
    by_query |= {f"precision@{k}": metrics.precision_by_query(ranked["worst"], k=k) for k in PRECISE}
    by_query["map"] = metrics.average_precision_by_query(ranked["worst"])
    by_query["mrr"] = metrics.reciprocal_rank_by_query(ranked["worst"])
    by_query["letor_ndcg"] = metrics.mean_ndcg_by_query(ranked["order"], discount=letor.discount)
    return {name: metrics.mean_over_queries(values) for name, values in by_query.items()}
