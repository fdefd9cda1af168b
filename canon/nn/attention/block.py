"""The layers that Transformers are stacked from: attention and a feed-forward network, each with residual and norm.

Vaswani et al. 2017 (arXiv:1706.03762): figure 1 → `EncoderBlock` (left) and `DecoderBlock` (right), equation 2 →
`FeedForward`; norm = "post" is the paper's LayerNorm(x + Sublayer(x)), "pre" is x + Sublayer(LayerNorm(x)) of Xiong et
al. 2020 (2002.04745). `DecoderStep` is a decoder block for one more token, stripped of everything but its products.
Deviations: none. Shapes: N tokens of B sequences, M tokens of their memories, D features, H heads of d, S of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.attention.multihead import CrossAttention, SelfAttention, cross_step, linear, parts_of, self_step
from canon.nn.packed import Linear
from canon.nn.ragged import Layout

NormPlace = Literal["post", "pre"]
Activation = Literal["relu", "gelu"]
Record = dict[str, Tensor]  # attention weights by name, to look at

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


@dataclass(frozen=True)
class Sizes:
    """What all blocks of a stack have in common."""

    dim: int
    num_heads: int
    hidden: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    norm: NormPlace = "post"
    activation: Activation = "relu"


class FeedForward(nn.Module):
    """φ(x W₁ + b₁) W₂ + b₂."""

    def __init__(self, dim: int, hidden: int, activation: Activation) -> None:
        super().__init__()
        self.inner = Linear(dim, hidden)
        self.outer = Linear(hidden, dim)
        self.activation = _ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.activation(self.inner(x)))


class EncoderBlock(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, sizes: Sizes, window: int = 0) -> None:
        super().__init__()
        self.is_pre = sizes.norm == "pre"
        self.attention = SelfAttention(sizes.dim, sizes.num_heads, sizes.attention_dropout, window=window)
        self.feed_forward = FeedForward(sizes.dim, sizes.hidden, sizes.activation)
        self.attention_norm = nn.LayerNorm(sizes.dim)
        self.feed_forward_norm = nn.LayerNorm(sizes.dim)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(
        self, x_ND: Tensor, layout: Layout, causal: bool = False, record: Record | None = None, name: str = ""
    ) -> Tensor:
        """With `record`, the weights are put there under `name`."""
        asked_ND = self.attention_norm(x_ND) if self.is_pre else x_ND
        if record is not None:
            record[name] = self.attention.weights(asked_ND, layout, causal)
        x_ND = x_ND + self.dropout(self.attention(asked_ND, layout, causal))
        if self.is_pre:
            return x_ND + self.dropout(self.feed_forward(self.feed_forward_norm(x_ND)))
        x_ND = self.attention_norm(x_ND)
        return self.feed_forward_norm(x_ND + self.dropout(self.feed_forward(x_ND)))


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to the memory, then the feed-forward network."""

    def __init__(self, sizes: Sizes, window: int = 0) -> None:
        super().__init__()
        self.is_pre = sizes.norm == "pre"
        self.attention = SelfAttention(sizes.dim, sizes.num_heads, sizes.attention_dropout, window=window)
        self.cross = CrossAttention(sizes.dim, sizes.num_heads, sizes.attention_dropout)
        self.feed_forward = FeedForward(sizes.dim, sizes.hidden, sizes.activation)
        self.attention_norm = nn.LayerNorm(sizes.dim)
        self.cross_norm = nn.LayerNorm(sizes.dim)
        self.feed_forward_norm = nn.LayerNorm(sizes.dim)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(
        self,
        x_ND: Tensor,
        layout: Layout,
        memory_MD: Tensor,
        memory: Layout,
        record: Record | None = None,
        names: tuple[str, str] = ("", ""),
    ) -> Tensor:
        asked_ND = self.attention_norm(x_ND) if self.is_pre else x_ND
        if record is not None:
            record[names[0]] = self.attention.weights(asked_ND, layout, causal=True)
        x_ND = x_ND + self.dropout(self.attention(asked_ND, layout, causal=True))
        if self.is_pre:
            asked_ND = self.cross_norm(x_ND)
        else:
            asked_ND = x_ND = self.attention_norm(x_ND)
        if record is not None:
            record[names[1]] = self.cross.weights(asked_ND, layout, memory_MD, memory)
        x_ND = x_ND + self.dropout(self.cross(asked_ND, layout, memory_MD, memory))
        if self.is_pre:
            return x_ND + self.dropout(self.feed_forward(self.feed_forward_norm(x_ND)))
        x_ND = self.cross_norm(x_ND)
        return self.feed_forward_norm(x_ND + self.dropout(self.feed_forward(x_ND)))


class DecoderStep:
    """A decoder block's tensors, taken out once per decoding: looking them up in modules takes its time.

    They are the block's own: what training changes in place changes here too.
    """

    def __init__(self, block: DecoderBlock) -> None:
        self.is_pre = block.is_pre
        self.window = block.attention.window
        self.qkv, self.output = parts_of(block.attention.qkv), parts_of(block.attention.output)
        self.query, self.cross_output = parts_of(block.cross.query), parts_of(block.cross.output)
        self.inner, self.outer = parts_of(block.feed_forward.inner), parts_of(block.feed_forward.outer)
        self.activation = block.feed_forward.activation
        self.shape, self.eps = block.attention_norm.normalized_shape, block.attention_norm.eps
        self.norm, self.cross_norm = _affine(block.attention_norm), _affine(block.cross_norm)
        self.feed_forward_norm = _affine(block.feed_forward_norm)

    def __call__(
        self,
        x_BD: Tensor,
        slot_B2Hd: Tensor,
        keys: Tensor,
        values: Tensor,
        memory: tuple[Tensor, Tensor, Tensor | None],
    ) -> Tensor:
        """`slot` is the token's place among `keys` and `values`; `memory` holds keys, values and bias [B, 1, 1, S]."""
        if self.window and keys.shape[2] > self.window:
            keys, values = keys[:, :, -self.window :], values[:, :, -self.window :]
        norm, shape, eps = F.layer_norm, self.shape, self.eps
        if self.is_pre:
            x_BD = x_BD + self_step(norm(x_BD, shape, *self.norm, eps), self.qkv, self.output, slot_B2Hd, keys, values)
            x_BD = x_BD + cross_step(norm(x_BD, shape, *self.cross_norm, eps), self.query, self.cross_output, *memory)
            return x_BD + self._feed_forward(norm(x_BD, shape, *self.feed_forward_norm, eps))
        x_BD = x_BD + self_step(x_BD, self.qkv, self.output, slot_B2Hd, keys, values)
        x_BD = norm(x_BD, shape, *self.norm, eps)
        x_BD = x_BD + cross_step(x_BD, self.query, self.cross_output, *memory)
        x_BD = norm(x_BD, shape, *self.cross_norm, eps)
        return norm(x_BD + self._feed_forward(x_BD), shape, *self.feed_forward_norm, eps)

    def _feed_forward(self, x_BD: Tensor) -> Tensor:
        return linear(self.activation(linear(x_BD, self.inner)), self.outer)


def _affine(norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return norm.weight, norm.bias
