"""`steps.fixed` as five Triton kernels: one token through a block of a left-to-right stack.

At batch 1 a block reads each weight once and does two operations with it, so its time is that of reading them, if
nothing else is in the way: a kernel's start and end, what is written only to be read again. Norms, biases, activations
and residual sums are done where the product is; attention writes the new keys and values and reads only as far as the
text goes, whatever the reach that a graph was recorded for. Sums are in float32.
Plain version: `fixed` of canon/nn/attention/steps.py, equal in tests/nn/test_step_kernel.py. Deviations: none.
Shapes: as in steps.py; O outputs of a layer.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from canon.kernels.cuda.weights import Affine, Weights

_TILE = 4096  # weights that a program of `_affine` reads
_KEYS = 64  # keys that a program of `_attention` reads at a time


@triton.jit
def _affine(  # type: ignore[no-untyped-def]
    x_BD, norm_weight_D, norm_bias_D, weight_OD, bias_O, added_BO, y_BO, eps,
    D: tl.constexpr, OUTPUTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    NORMED: tl.constexpr, HAS_BIAS: tl.constexpr, ADDED: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """y = added + φ(W norm(x) + b), some rows of W in each program."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    text = tl.program_id(1)
    lane = tl.arange(0, WIDTH)
    inside = lane < D
    real = row < OUTPUTS
    w_RW = tl.load(weight_OD + row[:, None] * D + lane[None, :], mask=real[:, None] & inside[None, :], other=0.0)
    x_W = tl.load(x_BD + text * D + lane, mask=inside, other=0.0).to(tl.float32)
    if NORMED:
        mean = tl.sum(x_W, 0) / D
        x_W = tl.where(inside, x_W - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(x_W * x_W, 0) / D + eps)
        x_W = x_W * scale * tl.load(norm_weight_D + lane, mask=inside, other=0.0).to(tl.float32)
        x_W += tl.load(norm_bias_D + lane, mask=inside, other=0.0).to(tl.float32)
    y_R = tl.sum(w_RW.to(tl.float32) * x_W[None, :], 1)
    if HAS_BIAS:
        y_R += tl.load(bias_O + row, mask=real, other=0.0).to(tl.float32)
    if ACTIVATION == "relu":
        y_R = tl.maximum(y_R, 0.0)
    if ACTIVATION == "gelu":
        y_R = 0.5 * y_R * (1.0 + tl.erf(y_R * 0.7071067811865476))
    if ACTIVATION == "gelu-tanh":  # 1 + tanh(u) = 2 σ(2u)
        y_R = y_R * tl.sigmoid(1.5957691216057308 * (y_R + 0.044715 * y_R * y_R * y_R))
    if ADDED:
        y_R += tl.load(added_BO + text * OUTPUTS + row, mask=real, other=0.0).to(tl.float32)
    tl.store(y_BO + text * OUTPUTS + row, y_R.to(y_BO.dtype.element_ty), mask=real)


