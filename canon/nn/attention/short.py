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


def parts(asked: Tensor, told: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [·, H, d] of [N, 3, H, d], or of [N, H, d] and [M, 2, H, d]."""
    if told is None:
        query, key, value = asked.unbind(1)
        return query, key, value
    key, value = told.unbind(1)
    return asked, key, value


@torch.library.custom_op("canon::attend_short", mutates_args=())
def attend_short(
    asked: Tensor,
    told: Tensor | None,
    offsets: Tensor,
    key_offsets: Tensor,
    bound: int,
    key_bound: int,
    causal: bool,
    window: int,
    dropout: float,
    seed: Tensor | None,
) -> Tensor:
    """[N, H, d]; asked [N, 3, H, d] has all of it where told is None, else [N, H, d] and told [M, 2, H, d]."""
    from canon.kernels.cuda.short_attention import forward

    return forward(parts(asked, told), offsets, key_offsets, (bound, key_bound), causal, window, dropout, seed)


@torch.library.custom_op("canon::attend_short_backward", mutates_args=())
def _backward(
    slope: Tensor,
    asked: Tensor,
    told: Tensor | None,
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

    asked_slope, told_slope = torch.empty_like(asked), None if told is None else torch.empty_like(told)
    both = parts(asked, told), parts(asked_slope, told_slope)
    backward(slope, *both, offsets, key_offsets, (bound, key_bound), causal, window, dropout, seed)
    return [asked_slope] if told_slope is None else [asked_slope, told_slope]


@attend_short.register_fake
def _shape(asked: Tensor, told: Tensor | None, *_: Any) -> Tensor:
    return asked.new_empty((len(asked), *asked.shape[-2:]))


@_backward.register_fake
def _shapes(slope: Tensor, asked: Tensor, told: Tensor | None, *_: Any) -> list[Tensor]:
    return [torch.empty_like(part) for part in (asked, told) if part is not None]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    asked, told, offsets, key_offsets, *rest, seed = inputs
    ctx.save_for_backward(asked, told, offsets, key_offsets, seed)
    ctx.rest = rest


def _slopes(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
    *given, seed = ctx.saved_tensors
    found = _backward(slope.contiguous(), *given, *ctx.rest, seed)
    return (*found, *[None] * (10 - len(found)))


attend_short.register_autograd(_slopes, setup_context=_keep)
