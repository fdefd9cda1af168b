"""The tensors of a Transformer block, as kernels take them; this file needs no Triton."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

Affine = tuple[Tensor, Tensor | None]  # weight and bias


class Weights(NamedTuple):
    """A block's tensors, as `fixed` takes them."""

    attention_norm: Affine
    qkv: Affine
    output: Affine
    feed_forward_norm: Affine
    inner: Affine
    outer: Affine
