"""One matrix for tokens in and tokens out.

Press and Wolf 2017 (arXiv:1608.05859); Vaswani et al. 2017 (1706.03762), section 3.4: embeddings are its rows times √D,
logits are products with its rows. Rows begin at N(0, 1/D), so that both have variance 1. `scale` = 1 is for networks
that take the rows as they are. Deviations: none.
Shapes: N tokens, D features, V tokens of the vocabulary.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.packed import product
from canon.nn.token_loss import TokenLoss, token_loss


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size: int, dim: int, scale: float = 0.0) -> None:
        """scale: of embeddings; 0: √D."""
        super().__init__()
        self.scale = scale or math.sqrt(dim)
        self.weight = nn.Parameter(torch.empty(vocab_size, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def forward(self, token_N: Tensor, places: Tensor | None = None, vectors_KD: Tensor | None = None) -> Tensor:
        """scale · E + `places`, [N, D]. Tokens from V on, where `vectors` are given, are rows of these."""
        if vectors_KD is None:
            embedded_ND = F.embedding(token_N, self.weight)
        else:
            row_N = (token_N - len(self.weight)).clamp(min=0)
            inner_ND = F.embedding(token_N.clamp(max=len(self.weight) - 1), self.weight)
            is_inner_N1 = (token_N < len(self.weight))[:, None]
            embedded_ND = torch.where(is_inner_N1, inner_ND, F.embedding(row_N, vectors_KD))
        return embedded_ND * self.scale if places is None else torch.add(places, embedded_ND, alpha=self.scale)

    def logits(self, x_ND: Tensor, bias_V: Tensor | None = None) -> Tensor:
        """x Eᵀ + b, [N, V]."""
        return product(self)(x_ND, self.weight, bias_V)

    def token_losses(
        self, x_ND: Tensor, target_N: Tensor, bias_V: Tensor | None = None, share_N: Tensor | None = None
    ) -> TokenLoss:
        """The losses of targets under these logits, which are never held all at once; each `share_N` times."""
        return token_loss(x_ND, self.weight, bias_V, target_N, share_N)

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)
