"""Whether predictions are any better than those of a guess that looks at no input: the majority class, or the mean.

By the usual test of independence: predictions that have nothing to do with the truth have a correlation within
1.64 / √n of 0 in 95 of 100 cases (Matthews' correlation of classes, Pearson's of numbers).
"""

from __future__ import annotations

import numpy as np

from canon import metrics

_FEW = 10  # examples by which a model that beats the guess is not judged any further
_SIDE = 1.64  # standard errors: the one-sided 5 % point of the normal distribution


def of_classes(true: np.ndarray, predicted: np.ndarray, classes: tuple[str, ...], counts: tuple[int, ...]) -> str:
    """counts: training examples of each class."""
    if not len(true) or not counts:
        return ""
    most = int(np.argmax(counts))
    floor, reached = float((true == most).mean()), metrics.accuracy(true, predicted)
    if metrics.matthews(true, predicted) > _SIDE / np.sqrt(len(true)) or floor == reached == 1:
        return ""
    better = "no" if reached <= floor else "not clearly"
    if reached > floor and len(true) < _FEW:
        return ""
    return (
        f'{better} better than always saying "{classes[most]}": accuracy {reached:.3f} against {floor:.3f} on '
        f"{len(true):,} examples"
    )


def of_numbers(true: np.ndarray, predicted: np.ndarray, mean: float) -> str:
    """mean: of the training examples."""
    if len(true) < 3 or not np.std(true) > 0:
        return ""
    floor, reached = float(np.mean((true - mean) ** 2)), metrics.mean_squared_error(true, predicted)
    related = metrics.pearson(true, predicted) if np.std(predicted) > 0 else 0.0
    if reached < floor and related > _SIDE / np.sqrt(len(true)):
        return ""
    better = "no" if reached >= floor else "not clearly"
    return (
        f"{better} better than always saying the mean, {mean:.4g}: mse {reached:.4g} against {floor:.4g} on "
        f"{len(true):,} examples"
    )
