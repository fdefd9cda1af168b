"""The layers that Transformers are stacked from: attention and a feed-forward network, each with residual and norm.

Vaswani et al. 2017 (arXiv:1706.03762): figure 1 → `EncoderBlock` (left) and `DecoderBlock` (right), equation 2 →
`FeedForward`; norm = "post" is the paper's LayerNorm(x + Sublayer(x)), "pre" is x + Sublayer(LayerNorm(x)) of Xiong et
al. 2020 (2002.04745); `Encoder` and `Decoder` are stacks of blocks. `DecoderStep` is a decoder block for one more
token, stripped of everything but its products.
Deviations: none. Shapes: N tokens of B sequences, M tokens of their memories, D features, H heads of d, S of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.attention.attend import can_pack
from canon.nn.attention.multihead import CrossAttention, SelfAttention, cross_step, linear, parts_of, self_step
from canon.nn.dropout import Dropout
from canon.nn.packed import Linear
from canon.nn.ragged import Layout, Packing

NormPlace = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "gelu-tanh"]
Record = dict[str, Tensor]  # attention weights by name, to look at

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
}


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
    eps: float = 1e-5  # of the norms


class Norm(nn.LayerNorm):
    """LayerNorm in the precision that the next product asks for: under autocast, half the bytes."""

    def forward(self, x: Tensor) -> Tensor:
        normed = super().forward(x)
        kind = "cpu" if x.is_meta else x.device.type
        return normed.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else normed


class FeedForward(nn.Module):
    """φ(x W₁ + b₁) W₂ + b₂."""

    def __init__(self, dim: int, hidden: int, activation: Activation) -> None:
        super().__init__()
        self.inner = Linear(dim, hidden)
        self.outer = Linear(hidden, dim)
        self.activation_name, self.activation = activation, ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.activation(self.inner(x)))


class EncoderBlock(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, sizes: Sizes, window: int = 0) -> None:
        super().__init__()
        self.is_pre = sizes.norm == "pre"
        self.attention = SelfAttention(sizes.dim, sizes.num_heads, sizes.attention_dropout, window=window)
        self.feed_forward = FeedForward(sizes.dim, sizes.hidden, sizes.activation)
        self.attention_norm = Norm(sizes.dim, sizes.eps)
        self.feed_forward_norm = Norm(sizes.dim, sizes.eps)
        self.dropout = Dropout(sizes.dropout)

    def forward(
        self,
        x_ND: Tensor,
        layout: Layout | Packing,
        causal: bool = False,
        record: Record | None = None,
        name: str = "",
    ) -> Tensor:
        """With `record`, the weights are put there under `name`."""
        asked_ND = self.attention_norm(x_ND) if self.is_pre else x_ND
        if record is not None and isinstance(layout, Layout):
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
        self.attention_norm = Norm(sizes.dim, sizes.eps)
        self.cross_norm = Norm(sizes.dim, sizes.eps)
        self.feed_forward_norm = Norm(sizes.dim, sizes.eps)
        self.dropout = Dropout(sizes.dropout)

    def forward(
        self,
        x_ND: Tensor,
        layout: Layout | Packing,
        memory_MD: Tensor,
        memory: Layout | Packing,
        record: Record | None = None,
        names: tuple[str, str] = ("", ""),
    ) -> Tensor:
        asked_ND = self.attention_norm(x_ND) if self.is_pre else x_ND
        if record is not None and isinstance(layout, Layout):
            record[names[0]] = self.attention.weights(asked_ND, layout, causal=True)
        x_ND = x_ND + self.dropout(self.attention(asked_ND, layout, causal=True))
        if self.is_pre:
            asked_ND = self.cross_norm(x_ND)
        else:
            asked_ND = x_ND = self.attention_norm(x_ND)
        if record is not None and isinstance(layout, Layout) and isinstance(memory, Layout):
            record[names[1]] = self.cross.weights(asked_ND, layout, memory_MD, memory)
        x_ND = x_ND + self.dropout(self.cross(asked_ND, layout, memory_MD, memory))
        if self.is_pre:
            return x_ND + self.dropout(self.feed_forward(self.feed_forward_norm(x_ND)))
        x_ND = self.cross_norm(x_ND)
        return self.feed_forward_norm(x_ND + self.dropout(self.feed_forward(x_ND)))


class EncoderBlocks(nn.ModuleList):
    """Encoder blocks one after the other: what is worth compiling, for tokens end to end in any number."""

    compiles = True

    def forward(
        self, x_ND: Tensor, where: Layout | Packing, causal: bool, record: Record | None, kept: list[Tensor] | None
    ) -> Tensor:
        for i, block in enumerate(self):
            if kept is not None:
                kept.append(x_ND)
            x_ND = block(x_ND, where, causal, record, f"{'decoder' if causal else 'encoder'}/{i}")
        return x_ND


class Encoder(nn.Module):
    """Blocks, with a norm behind them where each has its norms before."""

    def __init__(self, sizes: Sizes, bands: list[int]) -> None:
        """bands: the window of each block, 0 for one that sees everything."""
        super().__init__()
        self.head_dim = sizes.dim // sizes.num_heads
        self.blocks = EncoderBlocks(EncoderBlock(sizes, window) for window in bands)
        self.norm = Norm(sizes.dim, sizes.eps) if sizes.norm == "pre" else nn.Identity()

    def forward(
        self,
        x_ND: Tensor,
        layout: Layout,
        causal: bool = False,
        record: Record | None = None,
        kept: list[Tensor] | None = None,
    ) -> Tensor:
        """With `kept`, what goes into the first block and what comes out of each is put there."""
        packs = record is None and can_pack(x_ND, self.head_dim, layout, layout)
        x_ND = self.norm(self.blocks(x_ND, layout.packing if packs else layout, causal, record, kept))
        if kept is not None:
            kept.append(x_ND)
        return x_ND


class DecoderBlocks(nn.ModuleList):
    """As `EncoderBlocks`."""

    compiles = True

    def forward(
        self,
        x_MD: Tensor,
        where: Layout | Packing,
        memory_ND: Tensor,
        whence: Layout | Packing,
        record: Record | None = None,
    ) -> Tensor:
        for i, block in enumerate(self):
            x_MD = block(x_MD, where, memory_ND, whence, record, (f"decoder/{i}", f"cross/{i}"))
        return x_MD


class Decoder(nn.Module):
    """Decoder blocks, and a norm as behind `Encoder`."""

    def __init__(self, sizes: Sizes, bands: list[int]) -> None:
        super().__init__()
        self.head_dim = sizes.dim // sizes.num_heads
        self.blocks = DecoderBlocks(DecoderBlock(sizes, window) for window in bands)
        self.norm = Norm(sizes.dim, sizes.eps) if sizes.norm == "pre" else nn.Identity()

    def forward(
        self, x_MD: Tensor, layout: Layout, memory_ND: Tensor, memory: Layout, record: Record | None = None
    ) -> Tensor:
        packs = record is None and can_pack(x_MD, self.head_dim, layout, memory)
        where, whence = (layout.packing, memory.packing) if packs else (layout, memory)
        return self.norm(self.blocks(x_MD, where, memory_ND, whence, record))


class DecoderStep:
    """A decoder block's tensors, to be taken out `once`: looking them up in modules takes its time."""

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
