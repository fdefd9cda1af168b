"""Pooling: max, mean, global mean and stochastic.

Papers: stochastic Zeiler & Fergus 2013 (arXiv:1301.3557), equations 4–5 → training, 6 → evaluation; global mean
Lin, Chen & Yan 2013 (1312.4400). Max and mean are torch's modules.
Deviations: a window of zeros, where the paper's p is 0/0, gives 0; negative activations, which the paper excludes by a
ReLU in front, have probability 0.
Shapes: B batch, C channels, H W places, P Q places after pooling, K places in a window.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from canon.errors import CanonError, unknown


def global_mean(x_BCHW: Tensor) -> Tensor:
    """The mean of every channel over all its places: [B, C]."""
    return x_BCHW.mean((-2, -1))


def stochastic_pool(x_BCHW: Tensor, size: int, stride: int | None = None, training: bool = True) -> Tensor:
    """p_i = a_i / Σ_K a; in training a_l with l ~ p (from torch's global generator), in evaluation Σ_K p_i a_i."""
    stride = stride or size
    if size < 1 or stride < 1 or min(x_BCHW.shape[-2:]) < size:
        raise CanonError(f"A pooling window of {size} does not fit in {tuple(x_BCHW.shape[-2:])} with stride {stride}.")
    windows_BCPQK = x_BCHW.unfold(2, size, stride).unfold(3, size, stride).flatten(-2)
    weights_BCPQK = windows_BCPQK.clamp(min=0)
    if not training:
        total_BCPQ = weights_BCPQK.sum(-1).clamp(min=torch.finfo(x_BCHW.dtype).tiny)
        return (weights_BCPQK * windows_BCPQK).sum(-1) / total_BCPQ
    weights_BCPQK = weights_BCPQK.detach()
    empty_BCPQ1 = weights_BCPQK.sum(-1, keepdim=True) == 0
    rows = torch.where(empty_BCPQ1, 1.0, weights_BCPQK).flatten(0, -2)
    chosen_BCPQ1 = torch.multinomial(rows, 1).view(empty_BCPQ1.shape)
    return windows_BCPQK.gather(-1, chosen_BCPQ1).masked_fill(empty_BCPQ1, 0.0).squeeze(-1)


class StochasticPool2d(nn.Module):
    """`stochastic_pool` as a module."""

    def __init__(self, size: int, stride: int | None = None) -> None:
        super().__init__()
        self.size, self.stride = size, stride

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return stochastic_pool(x_BCHW, self.size, self.stride, self.training)

    def extra_repr(self) -> str:
        return f"size={self.size}, stride={self.stride or self.size}"


class GlobalMeanPool(nn.Module):
    """`global_mean` as a module."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return global_mean(x_BCHW)


# The one table of names for pooling over windows; each takes (size, stride=None).
POOLINGS: dict[str, Callable[..., nn.Module]] = {
    "max": nn.MaxPool2d,
    "mean": nn.AvgPool2d,
    "stochastic": StochasticPool2d,
}


def pooling(name: str, size: int, stride: int | None = None) -> nn.Module:
    """The pooling of that name over windows of `size`, by default side by side."""
    if name not in POOLINGS:
        raise unknown("pooling", name, POOLINGS)
    return POOLINGS[name](size, stride)
