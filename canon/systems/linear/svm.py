"""The linear support vector machine, by subgradient steps on the primal.

Cortes and Vapnik 1995: min over w, b of ½‖w‖² + C Σ_i max(0, 1 − y_i (w·x_i + b)). Equations: f(x) in `LinearScores`,
½‖w‖²/(C n) in `penalty`; the loop adds it to the mean hinge loss, so the whole is the paper's divided by C n.
Deviations: the primal, not the dual; more than two classes: one against the rest. Shapes: B examples, F features.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor

from canon.config import settings
from canon.contracts import Penalized
from canon.systems.linear.classifiers import LinearScores
from canon.systems.settings import Classes, Positive, Shape


@settings
class Config:
    shape: Shape = Field(default=(8,), description="of one input; the data decides")
    num_classes: Classes = Field(default=2, description="the data decides")
    num_examples: Positive = Field(default=100, description="n; the data decides")
    C: Annotated[float, Field(gt=0)] = Field(default=1.0, description="weight of the margin errors")
    bias: bool = Field(default=True, description="learn b")


class LinearSVM(LinearScores, Penalized):
    def __init__(self, config: Config) -> None:
        super().__init__(config.shape, 1 if config.num_classes == 2 else config.num_classes, config.bias)
        self.scale = 1 / (config.C * config.num_examples)

    def penalty(self) -> Tensor:
        return 0.5 * self.scale * self.output.weight.square().sum()
