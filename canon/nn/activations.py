"""Activations as functions and as modules, and the dropout that goes with each.

Papers: Leaky ReLU Maas et al. 2013 · ELU Clevert et al. 2016 (arXiv:1511.07289) · SELU and alpha dropout Klambauer et
al. 2017 (1706.02515) · GELU Hendrycks & Gimpel 2016 (1606.08415).
torch's kernels are used wherever torch has the function; ours are ReLU's subgradient at 0, GELU's sigmoid form and the
masked softmax. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.errors import CanonError, unknown


class _ReLUSubgradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, at_zero: float) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        ctx.at_zero = at_zero
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return grad * torch.heaviside(x, x.new_tensor(ctx.at_zero)), None


def relu(x: Tensor, subgradient: float = 0.0) -> Tensor:
    """max(0, x); the derivative at exactly 0 is `subgradient`, which must lie in [0, 1]."""
    if not 0 <= subgradient <= 1:
        raise CanonError(f"ReLU's subgradient at 0 lies between 0 and 1, got {subgradient}.")
    return F.relu(x) if subgradient == 0 else _ReLUSubgradient.apply(x, subgradient)


def gelu_sigmoid(x: Tensor) -> Tensor:
    """x · σ(1.702 x), the sigmoid form of GELU."""
    return x * torch.sigmoid(1.702 * x)


def masked_softmax(scores: Tensor, allowed: Tensor, dim: int = -1) -> Tensor:
    """Softmax over the places where `allowed` is true, 0 elsewhere; all zeros, and zero gradient, where none is.

    | input | shape | meaning |
    | --- | --- | --- |
    | scores | any | logits; may be −inf or NaN where not allowed |
    | allowed | broadcasts to scores | True: takes part |
    """
    # A finite floor instead of −inf: a row without any place is then 0/0-free, forward and backward.
    floor = torch.finfo(scores.dtype).min
    return F.softmax(scores.masked_fill(~allowed, floor), dim=dim).masked_fill(~allowed, 0.0)


class ReLU(nn.Module):
    """`relu` as a module."""

    def __init__(self, subgradient: float = 0.0) -> None:
        super().__init__()
        self.subgradient = subgradient

    def forward(self, x: Tensor) -> Tensor:
        return relu(x, self.subgradient)

    def extra_repr(self) -> str:
        return f"subgradient={self.subgradient}"


class GELUSigmoid(nn.Module):
    """`gelu_sigmoid` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        return gelu_sigmoid(x)


# The one table of activation names. Factories take the activation's own settings, as in activation("elu", alpha=0.5).
ACTIVATIONS: dict[str, Callable[..., nn.Module]] = {
    "identity": nn.Identity,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "relu": ReLU,  # subgradient = 0, the derivative at 0
    "leaky-relu": lambda alpha=0.01: nn.LeakyReLU(alpha),
    "elu": lambda alpha=1.0: nn.ELU(alpha),
    "selu": nn.SELU,
    "gelu": nn.GELU,  # exact, by erf
    "gelu-tanh": lambda: nn.GELU(approximate="tanh"),
    "gelu-sigmoid": GELUSigmoid,
    "softmax": lambda dim=-1: nn.Softmax(dim=dim),
}


def activation(name: str, **settings: float) -> nn.Module:
    """The activation of that name, as a module."""
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    try:
        return ACTIVATIONS[name](**settings)
    except TypeError:
        raise CanonError(f"The activation {name} does not take {', '.join(settings)}.") from None


def dropout_for(activation_name: str, p: float) -> nn.Module:
    """Alpha dropout for SELU, which keeps its mean and variance; ordinary dropout for the others."""
    if activation_name not in ACTIVATIONS:
        raise unknown("activation", activation_name, ACTIVATIONS)
    if not 0 <= p < 1:
        raise CanonError(f"Dropout is a probability from 0 up to but not including 1, got {p}.")
    return nn.AlphaDropout(p) if activation_name == "selu" else nn.Dropout(p)
