"""Scaled dot-product attention over a grid: which keys a query sees, and the fused kernel or the plain weights.

Vaswani et al. 2017 (arXiv:1706.03762), equation 1: softmax(q kᵀ / √d) v → `product`; its softmax alone → `shares`.
Deviations: none. Shapes: B sequences, H heads, Q queries, K keys, d features of a head.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.nn.attention.softmax import masked_softmax


def pattern(queries: int, keys: int, causal: bool, window: int, device: torch.device) -> Tensor | None:
    """[Q, K] True where i − j is allowed; the last query stands at the last key, as in decoding. None: everywhere."""
    if not causal and not window:
        return None
    gap_QK = torch.arange(keys - queries, keys, device=device)[:, None] - torch.arange(keys, device=device)
    if not window:
        return gap_QK >= 0
    seen_QK = gap_QK < window
    return seen_QK & (gap_QK >= 0 if causal else gap_QK > -window)


def product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    may_be_blind: bool = True,
) -> Tensor:
    """[B, H, Q, d]. `mask` is True where seen; `causal` alone, for as many keys as queries, needs no mask.

    A query that sees nothing gets zeros: it is let see everything, so that no kernel divides by 0, and then erased.
    may_be_blind = False says that there is none.
    """
    blind = None
    if mask is not None and may_be_blind:
        blind = ~mask.any(-1, keepdim=True)
        mask = mask | blind
    if bias is not None:
        bias = bias.to(query.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -math.inf)
    out = F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal=causal)
    return out if blind is None else out.masked_fill(blind, 0.0)


def shares(query: Tensor, key: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """The weights themselves, [B, H, Q, K]: to look at, as they are n² numbers that the kernels never hold."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return masked_softmax(scores if bias is None else scores + bias, mask)
