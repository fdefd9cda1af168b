"""Ranking measures as means over queries, and the conventions under which other tools report NDCG.

Papers and formulas: see `queries`, which computes each measure per query; here they are averaged.
`CONVENTIONS` holds what LightGBM, XGBoost, scikit-learn and trec_eval each mean by "NDCG": gain, value of a query
without a relevant document, order of equal scores, and the precision scores are kept in. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from numpy.typing import ArrayLike

from canon.metrics._checks import choice
from canon.metrics.queries import (
    Empty,
    Gain,
    average_precision_by_query,
    cg_by_query,
    dcg_by_query,
    expected_reciprocal_rank_by_query,
    hit_by_query,
    mean_over_queries,
    ndcg_by_query,
    precision_by_query,
    rank,
    recall_by_query,
    reciprocal_rank_by_query,
)


@dataclass(frozen=True)
class Convention:
    """What "NDCG" means: the arguments of `ndcg`, under one name."""

    name: str
    gain: Gain
    empty: Empty
    ties: str
    precision: str

    def __str__(self) -> str:
        gain = self.gain if isinstance(self.gain, str) else "table"
        return f"{self.name}: gain={gain}, empty={self.empty}, ties={self.ties}, precision={self.precision}"


CONVENTIONS = {
    convention.name: convention
    for convention in (
        Convention("canon", gain="exponential", empty=0.0, ties="average", precision="given"),
        Convention("lightgbm", gain="exponential", empty=1.0, ties="order", precision="given"),
        Convention("xgboost", gain="exponential", empty=1.0, ties="order", precision="float32"),
        Convention("sklearn", gain="linear", empty=0.0, ties="average", precision="given"),
        Convention("trec", gain="linear", empty=0.0, ties="document", precision="float32"),
    )
}


def convention(
    preset: str = "canon",
    *,
    gain: Gain | None = None,
    empty: Empty | None = None,
    ties: str | None = None,
    precision: str | None = None,
) -> Convention:
    """The named record, with every given field changed (and the name marked so)."""
    found = CONVENTIONS[choice("preset", preset, tuple(CONVENTIONS))]
    if gain is not None:
        found = replace(found, gain=gain)
    if empty is not None:
        found = replace(found, empty=empty)
    if ties is not None:
        found = replace(found, ties=ties)
    if precision is not None:
        found = replace(found, precision=precision)
    return found if found == CONVENTIONS[preset] else replace(found, name=f"{preset}, changed")


class Grouping(TypedDict, total=False):
    """How documents form queries and how equal scores are ordered: the keyword arguments of `queries.rank`."""

    groups: ArrayLike | None
    sizes: ArrayLike | None
    documents: ArrayLike | None
    ties: str
    precision: str


def _untied(grouping: Grouping) -> Grouping:
    # These measures have no simple mean over tied orders. The default is the one that flatters nobody and does not
    # depend on the order of rows: with all scores equal, a relevant document comes last.
    grouping.setdefault("ties", "worst")
    return grouping


def ndcg(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    documents: ArrayLike | None = None,
    k: int | None = None,
    preset: str = "canon",
    gain: Gain | None = None,
    empty: Empty | None = None,
    ties: str | None = None,
    precision: str | None = None,
) -> float:
    """Mean over queries of DCG@k / ideal DCG@k.

    preset: "canon" (default: gain exponential, empty 0, ties averaged), "lightgbm", "xgboost", "sklearn" or "trec";
    the later arguments change one field of it each. gain: "exponential" 2^l − 1, "linear" l, "binary" [l > 0], or a
    table indexed by label. empty: the value of a query with nothing relevant, or "skip". k: None is the whole
    list. groups, sizes, documents, ties, precision: see `queries.rank`.
    """
    how = convention(preset, gain=gain, empty=empty, ties=ties, precision=precision)
    ranked = rank(
        relevance,
        scores,
        groups=groups,
        sizes=sizes,
        documents=documents,
        ties=how.ties,
        precision=how.precision,
    )
    return mean_over_queries(ndcg_by_query(ranked, k=k, gain=how.gain, empty=how.empty))


def cg(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    k: int | None = None,
    gain: Gain = "linear",
    **grouping: Unpack[Grouping],
) -> float:
    """Mean over queries of Σ_{i≤k} g(l_i); ties averaged unless said otherwise."""
    return mean_over_queries(cg_by_query(rank(relevance, scores, **grouping), k=k, gain=gain))


def dcg(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    k: int | None = None,
    gain: Gain = "exponential",
    log_base: float = 2,
    **grouping: Unpack[Grouping],
) -> float:
    """Mean over queries of Σ_{i≤k} g(l_i) / log_b(i+1); gain "linear" is the other form; ties averaged by default."""
    return mean_over_queries(dcg_by_query(rank(relevance, scores, **grouping), k=k, gain=gain, log_base=log_base))


def precision_at(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    k: int | None,
    threshold: float = 1.0,
    short: str = "k",
    empty: Empty = 0.0,
    **grouping: Unpack[Grouping],
) -> float:
    """P@k: relevant (label ≥ threshold) among the first k, over k; short="length" divides by min(k, documents)."""
    ranked = rank(relevance, scores, **grouping)
    return mean_over_queries(precision_by_query(ranked, k=k, threshold=threshold, short=short, empty=empty))


def recall_at(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    k: int | None,
    threshold: float = 1.0,
    empty: Empty = 0.0,
    **grouping: Unpack[Grouping],
) -> float:
    """Relevant (label ≥ threshold) among the first k, over all relevant of the query."""
    return mean_over_queries(
        recall_by_query(rank(relevance, scores, **grouping), k=k, threshold=threshold, empty=empty)
    )


def hit_rate(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    k: int | None,
    threshold: float = 1.0,
    empty: Empty = 0.0,
    **grouping: Unpack[Grouping],
) -> float:
    """HR@k: share of queries with a relevant document among the first k; ties "worst" by default."""
    ranked = rank(relevance, scores, **_untied(grouping))
    return mean_over_queries(hit_by_query(ranked, k=k, threshold=threshold, empty=empty))


def mean_average_precision(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    k: int | None = None,
    threshold: float = 1.0,
    denominator: str = "relevant",
    empty: Empty = 0.0,
    **grouping: Unpack[Grouping],
) -> float:
    """MAP@k, and AP when there is one query: mean of (1/D) Σ_{i≤k} P@i·rel_i; ties "worst" by default.

    denominator: "relevant" (default; trec_eval) divides by all relevant documents, "cutoff" by min(relevant, k)
    (LightGBM, XGBoost).
    """
    ranked = rank(relevance, scores, **_untied(grouping))
    return mean_over_queries(
        average_precision_by_query(ranked, k=k, threshold=threshold, denominator=denominator, empty=empty)
    )


def mean_reciprocal_rank(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    k: int | None = None,
    threshold: float = 1.0,
    empty: Empty = 0.0,
    **grouping: Unpack[Grouping],
) -> float:
    """MRR@k: mean of 1 / rank of the first relevant document, 0 beyond k; ties "worst" by default."""
    ranked = rank(relevance, scores, **_untied(grouping))
    return mean_over_queries(reciprocal_rank_by_query(ranked, k=k, threshold=threshold, empty=empty))


def expected_reciprocal_rank(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    k: int | None = None,
    max_relevance: float | None = None,
    empty: Empty = 0.0,
    **grouping: Unpack[Grouping],
) -> float:
    """ERR@k: mean of Σ_{i≤k} (1/i) R_i ∏_{j<i} (1 − R_j), R = (2^l − 1)/2^max; ties "worst" by default.

    max_relevance: the top grade of the scale; None (default) takes the largest label given.
    """
    ranked = rank(relevance, scores, **_untied(grouping))
    return mean_over_queries(expected_reciprocal_rank_by_query(ranked, k=k, max_relevance=max_relevance, empty=empty))
