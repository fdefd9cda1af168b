"""Threshold-free measures of a binary scorer: ROC, AUC, Gini, KS, precision–recall curve and its area.

Definitions: Hanley and McNeil (1982) (AUC as the share of ordered pairs), Mann and Whitney (1947) (rank sum),
Davis and Goadrich (2006) (precision–recall).
AUC = (1/PN) Σ_pos Σ_neg ([s⁺ > s⁻] + ½[s⁺ = s⁻]) in `auc_by_pairs`; AUC = (R⁺ − P(P+1)/2) / PN, with R⁺ the sum of
the positives' mid-ranks, in `auc_by_ranks`; Gini = 2·AUC − 1 in `gini`; KS = max_t |TPR(t) − FPR(t)| in
`ks_statistic`; AP = Σ (R_n − R_{n−1}) P_n in `average_precision`.
Both AUC forms count doubled wins in int64 (exact while 2PN < 2⁶³, n up to about 4·10⁹) and divide once, so they
return the same float. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canon.errors import CanonError
from canon.metrics._checks import BoolArray, FloatArray, IntArray, binary_labels, choice, numbers, same_length


@dataclass(frozen=True)
class RocCurve:
    """False and true positive rate when everything with score ≥ threshold is called positive; starts at (0, 0)."""

    fpr: FloatArray
    tpr: FloatArray
    thresholds: FloatArray


@dataclass(frozen=True)
class PrCurve:
    """Precision and recall at rising thresholds (so falling recall), ending at the point (1, 0) that has none."""

    precision: FloatArray
    recall: FloatArray
    thresholds: FloatArray


def _labelled_scores(labels: ArrayLike, scores: ArrayLike, both: bool) -> tuple[BoolArray, NDArray[Any]]:
    positive, values = binary_labels("labels", labels), numbers("scores", scores)
    same_length("labels", positive, "scores", values)
    count = int(np.count_nonzero(positive))
    if count == 0 or (both and count == len(positive)):
        needed = "a 1 and a 0" if both else "a 1"
        raise CanonError(f"labels must contain at least {needed}; all {len(positive)} of them are {int(count > 0)}.")
    return positive, values


def _twice_below(needles: NDArray[Any], sorted_values: NDArray[Any]) -> int:
    """Σ over needles of 2·#{values < needle} + #{values = needle}."""
    # Sorted needles walk the sorted values in order, so the binary searches stay in cache.
    below = np.searchsorted(sorted_values, needles, side="left").sum(dtype=np.int64)
    up_to = np.searchsorted(sorted_values, needles, side="right").sum(dtype=np.int64)
    return int(below + up_to)


def auc_by_pairs(labels: ArrayLike, scores: ArrayLike) -> float:
    """Share of (positive, negative) pairs in the right order, ties counting ½; O(n log n), exact."""
    positive, values = _labelled_scores(labels, scores, both=True)
    # Two value sorts (vectorised in numpy) are several times cheaper than one argsort of everything.
    pos, neg = np.sort(values[positive]), np.sort(values[~positive])
    pairs = len(pos) * len(neg)
    # Search the longer list for the shorter: min(P, N) binary searches.
    twice_wins = _twice_below(pos, neg) if len(pos) <= len(neg) else 2 * pairs - _twice_below(neg, pos)
    return twice_wins / (2 * pairs)


def auc_by_ranks(labels: ArrayLike, scores: ArrayLike) -> float:
    """(R⁺ − P(P+1)/2) / PN, R⁺ the sum of the positives' ranks in the pooled sample, ties at their mid-rank."""
    positive, values = _labelled_scores(labels, scores, both=True)
    pooled = np.sort(values)
    # Mid-rank = #below + (#equal + 1)/2, so twice the rank sum is Σ(2·#below + #equal) + count. The ranks of
    # positives and negatives add up to n(n+1)/2, so only the smaller class has to be looked up.
    few_are_positive = 2 * int(np.count_nonzero(positive)) <= len(values)
    few = np.sort(values[positive if few_are_positive else ~positive])
    n, size = len(values), len(few)
    other = n - size
    twice_ranks = _twice_below(few, pooled) + size
    twice_wins = twice_ranks - size * (size + 1)
    pairs = size * other
    return (twice_wins if few_are_positive else 2 * pairs - twice_wins) / (2 * pairs)


