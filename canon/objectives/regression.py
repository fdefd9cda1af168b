"""Losses for numbers: absolute and squared.

Legendre 1805 (squared); Boscovich 1757 (absolute). The objectives of a recipe are `Squared` and `Absolute`.
Deviations: none. Shapes: B targets; any shape will do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from torch import Tensor

from canon.objectives._checks import require_same_shape
from canon.objectives.settings import NoSettings


def absolute(prediction_B: Tensor, target_B: Tensor) -> Tensor:
    """|ŷ − y|

    | input | shape | meaning |
    | --- | --- | --- |
    | prediction_B | [B] | ŷ |
    | target_B | [B] | y |

    Relations: same inputs as `squared`; its minimum is the median, so a few wild targets move it less.
    """
    require_same_shape(prediction=prediction_B, target=target_B)
    return (prediction_B - target_B).abs()


def squared(prediction_B: Tensor, target_B: Tensor) -> Tensor:
    """(ŷ − y)²

    | input | shape | meaning |
    | --- | --- | --- |
    | prediction_B | [B] | ŷ |
    | target_B | [B] | y |

    Relations: same inputs as `absolute`; its minimum is the mean, and it is the log loss of Gaussian noise.
    """
    require_same_shape(prediction=prediction_B, target=target_B)
    return (prediction_B - target_B).square()


class NumberLoss(ABC):
    losses: Callable[[Tensor, Tensor], Tensor]  # of predictions and targets [B]: one loss per example

    def __init__(self, settings: NoSettings) -> None:
        self.settings = settings

    @abstractmethod
    def floor(self, target_N: np.ndarray) -> float:
        """The least mean loss of one number for all."""


class Squared(NumberLoss):
    losses = staticmethod(squared)

    def floor(self, target_N: np.ndarray) -> float:
        return float((np.abs(target_N - target_N.mean()) ** 2).mean())


class Absolute(NumberLoss):
    losses = staticmethod(absolute)

    def floor(self, target_N: np.ndarray) -> float:
        return float(np.abs(target_N - np.median(target_N)).mean())