@triton.jit
def _norm(x_BD, weight_D, bias_D, y_BD, eps, D: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    text = tl.program_id(0)
    lane = tl.arange(0, WIDTH)
    inside = lane < D
    x_W = tl.load(x_BD + text * D + lane, mask=inside, other=0.0).to(tl.float32)
    x_W = tl.where(inside, x_W - tl.sum(x_W, 0) / D, 0.0)
    x_W = x_W / tl.sqrt(tl.sum(x_W * x_W, 0) / D + eps)
    x_W = x_W * tl.load(weight_D + lane, mask=inside, other=0.0).to(tl.float32)
    x_W += tl.load(bias_D + lane, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_BD + text * D + lane, x_W.to(y_BD.dtype.element_ty), mask=inside)


@triton.jit
def _attention(  # type: ignore[no-untyped-def]
    qkv_B3Hd, cache_B2HCd, place_1, bias_BR, heads_BHd, text_stride, pair_stride, head_stride, bias_stride, scale,
    HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """One head of one text: its key and value go to their place, then all up to there are attended to."""
    head = tl.program_id(0)
    text = tl.program_id(1).to(tl.int64)
    lane = tl.arange(0, WIDTH)
    inside = lane < SIZE
    here = qkv_B3Hd + (text * 3 * HEADS + head) * SIZE + lane
    query = tl.load(here, mask=inside, other=0.0).to(tl.float32) * scale
    key = tl.load(here + HEADS * SIZE, mask=inside, other=0.0)
    value = tl.load(here + 2 * HEADS * SIZE, mask=inside, other=0.0)
    place = tl.load(place_1)
    keys = cache_B2HCd + text * text_stride + head * head_stride
    values = keys + pair_stride
    tl.store(keys + place * SIZE + lane, key, mask=inside)
    tl.store(values + place * SIZE + lane, value, mask=inside)
    # A running softmax that begins with the token itself, which always sees itself.
    top = tl.sum(query * key.to(tl.float32), 0)
    total = 1.0
    sum_W = value.to(tl.float32)
    for start in range(0, place, KEYS):
        other = start + tl.arange(0, KEYS)
        past = other < place
        where = other[:, None] * SIZE + lane[None, :]
        seen = past[:, None] & inside[None, :]
        key_KW = tl.load(keys + where, mask=seen, other=0.0).to(tl.float32)
        value_KW = tl.load(values + where, mask=seen, other=0.0).to(tl.float32)
        bias_K = tl.load(bias_BR + text * bias_stride + other, mask=past, other=-float("inf")).to(tl.float32)
        score_K = tl.sum(key_KW * query[None, :], 1) + bias_K
        higher = tl.maximum(top, tl.max(score_K, 0))
        share_K = tl.exp(score_K - higher)
        faded = tl.exp(top - higher)
        total = total * faded + tl.sum(share_K, 0)
        sum_W = sum_W * faded + tl.sum(share_K[:, None] * value_KW, 0)
        top = higher
    to = heads_BHd + (text * HEADS + head) * SIZE + lane
    tl.store(to, (sum_W / total).to(heads_BHd.dtype.element_ty), mask=inside)


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
    """As `steps.fixed`."""
    batch, dim = x_BD.shape
    size = dim // num_heads
    asked = weights.attention_norm if is_pre else None
    qkv = affine(x_BD, weights.qkv, norm=asked, eps=eps)
    heads_BD = torch.empty_like(x_BD)
    _attention[(num_heads, batch)](
        qkv, cache_B2HCd, place_1, bias_B11R, heads_BD, *cache_B2HCd.stride()[:3], bias_B11R.stride(0), size**-0.5,
        HEADS=num_heads, SIZE=size, WIDTH=triton.next_power_of_2(size), KEYS=_KEYS, num_warps=4,
    )  # fmt: skip
    x_BD = affine(heads_BD, weights.output, added=x_BD)
    if not is_pre:
        x_BD = norm(x_BD, weights.attention_norm, eps)
    asked = weights.feed_forward_norm if is_pre else None
    inner = affine(x_BD, weights.inner, norm=asked, eps=eps, activation=activation)
    x_BD = affine(inner, weights.outer, added=x_BD)
    return x_BD if is_pre else norm(x_BD, weights.feed_forward_norm, eps)


def affine(
    x_BD: Tensor,
    layer: Affine,
    *,
    norm: Affine | None = None,
    eps: float = 0.0,
    added: Tensor | None = None,
    activation: str = "",
) -> Tensor:
    """added + φ(W norm(x) + b), of few rows."""
    (batch, dim), (weight, bias) = x_BD.shape, layer
    outputs, width = len(weight), triton.next_power_of_2(dim)
    rows = max(1, _TILE // width)
    y_BO = x_BD.new_empty(batch, outputs)
    _affine[(triton.cdiv(outputs, rows), batch)](
        x_BD, *(norm or (x_BD, x_BD)), weight, x_BD if bias is None else bias, x_BD if added is None else added, y_BO,
        eps, D=dim, OUTPUTS=outputs, WIDTH=width, ROWS=rows, NORMED=norm is not None, HAS_BIAS=bias is not None,
        ADDED=added is not None, ACTIVATION=activation, num_warps=4,
    )  # fmt: skip
    return y_BO


def norm(x_BD: Tensor, layer: Affine, eps: float) -> Tensor:
    y_BD, dim = torch.empty_like(x_BD), x_BD.shape[1]
    _norm[(len(x_BD),)](x_BD, *layer, y_BD, eps, D=dim, WIDTH=triton.next_power_of_2(dim), num_warps=4)
    return y_BD
