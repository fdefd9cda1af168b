"""A stack of blocks token by token: the keys and values of the past are kept, so that none is computed twice.

Vaswani et al. 2017 (arXiv:1706.03762), section 3.2: a token attends to all before it, whose keys and values do not
change. `DecoderStep` is a decoder block for one more token. `EncoderStep`, an encoder block of a left-to-right stack,
has three ways, equal in tests/systems/test_causal.py:
- `read`: whole texts at once, end to end; their keys and values come out beside the features;
- `__call__`: one more token, with the past as views that grow (the least work on a CPU);
- `fixed`: one more token, with the past in memory of one size and its end in a tensor and a bias, so that every step is
  the same work on the same memory (CUDA graphs, canon/nn/graphs.py).
A window hides what is further away (Brown et al. 2020, 2005.14165, section 2.1).
Deviations: none. Shapes: N tokens of B texts, D features, H heads of d, C places of a cache, R of them in reach, S of
the memory.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.kernels.cuda.weights import Affine, Weights
from canon.nn.attention.attend import attend
from canon.nn.attention.block import ACTIVATIONS, DecoderBlock, EncoderBlock
from canon.nn.attention.multihead import cross_step, linear, parts_of, self_step
from canon.nn.ragged import Layout


class _BlockStep:
    """A block's tensors, to be taken out `once`: looking them up in modules takes time."""

    def __init__(self, block: EncoderBlock | DecoderBlock) -> None:
        attention, feed_forward = block.attention, block.feed_forward
        self.is_pre, self.window = block.is_pre, attention.window
        self.qkv, self.output = parts_of(attention.qkv), parts_of(attention.output)
        self.inner, self.outer = parts_of(feed_forward.inner), parts_of(feed_forward.outer)
        self.activation = feed_forward.activation_name
        self.eps = block.attention_norm.eps
        self.attention_norm, self.feed_forward_norm = affine(block.attention_norm), affine(block.feed_forward_norm)

    def near(self, keys: Tensor) -> Tensor:
        """The keys or values [B, H, …, d] within the window, which ends at the last one."""
        return keys[:, :, -self.window :] if self.window and keys.shape[2] > self.window else keys

    def before(self, norm: Affine, x: Tensor) -> Tensor:
        return self._normed(x, norm) if self.is_pre else x

    def after(self, norm: Affine, x: Tensor, change: Tensor) -> Tensor:
        x = x + change
        return x if self.is_pre else self._normed(x, norm)

    def feed_forward(self, x: Tensor) -> Tensor:
        inner = linear(self.before(self.feed_forward_norm, x), self.inner)
        return self.after(self.feed_forward_norm, x, linear(ACTIVATIONS[self.activation](inner), self.outer))

    def _normed(self, x: Tensor, norm: Affine) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], *norm, self.eps)


