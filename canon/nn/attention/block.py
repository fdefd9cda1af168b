"""The layers that Transformers are stacked from: attention and a feed-forward network, each with residual and norm.

Vaswani et al. 2017 (arXiv:1706.03762): figure 1 → `EncoderBlock` (left) and `DecoderBlock` (right), equation 2 →
`FeedForward`; norm = "post" is the paper's LayerNorm(x + Sublayer(x)), "pre" is x + Sublayer(LayerNorm(x)) of Xiong et
al. 2020 (2002.04745); `TransformerEncoder` and `TransformerDecoder` are stacks of blocks, by compiled kernels
(canon/nn/attention/compiled.py) where they can.
Deviations: none. Shapes: N tokens of B sequences, M tokens of their memories, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.contracts import Attends, Compiles
from canon.nn.attention.attend import can_pack
from canon.nn.attention.compiled import BlockForm, compiled_states, compiles_texts
from canon.nn.attention.multihead import CrossAttention, SelfAttention
from canon.nn.attention.prefix import Prefix
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


class Sublayers(nn.Module):
    """The residual sum and the norm around each sublayer, before it or after the sum."""

    is_pre: bool
    dropout: nn.Module

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """What the sublayer reads."""
        return norm(x) if self.is_pre else x

    def after(self, norm: nn.Module, x: Tensor, change: Tensor) -> Tensor:
        """What the next one gets."""
        x = x + self.dropout(change)
        return x if self.is_pre else norm(x)


class StackedBlock(Sublayers):
    """What compiled kernels ask of a block."""

    attention: SelfAttention
    attention_norm: Norm
    feed_forward: FeedForward

    @property
    def window(self) -> int:
        return self.attention.window

    def form(self) -> BlockForm:
        attention, feed_forward = self.attention, self.feed_forward
        return BlockForm(
            attention.dim,
            attention.num_heads,
            attention.head_dim,
            feed_forward.inner.out_features,
            self.is_pre,
            feed_forward.activation_name,
            self.attention_norm.eps,
            attention.head_dim**-0.5,
            attends_memory=isinstance(self, DecoderBlock),
        )


class EncoderBlock(StackedBlock, Compiles):
    """Self-attention, then the feed-forward network."""

    compiles = True

    def __init__(self, sizes: Sizes, window: int = 0) -> None:
        super().__init__()
        self.is_pre = sizes.norm == "pre"
        self.attention = SelfAttention(sizes.dim, sizes.num_heads, sizes.attention_dropout, window=window)
        self.feed_forward = FeedForward(sizes.dim, sizes.hidden, sizes.activation)
        self.attention_norm = Norm(sizes.dim, sizes.eps)
        self.feed_forward_norm = Norm(sizes.dim, sizes.eps)
        self.dropout = Dropout(sizes.dropout)

    def forward(
        self, x_ND: Tensor, layout: Layout | Packing, causal: bool = False, prefix: Prefix | None = None
    ) -> Tensor:
        norm = self.attention_norm
        x_ND = self.after(norm, x_ND, self.attention(self.before(norm, x_ND), layout, causal, prefix))
        norm = self.feed_forward_norm
        return self.after(norm, x_ND, self.feed_forward(self.before(norm, x_ND)))

    def weights(self, x_ND: Tensor, layout: Layout, causal: bool = False) -> Tensor:
        """[B, H, L, L], to look at."""
        return self.attention.weights(self.before(self.attention_norm, x_ND), layout, causal)


class DecoderBlock(StackedBlock, Compiles):
    """Causal self-attention, attention to the memory, then the feed-forward network."""

    compiles = True

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

    def forward(self, x_ND: Tensor, layout: Layout | Packing, memory_MD: Tensor, memory: Layout | Packing) -> Tensor:
        x_ND, norm = self._attended(x_ND, layout), self.cross_norm
        x_ND = self.after(norm, x_ND, self.cross(self.before(norm, x_ND), layout, memory_MD, memory))
        norm = self.feed_forward_norm
        return self.after(norm, x_ND, self.feed_forward(self.before(norm, x_ND)))

    def _attended(self, x_ND: Tensor, layout: Layout | Packing) -> Tensor:
        norm = self.attention_norm
        return self.after(norm, x_ND, self.attention(self.before(norm, x_ND), layout, causal=True))

    def weights(self, x_ND: Tensor, layout: Layout, memory_MD: Tensor, memory: Layout) -> tuple[Tensor, Tensor]:
        """[B, H, L, L] of the tokens and [B, H, L, S] of the memory, to look at."""
        decoder = self.attention.weights(self.before(self.attention_norm, x_ND), layout, causal=True)
        x_ND = self.before(self.cross_norm, self._attended(x_ND, layout))
        return decoder, self.cross.weights(x_ND, layout, memory_MD, memory)


class EncoderBlocks(nn.ModuleList):
    """Encoder blocks one after the other."""

    def forward(
        self,
        x_ND: Tensor,
        layout: Layout | Packing,
        causal: bool,
        kept: list[Tensor] | None = None,
        prefix: Sequence[Prefix] | None = None,
    ) -> Tensor:
        """With `kept`, the input of each block is put there. prefix: of each block."""
        for index, block in enumerate(self):
            if kept is not None:
                kept.append(x_ND)
            x_ND = block(x_ND, layout, causal) if prefix is None else block(x_ND, layout, causal, prefix[index])
        return x_ND


class DecoderBlocks(nn.ModuleList):
    """As `EncoderBlocks`."""

    def forward(self, x_MD: Tensor, layout: Layout | Packing, memory_ND: Tensor, memory: Layout | Packing) -> Tensor:
        for block in self:
            x_MD = block(x_MD, layout, memory_ND, memory)
        return x_MD


class _Stack(nn.Module):
    """Blocks, with a norm after them where each has its norms before its sublayers."""

    def __init__(self, sizes: Sizes, blocks: nn.ModuleList) -> None:
        super().__init__()
        self.head_dim = sizes.dim // sizes.num_heads
        self.blocks = blocks
        self.norm = Norm(sizes.dim, sizes.eps) if sizes.norm == "pre" else nn.Identity()


class TransformerEncoder(_Stack):
    def __init__(self, sizes: Sizes, bands: list[int]) -> None:
        """bands: the window of each block, 0 for one that sees everything."""
        super().__init__(sizes, EncoderBlocks(EncoderBlock(sizes, window) for window in bands))

    def forward(
        self, x_ND: Tensor, layout: Layout, causal: bool = False, prefix: Sequence[Prefix] | None = None
    ) -> Tensor:
        """prefix: of each block, which compiled kernels do not know."""
        if prefix is None and compiles_texts(self, layout):
            return compiled_states(self, x_ND, layout, causal, 1)[0]
        return self.norm(self.blocks(x_ND, self._where(x_ND, layout), causal, None, prefix))

    def states(self, x_ND: Tensor, layout: Layout, causal: bool = False) -> list[Tensor]:
        """The input of the first block and the output of each, the last one through the norm."""
        if compiles_texts(self, layout):
            return [x_ND, *compiled_states(self, x_ND, layout, causal, len(self.blocks))]
        kept: list[Tensor] = []
        last_ND = self.norm(self.blocks(x_ND, self._where(x_ND, layout), causal, kept))
        return [*kept, last_ND]

    def attention(self, x_ND: Tensor, layout: Layout, causal: bool = False) -> tuple[Record, Tensor]:
        """The weights of each block, and the output."""
        record: Record = {}
        for i, block in enumerate(self.blocks):
            record[f"{'decoder' if causal else 'encoder'}/{i}"] = block.weights(x_ND, layout, causal)  # type: ignore[operator]
            x_ND = block(x_ND, layout, causal)
        return record, self.norm(x_ND)

    def _where(self, x_ND: Tensor, layout: Layout) -> Layout | Packing:
        return layout.packing if can_pack(x_ND, self.head_dim, layout, layout) else layout


class TransformerDecoder(_Stack, Attends):
    def __init__(self, sizes: Sizes, bands: list[int]) -> None:
        super().__init__(sizes, DecoderBlocks(DecoderBlock(sizes, window) for window in bands))

    def forward(self, x_MD: Tensor, layout: Layout, memory_ND: Tensor, memory: Layout) -> Tensor:
        packs = can_pack(x_MD, self.head_dim, layout, memory)
        here, there = (layout.packing, memory.packing) if packs else (layout, memory)
        return self.norm(self.blocks(x_MD, here, memory_ND, there))

    def attention(self, x_MD: Tensor, layout: Layout, memory_ND: Tensor, memory: Layout) -> Record:
        """The weights of each block, to the target and to the memory."""
        record: Record = {}
        for i, block in enumerate(self.blocks):
            decoder, cross = block.weights(x_MD, layout, memory_ND, memory)  # type: ignore[operator]
            record |= {f"decoder/{i}": decoder, f"cross/{i}": cross}
            x_MD = block(x_MD, layout, memory_ND, memory)
        return record
