"""Positions of tokens: sinusoids, learned vectors, distances by sinusoids (Transformer-XL), bucketed distances (T5).

Vaswani et al. 2017 (arXiv:1706.03762), section 3.5: PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same →
`sinusoids`; PE(p)·PE(p + k) depends on k alone. Gehring et al. 2017 (1705.03122): learned → `Learned`.
Dai et al. 2019, Transformer-XL (1901.02860), appendix B → `relative_shift`, which turns scores by distance into scores
by key. Raffel et al. 2020, T5 (1910.10683), section 2.1, and its code for the buckets → `bucket`, `BucketedBias`.
Deviations: T5's bias begins at 0. Shapes: N tokens, D features, H heads, Q queries, K keys.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from canon.errors import CanonError

_LEAST = 256  # places that a table of sinusoids has from the start


def sinusoids(positions: Tensor, dim: int) -> Tensor:
    """[…] to […, D]: sines at even places, cosines at odd ones, wavelengths from 2π to 10000 · 2π."""
    if dim % 2:
        raise CanonError(f"Sinusoids come in pairs, so system.dim must be even, got {dim}.")
    # In float64: a float32 phase of 10,000 is off by 0.001.
    exponents = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / dim
    phases = positions.double()[..., None] * torch.exp(-math.log(10_000) * exponents)
    return torch.stack([phases.sin(), phases.cos()], -1).flatten(-2).float()


class Sinusoidal(nn.Module):
    """PE of any position; the table grows as it is asked for and is not part of the weights."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim % 2:
            raise CanonError(f"Sinusoids come in pairs, so system.dim must be even, got {dim}.")
        self.dim = dim
        self._table: Tensor | None = None

    def table(self, size: int, device: torch.device) -> Tensor:
        """[at least size, D]."""
        table = self._table  # another thread may put a shorter one there
        if table is None or len(table) < size or table.device != device:
            size = max(size, _LEAST, 2 * len(table) if table is not None else 0)
            self._table = table = sinusoids(torch.arange(size, device=device), self.dim)
        return table

    def forward(self, positions_N: Tensor, size: int) -> Tensor:
        """[N, D] of positions below `size`, which the host knows."""
        return self.table(size, positions_N.device).index_select(0, positions_N)


class Learned(nn.Module):
    """A vector per position, up to `max_positions`."""

    def __init__(self, max_positions: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def table(self, size: int, device: torch.device) -> Tensor:
        self._check(size)
        return self.weight

    def forward(self, positions_N: Tensor, size: int) -> Tensor:
        self._check(size)
        return self.weight.index_select(0, positions_N)

    def _check(self, size: int) -> None:
        if size > len(self.weight):
            raise CanonError(
                f"A sequence of {size:,} tokens is longer than the {len(self.weight):,} positions that were learned "
                "(system.max_positions); cut it, or train with sinusoidal ones."
            )


def relative_shift(scores: Tensor) -> Tensor:
    """[…, Q, K] by falling distance K−1 … 0 to [… , Q, K] by key: row i moves left by Q − 1 − i.

    Query i stands at key K − Q + i, so that key j is K − Q + i − j away. Later keys hold leftovers: mask them.
    A column of zeros in front, the rows read again one number on: no index is computed.
    """
    *batch, queries, keys = scores.shape
    padded = torch.cat([scores.new_zeros(*batch, queries, 1), scores], -1)
    return padded.view(*batch, keys + 1, queries)[..., 1:, :].reshape(scores.shape)


def bucket(offset: Tensor, bidirectional: bool, num_buckets: int = 32, max_distance: int = 128) -> Tensor:
    """The bucket of key − query: one for each small distance, then logarithmic, the last from max_distance on.

    Bidirectional: half of the buckets are for keys after the query. Otherwise those are all at distance 0.
    """
    first = torch.zeros_like(offset)
    if bidirectional:
        num_buckets //= 2
        first = (offset > 0) * num_buckets
        distance = offset.abs()
    else:
        distance = (-offset).clamp(min=0)
    exact = num_buckets // 2
    growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    wide = exact + (growth * (num_buckets - exact)).long()
    return first + torch.where(distance < exact, distance, wide.clamp(max=num_buckets - 1))


class BucketedBias(nn.Module):
    """T5's bias: a learned number per bucket and head, added to scores; all layers of a stack share one."""

    def __init__(self, num_heads: int, bidirectional: bool, num_buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.bidirectional, self.num_buckets, self.max_distance = bidirectional, num_buckets, max_distance
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads))
        nn.init.zeros_(self.weight)

    def by_offset(self, first: int, last: int) -> Tensor:
        """[H, K] for keys that stand `first` to last − 1 after the query."""
        offset_K = torch.arange(first, last, device=self.weight.device)
        return self.weight[bucket(offset_K, self.bidirectional, self.num_buckets, self.max_distance)].T

    def forward(self, queries: int, keys: int) -> Tensor:
        """[1, H, Q, K]; the last query stands at the last key."""
        device = self.weight.device
        offset_QK = torch.arange(keys, device=device) - torch.arange(keys - queries, keys, device=device)[:, None]
        places_QK = bucket(offset_QK, self.bidirectional, self.num_buckets, self.max_distance)
        return self.weight[places_QK].permute(2, 0, 1)[None]
