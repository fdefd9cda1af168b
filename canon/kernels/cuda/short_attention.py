"""Attention among tokens end to end whose sequences are short: all keys of a sequence are one tile of a Triton program.

The kernels of flash attention go through keys block by block and keep sums for the way back. Where all keys of a
sequence fit into one tile there is nothing to go through and nothing to keep: `_forward` takes the softmax of all
scores at once, `_backward` makes it again and writes the gradients of queries, keys and values where their projection's
gradient has them. Sequences of at most half or a quarter of the tile have one of that size. Sums are in float32;
weights are dropped by the hash of canon/nn/dropout.py.
Plain version: the grid of canon/nn/attention/attend.py, equal in tests/nn/test_short_attention.py; CANON_KERNELS=off
takes torch's flash attention, equal in tests/kernels/test_cuda.py. Deviations: none.
Shapes: B sequences, H heads of d, K keys of a tile, Q queries at a time.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_LOG2_E = 1.4426950408889634


Parts = tuple[Tensor, Tensor, Tensor]


@triton.jit
def _weights(  # type: ignore[no-untyped-def]
    k_Kd, q_Qd, start, queries, keys, scale, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, K: tl.constexpr,
    Q: tl.constexpr,
):  # fmt: skip
    """2^(scores − the highest) [K, Q] over the keys that are seen, and 1 / their sums; scale is that of exponents."""
    j = tl.arange(0, K)[:, None]
    i = start + tl.arange(0, Q)[None, :]
    seen = (i < queries) & (j < keys)
    if CAUSAL:
        seen = seen & (j <= i)
    if WINDOW > 0:
        seen = seen & (i - j < WINDOW) & (j - i < WINDOW)
    score_KQ = tl.where(seen, tl.dot(k_Kd, tl.trans(q_Qd)) * scale, -float("inf"))
    top_Q = tl.max(score_KQ, 0)
    e_KQ = tl.exp2(score_KQ - tl.where(top_Q == -float("inf"), 0.0, top_Q)[None, :])
    total_Q = tl.sum(e_KQ, 0)
    return e_KQ, 1.0 / tl.where(total_Q == 0.0, 1.0, total_Q)  # a query that sees no key weighs nothing


@triton.jit
def _kept(first, start, seed, least, K: tl.constexpr, Q: tl.constexpr):  # type: ignore[no-untyped-def]
    """Which weights [K, Q] stay; `first` is the head's place among all heads, in tiles of 128 by 128."""
    draw = tl.load(seed)
    place = (first * 128 + start + tl.arange(0, Q)[None, :]) * 128 + tl.arange(0, K)[:, None]
    bits = (place ^ draw) * -1640531535
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * -2048144789
    bits = ((bits ^ ((bits >> 13) & 0x7FFFF)) ^ draw) * -1028477387
    bits = bits ^ ((bits >> 16) & 0xFFFF)
    return (bits & 0x7FFFFFFF) >= least


