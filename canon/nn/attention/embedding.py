"""One matrix for tokens in and tokens out.

Press and Wolf 2017 (arXiv:1608.05859); Vaswani et al. 2017 (1706.03762), section 3.4: embeddings are its rows times √D,
logits are products with its rows. Rows begin at N(0, 1/D), so that both have variance 1. Deviations: none.
Shapes: N tokens, D features, V tokens of the vocabulary.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.packed import Packed


class TokenEmbedding(nn.Module):
    """Both uses go through `forward`, where sharded weights are put together."""

    def __init__(self, vocab_size: int, dim: int) -> None:
        super().__init__()
        self.scale = math.sqrt(dim)
        self.packed = Packed()
        self.weight = nn.Parameter(torch.empty(vocab_size, dim))
        self.reset()

    def reset(self) -> None:
        nn.init.normal_(self.weight, std=1 / self.scale)

    def forward(self, x: Tensor, places: Tensor | None = None) -> Tensor:
        """Token ids to √D · E + `places`, [N, D]; features [N, D] to logits [N, V]."""
        if x.is_floating_point():
            return self.packed(x, self.weight)
        embedded_ND = F.embedding(x, self.weight)
        return embedded_ND * self.scale if places is None else torch.add(places, embedded_ND, alpha=self.scale)

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)
