"""Documents sorted within their queries, and every ranking measure per query.

Papers: Järvelin and Kekäläinen (2002) (CG, DCG, NDCG), Burges et al. (2005) (the 2^l − 1 gain), McSherry and Najork
(2008) (averaging over ties), Voorhees (1999) (MRR), Chapelle et al. (2009) (ERR).
`rank` sorts once; each `…_by_query` reads the sorted lists and returns one number per query:
CG@k = Σ g(l_i) · DCG@k = Σ g(l_i) / log_b(i+1) · NDCG = DCG / ideal DCG · P@k, recall@k, hit@k from the relevant ones
in the first k · AP = (1/R) Σ P@i·rel_i · RR = 1 / rank of the first · ERR = Σ (1/i) R_i ∏_{j<i} (1 − R_j).
No Python loop over documents or queries (ERR loops over the depth of relevant documents). Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canon.errors import CanonError, unknown
from canon.metrics._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    array,
    choice,
    cutoff,
    logarithm,
    number,
    numbers,
    same_length,
)

TIES = ("average", "order", "document", "worst", "best")
GAINS = ("exponential", "linear", "binary")
DISCOUNTS = ("log2", "letor")
SHORTS = ("list", "zero")

Gain = str | Sequence[float]
Empty = float | str


@dataclass(frozen=True)
class Ranked:
    """All documents, query by query, best score first.

    relevance, query, position: the label, the query's index and the place (0 is first) of each document.
    tie: index of the run of equal scores it belongs to, or None when ties were broken. ids: one per query; sizes too.
    """

    relevance: FloatArray
    query: IntArray
    position: IntArray
    tie: IntArray | None
    ids: NDArray[Any]
    sizes: IntArray


def _queries(n: int, groups: ArrayLike | None, sizes: ArrayLike | None) -> tuple[IntArray, NDArray[Any], IntArray]:
    """Query index of each document, query ids, documents per query."""
    if groups is not None and sizes is not None:
        raise CanonError("groups (a query id per document) and sizes (documents per query) exclude each other.")
    if sizes is not None:
        counts = numbers("sizes", sizes)
        if counts.dtype.kind not in "iu" or counts.min() < 0 or int(counts.sum()) != n:
            raise CanonError(f"sizes must be whole numbers that sum to the {n} documents, got sum {counts.sum():g}.")
        return np.repeat(np.arange(len(counts)), counts), np.arange(len(counts)), counts.astype(np.int64)
    if groups is None:
        return np.zeros(n, dtype=np.int64), np.zeros(1, dtype=np.int64), np.array([n], dtype=np.int64)
    names = array("groups", groups)
    if len(names) != n:
        raise CanonError(f"groups must hold a query id for each of the {n} documents, got {len(names)}; see sizes.")
    ids, query, counts = np.unique(names, return_inverse=True, return_counts=True)
    return query.astype(np.int64), ids, counts.astype(np.int64)


def _places(sizes: IntArray) -> IntArray:
    """0, 1, 2 … within each query, for documents laid out query by query."""
    starts = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) - np.repeat(starts, sizes)


def rank(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    documents: ArrayLike | None = None,
    ties: str = "average",
    precision: str = "given",
) -> Ranked:
    """Sort documents by falling score within each query.

    groups: a query id per document, in any order (queries come out in sorted order of id); sizes: documents per
    query, laid out one query after another; neither: one query. ties: "average" (measures average over all orders of
    equal scores), "order" (input order), "document" (falling document id as text, which needs `documents`; trec_eval's
    rule), "worst" and "best" (least or most relevant first). precision: "given", or "float32" to round scores
    first, as tools that store them so do.
    """
    choice("ties", ties, TIES)
    choice("precision", precision, ("given", "float32"))
    labels = numbers("relevance", relevance, finite=True).astype(np.float64)
    values = numbers("scores", scores)
    same_length("relevance", labels, "scores", values)
    if labels.min() < 0:
        raise CanonError(f"relevance must not be negative, got {labels.min():g} at position {int(labels.argmin())}.")
    query, ids, counts = _queries(len(labels), groups, sizes)
    values = values.astype(np.float32 if precision == "float32" else np.float64)
    keys: list[Any] = [-values, query]
    if ties == "document":
        if documents is None:
            raise CanonError('ties="document" breaks ties by document id; pass documents, or another ties.')
        names = array("documents", documents)
        same_length("relevance", labels, "documents", names)
        # Unicode code points sort as their UTF-8 bytes do, so this is strcmp order.
        keys.insert(0, -np.unique(names.astype(str), return_inverse=True)[1])
    elif ties in ("worst", "best"):
        keys.insert(0, labels if ties == "worst" else -labels)
    order = np.lexsort(keys)  # stable: what the keys leave equal stays in input order
    tie = None
    if ties == "average":
        s, q = values[order], query[order]
        new = np.ones(len(order), dtype=np.int64)
        new[1:] = (s[1:] != s[:-1]) | (q[1:] != q[:-1])
        tie = np.cumsum(new) - 1
    return Ranked(labels[order], query[order], _places(counts), tie, ids, counts)


def gains(relevance: FloatArray, gain: Gain) -> FloatArray:
    """2^l − 1 ("exponential"), l ("linear"), [l > 0] ("binary"), or gain[l] from a table."""
    if isinstance(gain, str):
        choice("gain", gain, GAINS)
        if gain == "linear":
            return relevance
        if gain == "binary":
            return (relevance > 0).astype(np.float64)
        if relevance.max() > 1000:
            raise CanonError(f"gain 2^l − 1 overflows at relevance {relevance.max():g}; use gain linear or a table.")
        return np.exp2(relevance) - 1
    table = numbers("gain", gain).astype(np.float64)
    index = relevance.astype(np.int64)
    if (index != relevance).any() or index.max() >= len(table):
        raise CanonError(f"relevance must be whole numbers below {len(table)}, the length of the gain table.")
    return table[index]


def _shared(ranked: Ranked, values: FloatArray) -> FloatArray:
    """Each value replaced by the mean over its run of equal scores: the expectation over all orders of the run."""
    if ranked.tie is None:
        return values
    return (np.bincount(ranked.tie, weights=values) / np.bincount(ranked.tie))[ranked.tie]


def _broken(ranked: Ranked, measure: str) -> None:
    if ranked.tie is not None:
        raise CanonError(f'{measure} cannot average over ties; rank with ties "order", "document", "worst" or "best".')


def _sum(ranked: Ranked, values: FloatArray | BoolArray) -> FloatArray:
    return np.bincount(ranked.query, weights=values, minlength=len(ranked.sizes)).astype(np.float64)


def _top(ranked: Ranked, k: int | None) -> BoolArray:
    k = cutoff(k)
    return np.ones(len(ranked.position), dtype=bool) if k is None else ranked.position < k


def fill_empty(values: FloatArray, has_relevant: BoolArray, empty: Empty) -> FloatArray:
    """`empty` where a query has nothing relevant: a number, or "skip", which is NaN here and left out of means."""
    if isinstance(empty, str):
        if empty != "skip":
            raise unknown("empty", empty, ["skip"])
        return np.where(has_relevant, values, np.nan)
    return np.where(has_relevant, values, number("empty", empty, finite=False))


def mean_over_queries(values: FloatArray) -> float:
    """Mean over the queries that were not skipped."""
    kept = values[~np.isnan(values)]
    if not len(kept):
        raise CanonError('No query has a relevant document, so empty="skip" leaves nothing to average.')
    return float(kept.mean())


def _relevant(ranked: Ranked, threshold: float) -> BoolArray:
    return ranked.relevance >= number("threshold", threshold)


def _hits(ranked: Ranked, k: int | None, threshold: float) -> tuple[FloatArray, FloatArray]:
    """How many relevant documents each query has among its first k, and in all."""
    hit = _relevant(ranked, threshold)
    return _sum(ranked, _shared(ranked, hit.astype(np.float64)) * _top(ranked, k)), _sum(ranked, hit)


def cg_by_query(ranked: Ranked, *, k: int | None = None, gain: Gain = "linear") -> FloatArray:
    """CG@k = Σ_{i≤k} g(l_i)."""
    return _sum(ranked, _shared(ranked, gains(ranked.relevance, gain)) * _top(ranked, k))


def _discount(position: IntArray, discount: str, base: float = 2) -> FloatArray:
    """What a gain at a place is divided by: log_b(i + 1) ("log2"), or 1, 1, log2 3, log2 4 … ("letor")."""
    choice("discount", discount, DISCOUNTS)
    if discount == "letor":
        return np.log2(np.maximum(position + 1, 2).astype(np.float64))
    return logarithm(base)((position + 2).astype(np.float64))


def _discounted(
    ranked: Ranked, ranked_gains: FloatArray, k: int | None, base: float, discount: str = "log2"
) -> FloatArray:
    return _sum(ranked, ranked_gains * (_top(ranked, k) / _discount(ranked.position, discount, base)))


def dcg_by_query(
    ranked: Ranked,
    *,
    k: int | None = None,
    gain: Gain = "exponential",
    log_base: float = 2,
    discount: str = "log2",
) -> FloatArray:
    """DCG@k = Σ_{i≤k} g(l_i) / log_b(i+1); gain "linear" is the other form; discount "letor": / 1, 1, log2 3, …"""
    return _discounted(ranked, _shared(ranked, gains(ranked.relevance, gain)), k, log_base, discount)


def ndcg_by_query(
    ranked: Ranked,
    *,
    k: int | None = None,
    gain: Gain = "exponential",
    empty: Empty = 0.0,
    discount: str = "log2",
    short: str = "list",
) -> FloatArray:
    """DCG@k over the DCG@k of the same documents in the best order; `empty` where that is 0. A query of fewer than k
    documents is measured on those it has (short="list", default) or is 0 (short="zero")."""
    choice("short", short, SHORTS)
    gained = gains(ranked.relevance, gain)
    best = gained[np.lexsort((-gained, ranked.query))]
    ideal = _discounted(ranked, best, k, 2, discount)
    dcg = _discounted(ranked, _shared(ranked, gained), k, 2, discount)
    values = dcg / np.where(ideal > 0, ideal, 1)
    if short == "zero" and k is not None:
        values = np.where(ranked.sizes < k, 0.0, values)
    return fill_empty(values, ideal > 0, empty)


def mean_ndcg_by_query(
    ranked: Ranked, *, gain: Gain = "exponential", empty: Empty = 0.0, discount: str = "log2"
) -> FloatArray:
    """(1/n) Σ_k NDCG@k over k = 1 … n, n the documents of the query: MeanNDCG of LETOR's scripts."""
    weight = 1 / _discount(ranked.position, discount)
    gained = gains(ranked.relevance, gain)
    best = gained[np.lexsort((-gained, ranked.query))]
    starts = np.cumsum(ranked.sizes) - ranked.sizes

    def so_far(values: FloatArray) -> FloatArray:
        """Sums of the first 1, 2, … n of each query."""
        total = np.concatenate([[0.0], np.cumsum(values)])
        return total[1:] - np.repeat(total[starts], ranked.sizes)

    ideal, dcg = so_far(best * weight), so_far(_shared(ranked, gained) * weight)
    relevant = _sum(ranked, gained) > 0
    at = np.where(relevant[ranked.query], dcg / np.where(ideal > 0, ideal, 1), 0.0)
    return fill_empty(_sum(ranked, at) / np.maximum(ranked.sizes, 1), relevant, empty)


