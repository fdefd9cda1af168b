"""The factorization machine over features: s = c + w·x + Σ_{i<j} (v_i·v_j) x_i x_j of each document alone.

Rendle 2010, Factorization machines, equations 1 and 5: the sum over pairs is ½ Σ_f [(Σ_i v_if x_i)² − Σ_i v_if² x_i²],
which costs O(D F). Deviations: none; any loss of an order in place of the paper's. Shapes: N documents, F features, D
factors, K outputs.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Penalized
from canon.nn.ragged import Layout
from canon.systems.ranking.head import Head, Scorer
from canon.systems.settings import Positive


@settings
class Config(Scorer):
    dim: Positive = Field(default=8, description="factors of a feature")
    init_std: Annotated[float, Field(gt=0)] = Field(default=0.01, description="standard deviation of the first factors")
    penalty: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="λ: λ/2 (‖w‖² + ‖V‖²) is added to the mean loss"
    )


class FMRanker(nn.Module, Penalized):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head = Head(config.shape[0], config, zero=True)
        outputs = len(self.head.output.bias)  # each has factors of its own
        self.factors = nn.Parameter(torch.randn(outputs, config.shape[0], config.dim) * config.init_std)
        self.decay = config.penalty

    def forward(self, input_NF: Tensor, layout: Layout | None = None) -> Tensor:
        pairs_KN = 0.5 * ((input_NF @ self.factors).square() - input_NF.square() @ self.factors.square()).sum(2)
        linear_N = self.head(input_NF)
        return linear_N + (pairs_KN[0] if linear_N.dim() == 1 else pairs_KN.T)

    def penalty(self) -> Tensor:
        weight = self.head.output.weight
        if not self.decay:
            return weight.new_zeros(())
        return 0.5 * self.decay * (weight.square().sum() + self.factors.square().sum())
