"""Softmax over the keys that lengths or a mask let be seen; a row that sees none is zeros, never NaN.

Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.3: what may not be seen has the score −∞. Deviations: none.
Shapes: B sequences, H heads, Q queries, K keys.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.nn import activations


def masked_softmax(scores: Tensor, mask: Tensor | None = None, *, lengths: Tensor | None = None) -> Tensor:
    """Softmax over the last dimension, forward and backward 0 for what is hidden.

    | input | shape | meaning |
    | --- | --- | --- |
    | scores | [B, …, K] | before the softmax; may be −inf or NaN where hidden |
    | mask | broadcasts to scores | True: seen |
    | lengths | [B] or [B, Q] | each sequence, or each query of it, sees its first so many keys |
    """
    if lengths is not None:
        seen = length_mask(lengths, scores.shape[-1])
        seen = seen.reshape(len(lengths), *(1,) * (scores.dim() - seen.dim()), *seen.shape[1:])
        mask = seen if mask is None else mask & seen
    if mask is None:
        return F.softmax(scores, dim=-1)
    return activations.masked_softmax(scores, mask)


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """[…] to […, size]: True at the first `lengths` places."""
    return torch.arange(size, device=lengths.device) < lengths[..., None]
