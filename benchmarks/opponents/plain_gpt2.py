"""GPT-2 124 M as one writes it by hand, in the manner of nanoGPT: rows of one length, torch's attention, one whole."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 50304  # GPT-2's 50,257 filled up to a multiple of 128


class Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.inner, self.outer = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x_BTD: Tensor) -> Tensor:
        parts = self.qkv(self.first(x_BTD)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        query, key, value = (part.transpose(1, 2) for part in parts)
        seen_BHTd = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x_BTD = x_BTD + self.output(seen_BHTd.transpose(1, 2).flatten(2))
        return x_BTD + self.outer(F.gelu(self.inner(self.second(x_BTD)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, dim: int = 768, heads: int = 12, layers: int = 12, positions: int = 1024) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, dim), nn.Embedding(positions, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, token_BT: Tensor) -> Tensor:
        """The mean loss of each next token."""
        place_T = torch.arange(token_BT.shape[1] - 1, device=token_BT.device)
        x_BTD = self.norm(self.blocks(self.token(token_BT[:, :-1]) + self.position(place_T)))
        logits_BTV = x_BTD @ self.token.weight.T
        return F.cross_entropy(logits_BTV.flatten(0, 1), token_BT[:, 1:].flatten())