def precision_by_query(
    ranked: Ranked, *, k: int | None = None, threshold: float = 1.0, short: str = "k", empty: Empty = 0.0
) -> FloatArray:
    """P@k: relevant (label ≥ threshold) among the first k, over k (short="k", default) or over min(k, documents)
    (short="length")."""
    choice("short", short, ("k", "length"))
    hits, total = _hits(ranked, k, threshold)
    size = np.maximum(ranked.sizes, 1)
    if k is not None:
        size = np.minimum(size, k) if short == "length" else np.full_like(size, k)
    return fill_empty(hits / size, total > 0, empty)


def recall_by_query(ranked: Ranked, *, k: int | None = None, threshold: float = 1.0, empty: Empty = 0.0) -> FloatArray:
    """Relevant (label ≥ threshold) among the first k, over all relevant of the query."""
    hits, total = _hits(ranked, k, threshold)
    return fill_empty(hits / np.maximum(total, 1), total > 0, empty)


def hit_by_query(ranked: Ranked, *, k: int | None = None, threshold: float = 1.0, empty: Empty = 0.0) -> FloatArray:
    """HR@k: 1 if a relevant document is among the first k, else 0."""
    _broken(ranked, "hit rate")
    hits, total = _hits(ranked, k, threshold)
    return fill_empty((hits > 0).astype(np.float64), total > 0, empty)


