"""Attention within a band, block by block: memory and time grow with length × window, not with length².

Beltagy, Peters and Cohan 2020, Longformer (arXiv:2004.05150), section 3.1: the sliding window.
Queries are cut into blocks of `window`; all keys that a block can see lie in it and the block before it (and, where the
future may be seen, the one after it): one call over all blocks, with a mask of one block's size.
Deviations: none. Shapes: B sequences, H heads, L places, n blocks of w places, k keys that a block sees, d features.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.nn.attention.dense import product


def banded(
    query_BHLd: Tensor,
    key_BHLd: Tensor,
    value_BHLd: Tensor,
    window: int,
    causal: bool,
    mask_BL: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Query i sees key j if |i − j| < window, if j ≤ i where causal, and if the mask has j."""
    batch, heads, length, width = query_BHLd.shape
    blocks = -(-length // window)
    rest = blocks * window - length
    after = 0 if causal else window
    reach = 2 * window + after  # keys that a block looks at: from one block before its own

    def blocked(keys: Tensor) -> Tensor:
        """[B, H, L, d] to [B n, H, k, d]: every key stands in two or three blocks."""
        keys = F.pad(keys, (0, 0, window, rest + after))
        return keys.unfold(2, reach, window).permute(0, 2, 1, 4, 3).reshape(batch * blocks, heads, reach, width)

    query = F.pad(query_BHLd, (0, 0, 0, rest)).unflatten(2, (blocks, window)).transpose(1, 2).flatten(0, 1)
    device = query.device
    gap_wk = torch.arange(window, device=device)[:, None] + window - torch.arange(reach, device=device)  # i − j
    near_wk = (gap_wk < window) & (gap_wk >= 0 if causal else gap_wk > -window)
    place_nk = torch.arange(blocks, device=device)[:, None] * window + torch.arange(
        -window, reach - window, device=device
    )
    there_Bnk = ((place_nk >= 0) & (place_nk < length))[None]
    if mask_BL is not None:
        there_Bnk = F.pad(mask_BL, (window, rest + after)).unfold(1, reach, window)
    # Filled-up queries, which nobody reads, see what is hidden: a row that sees nothing would need care.
    spare_nw = (torch.arange(blocks * window, device=device) >= length).view(blocks, window)
    seen = (near_wk & there_Bnk[:, :, None]) | spare_nw[:, :, None]
    seen = seen.expand(batch, -1, -1, -1).reshape(batch * blocks, 1, window, reach)
    out = product(
        query, blocked(key_BHLd), blocked(value_BHLd), mask=seen, dropout=dropout, may_be_blind=mask_BL is not None
    )
    return out.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :length]
