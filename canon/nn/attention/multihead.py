"""Multi-head attention on tokens end to end: each head attends in its own projection, all are projected again.

Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.2: head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) for all heads in
`SelfAttention.forward` and `CrossAttention.forward`, [head_1; …; head_h] W^O after them. The projections of all heads
are one matrix product: queries, keys and values of self-attention; keys and values of cross-attention.
Weights begin uniform in ±√(6 / 4D), which is Glorot and Bengio's for the three projections taken as one matrix.
Deviations: projections have biases, as in most implementations; bias = False leaves them out.
`self_step` and `cross_step` are the same for one more token, of the tensors alone (canon/nn/attention/steps.py).
Shapes: N tokens of B sequences, M tokens of their memories, D features, H heads of d.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.errors import CanonError
from canon.nn.attention.attend import attend_tokens, weights
from canon.nn.attention.prefix import Prefix
from canon.nn.packed import Linear, Product, product
from canon.nn.ragged import Layout, Packing


class MultiHead(nn.Module):
    """What self- and cross-attention have in common."""

    def __init__(self, dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if dim % num_heads:
            raise CanonError(f"system.dim must be a multiple of system.num_heads, got {dim} and {num_heads}.")
        self.dim, self.num_heads, self.head_dim = dim, num_heads, dim // num_heads
        self.dropout = dropout
        self.output = Linear(dim, dim, bias)

    def reset(self) -> None:
        bound = math.sqrt(6 / (4 * self.dim))
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif name.startswith("output"):
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.uniform_(parameter, -bound, bound)

    @property
    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def _heads(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """[…, parts · D] to `parts` of […, H, d]."""
        return x.unflatten(-1, (parts, self.num_heads, self.head_dim)).unbind(-3)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}"


class SelfAttention(MultiHead):
    """Queries, keys and values from the same tokens; `window` > 0 hides what is further away."""

    def __init__(self, dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, window: int = 0) -> None:
        super().__init__(dim, num_heads, dropout, bias)
        self.window = window
        self.qkv = Linear(dim, 3 * dim, bias)
        self.reset()

    def forward(
        self, x_ND: Tensor, layout: Layout | Packing, causal: bool = False, prefix: Prefix | None = None
    ) -> Tensor:
        """A packing in place of the layout says that tokens stay end to end, as `attend.can_pack` says.

        prefix: keys and values of some places in place of their own.
        """
        qkv_NC = self.qkv(x_ND)
        if prefix is not None:
            qkv_NC = prefix.put(qkv_NC)
        qkv_N3Hd = qkv_NC.unflatten(-1, (3, self.num_heads, self.head_dim))
        return self.output(attend_tokens(qkv_N3Hd, None, layout, layout, causal, self.window, self._dropout))

    def weights(self, x_ND: Tensor, layout: Layout, causal: bool = False) -> Tensor:
        """[B, H, L, L], to look at."""
        query, key, _ = self._heads(self.qkv(x_ND), 3)
        return weights(query, key, layout=layout, causal=causal, window=self.window)


class CrossAttention(MultiHead):
    """Queries from one sequence's tokens, keys and values from another's, its memory."""

    def __init__(self, dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, memory_dim: int = 0) -> None:
        super().__init__(dim, num_heads, dropout, bias)
        self.query = Linear(dim, dim, bias)
        self.key_value = Linear(memory_dim or dim, 2 * dim, bias)
        self.reset()

    def forward(self, x_ND: Tensor, layout: Layout | Packing, memory_MD: Tensor, memory: Layout | Packing) -> Tensor:
        (query_NHd,) = self._heads(self.query(x_ND), 1)
        key_value_M2Hd = self.key_value(memory_MD).unflatten(-1, (2, self.num_heads, self.head_dim))
        return self.output(attend_tokens(query_NHd, key_value_M2Hd, layout, memory, dropout=self._dropout))

    def weights(self, x_ND: Tensor, layout: Layout, memory_MD: Tensor, memory: Layout) -> Tensor:
        """[B, H, L, S], to look at."""
        (query,), (key, _) = self._heads(self.query(x_ND), 1), self._heads(self.key_value(memory_MD), 2)
        return weights(query, key, layout=layout, key_layout=memory)

    def remember(self, memory_BSD: Tensor) -> Tensor:
        """Keys and values of a memory, once for all steps: [B, 2, H, S, d]."""
        return torch.stack(self._heads(self.key_value(memory_BSD), 2), 1).transpose(2, 3).contiguous()


Parts = tuple[Product, Tensor, Tensor | None]  # of a linear layer: what multiplies, weight and bias


def parts_of(layer: Linear) -> Parts:
    return product(layer), layer.weight, layer.bias


def linear(x: Tensor, parts: Parts) -> Tensor:
    multiply, weight, bias = parts
    return multiply(x, weight, bias)


def self_step(
    x_BD: Tensor,
    qkv: Parts,
    output: Parts,
    slot_B2Hd: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """Self-attention of one token: `slot` is its place among `keys` and `values` [B, H, …, d], and is filled here."""
    batch, _, heads, width = slot_B2Hd.shape
    projected = linear(x_BD, qkv).view(batch, 3, heads, width)
    slot_B2Hd.copy_(projected.narrow(1, 1, 2))
    out = F.scaled_dot_product_attention(projected.narrow(1, 0, 1).transpose(1, 2), keys, values, bias)
    return linear(out.reshape(batch, -1), output)


def cross_step(x_BD: Tensor, query: Parts, output: Parts, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """Cross-attention of one token; `bias` [B, 1, 1, S] is −∞ where there is no memory."""
    batch, heads, _, width = keys.shape
    asked = linear(x_BD, query).view(batch, heads, 1, width)
    out = F.scaled_dot_product_attention(asked, keys, values, bias)
    return linear(out.reshape(batch, -1), output)
