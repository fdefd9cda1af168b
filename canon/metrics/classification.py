"""Counts of right and wrong classes: confusion matrix, accuracy, precision, recall, F1 and log loss.

Definitions: Manning, Raghavan and Schütze, Introduction to Information Retrieval, chapter 8 (precision, recall, F1);
Good (1952) (log loss). `confusion_matrix` holds C[i, j] = #{truth i, predicted j}; everything else is read from it:
precision = C[i,i] / Σ_j C[j,i], recall = C[i,i] / Σ_j C[i,j], F1 = 2·tp / (2·tp + fp + fn) in `class_scores`; for
Matthews' correlation (1975) of several classes, Gorodkin (2004) in `matthews`. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canon.errors import CanonError
from canon.metrics._checks import FloatArray, IntArray, choice, logarithm, number, numbers, same_length, unit_interval
from canon.metrics._checks import classes as checked_classes

AVERAGES = ("binary", "macro", "micro", "weighted")


@dataclass(frozen=True)
class ClassScores:
    """Precision, recall and F1 of every class; `support` is the number of true examples of it."""

    classes: NDArray[Any]
    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    support: IntArray


def _pair(labels: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    truth, guess = checked_classes("labels", labels), checked_classes("predictions", predictions)
    same_length("labels", truth, "predictions", guess)
    if (truth.dtype.kind == "U") != (guess.dtype.kind == "U"):
        raise CanonError("labels and predictions must both be numbers, or both texts.")
    return truth, guess


def _encode(truth: NDArray[Any], guess: NDArray[Any], classes: ArrayLike | None) -> tuple[NDArray[Any], Any, Any]:
    """Class list and both columns as positions in it."""
    known, codes = np.unique(np.concatenate([truth, guess]), return_inverse=True)
    if classes is not None:
        wanted = checked_classes("classes", classes)
        if len(np.unique(wanted)) != len(wanted):
            raise CanonError("classes must not repeat a class.")
        missing = ~np.isin(known, wanted)
        if missing.any():
            raise CanonError(f"classes does not list {known[missing][0]!s}, which occurs in labels or predictions.")
        order = np.argsort(wanted, kind="stable")
        codes = order[np.searchsorted(wanted, known, sorter=order)][codes]
        known = wanted
    return known, codes[: len(truth)], codes[len(truth) :]


def confusion_matrix(labels: ArrayLike, predictions: ArrayLike, *, classes: ArrayLike | None = None) -> IntArray:
    """C[i, j]: how many examples of class i were called class j.

    classes: row and column order; default is the sorted union of both columns. A class that never occurs gets a row
    of zeros; a value that is not in `classes` is an error.
    """
    return _counts(labels, predictions, classes)[1]


def _counts(labels: ArrayLike, predictions: ArrayLike, classes: ArrayLike | None) -> tuple[NDArray[Any], IntArray]:
    """Class list and confusion matrix."""
    known, rows, columns = _encode(*_pair(labels, predictions), classes)
    size = len(known)
    return known, np.bincount(rows * size + columns, minlength=size * size).reshape(size, size).astype(np.int64)


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """(1/n) Σ [prediction = label]."""
    truth, guess = _pair(labels, predictions)
    return int(np.count_nonzero(truth == guess)) / len(truth)


def zero_one_loss(labels: ArrayLike, predictions: ArrayLike, *, reduction: str = "mean") -> float:
    """Σ [prediction ≠ label], divided by n when reduction is "mean" (default), not when it is "sum"."""
    choice("reduction", reduction, ("mean", "sum"))
    truth, guess = _pair(labels, predictions)
    wrong = int(np.count_nonzero(truth != guess))
    return wrong / len(truth) if reduction == "mean" else float(wrong)


def divide(numerator: IntArray, denominator: IntArray, zero_division: float) -> FloatArray:
    """Element-wise ratio, `zero_division` where the denominator is zero."""
    safe = np.where(denominator == 0, 1, denominator)
    return np.where(denominator == 0, number("zero_division", zero_division, finite=False), numerator / safe)


def class_scores(
    labels: ArrayLike, predictions: ArrayLike, *, classes: ArrayLike | None = None, zero_division: float = 0.0
) -> ClassScores:
    """Precision, recall, F1 and support of each class, in the order of `classes` (default: sorted union)."""
    known, matrix = _counts(labels, predictions, classes)
    hit, called, support = matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1)
    return ClassScores(
        classes=known,
        precision=divide(hit, called, zero_division),
        recall=divide(hit, support, zero_division),
        f1=divide(2 * hit, called + support, zero_division),
        support=support,
    )


class Averaging(TypedDict, total=False):
    """How the scores of classes become one number, the keyword arguments of `precision`, `recall` and `f1`.

    average: "binary" (default: the class `positive` against the other), "macro" (mean over classes), "micro" (counts
    pooled), "weighted" (mean over classes by support). positive: 1 by default. classes: see `confusion_matrix`.
    zero_division: the value of 0/0, 0 by default.
    """

    average: str
    positive: object
    classes: ArrayLike | None
    zero_division: float


def precision(labels: ArrayLike, predictions: ArrayLike, **averaging: Unpack[Averaging]) -> float:
    """tp / (tp + fp); see `Averaging`."""
    return _averaged("precision", labels, predictions, **averaging)


def recall(labels: ArrayLike, predictions: ArrayLike, **averaging: Unpack[Averaging]) -> float:
    """tp / (tp + fn); see `Averaging`."""
    return _averaged("recall", labels, predictions, **averaging)


def f1(labels: ArrayLike, predictions: ArrayLike, **averaging: Unpack[Averaging]) -> float:
    """2·tp / (2·tp + fp + fn); macro is the mean of the classes' F1, not the F1 of mean precision and recall. See
    `Averaging`."""
    return _averaged("f1", labels, predictions, **averaging)


def _averaged(
    measure: str,
    labels: ArrayLike,
    predictions: ArrayLike,
    *,
    average: str = "binary",
    positive: object = 1,
    classes: ArrayLike | None = None,
    zero_division: float = 0.0,
) -> float:
    choice("average", average, AVERAGES)
    if average == "binary":
        checked_classes("positive", positive, 0)  # type: ignore[arg-type]
    truth, guess = _pair(labels, predictions)
    if average in ("macro", "weighted"):
        scores = class_scores(truth, guess, classes=classes, zero_division=zero_division)
        values: FloatArray = getattr(scores, measure)
        return float(np.average(values, weights=scores.support if average == "weighted" else None))
    known, rows, columns = _encode(truth, guess, classes)
    if average == "binary":
        if np.count_nonzero(known != positive) > 1:
            raise CanonError(
                f'average="binary" needs two classes, one of them positive={positive!r}, got '
                f"{', '.join(str(c) for c in known[:6])}; use macro, micro or weighted."
            )
        at = np.flatnonzero(known == positive)
        is_true, is_called = np.isin(rows, at), np.isin(columns, at)
        hit, called, support = (int(x.sum()) for x in (is_true & is_called, is_called, is_true))
    else:
        # Every example is called exactly one class, so Σ fp = Σ fn and all three measures are the accuracy.
        hit, called, support = int(np.count_nonzero(rows == columns)), len(rows), len(rows)
    ratios = {"precision": (hit, called), "recall": (hit, support), "f1": (2 * hit, called + support)}
    top, bottom = ratios[measure]
    return top / bottom if bottom else number("zero_division", zero_division, finite=False)


def matthews(labels: ArrayLike, predictions: ArrayLike) -> float:
    """(n Σ_i C[i,i] − Σ_i t_i p_i) / √((n² − Σ p_i²)(n² − Σ t_i²)), Matthews' correlation coefficient.

    t_i and p_i count how often class i is true and predicted. 0 where all labels, or all predictions, are of one class.
    """
    counts = confusion_matrix(labels, predictions).astype(np.float64)
    true, guessed, total = counts.sum(1), counts.sum(0), counts.sum()
    spread = (total**2 - guessed @ guessed) * (total**2 - true @ true)
    return float((total * np.trace(counts) - true @ guessed) / np.sqrt(spread)) if spread > 0 else 0.0


def log_loss(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    base: float = np.e,
    zero: str = "clip",
    epsilon: float | None = None,
) -> float:
    """−(1/n) Σ log p(label), from probabilities, not logits.

    probabilities: p(class 1) as a vector (labels 0/1), or an n × C matrix (labels 0 … C−1, rows summing to 1).
    zero: "clip" keeps probabilities `epsilon` away from 0 and 1 (scikit-learn's rule), "inf" lets log 0 be infinite.
    epsilon: None (default) is that of the probabilities' own type, 1.2e-7 for float32 and 2.2e-16 for float64.
    """
    choice("zero", zero, ("clip", "inf"))
    log = logarithm(base)
    p = unit_interval("probabilities", probabilities, None)
    p = p if p.dtype in (np.float16, np.float32, np.float64) else p.astype(np.float64)
    if p.ndim not in (1, 2):
        raise CanonError(f"probabilities must be a vector or an n × C matrix, got shape {p.shape}.")
    table = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
    truth = numbers("labels", labels)
    same_length("labels", truth, "probabilities", table)
    index = truth.astype(np.int64)
    if (index != truth).any() or index.min() < 0 or index.max() >= table.shape[1]:
        raise CanonError(f"labels must be whole numbers from 0 to {table.shape[1] - 1}.")
    sums = table.sum(axis=1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    rounding = float(np.finfo(table.dtype).eps)
    if abs(sums[worst] - 1) > max(1e-5, table.shape[1] * rounding):
        raise CanonError(f"probabilities must sum to 1 in each row, row {worst} sums to {sums[worst]:g}.")
    chosen = table[np.arange(len(index)), index].astype(np.float64)
    if zero == "clip":
        least = rounding if epsilon is None else number("epsilon", epsilon)
        chosen = np.clip(chosen, least, 1 - least)
    with np.errstate(divide="ignore"):
        # 0 − x rather than −x, so that a perfect model gets 0.0 and not −0.0.
        return float(0.0 - log(chosen).mean())
