"""Linear regression: y = w·x + b, least squares.

Legendre 1805. Equations: the prediction in `forward`; the loss ½(y − ŷ)² is objectives.regression.squared without ½.
Deviations: none. Shapes: B examples, F features.
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.systems.settings import Shape


@settings
class Config:
    shape: Shape = Field(default=(8,), description="of one input; the data decides")
    weight_scale: Annotated[float, Field(ge=0)] = Field(default=0.0, description="standard deviation of the first w")


class LinearRegression(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.output = nn.Linear(math.prod(config.shape), 1)
        nn.init.normal_(self.output.weight, std=config.weight_scale)
        nn.init.zeros_(self.output.bias)

    def forward(self, input_BF: Tensor) -> Tensor:
        return self.output(input_BF.flatten(1))
