"""Linear regression: y = w·x + b, least squares.

Legendre 1805. Equations: the prediction in `LinearScores`; the loss ½(y − ŷ)² is objectives.regression.squared without
½. Deviations: none. Shapes: B examples, F features.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import nn

from canon.config import settings
from canon.systems.linear.classifiers import LinearScores
from canon.systems.settings import Shape


@settings
class Config:
    shape: Shape = Field(default=(8,), description="of one input; the data decides")
    weight_scale: Annotated[float, Field(ge=0)] = Field(default=0.0, description="standard deviation of the first w")


class LinearRegression(LinearScores):
    def __init__(self, config: Config) -> None:
        super().__init__(config.shape, 1)
        nn.init.normal_(self.output.weight, std=config.weight_scale)
