"""One matrix for tokens in and tokens out.

Press and Wolf 2017 (arXiv:1608.05859); Vaswani et al. 2017 (1706.03762), section 3.4: embeddings are its rows times √D,
logits are products with its rows. Rows begin at N(0, 1/D), so that both have variance 1. `scale` = 1 is for networks
that take the rows as they are. Deviations: none.
Shapes: N tokens, D features, V tokens of the vocabulary.
"""

from __future__ import annotations

import math
from typing import overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.packed import product
from canon.nn.token_loss import TokenLoss, token_loss


class TokenEmbedding(nn.Module):
    """Both uses go through `forward`, where sharded weights are put together."""

    def __init__(self, vocab_size: int, dim: int, scale: float = 0.0) -> None:
        """scale: of embeddings; 0: √D."""
        super().__init__()
        self.scale = scale or math.sqrt(dim)
        self.weight = nn.Parameter(torch.empty(vocab_size, dim))
        self.reset()

    def reset(self) -> None:
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)

    @overload
    def forward(self, x: Tensor, places: Tensor | None = None, *, bias: Tensor | None = None) -> Tensor: ...
    @overload
    def forward(
        self, x: Tensor, *, bias: Tensor | None = None, target_N: Tensor, share_N: Tensor | None = None
    ) -> TokenLoss: ...
    def forward(
        self,
        x: Tensor,
        places: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        target_N: Tensor | None = None,
        share_N: Tensor | None = None,
    ) -> Tensor | TokenLoss:
        """Token ids to scale · E + `places`, [N, D]; features [N, D] to logits [N, V], or to the loss of targets,
        each `share_N` times."""
        if target_N is not None:
            return token_loss(x, self.weight, bias, target_N, share_N)
        if x.is_floating_point():
            return product(self)(x, self.weight, bias)
        embedded_ND = F.embedding(x, self.weight)
        return embedded_ND * self.scale if places is None else torch.add(places, embedded_ND, alpha=self.scale)

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)
