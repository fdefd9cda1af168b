"""Dropout that costs no time where it is fused into other work.

Srivastava et al. 2014: each number is 0 with probability p, else divided by 1 − p. In compiled code which numbers are
kept is a hash of their places and of one number drawn for the call: torch's own generator (Philox, ten rounds) takes
three times as long there as reading and writing what is dropped. The hash is MurmurHash3's finaliser (`keep`).
Elsewhere this is torch's dropout. Deviations: none.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_WEYL, _FIRST, _SECOND = -1640531535, -2048144789, -1028477387  # 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, as int32


def keep(size: int, p: float, seed: Tensor) -> Tensor:
    """[size] true with probability 1 − p; `seed` is an int32 number on the device."""
    bits = (torch.arange(size, dtype=torch.int32, device=seed.device) ^ seed) * _WEYL
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * _FIRST
    bits = ((bits ^ ((bits >> 13) & 0x7FFFF)) ^ seed) * _SECOND
    bits = bits ^ ((bits >> 16) & 0xFFFF)
    return (bits & 0x7FFFFFFF) >= int(p * 2**31)


def seed(device: torch.device) -> Tensor:
    """A new number at each call."""
    return torch.randint(-(2**31), 2**31 - 1, (), dtype=torch.int32, device=device)


class Dropout(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p or not torch.compiler.is_compiling():
            return super().forward(x)
        kept = keep(x.numel(), self.p, seed(x.device)).view(x.shape)
        return torch.where(kept, x / (1 - self.p), 0.0)
