"""The last layer of a scorer, as its objective asks: one score, one for each grade, or one and rising thresholds.

| head | put out | objectives |
| --- | --- | --- |
| score | s = w·h + c, [N] | those of pairs and lists, squared error, logistic loss |
| grades | f_k = w_k·h + c_k, [N, K] | McRank |
| ordered | s − b_k, b_1 < b_2 < …, [N, K − 1] | cumulative logit |
Thresholds are b_k = b_1 + Σ_{j ≤ k} e^(a_j), so that they rise whatever is learned. Deviations: none.
Shapes: N documents, D features, K grades.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.systems.settings import Natural, Shape

HeadKind = Literal["score", "grades", "ordered"]


@settings
class Scorer:
    """Settings of all scorers."""

    shape: Shape = Field(default=(46,), description="features of a document; the data decides")
    grades: Natural = Field(default=3, description="K; the data decides")
    head: HeadKind = Field(default="score", description="what is put out; the objective decides")


class Head(nn.Module):
    def __init__(self, features: int, config: Scorer, zero: bool = False) -> None:
        super().__init__()
        self.kind = config.head
        grades = max(config.grades, 2)
        self.output = nn.Linear(features, grades if config.head == "grades" else 1)
        if zero:
            nn.init.zeros_(self.output.weight)
            nn.init.zeros_(self.output.bias)
        if config.head == "ordered":
            self.first = nn.Parameter(torch.zeros(1))
            self.gap = nn.Parameter(torch.zeros(grades - 2))

    def forward(self, hidden_ND: Tensor) -> Tensor:
        score_NK = self.output(hidden_ND)
        if self.kind == "grades":
            return score_NK
        if self.kind == "ordered":
            return score_NK - torch.cat([self.first, self.first + self.gap.exp().cumsum(0)])
        return score_NK.squeeze(1)
