"""Logistic regression over fields: f = b + Σ_i w_i x_i, one weight for each value of each field, and of each cross.

Richardson, Dominowska and Ragno 2007, Predicting clicks: estimating the click-through rate for new ads. The sum is in
`FieldNetwork.look_up`; σ(f) and its loss are the objective's. Deviations: weights learn by lazy Adagrad or Adam, not by
L-BFGS. Shapes: B examples, S places, C crosses.
"""

from __future__ import annotations

from torch import Tensor

from canon.config import settings
from canon.systems.clicks.fields import FieldNetwork
from canon.systems.clicks.settings import FieldConfig


@settings
class Config(FieldConfig):
    pass


class FieldLR(FieldNetwork):
    def __init__(self, config: Config) -> None:
        super().__init__(config, "field-lr", 0, crossed=True)

    def forward(self, rows_BS: Tensor, weights_BS: Tensor | None = None, crosses_BC: Tensor | None = None) -> Tensor:
        first_B, _ = self.look_up(rows_BS, weights_BS, crosses_BC)
        return first_B[:, None]
