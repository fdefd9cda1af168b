"""The multilayer perceptron: h_l = dropout(φ(norm(W_l h_{l−1} + b_l))), scores = W h_L + b.

Rumelhart, Hinton and Williams 1986. Equations: a hidden layer in `hidden_layer`, the whole in `MLP.forward`.
Deviations: the paper's units are logistic (activation = "sigmoid") and its error is squared; here ReLU and
cross-entropy by default. With activation = "selu" the layers are self-normalising (Klambauer et al. 2017): LeCun-normal
weights and alpha dropout. Shapes: B examples, F features, K outputs.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Penalized
from canon.nn.activations import activation, dropout_for
from canon.nn.initialization import initialize
from canon.nn.normalization import BatchNorm1d
from canon.systems.settings import Classes, Natural, Positive, Shape, Share, Units

_MOST_WAVED = 256  # numbers of an input: a wide one is images, or mostly zeros and ones
_FREQUENCY = 0.1  # standard deviation of the first frequencies


@settings
class Config:
    shape: Shape = Field(default=(1, 8, 8), description="of one input; the data decides")
    num_classes: Classes = Field(default=10, description="the data decides")
    outputs: Natural = Field(default=0, description="numbers put out; 0: one for each class; the data decides")
    waves: Natural = Field(
        default=0,
        description=f"sines and cosines of each input number, beside it; of inputs of at most {_MOST_WAVED} numbers",
    )
    hidden: Units = Field(default=(128,), description="units of each hidden layer")
    activation: str = Field(default="relu", description="φ, by name (docs/activations.md)")
    norm: Literal["none", "batch", "layer"] = Field(default="none", description="normalisation before φ")
    dropout: Share = Field(default=0.0, description="share of hidden units dropped")
    num_examples: Positive = Field(default=1, description="n; the data decides")
    penalty: Annotated[float, Field(ge=0)] = Field(default=0.0, description="λ: λ/(2n) Σ w² is added to the mean loss")
    output_scale: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0, description="factor of the first weights of the output; 0: all inputs begin with the same scores"
    )


class MLP(nn.Module, Penalized):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.decay = config.penalty / config.num_examples
        inputs = math.prod(config.shape)
        waves = config.waves if inputs <= _MOST_WAVED else 0
        sizes = [inputs * (1 + 2 * waves), *config.hidden]
        layers = [hidden_layer(inputs, units, config) for inputs, units in pairwise(sizes)]
        self.layers = nn.Sequential(nn.Flatten(), *([Waves(inputs, waves)] if waves else []), *layers)
        self.output = nn.Linear(sizes[-1], config.outputs or config.num_classes)
        initialize(self, "lecun-normal" if config.activation == "selu" else "he-uniform")
        with torch.no_grad():
            self.output.weight *= config.output_scale

    def forward(self, input_BF: Tensor) -> Tensor:
        return self.output(self.layers(input_BF))

    def penalty(self) -> Tensor:
        total = self.output.weight.new_zeros(())
        for layer in self.modules() if self.decay else ():
            if isinstance(layer, nn.Linear):
                total = total + layer.weight.square().sum()
        return 0.5 * self.decay * total


class Waves(nn.Module):
    """x, sin(2π c x) and cos(2π c x) of each number x, with learned frequencies c: Gorishniy, Rubachev and Babenko 2022
    (arXiv:2203.05556), equation 4, beside the number itself. A hidden layer can then tell narrow ranges of it apart."""

    def __init__(self, inputs: int, waves: int) -> None:
        super().__init__()
        self.frequency_FW = nn.Parameter(torch.randn(inputs, waves) * _FREQUENCY)

    def forward(self, input_BF: Tensor) -> Tensor:
        angle_BN = (2 * math.pi * input_BF[:, :, None] * self.frequency_FW).flatten(1)
        return torch.cat([input_BF, angle_BN.sin(), angle_BN.cos()], dim=1)


class LayerConfig(Protocol):
    @property
    def activation(self) -> str: ...
    @property
    def norm(self) -> str: ...
    @property
    def dropout(self) -> float: ...


def hidden_layer(inputs: int, units: int, config: LayerConfig) -> nn.Sequential:
    layer = nn.Sequential(nn.Linear(inputs, units))
    if config.norm != "none":
        layer.append(BatchNorm1d(units) if config.norm == "batch" else nn.LayerNorm(units))
    layer.append(activation(config.activation))
    if config.dropout:
        layer.append(dropout_for(config.activation, config.dropout))
    return layer
