"""Two-stream attention: a content stream that sees its own token, and a query stream that sees only its place.

Yang et al. 2019, XLNet (arXiv:1906.08237), section 2.3: the content stream h sees its token and those before it in the
order of factorisation, the query stream g only those before it, at its own place → `Sight`, `TwoStreamAttention`.
Section 2.4, with Dai et al. 2019, Transformer-XL (1901.02860), appendix B; section 2.5 for the third term:
  A(i, j) = (q_i + u)·k_j + (q_i + v)·W r_{i−j} + (q_i + w)·s_{same(i, j)}
where distances i − j have both signs, and s says whether both tokens are of one segment. The first product is the
kernel's own; the others are its bias. Tokens of equal rank see each other's content.
Deviations: a query that sees nothing gets zeros, where the authors' code averages over everything.
Shapes: N tokens of B sequences, L the longest, M of them asked for, P the most of one sequence, T places of memory,
K = T + L keys, R = K + L − 1 distances, D features, H heads of d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.attention.attend import attend
from canon.nn.attention.relative import RelativeAttention
from canon.nn.positions import relative_shift, sinusoids
from canon.nn.ragged import Layout


@dataclass(frozen=True)
class View:
    """What the queries of one stream see; the same in all layers."""

    layout: Layout  # of the queries
    seen: Tensor  # [B, Q, K]
    same: Tensor | None = None  # [B, Q, K] whether query and key are of one segment; None: without segments
    places: Tensor | None = None  # [B, Q] of the queries in their sequences; None: all places, one after the other


@dataclass(frozen=True)
class Sight:
    content: View
    query: View | None  # None: the content stream alone
    waves: Tensor  # [R, D] sinusoids of the distances K−1 … 1−L


def look(
    layout: Layout,
    dim: int,
    rank_N: Tensor | None = None,
    asked: tuple[Tensor, Layout] | None = None,
    segment_N: Tensor | None = None,
    memory: int = 0,
) -> Sight:
    """Who sees whom.

    rank: places in the order of factorisation; None: content sees everything. asked: which of N tokens the query stream
    is at, and their layout; ranks decide what it sees. `memory` tokens before each sequence are seen by all, and belong
    to segment 0.
    """
    there_B1L = layout.mask[:, None]
    rank_BL = None if rank_N is None else layout.pad(rank_N)
    segment_BL = None if segment_N is None else layout.pad(segment_N)

    def view(queries: Layout, places_BQ: Tensor | None) -> View:
        def own(x_BL: Tensor) -> Tensor:
            return (x_BL if places_BQ is None else x_BL.gather(1, places_BQ))[:, :, None]

        seen_BQK = there_B1L.expand(-1, queries.max_length, -1)
        if rank_BL is not None:
            before_BQK = rank_BL[:, None] < own(rank_BL) if places_BQ is not None else rank_BL[:, None] <= own(rank_BL)
            seen_BQK = seen_BQK & before_BQK
        same_BQK = None if segment_BL is None else own(segment_BL) == F.pad(segment_BL, (memory, 0))[:, None]
        return View(queries, F.pad(seen_BQK, (memory, 0), value=True), same_BQK, places_BQ)

    query = None
    if asked is not None:
        assert rank_BL is not None, "without an order a token would see itself in the others"
        places_M, queries = asked
        query = view(queries, queries.pad(layout.positions[places_M]))
    distances = torch.arange(memory + layout.max_length - 1, -layout.max_length, -1, device=layout.device)
    return Sight(view(layout, None), query, sinusoids(distances, dim))


class TwoStreamAttention(RelativeAttention):
    def __init__(self, dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__(dim, num_heads, dropout)
        self.segment_bias = nn.Parameter(torch.zeros(num_heads, self.head_dim))  # w
        self.segment = nn.Parameter(torch.zeros(2, num_heads, self.head_dim))  # s: of one segment, of two

    def forward(  # type: ignore[override]
        self, h_ND: Tensor, g_MD: Tensor | None, sight: Sight, memory_BTD: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Both streams; keys and values are the content's, and the memory's before it."""
        query, key, value = self._heads(sight.content.layout.pad(self.qkv(h_ND)), 3)
        if memory_BTD is not None and memory_BTD.shape[1]:
            _, past_key, past_value = self._heads(self.qkv(memory_BTD), 3)
            key, value = torch.cat([past_key, key], 1), torch.cat([past_value, value], 1)
        key, value = key.transpose(1, 2), value.transpose(1, 2)
        by_distance_HdR = self.by_distance(sight.waves.to(h_ND.dtype))
        h_ND = self._attend(query, key, value, by_distance_HdR, sight.content)
        if g_MD is None or sight.query is None:
            return h_ND, None
        (asked,) = self._heads(sight.query.layout.pad(F.linear(g_MD, self.qkv.weight[: self.dim])), 1)
        return h_ND, self._attend(asked, key, value, by_distance_HdR, sight.query)

    def _attend(self, query_BQHd: Tensor, key: Tensor, value: Tensor, by_distance_HdR: Tensor, view: View) -> Tensor:
        """One stream's output, end to end."""
        scores_BHQR = (query_BQHd + self.position_bias).transpose(1, 2) @ by_distance_HdR
        bias = _by_key(scores_BHQR, view.places, key.shape[2])
        if view.same is not None:
            by_segment = torch.einsum(
                "bqhd,shd->bhqs", query_BQHd + self.segment_bias, self.segment.to(query_BQHd.dtype)
            )
            bias = bias + torch.where(view.same[:, None], by_segment[..., :1], by_segment[..., 1:])
        bias = bias / math.sqrt(self.head_dim)
        asked = (query_BQHd + self.content_bias).transpose(1, 2)
        out = attend(asked, key, value, mask=view.seen[:, None], bias=bias, dropout=self._dropout)
        return self.output(view.layout.unpad(out.transpose(1, 2).flatten(2)))


def _by_key(scores_BHQR: Tensor, places_BQ: Tensor | None, keys: int) -> Tensor:
    """[B, H, Q, K] of scores by falling distance; None: the queries are at the last Q keys, one after the other."""
    if places_BQ is None:
        return relative_shift(scores_BHQR)[..., :keys]
    # The query at place p is K − L + p − j away from key j, which is column j + L − 1 − p.
    last = scores_BHQR.shape[3] - keys
    column_BQK = torch.arange(keys, device=places_BQ.device) + (last - places_BQ)[:, :, None]
    return scores_BHQR.gather(3, column_BQK[:, None].expand(-1, scores_BHQR.shape[1], -1, -1))