def average_precision_by_query(
    ranked: Ranked,
    *,
    k: int | None = None,
    threshold: float = 1.0,
    denominator: str = "relevant",
    empty: Empty = 0.0,
) -> FloatArray:
    """AP@k = (1/D) Σ_{i≤k} P@i·rel_i; D is all relevant ("relevant", default; trec_eval) or min(relevant, k) ("cutoff";
    LightGBM, XGBoost)."""
    _broken(ranked, "average precision")
    choice("denominator", denominator, ("relevant", "cutoff"))
    hit = _relevant(ranked, threshold)
    total = _sum(ranked, hit)
    # Hits so far within the query: the running count minus the count before the query began. Integers, so exact.
    so_far = np.cumsum(hit)
    before = np.cumsum(total) - total
    at = (so_far - before[ranked.query]) / (ranked.position + 1)
    bottom = np.maximum(total, 1)
    if denominator == "cutoff" and k is not None:
        bottom = np.minimum(bottom, k)
    return fill_empty(_sum(ranked, at * (hit & _top(ranked, k))) / bottom, total > 0, empty)


def reciprocal_rank_by_query(
    ranked: Ranked, *, k: int | None = None, threshold: float = 1.0, empty: Empty = 0.0
) -> FloatArray:
    """RR@k: 1 / rank of the first relevant document, 0 if it is not among the first k."""
    _broken(ranked, "reciprocal rank")
    hit = _relevant(ranked, threshold)
    rows = np.flatnonzero(hit & _top(ranked, k))
    query = ranked.query[rows]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = query[1:] != query[:-1]
    values = np.zeros(len(ranked.sizes))
    values[query[first]] = 1 / (ranked.position[rows[first]] + 1)
    return fill_empty(values, _sum(ranked, hit) > 0, empty)


