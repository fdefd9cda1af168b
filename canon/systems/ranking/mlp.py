"""The multilayer ranker: s = w·h_L + c, h_l = dropout(φ(norm(W_l h_{l−1} + b_l))), of each document alone.

Burges et al. 2005, Learning to rank using gradient descent, section 5 (RankNet's network, of two layers).
Deviations: ReLU, dropout and norms in place of the paper's sigmoid units. Shapes: N documents, F features.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.activations import activation, dropout_for
from canon.nn.initialization import initialize
from canon.nn.ragged import Layout
from canon.systems.ranking.head import Head, Scorer
from canon.systems.settings import Share, Units


@settings
class Config(Scorer):
    hidden: Units = Field(default=(64, 32), description="units of each hidden layer")
    activation: str = Field(default="relu", description="φ, by name (docs/activations.md)")
    norm: Literal["none", "layer"] = Field(default="none", description="normalisation before φ")
    dropout: Share = Field(default=0.0, description="share of hidden units dropped")


class MLPRanker(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, units in pairwise((config.shape[0], *config.hidden)):
            layers.append(nn.Linear(inputs, units))
            if config.norm == "layer":
                layers.append(nn.LayerNorm(units))
            layers.append(activation(config.activation))
            if config.dropout:
                layers.append(dropout_for(config.activation, config.dropout))
        self.layers = nn.Sequential(*layers)
        initialize(self, "lecun-normal" if config.activation == "selu" else "he-uniform")
        self.head = Head(config.hidden[-1] if config.hidden else config.shape[0], config)

    def forward(self, input_NF: Tensor, layout: Layout | None = None) -> Tensor:
        return self.head(self.layers(input_NF))
