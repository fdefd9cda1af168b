"""Attention by distance: causal self-attention over a segment and the memory before it, with positions by distance.

Dai et al. 2019, Transformer-XL (arXiv:1901.02860), section 3.3 and appendix B:
  A(i, j) = (q_i + u)·k_j + (q_i + v)·W r_{i−j}, r the sinusoids of a distance (canon/nn/positions.py)
The first product is the kernel's own; the second is its bias: computed for all distances at once, then shifted so that
each query finds its own (`relative_shift`). Projections have no biases, as in the paper.
`step` is the same for one more token, over keys and values that are kept. Deviations: none.
Shapes: B streams, T tokens of a segment, M of memory, K = M + T keys, D features, H heads of d.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.attention.attend import attend, weights
from canon.nn.attention.multihead import MultiHead
from canon.nn.positions import relative_shift, sinusoids


def distances(size: int, dim: int, device: torch.device) -> Tensor:
    """[size, D] sinusoids of the distances size−1 … 0."""
    return sinusoids(torch.arange(size - 1, -1, -1, device=device), dim)


class RelativeAttention(MultiHead):
    def __init__(self, dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__(dim, num_heads, dropout, bias=False)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.relative = nn.Linear(dim, dim, bias=False)  # W of r
        self.content_bias = nn.Parameter(torch.zeros(num_heads, self.head_dim))  # u
        self.position_bias = nn.Parameter(torch.zeros(num_heads, self.head_dim))  # v
        self.reset()

    def forward(self, x_BTD: Tensor, memory_BMD: Tensor, r_KD: Tensor) -> Tensor:
        """`memory` is the input of this layer at the places before x; `r_KD` the sinusoids of distances K−1 … 0."""
        query, key, value, bias = self._parts(x_BTD, memory_BMD, r_KD)
        heads = attend(query, key, value, causal=True, bias=bias, dropout=self._dropout)
        return self.output(heads.transpose(1, 2).flatten(2))

    def weights(self, x_BTD: Tensor, memory_BMD: Tensor, r_KD: Tensor) -> Tensor:
        """[B, H, T, K], to look at."""
        query, key, _, bias = self._parts(x_BTD, memory_BMD, r_KD)
        return weights(query, key, causal=True, bias=bias)

    def _parts(self, x_BTD: Tensor, memory_BMD: Tensor, r_KD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """q + u, k, v, each [B, H, …, d], and the scores by distance, [B, H, T, K]."""
        length = x_BTD.shape[1]
        seen_BKD = torch.cat([memory_BMD, x_BTD], 1) if memory_BMD.shape[1] else x_BTD
        query, key, value = self._heads(self.qkv(seen_BKD), 3)
        query = query[:, -length:]
        key, value = key.transpose(1, 2), value.transpose(1, 2)
        asked_BHTd = (query + self.content_bias).transpose(1, 2)
        bias = relative_shift((query + self.position_bias).transpose(1, 2) @ self.by_distance(r_KD))
        return asked_BHTd, key, value, bias / math.sqrt(self.head_dim)

    def by_distance(self, r_KD: Tensor) -> Tensor:
        """W r of each distance, [H, d, K]."""
        return self.relative(r_KD).unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0)

    def remember(self, memory_BMD: Tensor) -> Tensor:
        """Keys and values of what came before, [B, 2, H, M, d]."""
        _, key, value = self._heads(self.qkv(memory_BMD), 3)
        return torch.stack([key, value], 1).transpose(2, 3)

    def step(self, x_BD: Tensor, slot_B2Hd: Tensor, keys: Tensor, values: Tensor, by_distance_HdK: Tensor) -> Tensor:
        """One token: `slot` is its place, the last, among `keys` and `values` [B, H, K, d], and is filled here."""
        projected = self.qkv(x_BD).unflatten(-1, (3, self.num_heads, self.head_dim))
        slot_B2Hd.copy_(projected[:, 1:])
        query = projected[:, 0]
        bias = (query + self.position_bias)[:, :, None] @ by_distance_HdK / math.sqrt(self.head_dim)
        asked = (query + self.content_bias)[:, :, None]
        out = F.scaled_dot_product_attention(asked, keys, values, bias.to(asked.dtype))
        return self.output(out.flatten(1))
