"""The one entry of dot-product attention: `attend` picks the kernel, `weights` shows what it weighed.

Vaswani et al. 2017 (arXiv:1706.03762), equation 1. Kernels, all equal in tests/nn/test_attention.py:
- packed: tokens end to end, half precision on CUDA → torch's own flash attention with offsets, no padding at all (the
  operator under torch.nn.attention.varlen, which knows no dropout and takes the host four times as long), or
  canon/nn/attention/short.py where the longest has 128 tokens at most; sequences that are equally long on a Hopper →
  cuDNN's kernel, in two thirds of the time;
- padded: tokens end to end elsewhere → the grid of the layout, and back;
- dense: a grid → scaled_dot_product_attention, causal without a mask where it can be, with a bias where there is one;
- banded: a window shorter than the sequence → canon/nn/attention/banded.py, no n² memory.
Which keys query i sees: all that the layout or the mask has; j ≤ i if causal, or j in the layout's prefix if it has
one; |i − j| < window if there is a window.
Deviations: none. Shapes: B sequences, N and M tokens, H heads, Q queries, K keys, d features of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from canon.nn.attention import short
from canon.nn.attention.banded import banded
from canon.nn.attention.dense import pattern, product, shares
from canon.nn.dropout import seed as dropout_seed
from canon.nn.ragged import Layout, Packing

_HALVES = (torch.bfloat16, torch.float16)
_FLASH = torch.ops.aten._flash_attention_forward
_CUDNN = torch.ops.aten._scaled_dot_product_cudnn_attention
_WIDEST = 128  # features of a head that it knows


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    layout: Layout | None = None,
    key_layout: Layout | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    window: int = 0,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q kᵀ / √d + bias) v over the keys that may be seen; zeros for a query that sees none.

    | input | shape | meaning |
    | --- | --- | --- |
    | query | [N, H, d] with layout, else [B, H, Q, d] | the result has its shape |
    | key, value | [M, H, d] with layout, else [B, H, K, d] | |
    | layout, key_layout | | whose tokens they are; key_layout = None: the same |
    | mask | [B, K], or [B, H, Q, K] with 1 for "all" | True: seen; without layout only |
    | causal, window | | the last query stands at the last key; with layouts, both must be one |
    | bias | broadcasts to [B, H, Q, K] | added to scores; with layouts, of their grids |
    | dropout | | share of weights dropped; give 0 when not training |
    """
    if layout is None:
        return _dense(query, key, value, _spread(mask), causal, window, bias, dropout)
    keys = key_layout or layout
    assert keys is layout or not (causal or window), "the past is known only where queries and keys are the same tokens"
    if is_packed(query, layout, keys, bias):
        return _flash(query, key, value, layout.packing, keys.packing, causal, window, dropout)
    grids = [layout.pad(query), keys.pad(key), keys.pad(value)]
    query, key, value = (grid.transpose(1, 2) for grid in grids)
    out = attend_padded(query, key, value, keys, causal=causal, window=window, bias=bias, dropout=dropout)
    return layout.unpad(out.transpose(1, 2))


