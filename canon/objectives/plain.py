"""Losses of class scores in NumPy, for learners that need no torch; each equals the objective of the same name.

Shapes: B examples, C classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np


class PlainLoss(ABC):
    probabilities: ClassVar[bool] = False  # whether `scores` are

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def losses(self, logits_BC: np.ndarray, label_B: np.ndarray) -> np.ndarray:
        """float64 [B]"""

    @abstractmethod
    def scores(self, logits_BC: np.ndarray) -> np.ndarray:
        """float32 [B, C] to rank the classes by."""


class PlainExponential(PlainLoss):
    """e^(−y·f/C), y = 1 for the true class and −1/(C − 1) for the others: `margin.multiclass_exponential`."""

    def losses(self, logits_BC: np.ndarray, label_B: np.ndarray) -> np.ndarray:
        classes = logits_BC.shape[1]
        true_B = np.take_along_axis(logits_BC, label_B[:, None], axis=1)[:, 0]
        others_B = logits_BC.sum(axis=1) - true_B
        return np.asarray(np.exp(-(true_B - others_B / (classes - 1)) / classes), np.float64)

    def scores(self, logits_BC: np.ndarray) -> np.ndarray:
        return logits_BC.astype(np.float32)


class PlainLogistic(PlainLoss):
    """log(1 + e^(−y f)), y = ±1, of one output for two classes: `margin.logistic`."""

    probabilities: ClassVar[bool] = True

    def losses(self, logits_BC: np.ndarray, label_B: np.ndarray) -> np.ndarray:
        return np.asarray(np.logaddexp(0, (1 - 2 * label_B) * logits_BC[:, 0]), np.float64)

    def scores(self, logits_BC: np.ndarray) -> np.ndarray:
        click_B = np.exp(-np.logaddexp(0, -logits_BC[:, 0].astype(np.float64)))
        return np.stack([1 - click_B, click_B], axis=1).astype(np.float32)
