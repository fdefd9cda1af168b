"""Nadaraya–Watson kernel regression: attention with the training set as keys and values.

Nadaraya 1964, On estimating regression; Watson 1964, Smooth regression analysis.
f(x) = Σ_i softmax_i(−½ ‖x − x_i‖² w²) y_i over all training rows, in `forward`: a Gaussian kernel of standard deviation
1/w. The width is learned by gradient descent, or fixed (learn_width = false), when there is nothing to train.
Deviations: the papers choose the width, here it may be learned; then a row does not see itself while training, or w → ∞
would fit every row exactly. A row is recognised by its features: equal rows hide each other.
The training rows are kept with the weights: `take` is given them before the first step.
Shapes: B queries, N training rows, F features.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import TakesRows
from canon.data.schema import Schema
from canon.data.targets import Number
from canon.nn.attention.softmax import masked_softmax
from canon.systems.settings import Positive, Shape


@settings
class Config:
    shape: Shape = Field(default=(8,), description="of one input; the data decides")
    num_examples: Positive = Field(default=100, description="training rows; the data decides")
    width: Annotated[float, Field(gt=0)] = Field(default=1.0, description="w, at first if it is learned")
    learn_width: bool = Field(default=True, description="learn w; else it stays")


class KernelRegression(nn.Module, TakesRows):
    keys: Tensor  # [N, F]
    values: Tensor  # [N]

    def __init__(self, config: Config) -> None:
        super().__init__()
        # Noise until the data comes: zeros would hide every mistake.
        self.register_buffer("keys", torch.randn(config.num_examples, math.prod(config.shape)))
        self.register_buffer("values", torch.randn(config.num_examples))
        self.width = nn.Parameter(torch.tensor([config.width]))
        self.fixed = None if config.learn_width else config.width

    @torch.no_grad()
    def take(self, rows: dict[str, Tensor], schema: Schema) -> None:
        """Makes the training rows, {"input": [N, …], "target": [N]}, keys and values; targets in the network's unit."""
        self.keys.copy_(rows["input"].flatten(1))
        assert isinstance(schema.target, Number)
        self.values.copy_((rows["target"] - schema.target.mean) / schema.target.std)

    def forward(self, input_BF: Tensor) -> Tensor:
        """f(x), [B, 1]."""
        return (self.weights(input_BF) * self.values).sum(1, keepdim=True)

    def weights(self, input_BF: Tensor) -> Tensor:
        """The share of each training row in each prediction, [B, N]."""
        square_BN = squared_distances(input_BF.flatten(1), self.keys)
        # A fixed width has the gradient 0, so that the same loop runs both.
        width = self.width if self.fixed is None else self.fixed + 0 * self.width
        scores_BN = -0.5 * square_BN * width.square()
        return masked_softmax(scores_BN, square_BN > 0 if self.training else None)


@torch.no_grad()
def squared_distances(x_BF: Tensor, keys_NF: Tensor) -> Tensor:
    """‖x − x_i‖², [B, N], by differences, not by ‖x‖² + ‖x_i‖² − 2 x·x_i: a row must be at distance 0 from itself."""
    if torch.compiler.is_exporting():  # ONNX has no cdist; this holds [B, N, F]
        return (x_BF[:, None] - keys_NF).square().sum(-1)
    return torch.cdist(x_BF.to(keys_NF.dtype), keys_NF, compute_mode="donot_use_mm_for_euclid_dist").square()
