"""Linear classifiers: one score w_k·x + b_k per class, made a probability by the softmax or the logistic function.

McFadden 1973 (softmax), Cox 1958 (logistic). Equations: scores in `forward`; the probabilities and the loss in
tasks.classification. With two classes the logistic form has one score, f(x) = log p/(1−p).
Deviations: logistic regression with more than two classes fits one class against the rest.
Shapes: B examples, F features, K scores.
"""

from __future__ import annotations

import math

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.systems.settings import Classes, Shape


@settings
class Config:
    shape: Shape = Field(default=(8, 8), description="of one input; the data decides")
    num_classes: Classes = Field(default=10, description="the data decides")


class SoftmaxRegression(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.output = _zero_linear(config, config.num_classes)

    def forward(self, input_BF: Tensor) -> Tensor:
        return self.output(input_BF.flatten(1))


class LogisticRegression(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.output = _zero_linear(config, 1 if config.num_classes == 2 else config.num_classes)

    def forward(self, input_BF: Tensor) -> Tensor:
        return self.output(input_BF.flatten(1))


def _zero_linear(config: Config, outputs: int) -> nn.Linear:
    """The problem is convex, so zero is as good a start as any, and needs no luck."""
    linear = nn.Linear(math.prod(config.shape), outputs)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
