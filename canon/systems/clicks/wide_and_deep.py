"""Wide & Deep: f = b + Σ w_i x_i + Σ_c w_c + MLP(v), with crosses c of fields that the recipe declares.

Cheng et al. 2016, Wide & deep learning for recommender systems: equation 1 (the wide part) and cross-product features
in `FieldNetwork.look_up`, the deep part in canon.systems.clicks.deep, equation 3 in `WideAndDeep.forward`.
Deviations: both parts learn by one optimiser, in place of FTRL and AdaGrad; the wide part reads every field; crosses
are hashed. Shapes: B examples, S places, T terms, D dimensions, C crosses.
"""

from __future__ import annotations

from torch import Tensor

from canon.config import settings
from canon.systems.clicks.deep import Deep, DeepConfig
from canon.systems.clicks.fields import FieldNetwork


@settings
class Config(DeepConfig):
    pass


class WideAndDeep(FieldNetwork):
    def __init__(self, config: Config) -> None:
        super().__init__(config, "wide-and-deep", config.dim, config.init_std, crossed=True)
        self.deep = Deep(config, self.inputs)

    def forward(self, rows_BS: Tensor, weights_BS: Tensor | None = None, crosses_BC: Tensor | None = None) -> Tensor:
        wide_B, terms_BTD = self.look_up(rows_BS, weights_BS, crosses_BC)
        return (wide_B + self.deep(self.flat(terms_BTD)))[:, None]
