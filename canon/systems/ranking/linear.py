"""The linear ranker: s = w·x + c of each document.

With the objective pair-hinge this is Ranking SVM (Joachims 2002, Optimizing search engines using clickthrough data,
equation 12: ½‖w‖² + C Σ ξ, here λ/2 ‖w‖² and the mean of ξ); with grade-squared ridge regression.
Deviations: trained by gradient steps on the primal. Shapes: N documents, F features.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Penalized
from canon.nn.ragged import Layout
from canon.systems.ranking.head import Head, Scorer


@settings
class Config(Scorer):
    penalty: Annotated[float, Field(ge=0)] = Field(default=0.0, description="λ: λ/2 ‖w‖² is added to the mean loss")


class LinearRanker(nn.Module, Penalized):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head = Head(config.shape[0], config, zero=True)
        self.decay = config.penalty

    def forward(self, input_NF: Tensor, layout: Layout | None = None) -> Tensor:
        return self.head(input_NF)

    def penalty(self) -> Tensor:
        weight = self.head.output.weight
        return 0.5 * self.decay * weight.square().sum() if self.decay else weight.new_zeros(())
