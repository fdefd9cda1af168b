"""Losses for numbers: absolute and squared.

Legendre 1805 (squared); Boscovich 1757 (absolute). Deviations: none. Shapes: B targets; any shape will do.
"""

from __future__ import annotations

from torch import Tensor

from canon.objectives._checks import require_same_shape


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
