"""The multilayer perceptron: h_l = dropout(φ(norm(W_l h_{l−1} + b_l))), scores = W h_L + b.

Rumelhart, Hinton and Williams 1986. Equations: a hidden layer in `hidden_layer`, the whole in `MLP.forward`.
Deviations: the paper's units are logistic (activation = "sigmoid") and its error is squared; here ReLU and
cross-entropy by default. With activation = "selu" the layers are self-normalising (Klambauer et al. 2017): LeCun-normal
weights and alpha dropout. Shapes: B examples, F features, K classes.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.activations import activation, dropout_for
from canon.nn.initialization import initialize
from canon.nn.normalization import BatchNorm1d
from canon.systems.settings import Classes, Shape, Share, Units


@settings
class Config:
    shape: Shape = Field(default=(1, 8, 8), description="of one input; the data decides")
    num_classes: Classes = Field(default=10, description="the data decides")
    hidden: Units = Field(default=(128,), description="units of each hidden layer")
    activation: str = Field(default="relu", description="φ, by name (docs/activations.md)")
    norm: Literal["none", "batch", "layer"] = Field(default="none", description="normalisation before φ")
    dropout: Share = Field(default=0.0, description="share of hidden units dropped")


class MLP(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        sizes = [math.prod(config.shape), *config.hidden]
        layers = [hidden_layer(inputs, units, config) for inputs, units in pairwise(sizes)]
        self.layers = nn.Sequential(nn.Flatten(), *layers)
        self.output = nn.Linear(sizes[-1], config.num_classes)
        initialize(self, "lecun-normal" if config.activation == "selu" else "he-uniform")

    def forward(self, input_BF: Tensor) -> Tensor:
        return self.output(self.layers(input_BF))


def hidden_layer(inputs: int, units: int, config: Config) -> nn.Sequential:
    layer = nn.Sequential(nn.Linear(inputs, units))
    if config.norm != "none":
        layer.append(BatchNorm1d(units) if config.norm == "batch" else nn.LayerNorm(units))
    layer.append(activation(config.activation))
    if config.dropout:
        layer.append(dropout_for(config.activation, config.dropout))
    return layer
