"""How weights begin.

Papers: Xavier Glorot & Bengio 2010 · He et al. 2015 (arXiv:1502.01852) · LeCun et al. 1998, which SELU needs (Klambauer
et al. 2017). Variances: Xavier 2/(fan_in + fan_out), He 2/fan_in, LeCun 1/fan_in. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from canon.errors import unknown
from canon.nn.activations import ACTIVATIONS

INITIALIZERS: dict[str, Callable[[Tensor], Tensor]] = {
    "xavier-uniform": nn.init.xavier_uniform_,
    "xavier-normal": nn.init.xavier_normal_,
    "he-uniform": lambda weight: nn.init.kaiming_uniform_(weight, nonlinearity="relu"),
    "he-normal": lambda weight: nn.init.kaiming_normal_(weight, nonlinearity="relu"),
    "lecun-normal": lambda weight: nn.init.kaiming_normal_(weight, nonlinearity="linear"),
}

_SATURATING = ("identity", "sigmoid", "tanh", "softmax")


@torch.no_grad()
def initialize(module: nn.Module, scheme: str) -> nn.Module:
    """Draws the weights of every linear and convolution layer inside by `scheme`, zeroes their biases, returns it."""
    if scheme not in INITIALIZERS:
        raise unknown("initialisation", scheme, INITIALIZERS)
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.modules.conv._ConvNd):
            INITIALIZERS[scheme](layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return module


def initialization_for(activation_name: str) -> str:
    """The scheme whose derivation assumes this activation: SELU's LeCun, Xavier for saturating ones, else He."""
    if activation_name not in ACTIVATIONS:
        raise unknown("activation", activation_name, ACTIVATIONS)
    if activation_name == "selu":
        return "lecun-normal"
    return "xavier-uniform" if activation_name in _SATURATING else "he-normal"