@triton.jit
def _heads(  # type: ignore[no-untyped-def]
    query, key, value, out, start, queries, keys, first, seed, query_stride, key_stride, out_stride,
    scale, least, grown, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, DROPS: tl.constexpr,
    SIZE: tl.constexpr, K: tl.constexpr, Q: tl.constexpr,
):  # fmt: skip
    i, j, lane = start + tl.arange(0, Q)[:, None], tl.arange(0, K)[:, None], tl.arange(0, SIZE)[None, :]
    q_Qd = tl.load(query + i * query_stride + lane, mask=i < queries, other=0.0)
    k_Kd = tl.load(key + j * key_stride + lane, mask=j < keys, other=0.0)
    v_Kd = tl.load(value + j * key_stride + lane, mask=j < keys, other=0.0)
    e_KQ, share_Q = _weights(k_Kd, q_Qd, start, queries, keys, scale, CAUSAL, WINDOW, K, Q)
    if DROPS:
        e_KQ = tl.where(_kept(first, start, seed, least, K, Q), e_KQ, 0.0)
        share_Q = share_Q * grown
    out_Qd = tl.dot(tl.trans(e_KQ.to(v_Kd.dtype)), v_Kd) * share_Q[:, None]
    tl.store(out + i * out_stride + lane, out_Qd.to(out.dtype.element_ty), mask=i < queries)


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    query, key, value, out, offsets, key_offsets, seed, query_stride, key_stride, scale, least, grown,
    HEADS: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, DROPS: tl.constexpr,
    SIZE: tl.constexpr, K: tl.constexpr, Q: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = K // 2 if K >= 32 else K
    QUARTER: tl.constexpr = K // 4 if K >= 64 else HALF
    head, sequence, start = tl.program_id(0), tl.program_id(1), tl.program_id(2) * Q
    row, key_row = tl.load(offsets + sequence).to(tl.int64), tl.load(key_offsets + sequence).to(tl.int64)
    queries = (tl.load(offsets + sequence + 1) - row).to(tl.int32)
    keys = (tl.load(key_offsets + sequence + 1) - key_row).to(tl.int32)
    if start < queries:
        query += row * query_stride + head * SIZE
        key += key_row * key_stride + head * SIZE
        value += key_row * key_stride + head * SIZE
        out += row * HEADS * SIZE + head * SIZE
        first = sequence * HEADS + head
        if keys <= QUARTER:
            _heads(query, key, value, out, start, queries, keys, first, seed, query_stride, key_stride, HEADS * SIZE,
                scale, least, grown, CAUSAL, WINDOW, DROPS, SIZE, QUARTER, Q)  # fmt: skip
        elif keys <= HALF:
            _heads(query, key, value, out, start, queries, keys, first, seed, query_stride, key_stride, HEADS * SIZE,
                scale, least, grown, CAUSAL, WINDOW, DROPS, SIZE, HALF, Q)  # fmt: skip
        else:
            _heads(query, key, value, out, start, queries, keys, first, seed, query_stride, key_stride, HEADS * SIZE,
                scale, least, grown, CAUSAL, WINDOW, DROPS, SIZE, K, Q)  # fmt: skip


@triton.jit
def _slopes(  # type: ignore[no-untyped-def]
    query, key, value, slope, query_slope, key_slope, value_slope, queries, keys, first, seed,
    query_stride, key_stride, slope_stride, root, scale, least, grown,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, DROPS: tl.constexpr, SIZE: tl.constexpr, K: tl.constexpr,
    Q: tl.constexpr,
):  # fmt: skip
    j, lane = tl.arange(0, K)[:, None], tl.arange(0, SIZE)[None, :]
    k_Kd = tl.load(key + j * key_stride + lane, mask=j < keys, other=0.0)
    v_Kd = tl.load(value + j * key_stride + lane, mask=j < keys, other=0.0)
    k_slope_Kd = tl.zeros((K, SIZE), tl.float32)
    v_slope_Kd = tl.zeros((K, SIZE), tl.float32)
    for start in range(0, queries, Q):
        i = start + tl.arange(0, Q)[:, None]
        q_Qd = tl.load(query + i * query_stride + lane, mask=i < queries, other=0.0)
        g_Qd = tl.load(slope + i * slope_stride + lane, mask=i < queries, other=0.0)
        e_KQ, share_Q = _weights(k_Kd, q_Qd, start, queries, keys, scale, CAUSAL, WINDOW, K, Q)
        p_KQ = e_KQ * share_Q[None, :]
        p_slope_KQ = tl.dot(v_Kd, tl.trans(g_Qd))
        if DROPS:
            kept_KQ = _kept(first, start, seed, least, K, Q)
            v_slope_Kd = tl.dot(tl.where(kept_KQ, p_KQ * grown, 0.0).to(g_Qd.dtype), g_Qd, v_slope_Kd)
            p_slope_KQ = tl.where(kept_KQ, p_slope_KQ * grown, 0.0)
        else:
            v_slope_Kd = tl.dot(p_KQ.to(g_Qd.dtype), g_Qd, v_slope_Kd)
        score_slope_KQ = p_KQ * (p_slope_KQ - tl.sum(p_KQ * p_slope_KQ, 0)[None, :])
        score_slope_KQ = score_slope_KQ.to(q_Qd.dtype)
        k_slope_Kd = tl.dot(score_slope_KQ, q_Qd, k_slope_Kd)
        q_slope_Qd = tl.dot(tl.trans(score_slope_KQ), k_Kd) * root
        tl.store(query_slope + i * query_stride + lane, q_slope_Qd.to(q_Qd.dtype), mask=i < queries)
    tl.store(key_slope + j * key_stride + lane, (k_slope_Kd * root).to(k_Kd.dtype), mask=j < keys)
    tl.store(value_slope + j * key_stride + lane, v_slope_Kd.to(v_Kd.dtype), mask=j < keys)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    query, key, value, slope, query_slope, key_slope, value_slope, offsets, key_offsets, seed,
    query_stride, key_stride, root, scale, least, grown,
    HEADS: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, DROPS: tl.constexpr,
    SIZE: tl.constexpr, K: tl.constexpr, Q: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = K // 2 if K >= 32 else K
    QUARTER: tl.constexpr = K // 4 if K >= 64 else HALF
    head, sequence = tl.program_id(0), tl.program_id(1)
    row, key_row = tl.load(offsets + sequence).to(tl.int64), tl.load(key_offsets + sequence).to(tl.int64)
    queries = (tl.load(offsets + sequence + 1) - row).to(tl.int32)
    keys = (tl.load(key_offsets + sequence + 1) - key_row).to(tl.int32)
    here, there = row * query_stride + head * SIZE, key_row * key_stride + head * SIZE
    slope += row * HEADS * SIZE + head * SIZE
    first = sequence * HEADS + head
    if keys <= QUARTER:
        _slopes(query + here, key + there, value + there, slope, query_slope + here, key_slope + there,
            value_slope + there, queries, keys, first, seed, query_stride, key_stride, HEADS * SIZE, root, scale,
            least, grown, CAUSAL, WINDOW, DROPS, SIZE, QUARTER, Q)  # fmt: skip
    elif keys <= HALF:
        _slopes(query + here, key + there, value + there, slope, query_slope + here, key_slope + there,
            value_slope + there, queries, keys, first, seed, query_stride, key_stride, HEADS * SIZE, root, scale,
            least, grown, CAUSAL, WINDOW, DROPS, SIZE, HALF, Q)  # fmt: skip
    else:
        _slopes(query + here, key + there, value + there, slope, query_slope + here, key_slope + there,
            value_slope + there, queries, keys, first, seed, query_stride, key_stride, HEADS * SIZE, root, scale,
            least, grown, CAUSAL, WINDOW, DROPS, SIZE, K, Q)  # fmt: skip