def auc(labels: ArrayLike, scores: ArrayLike, *, form: str = "pairs") -> float:
    """Area under the ROC curve; form "pairs" (default) or "ranks" picks the computation, the value is the same."""
    choice("form", form, ("pairs", "ranks"))
    return auc_by_pairs(labels, scores) if form == "pairs" else auc_by_ranks(labels, scores)


def gini(labels: ArrayLike, scores: ArrayLike) -> float:
    """2·AUC − 1: 0 for chance, 1 for perfect order."""
    return 2 * auc_by_pairs(labels, scores) - 1


def _counts_at_thresholds(positive: BoolArray, values: NDArray[Any]) -> tuple[IntArray, IntArray, NDArray[Any]]:
    """True and false positives at each distinct score, highest first."""
    pos, neg = np.sort(values[positive]), np.sort(values[~positive])
    thresholds = np.unique(values)[::-1]
    tp = len(pos) - np.searchsorted(pos, thresholds, side="left")
    fp = len(neg) - np.searchsorted(neg, thresholds, side="left")
    return tp.astype(np.int64), fp.astype(np.int64), thresholds


def roc_curve(labels: ArrayLike, scores: ArrayLike, *, drop_intermediate: bool = False) -> RocCurve:
    """TPR against FPR at every distinct score, highest first, after the point (0, 0) at threshold +inf.

    drop_intermediate: leave out points on a straight line between their neighbours (scikit-learn's default);
    False (default here) keeps every threshold.
    """
    positive, values = _labelled_scores(labels, scores, both=True)
    tp, fp, thresholds = _counts_at_thresholds(positive, values)
    if drop_intermediate and len(tp) > 2:
        corner = np.diff(fp, 2).astype(bool) | np.diff(tp, 2).astype(bool)
        kept = np.concatenate([[True], corner, [True]])
        tp, fp, thresholds = tp[kept], fp[kept], thresholds[kept]
    total = int(np.count_nonzero(positive))
    return RocCurve(
        fpr=np.concatenate([[0.0], fp / (len(values) - total)]),
        tpr=np.concatenate([[0.0], tp / total]),
        thresholds=np.concatenate([[np.inf], thresholds.astype(np.float64)]),
    )


def ks_statistic(labels: ArrayLike, scores: ArrayLike) -> float:
    """max over thresholds of |TPR − FPR|: the largest gap between the two classes' score distributions."""
    curve = roc_curve(labels, scores)
    return float(np.abs(curve.tpr - curve.fpr).max())


def pr_curve(labels: ArrayLike, scores: ArrayLike) -> PrCurve:
    """Precision tp/(tp+fp) and recall tp/P at every distinct score, lowest first, then the point (1, 0)."""
    positive, values = _labelled_scores(labels, scores, both=False)
    tp, fp, thresholds = _counts_at_thresholds(positive, values)
    total = int(np.count_nonzero(positive))
    return PrCurve(
        precision=np.concatenate([(tp / (tp + fp))[::-1], [1.0]]),
        recall=np.concatenate([(tp / total)[::-1], [0.0]]),
        thresholds=thresholds[::-1].astype(np.float64),
    )


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Σ (R_n − R_{n−1}) P_n over distinct thresholds: the step-wise area, without interpolation."""
    curve = pr_curve(labels, scores)
    return float(-np.sum(np.diff(curve.recall) * curve.precision[:-1]))


def pr_area(labels: ArrayLike, scores: ArrayLike, *, rule: str = "trapezoid") -> float:
    """Area under the precision–recall curve; rule "trapezoid" (default, optimistic) or "step" (average precision)."""
    choice("rule", rule, ("trapezoid", "step"))
    if rule == "step":
        return average_precision(labels, scores)
    curve = pr_curve(labels, scores)
    middle = (curve.precision[1:] + curve.precision[:-1]) / 2
    return float(-np.sum(np.diff(curve.recall) * middle))
