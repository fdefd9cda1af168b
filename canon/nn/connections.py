"""Residual and dense connections around any module.

Papers: He et al. 2016 (arXiv:1512.03385), equations 1 and 2 → `Residual`; Huang et al. 2017 (1608.06993), equation 2 →
`DenseConnection`. Deviations: none. A 1×1 convolution, which both use to change the number of channels, is
`nn.Conv2d(in_channels, out_channels, 1)`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from canon.errors import CanonError


class Residual(nn.Module):
    """y = F(x) + s(x): `body` F; `shortcut` s is the identity unless given (a 1×1 convolution where shapes change)."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out, skipped = self.body(x), self.shortcut(x)
        if out.shape != skipped.shape:  # never broadcast in silence
            raise CanonError(
                f"A residual connection adds equal shapes, got {tuple(out.shape)} from the body and "
                f"{tuple(skipped.shape)} from the shortcut."
            )
        return out + skipped


class DenseConnection(nn.Module):
    """y = [x, H(x)], joined along `dim` (the channels)."""

    def __init__(self, body: nn.Module, dim: int = 1) -> None:
        super().__init__()
        self.body = body
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], self.dim)