def attend_padded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Layout,
    *,
    causal: bool = False,
    window: int = 0,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` on grids [B, H, L, d] whose keys are those of a layout; rows of padded queries hold anything."""
    if causal and keys.prefix is not None:
        return _dense(query, key, value, keys.prefix_mask, False, window, bias, dropout, may_be_blind=True)
    # Padding is at the end: it is the future of every token, which causal attention hides without being projected.
    mask = None if keys.is_full or causal else keys.mask[:, None, None]
    blind = mask is not None and (bool(window) or keys.min_length == 0)
    return _dense(query, key, value, mask, causal, window, bias, dropout, blind)


def weights(
    query: Tensor,
    key: Tensor,
    *,
    layout: Layout | None = None,
    key_layout: Layout | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    window: int = 0,
    bias: Tensor | None = None,
) -> Tensor:
    """The weights [B, H, Q, K] that `attend` would give to values; 0 for padding, as query and as key."""
    mask = _spread(mask)
    if layout is not None:
        keys = key_layout or layout
        query, key = layout.pad(query).transpose(1, 2), keys.pad(key).transpose(1, 2)
        mask = layout.mask[:, None, :, None] & keys.mask[:, None, None]
        if causal and keys.prefix is not None:
            mask, causal = mask & keys.prefix_mask, False
    seen = pattern(query.shape[-2], key.shape[-2], causal, window, query.device)
    if seen is not None:
        mask = seen if mask is None else mask & seen
    return shares(query, key, mask, bias)


def is_packed(query: Tensor, layout: Layout, keys: Layout, bias: Tensor | None = None) -> bool:
    """Whether tokens can stay end to end: the kernel has no bias, and wants no sequence empty."""
    return query.dtype in _HALVES and can_pack(query, query.shape[-1], layout, keys, bias)


def fits(head_dim: int) -> bool:
    """Whether the kernel knows heads of this size."""
    return head_dim % 8 == 0 and head_dim <= 256


def can_pack(x: Tensor, head_dim: int, layout: Layout, keys: Layout, bias: Tensor | None = None) -> bool:
    """`is_packed` before there are queries, in the precision that matrix products will have."""
    return (
        x.is_cuda
        and (torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype) in _HALVES
        and bias is None
        and fits(head_dim)
        and layout.prefix is None
        and layout.min_length > 0
        and keys.min_length > 0
    )


def packed(
    projected: Tensor,
    key_value: Tensor | None,
    layout: Packing,
    keys: Packing,
    causal: bool = False,
    window: int = 0,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` on tokens end to end in half precision on CUDA, as their projections lie: [N, H, d].

    projected: queries, keys and values [N, 3, H, d]; or queries [N, H, d], with keys and values [M, 2, H, d] apart.
    """
    if short.fits(projected.shape[-1], layout.bound, keys.bound):
        seed = dropout_seed(projected.device) if dropout else None
        where = (layout.offsets, keys.offsets, layout.bound, keys.bound)
        return short.attend_short(projected, key_value, *where, causal, window, dropout, seed)
    query, key, value = short.parts(projected, key_value)
    if layout.even and keys.even and not window and query.shape[-1] <= _WIDEST:
        return _even(query, key, value, layout.bound, keys.bound, causal, dropout)
    return _flash(query, key, value, layout, keys, causal, window, dropout)


def _even(
    query: Tensor, key: Tensor, value: Tensor, length: int, key_length: int, causal: bool, dropout: float
) -> Tensor:
    """Sequences that are all equally long are a grid as they lie."""
    grid, keys, values = (
        x.unflatten(0, (-1, size)).transpose(1, 2)
        for x, size in ((query, length), (key, key_length), (value, key_length))
    )
    return _CUDNN(grid, keys, values, None, True, dropout, causal)[0].transpose(1, 2).flatten(0, 1)


def attend_tokens(
    projected: Tensor,
    key_value: Tensor | None,
    layout: Layout | Packing,
    keys: Layout | Packing,
    causal: bool = False,
    window: int = 0,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` on tokens end to end, as their projections lie (see `packed`): [N, H d].

    A packing in place of a layout says that tokens stay end to end, as `can_pack` says.
    """
    if isinstance(layout, Layout) and isinstance(keys, Layout) and is_packed(projected, layout, keys):
        layout, keys = layout.packing, keys.packing
    if isinstance(layout, Packing):
        assert isinstance(keys, Packing), "both packed, or none"
        return packed(projected, key_value, layout, keys, causal, window, dropout).flatten(1)
    assert isinstance(keys, Layout), "both packed, or none"
    if key_value is None:  # all three are laid on the grid together
        query, key, value = layout.pad(projected).unbind(2)
    else:
        query, (key, value) = layout.pad(projected), keys.pad(key_value).unbind(2)
    grids = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    heads = attend_padded(*grids, keys, causal=causal, window=window, dropout=dropout)
    return layout.unpad(heads.transpose(1, 2).flatten(2))


def _flash(
    query: Tensor, key: Tensor, value: Tensor, layout: Packing, keys: Packing, causal: bool, window: int, dropout: float
) -> Tensor:
    reach = window - 1 if window else -1  # the kernel's windows count how far one sees, −1 for ever
    sides = {"window_size_left": reach, "window_size_right": 0 if causal else reach} if window else {}
    where = (layout.offsets, keys.offsets, layout.bound, keys.bound)
    return _FLASH(query, key, value, *where, dropout, causal, False, **sides)[0]


def _spread(mask: Tensor | None) -> Tensor | None:
    """[B, K] to [B, 1, 1, K]."""
    return mask[:, None, None] if mask is not None and mask.dim() == 2 else mask


def _dense(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    window: int,
    bias: Tensor | None,
    dropout: float,
    may_be_blind: bool = True,
) -> Tensor:
    queries, keys = query.shape[-2], key.shape[-2]
    if window >= max(queries, keys):
        window = 0
    of_keys = mask is None or mask.shape[1:3] == (1, 1)
    if window and queries == keys and bias is None and of_keys:
        return banded(query, key, value, window, causal, None if mask is None else mask[:, 0, 0], dropout)
    if causal and not window and queries == keys and mask is None and bias is None:
        return product(query, key, value, causal=True, dropout=dropout)
    seen = pattern(queries, keys, causal, window, query.device)
    if seen is not None:
        may_be_blind = queries > keys if mask is None else True
        mask = seen if mask is None else mask & seen
    return product(query, key, value, mask=mask, bias=bias, dropout=dropout, may_be_blind=may_be_blind)
