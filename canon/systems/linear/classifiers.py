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


class LinearScores(nn.Module):
    """W x + b, both zero at first: the problem is convex, so zero is as good a start as any, and needs no luck."""

    def __init__(self, shape: Shape, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.output = nn.Linear(math.prod(shape), outputs, bias=bias)
        for parameter in self.output.parameters():
            nn.init.zeros_(parameter)

    def forward(self, input_BF: Tensor) -> Tensor:
        return self.output(input_BF.flatten(1))


class SoftmaxRegression(LinearScores):
    def __init__(self, config: Config) -> None:
        super().__init__(config.shape, config.num_classes)


class LogisticRegression(LinearScores):
    def __init__(self, config: Config) -> None:
        super().__init__(config.shape, 1 if config.num_classes == 2 else config.num_classes)
