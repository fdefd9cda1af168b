"""Errors of real-valued predictions: squared, absolute, the share of variance explained, and correlations.

Definitions: MSE = (1/n) Σ (y − ŷ)², MAE = (1/n) Σ |y − ŷ|, RMSE = √MSE, R² = 1 − Σ (y − ŷ)² / Σ (y − ȳ)², each in the
function of that name; Pearson's r = Σ (y − ȳ)(ŷ − mean ŷ) / (n σ_y σ_ŷ), Spearman's ρ is r of the ranks. Deviations:
none.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from canon.errors import CanonError
from canon.metrics._checks import FloatArray, numbers


def _pair(
    targets: ArrayLike, predictions: ArrayLike, dims: int | None, finite: bool = True
) -> tuple[FloatArray, FloatArray]:
    y, f = numbers("targets", targets, dims, finite), numbers("predictions", predictions, dims, finite)
    if y.shape != f.shape:
        raise CanonError(f"targets and predictions must have the same shape, got {y.shape} and {f.shape}.")
    return y.astype(np.float64), f.astype(np.float64)


def mean_squared_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """(1/n) Σ (y − ŷ)², over all elements of arrays of any equal shape."""
    y, f = _pair(targets, predictions, None)
    return float(np.mean((y - f) ** 2))


def root_mean_squared_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """√((1/n) Σ (y − ŷ)²)."""
    return sqrt(mean_squared_error(targets, predictions))


def mean_absolute_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """(1/n) Σ |y − ŷ|, over all elements of arrays of any equal shape."""
    y, f = _pair(targets, predictions, None)
    return float(np.mean(np.abs(y - f)))


def r2(targets: ArrayLike, predictions: ArrayLike, *, force_finite: bool = True) -> float:
    """1 − Σ (y − ŷ)² / Σ (y − ȳ)².

    force_finite: when every target is equal the ratio has a zero denominator; True (default, scikit-learn's rule)
    gives 1 for perfect predictions and 0 otherwise, False gives NaN and −inf.
    """
    y, f = _pair(targets, predictions, 1)
    residual, total = float(np.sum((y - f) ** 2)), float(np.sum((y - y.mean()) ** 2))
    if total == 0:
        if force_finite:
            return 1.0 if residual == 0 else 0.0
        return float("nan") if residual == 0 else float("-inf")
    return 1 - residual / total


def pearson(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Pearson's r; 0 where targets or predictions are all equal, so that it is undefined."""
    y, f = _pair(targets, predictions, 1)
    y, f = _centred(y), _centred(f)
    spread = sqrt(float(y @ y) * float(f @ f))
    return float(np.clip(y @ f / spread, -1, 1)) if spread > 0 else 0.0


def _centred(values: FloatArray) -> FloatArray:
    """Minus their mean, the farthest at ±1: r is the same, and squares of huge and tiny numbers stay finite."""
    scaled = values / (np.abs(values).max() or 1.0)
    scaled = scaled - scaled.mean()
    return scaled / (np.abs(scaled).max() or 1.0)


def spearman(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Spearman's ρ: `pearson` of the ranks, equal values sharing the mean of theirs."""
    y, f = _pair(targets, predictions, 1, finite=False)
    return pearson(_ranks(y), _ranks(f))


def _ranks(values: FloatArray) -> FloatArray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + last - 1) / 2)[place]