class EncoderStep(_BlockStep):
    def __init__(self, block: EncoderBlock) -> None:
        super().__init__(block)
        self.shape = block.attention.num_heads, block.attention.head_dim
        attention, feed_forward = block.attention, block.feed_forward
        qkv, output = affine(attention.qkv), affine(attention.output)
        inner, outer = affine(feed_forward.inner), affine(feed_forward.outer)
        self.weights = Weights(self.attention_norm, qkv, output, self.feed_forward_norm, inner, outer)

    def read(self, x_ND: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Texts end to end; with them the keys and values of their tokens, [N, 2, H, d]."""
        qkv_N3Hd = linear(self.before(self.attention_norm, x_ND), self.qkv).unflatten(-1, (3, *self.shape))
        query, key, value = qkv_N3Hd.unbind(1)
        heads_NHd = attend(query, key, value, layout=layout, causal=True, window=self.window)
        x_ND = self.after(self.attention_norm, x_ND, linear(heads_NHd.flatten(1), self.output))
        return self.feed_forward(x_ND), qkv_N3Hd[:, 1:]

    def __call__(
        self, x_BD: Tensor, slot_B2Hd: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """`slot` is the token's place, the last of `keys` and `values` [B, H, …, d]; bias [B, 1, 1, …] hides some."""
        if bias is not None and self.window and bias.shape[-1] > self.window:
            # A tensor of its own: CUDA kernels look at strides alone to see whether a bias begins at whole 16 bytes.
            bias = bias[..., -self.window :].contiguous()
        norm, keys, values = self.attention_norm, self.near(keys), self.near(values)
        change = self_step(self.before(norm, x_BD), self.qkv, self.output, slot_B2Hd, keys, values, bias)
        return self.feed_forward(self.after(norm, x_BD, change))

    def fixed(
        self, x_BD: Tensor, cache_B2HCd: Tensor, place_1: Tensor, bias_B11R: Tensor, run: Fixed | None = None
    ) -> Tensor:
        """The token goes to `place`; the bias is −∞ at places that it does not see, and as long as those in reach."""
        heads = self.shape[0]
        act, eps = self.activation, self.eps
        return (run or fixed)(x_BD, self.weights, cache_B2HCd, place_1, bias_B11R, self.is_pre, heads, act, eps)


class DecoderStep(_BlockStep):
    def __init__(self, block: DecoderBlock) -> None:
        super().__init__(block)
        self.query, self.cross_output = parts_of(block.cross.query), parts_of(block.cross.output)
        self.cross_norm = affine(block.cross_norm)

    def __call__(
        self,
        x_BD: Tensor,
        slot_B2Hd: Tensor,
        keys: Tensor,
        values: Tensor,
        memory: tuple[Tensor, Tensor, Tensor | None],
    ) -> Tensor:
        """`slot` is the token's place among `keys` and `values`; `memory` holds keys, values and bias [B, 1, 1, S]."""
        norm, keys, values = self.attention_norm, self.near(keys), self.near(values)
        change = self_step(self.before(norm, x_BD), self.qkv, self.output, slot_B2Hd, keys, values)
        x_BD, norm = self.after(norm, x_BD, change), self.cross_norm
        change = cross_step(self.before(norm, x_BD), self.query, self.cross_output, *memory)
        return self.feed_forward(self.after(norm, x_BD, change))


Fixed = Callable[[Tensor, Weights, Tensor, Tensor, Tensor, bool, int, str, float], Tensor]


def fixed(
    x_BD: Tensor,
    weights: Weights,
    cache_B2HCd: Tensor,
    place_1: Tensor,
    bias_B11R: Tensor,
    is_pre: bool,
    num_heads: int,
    activation: str,
    eps: float,
) -> Tensor:
    """One token through a block: eleven kernels where nothing fuses them. Without state, so that one compiled piece of
    code serves all blocks."""
    (batch, dim), reach = x_BD.shape, bias_B11R.shape[-1]
    asked_BD = F.layer_norm(x_BD, (dim,), *weights.attention_norm, eps) if is_pre else x_BD
    qkv_B3Hd = F.linear(asked_BD, *weights.qkv).view(batch, 3, num_heads, dim // num_heads)
    cache_B2HCd.index_copy_(3, place_1, qkv_B3Hd[:, 1:].unsqueeze(3))
    keys, values = cache_B2HCd[:, 0, :, :reach], cache_B2HCd[:, 1, :, :reach]
    bias = bias_B11R.expand(-1, num_heads, -1, -1)
    heads = F.scaled_dot_product_attention(qkv_B3Hd[:, 0, :, None], keys, values, bias)
    x_BD = x_BD + F.linear(heads.reshape(batch, dim), *weights.output)
    if not is_pre:
        x_BD = F.layer_norm(x_BD, (dim,), *weights.attention_norm, eps)
    asked_BD = F.layer_norm(x_BD, (dim,), *weights.feed_forward_norm, eps) if is_pre else x_BD
    x_BD = x_BD + F.linear(ACTIVATIONS[activation](F.linear(asked_BD, *weights.inner)), *weights.outer)
    return x_BD if is_pre else F.layer_norm(x_BD, (dim,), *weights.feed_forward_norm, eps)


def hidden_bias(bias_B11R: Tensor, places_R: Tensor, place_1: Tensor, window: int) -> Tensor:
    """A bias that hides what stands before each text, and now also what is after `place` or outside the window."""
    hidden_R = places_R > place_1
    if window:
        hidden_R = hidden_R | (places_R <= place_1 - window)
    return bias_B11R.masked_fill(hidden_R, -torch.inf)


def affine(layer: nn.Linear | nn.LayerNorm) -> Affine:
    return layer.weight, layer.bias