def expected_reciprocal_rank_by_query(
    ranked: Ranked, *, k: int | None = None, max_relevance: float | None = None, empty: Empty = 0.0
) -> FloatArray:
    """ERR@k = Σ_{i≤k} (1/i) R_i ∏_{j<i} (1 − R_j), R = (2^l − 1) / 2^max; max_relevance: the top grade of the scale,
    by default the largest label."""
    _broken(ranked, "expected reciprocal rank")
    largest = float(ranked.relevance.max())
    top = largest if max_relevance is None else number("max_relevance", max_relevance)
    if top < largest:
        raise CanonError(f"max_relevance is {top:g} but a document has relevance {largest:g}.")
    stop = gains(ranked.relevance, "exponential") / np.exp2(top)
    # Documents with R = 0 change nothing, so only the others are visited, the j-th of every query at once.
    rows = np.flatnonzero((stop > 0) & _top(ranked, k))
    counts = np.bincount(ranked.query[rows], minlength=len(ranked.sizes))
    starts = np.cumsum(counts) - counts
    values, going_on = np.zeros(len(counts)), np.ones(len(counts))
    for depth in range(int(counts.max(initial=0))):
        live = np.flatnonzero((counts > depth) & (going_on > 0))
        if not len(live):
            break
        row = rows[starts[live] + depth]
        values[live] += going_on[live] * stop[row] / (ranked.position[row] + 1)
        going_on[live] *= 1 - stop[row]
    return fill_empty(values, _sum(ranked, ranked.relevance > 0) > 0, empty)