def forward(
    parts: Parts, offsets: Tensor, key_offsets: Tensor, bounds: tuple[int, int],
    causal: bool, window: int, dropout: float, seed: Tensor | None,
) -> Tensor:  # fmt: skip
    """As canon/nn/attention/short.py asks; `parts` are queries, keys and values [·, H, d]."""
    query, key, value = parts
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    heads, size = query.shape[1:]
    tiles = _tiles(bounds, max(bounds[1] // 2, 32))
    _forward[(heads, len(offsets) - 1, triton.cdiv(bounds[0], tiles["Q"]))](
        query, key, value, out, offsets, key_offsets, offsets if seed is None else seed,
        query.stride(0), key.stride(0), size**-0.5 * _LOG2_E, int(dropout * 2**31), 1 / (1 - dropout),
        HEADS=heads, CAUSAL=causal, WINDOW=window, DROPS=seed is not None, SIZE=size, **tiles,
    )  # fmt: skip
    return out


def backward(
    slope: Tensor, parts: Parts, slopes: Parts, offsets: Tensor, key_offsets: Tensor, bounds: tuple[int, int],
    causal: bool, window: int, dropout: float, seed: Tensor | None,
) -> None:  # fmt: skip
    """Writes the gradients of queries, keys and values into `slopes`."""
    query, key, value = parts
    heads, size = query.shape[1:]
    _backward[(heads, len(offsets) - 1)](
        query, key, value, slope, *slopes, offsets, key_offsets,
        offsets if seed is None else seed, query.stride(0), key.stride(0),
        size**-0.5, size**-0.5 * _LOG2_E, int(dropout * 2**31), 1 / (1 - dropout),
        HEADS=heads, CAUSAL=causal, WINDOW=window, DROPS=seed is not None, SIZE=size, **_tiles(bounds, 32),
    )  # fmt: skip


def _tiles(bounds: tuple[int, int], queries: int) -> dict[str, Any]:
    """queries: at a time, at most. Measured on an H200: more than these are more than registers hold."""
    most, keys = (max(16, triton.next_power_of_2(bound)) for bound in bounds)
    return {"Q": min(most, queries), "K": keys, "num_warps": max(keys // 32, 1), "num_stages": 1}
