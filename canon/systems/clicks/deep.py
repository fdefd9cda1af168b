"""An MLP over the vectors of all fields: the deep part of Wide & Deep and of DeepFM.

h_0 = [v_1, …, v_T], h_l = dropout(φ(norm(W_l h_{l−1} + b_l))), f = w·h_L. Shapes: B examples, T terms, D dimensions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.initialization import initialize
from canon.systems.clicks.fields import Std
from canon.systems.clicks.settings import FieldConfig
from canon.systems.linear.mlp import hidden_layer
from canon.systems.settings import Positive, Share, Units


@settings
class DeepConfig(FieldConfig):
    dim: Positive = Field(default=10, description="dimensions of a field's vector")
    hidden: Units = Field(default=(400, 400, 400), description="units of each hidden layer")
    activation: str = Field(default="relu", description="φ, by name (docs/activations.md)")
    norm: Literal["none", "batch", "layer"] = Field(default="none", description="normalisation before φ")
    dropout: Share = Field(default=0.0, description="share of hidden units dropped")
    init_std: Std = Field(default=0.01, description="standard deviation of the first vectors")


class Deep(nn.Module):
    def __init__(self, config: DeepConfig, inputs: int) -> None:
        super().__init__()
        sizes = [inputs, *config.hidden]
        self.layers = nn.Sequential(*(hidden_layer(before, units, config) for before, units in pairwise(sizes)))
        self.output = nn.Linear(sizes[-1], 1, bias=False)
        initialize(self, "he-uniform")

    def forward(self, input_BF: Tensor) -> Tensor:
        return self.output(self.layers(input_BF)).squeeze(1)
