"""DeepFM: f = FM(x) + MLP(v), where both read the same vectors, without hand-made crosses.

Guo et al. 2017, DeepFM: a factorization-machine based neural network for CTR prediction (arXiv:1703.04247): equation 1
in `DeepFM.forward`, equation 2 (FM) in `canon.nn.rows.pairwise`, equations 3 and 4 in canon.systems.clicks.deep.
Deviations: none. Shapes: B examples, S places, T terms, D dimensions.
"""

from __future__ import annotations

from torch import Tensor

from canon.config import settings
from canon.nn.rows import pairwise
from canon.systems.clicks.deep import Deep, DeepConfig
from canon.systems.clicks.fields import FieldNetwork


@settings
class Config(DeepConfig):
    pass


class DeepFM(FieldNetwork):
    def __init__(self, config: Config) -> None:
        super().__init__(config, "deepfm", config.dim, config.init_std)
        self.deep = Deep(config, self.inputs)

    def forward(self, rows_BS: Tensor, weights_BS: Tensor | None = None, crosses_BC: Tensor | None = None) -> Tensor:
        first_B, terms_BTD = self.look_up(rows_BS, weights_BS, crosses_BC)
        return (first_B + pairwise(terms_BTD) + self.deep(self.flat(terms_BTD)))[:, None]
