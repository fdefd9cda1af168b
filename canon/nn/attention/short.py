"""Attention of short sequences as an operator that torch.compile and CUDA graphs know: canon::attend_short.

Its kernels (canon/kernels/cuda/short_attention.py) are Triton's, which comes with torch for CUDA alone.
Queries, keys and values stay in the one tensor that their projection made, and so does their gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from canon.kernels import enabled

LONGEST = 128  # tokens of a sequence, at most
_SIZES = (16, 32, 64)  # features of a head


def fits(head_dim: int, bound: int, key_bound: int) -> bool:
    """Whether the kernel is to be used; else torch's own flash attention does the same."""
    return enabled() and head_dim in _SIZES and max(bound, key_bound) <= LONGEST


def parts(projected: Tensor, key_value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [·, H, d] of [N, 3, H, d], or of [N, H, d] and [M, 2, H, d]."""
    if key_value is None:
        query, key, value = projected.unbind(1)
        return query, key, value
    key, value = key_value.unbind(1)
    return projected, key, value


@torch.library.custom_op("canon::attend_short", mutates_args=())
def attend_short(
    projected: Tensor,
    key_value: Tensor | None,
    offsets: Tensor,
    key_offsets: Tensor,
    bound: int,
    key_bound: int,
    causal: bool,
    window: int,
    dropout: float,
    seed: Tensor | None,
) -> Tensor:
    """[N, H, d], of projected [N, 3, H, d], or of projected [N, H, d] and key_value [M, 2, H, d]."""
    from canon.kernels.cuda.short_attention import forward

    return forward(parts(projected, key_value), offsets, key_offsets, (bound, key_bound), causal, window, dropout, seed)


@torch.library.custom_op("canon::attend_short_backward", mutates_args=())
def _backward(
    slope: Tensor,
    projected: Tensor,
    key_value: Tensor | None,
    offsets: Tensor,
    key_offsets: Tensor,
    bound: int,
    key_bound: int,
    causal: bool,
    window: int,
    dropout: float,
    seed: Tensor | None,
) -> list[Tensor]:
    from canon.kernels.cuda.short_attention import backward

    projected_slope, key_value_slope = (
        torch.empty_like(projected),
        None if key_value is None else torch.empty_like(key_value),
    )
    both = parts(projected, key_value), parts(projected_slope, key_value_slope)
    backward(slope, *both, offsets, key_offsets, (bound, key_bound), causal, window, dropout, seed)
    return [projected_slope] if key_value_slope is None else [projected_slope, key_value_slope]


@attend_short.register_fake
def _shape(projected: Tensor, key_value: Tensor | None, *_: Any) -> Tensor:
    # Not len(): it would make the number of tokens a constant of what is compiled.
    return projected.new_empty((projected.shape[0], *projected.shape[-2:]))


@_backward.register_fake
def _shapes(slope: Tensor, projected: Tensor, key_value: Tensor | None, *_: Any) -> list[Tensor]:
    return [torch.empty_like(part) for part in (projected, key_value) if part is not None]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    projected, key_value, offsets, key_offsets, *rest, seed = inputs
    ctx.save_for_backward(projected, key_value, offsets, key_offsets, seed)
    ctx.rest = rest


def _slopes(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
    *given, seed = ctx.saved_tensors
    slopes = _backward(slope.contiguous(), *given, *ctx.rest, seed)
    return (*slopes, *[None] * (10 - len(slopes)))


attend_short.register_autograd(_slopes, setup_context=_keep)
