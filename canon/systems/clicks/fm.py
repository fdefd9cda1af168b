"""The factorization machine: f = b + Σ w_i x_i + Σ_{i<j} ⟨v_i, v_j⟩ x_i x_j, in time O(kn).

Rendle 2010, Factorization machines: equation 1 in `FM.forward`, lemma 3.1 in `canon.nn.rows.pairwise`.
Deviations: a cell of several values is one term, the mean of their vectors; lazy Adagrad or Adam in place of SGD.
Shapes: B examples, S places, T terms, D dimensions.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from canon.config import settings
from canon.nn.rows import pairwise
from canon.systems.clicks.fields import FieldNetwork, Std
from canon.systems.clicks.settings import FieldConfig
from canon.systems.settings import Positive


@settings
class Config(FieldConfig):
    dim: Positive = Field(default=10, description="k, dimensions of a vector")
    init_std: Std = Field(default=0.01, description="standard deviation of the first vectors")


class FM(FieldNetwork):
    def __init__(self, config: Config) -> None:
        super().__init__(config, "fm", config.dim, config.init_std)

    def forward(self, rows_BS: Tensor, weights_BS: Tensor | None = None, crosses_BC: Tensor | None = None) -> Tensor:
        first_B, terms_BTD = self.look_up(rows_BS, weights_BS, crosses_BC)
        return (first_B + pairwise(terms_BTD))[:, None]
