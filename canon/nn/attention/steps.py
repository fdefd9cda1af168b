"""A left-to-right stack token by token: `EncoderStep` is an encoder block that keeps the keys and values it has made.

Vaswani et al. 2017 (arXiv:1706.03762), section 3.2: what a token attends to is all before it, whose keys and values do
not change, so they are made once. Three ways through a block, equal in tests/systems/test_causal.py:
- `read`: whole texts at once, end to end; their keys and values come out beside the features;
- `__call__`: one more token, with the past as views that grow (the least work on a CPU);
- `fixed`: one more token, with the past in memory of one size and its end told by a tensor and a bias, so that every
  step is the same work on the same memory (CUDA graphs, canon/nn/graphs.py).
A window hides what is further away (Brown et al. 2020, 2005.14165, section 2.1).
Deviations: none. Shapes: N tokens of B texts, D features, H heads of d, C places of a cache, R of them in reach.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.kernels.cuda.weights import Affine, Weights
from canon.nn.attention.attend import attend
from canon.nn.attention.block import ACTIVATIONS, EncoderBlock
from canon.nn.attention.multihead import linear, parts_of
from canon.nn.ragged import Layout


class EncoderStep:
    """A block's tensors, to be taken out `once`: looking them up in modules takes its time."""

    def __init__(self, block: EncoderBlock) -> None:
        attention, feed_forward = block.attention, block.feed_forward
        self.is_pre, self.window = block.is_pre, attention.window
        self.shape = attention.num_heads, attention.head_dim
        self.qkv, self.output = parts_of(attention.qkv), parts_of(attention.output)
        self.inner, self.outer = parts_of(feed_forward.inner), parts_of(feed_forward.outer)
        self.activation = feed_forward.activation_name
        self.eps = block.attention_norm.eps
        layers = (attention.qkv, attention.output, feed_forward.inner, feed_forward.outer)
        qkv, output, inner, outer = (_affine(layer) for layer in layers)
        self.weights = Weights(
            _affine(block.attention_norm), qkv, output, _affine(block.feed_forward_norm), inner, outer
        )

    def read(self, x_ND: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Texts end to end; with them the keys and values of their tokens, [N, 2, H, d]."""
        qkv_N3Hd = linear(self._asked(x_ND), self.qkv).unflatten(-1, (3, *self.shape))
        query, key, value = qkv_N3Hd.unbind(1)
        heads_NHd = attend(query, key, value, layout=layout, causal=True, window=self.window)
        return self._rest(x_ND, heads_NHd.flatten(1)), qkv_N3Hd[:, 1:]

    def __call__(
        self, x_BD: Tensor, slot_B2Hd: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """`slot` is the token's place, the last of `keys` and `values` [B, H, …, d]; bias [B, 1, 1, …] hides some."""
        if self.window and keys.shape[2] > self.window:
            keys, values = keys[:, :, -self.window :], values[:, :, -self.window :]
            # A tensor of its own: CUDA kernels look at strides alone to see whether a bias begins at whole 16 bytes.
            bias = None if bias is None else bias[..., -self.window :].contiguous()
        qkv_B3Hd = linear(self._asked(x_BD), self.qkv).view(-1, 3, *self.shape)
        slot_B2Hd.copy_(qkv_B3Hd[:, 1:])
        heads = F.scaled_dot_product_attention(qkv_B3Hd[:, 0, :, None], keys, values, bias)
        return self._rest(x_BD, heads.reshape(len(x_BD), -1))

    def fixed(
        self, x_BD: Tensor, cache_B2HCd: Tensor, place_1: Tensor, bias_B11R: Tensor, run: Fixed | None = None
    ) -> Tensor:
        """The token goes to `place`; the bias is −∞ at places that it does not see, and as long as those in reach."""
        heads = self.shape[0]
        act, eps = self.activation, self.eps
        return (run or fixed)(x_BD, self.weights, cache_B2HCd, place_1, bias_B11R, self.is_pre, heads, act, eps)

    def _asked(self, x: Tensor) -> Tensor:
        return self._normed(x, self.weights.attention_norm) if self.is_pre else x

    def _rest(self, x: Tensor, heads: Tensor) -> Tensor:
        """What stands behind attention in a block."""
        x = x + linear(heads, self.output)
        if self.is_pre:
            return x + self._feed_forward(self._normed(x, self.weights.feed_forward_norm))
        x = self._normed(x, self.weights.attention_norm)
        return self._normed(x + self._feed_forward(x), self.weights.feed_forward_norm)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return linear(ACTIVATIONS[self.activation](linear(x, self.inner)), self.outer)

    def _normed(self, x: Tensor, norm: Affine) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], *norm, self.eps)


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
    """A bias that hides what stands before each text, and now what stands behind `place` or out of a window's reach."""
    hidden_R = places_R > place_1
    if window:
        hidden_R = hidden_R | (places_R <= place_1 - window)
    return bias_B11R.masked_fill(hidden_R, -torch.inf)


def _affine(layer: nn.Linear | nn.LayerNorm) -> Affine:
    return layer.weight, layer.bias
