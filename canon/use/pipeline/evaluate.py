"""A pipeline judged stage by stage on queries whose relevant documents are known.

| number | formula |
| --- | --- |
| recall@100 | the share of the relevant documents that is among the first 100 |
| mrr@10 | 1 / rank of the first relevant document, 0 beyond rank 10 |
| ndcg@10 | Σ_{r≤10} (2^l − 1)/log2(1 + r), over that of the best order of all judged documents, found or not |
| p | of the paired, two-sided t-test over queries of ndcg@10 against the first recall alone |

A document is relevant if its grade is queries.relevant or more; ndcg@10 uses all grades. Means are over all queries.
Shapes: Q queries, k documents of a query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from canon.metrics.queries import dcg_by_query, rank, reciprocal_rank_by_query
from canon.use.pipeline.pipeline import Answered, Pipeline
from canon.use.pipeline.recall import PipelineRequest

MEASURES = ("recall@100", "mrr@10", "ndcg@10")
_FAR, _NEAR = 100, 10
_ROUNDING = 1e-12
_MOVED = 10  # queries that gained most, and as many that lost most


@dataclass(frozen=True)
class JudgedQueries:
    """Queries, what each is called, and the grades of their documents."""

    requests: Sequence[PipelineRequest]
    names: Sequence[str]
    grades: Sequence[Mapping[int, int]]  # of each query: document -> grade


@dataclass(frozen=True)
class Evaluated:
    stages: list[dict[str, Any]]  # a row for each recall alone, for all together, and after each later stage
    moves: list[dict[str, Any]]  # queries that gained or lost most, from the first recall alone to the last stage


def evaluate(pipeline: Pipeline, judged: JudgedQueries, now: float = 0.0) -> Evaluated:
    answers = pipeline.answer(judged.requests, now)
    orders: dict[str, list[np.ndarray]] = {}
    for number, one in enumerate(pipeline.recalls):
        orders[one.name] = [_alone(answer, number) for answer in answers]
    for stage in answers[0].stages if answers else ():
        if stage != "recall" or len(pipeline.recalls) > 1:
            name = "all recalls" if stage == "recall" else stage
            orders[name] = [answer.stages[stage].docs for answer in answers]
    least = pipeline.recipe.queries.relevant
    measured = {name: measures(lists, judged.grades, least) for name, lists in orders.items()}
    first = next(iter(measured.values()))["ndcg@10"]
    rows = []
    for name, values in measured.items():
        means = {measure: float(values[measure].mean()) for measure in MEASURES}
        rows.append({"stage": name, **means, "p": paired_p(first, values["ndcg@10"])})
    return Evaluated(rows, _moves(judged, first, list(measured.values())[-1]["ndcg@10"]))


def _moves(judged: JudgedQueries, before: np.ndarray, after: np.ndarray) -> list[dict[str, Any]]:
    """By falling gain."""
    order = np.argsort(before - after, kind="stable")
    chosen = order if len(order) <= 2 * _MOVED else np.concatenate([order[:_MOVED], order[-_MOVED:]])
    return [
        {"query": judged.names[query], "before": float(before[query]), "after": float(after[query])}
        for query in chosen.tolist()
    ]


def _alone(answer: Answered, number: int) -> np.ndarray:
    """The documents of one recall, by its own ranks."""
    ranks = answer.recalled.ranks[:, number]
    places = np.flatnonzero(ranks)
    return answer.recalled.candidates.docs[places[np.argsort(ranks[places])]]


def measures(lists: Sequence[np.ndarray], grades: Sequence[Mapping[int, int]], least: int) -> dict[str, np.ndarray]:
    """[Q] of each measure, of documents in order."""
    labels = [
        np.array([grade_of.get(doc, 0) for doc in docs.tolist()], dtype=np.float64)
        for docs, grade_of in zip(lists, grades, strict=True)
    ]
    ideal = [np.array(sorted(grade_of.values(), reverse=True), dtype=np.float64) for grade_of in grades]
    relevant = np.array([sum(grade >= least for grade in grade_of.values()) for grade_of in grades])
    retrieved = np.array([(one[:_FAR] >= least).sum() for one in labels])
    dcg, best = _dcg(labels), _dcg(ideal)
    return {
        "recall@100": retrieved / np.maximum(relevant, 1),
        "mrr@10": _per_query(labels, lambda ranked: reciprocal_rank_by_query(ranked, k=_NEAR, threshold=least)),
        "ndcg@10": np.divide(dcg, best, out=np.zeros(len(dcg)), where=best > 0),
    }


def _dcg(labels: Sequence[np.ndarray]) -> np.ndarray:
    return _per_query(labels, lambda ranked: dcg_by_query(ranked, k=_NEAR))


def _per_query(labels: Sequence[np.ndarray], measure: Any) -> np.ndarray:
    """A list without documents has 0."""
    sizes = np.array([len(one) for one in labels])
    values = np.zeros(len(sizes))
    if sizes.any():
        places = np.concatenate([np.arange(size) for size in sizes])
        ranked = rank(np.concatenate(list(labels)), -places, sizes=sizes[sizes > 0], ties="order")
        values[sizes > 0] = measure(ranked)
    return values


def paired_p(first: np.ndarray, other: np.ndarray) -> float | None:
    """None where there is nothing to test: one query, or equal differences, rounding aside."""
    from scipy.stats import ttest_rel

    difference = other - first
    if len(first) < 2 or difference.std() <= _ROUNDING:
        return None
    return float(ttest_rel(other, first).pvalue)
