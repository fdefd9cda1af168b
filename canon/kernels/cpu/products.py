"""What a Transformer's kernels are made of: products with weights in panels, norms, sums and activations of rows.

A product is computed in panels of 2 · LANES outputs, packed side by side: several rows at a time by all inputs of a
panel, so that its weights are read once for them and the sums stay in registers. Weights lie in one array in the order
of use, each product's panels followed by its bias; each function returns where the next one's begin.
Plain version: the modules of canon/nn/attention/block.py, equal in tests/nn/test_compiled.py.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import njit, part, register_jitable
from canon.kernels.cpu.lanes import (
    LANES,
    bounded,
    everywhere,
    exponential,
    fetch_to_read,
    fused,
    lanes,
    put,
    same,
    total,
)

PANEL = 2 * LANES
TILE = 4  # rows that go through a panel together
_EIGHT = LANES == 16  # AVX-512 has registers for the sums of eight rows

# Not all that is "fast": −∞ must stay what it is.
_MATHS = {"reassoc", "contract", "nsz", "arcp"}
compiled = njit(nogil=True, cache=True, fastmath=_MATHS, boundscheck=False, error_model="numpy", _nrt=False)

RELU, GELU, GELU_TANH, GATED_GELU = range(4)
ACTIVATIONS = {"relu": RELU, "gelu": GELU, "gelu-tanh": GELU_TANH, "gated-gelu": GATED_GELU}


@register_jitable
def padded(size: int) -> int:
    return -(-size // PANEL) * PANEL


@part
def _eight(x, at, stride, weights, panel, bias, size, to, step, y):
    a, b = lanes(weights, bias), lanes(weights, bias + LANES)
    a0, a1, a2, a3, a4, a5, a6, a7 = a, a, a, a, a, a, a, a
    b0, b1, b2, b3, b4, b5, b6, b7 = b, b, b, b, b, b, b, b
    for k in range(size):
        a, b = lanes(weights, panel + k * PANEL), lanes(weights, panel + k * PANEL + LANES)
        own = everywhere(x, at + k)
        a0, b0 = fused(own, a, a0), fused(own, b, b0)
        own = everywhere(x, at + stride + k)
        a1, b1 = fused(own, a, a1), fused(own, b, b1)
        own = everywhere(x, at + 2 * stride + k)
        a2, b2 = fused(own, a, a2), fused(own, b, b2)
        own = everywhere(x, at + 3 * stride + k)
        a3, b3 = fused(own, a, a3), fused(own, b, b3)
        own = everywhere(x, at + 4 * stride + k)
        a4, b4 = fused(own, a, a4), fused(own, b, b4)
        own = everywhere(x, at + 5 * stride + k)
        a5, b5 = fused(own, a, a5), fused(own, b, b5)
        own = everywhere(x, at + 6 * stride + k)
        a6, b6 = fused(own, a, a6), fused(own, b, b6)
        own = everywhere(x, at + 7 * stride + k)
        a7, b7 = fused(own, a, a7), fused(own, b, b7)
    put(y, to, a0)
    put(y, to + LANES, b0)
    put(y, to + step, a1)
    put(y, to + step + LANES, b1)
    put(y, to + 2 * step, a2)
    put(y, to + 2 * step + LANES, b2)
    put(y, to + 3 * step, a3)
    put(y, to + 3 * step + LANES, b3)
    put(y, to + 4 * step, a4)
    put(y, to + 4 * step + LANES, b4)
    put(y, to + 5 * step, a5)
    put(y, to + 5 * step + LANES, b5)
    put(y, to + 6 * step, a6)
    put(y, to + 6 * step + LANES, b6)
    put(y, to + 7 * step, a7)
    put(y, to + 7 * step + LANES, b7)


@part
def _four(x, at, stride, weights, panel, bias, size, to, step, y):
    a, b = lanes(weights, bias), lanes(weights, bias + LANES)
    a0, a1, a2, a3, b0, b1, b2, b3 = a, a, a, a, b, b, b, b
    for k in range(size):
        a, b = lanes(weights, panel + k * PANEL), lanes(weights, panel + k * PANEL + LANES)
        fetch_to_read(weights, panel + (size + k) * PANEL)  # the next panel's, so that it is near when it is needed
        fetch_to_read(weights, panel + (size + k) * PANEL + LANES)
        own = everywhere(x, at + k)
        a0, b0 = fused(own, a, a0), fused(own, b, b0)
        own = everywhere(x, at + stride + k)
        a1, b1 = fused(own, a, a1), fused(own, b, b1)
        own = everywhere(x, at + 2 * stride + k)
        a2, b2 = fused(own, a, a2), fused(own, b, b2)
        own = everywhere(x, at + 3 * stride + k)
        a3, b3 = fused(own, a, a3), fused(own, b, b3)
    put(y, to, a0)
    put(y, to + LANES, b0)
    put(y, to + step, a1)
    put(y, to + step + LANES, b1)
    put(y, to + 2 * step, a2)
    put(y, to + 2 * step + LANES, b2)
    put(y, to + 3 * step, a3)
    put(y, to + 3 * step + LANES, b3)


@part
def _one(x, at, weights, panel, bias, size, to, y):
    a, b = lanes(weights, bias), lanes(weights, bias + LANES)
    for k in range(size):
        own = everywhere(x, at + k)
        a, b = (
            fused(own, lanes(weights, panel + k * PANEL), a),
            fused(own, lanes(weights, panel + k * PANEL + LANES), b),
        )
    put(y, to, a)
    put(y, to + LANES, b)


@compiled
def product(x, at, stride, rows, weights, start, size, outputs, y, to, step):
    """y = x W + b for `rows`, one or a multiple of TILE; where the weights after these begin."""
    wide = padded(outputs)
    bias = start + wide * size
    for first in range(0, wide, PANEL):
        panel = start + first * size
        if rows == 1:
            _one(x, at, weights, panel, bias + first, size, to + first, y)
            continue
        row = 0
        if _EIGHT:
            while row + 2 * TILE <= rows:
                begin, end = at + row * stride, to + row * step + first
                _eight(x, begin, stride, weights, panel, bias + first, size, end, step, y)
                row += 2 * TILE
        while row < rows:
            begin, end = at + row * stride, to + row * step + first
            _four(x, begin, stride, weights, panel, bias + first, size, end, step, y)
            row += TILE
    return bias + wide


@compiled
def norm(work, source, to, stride, rows, dim, weights, start, eps, is_centred):
    """(x − mean) / √(variance + ε) ⊙ g + b of each row; not centred, the mean is taken for 0."""
    whole, bias = dim - dim % LANES, start + dim
    for row in range(rows):
        at, put_at, mean = source + row * stride, to + row * stride, np.float32(0)
        if is_centred:
            sums = same(0.0)
            for i in range(0, whole, LANES):
                sums = sums + lanes(work, at + i)
            mean = total(sums)
            for i in range(whole, dim):
                mean += work[at + i]
            mean /= np.float32(dim)
        sums, means = same(0.0), same(mean)
        for i in range(0, whole, LANES):
            off = lanes(work, at + i) - means
            sums = fused(off, off, sums)
        variance = total(sums)
        for i in range(whole, dim):
            variance += (work[at + i] - mean) * (work[at + i] - mean)
        scale = np.float32(1) / np.sqrt(variance / np.float32(dim) + np.float32(eps))
        scales = same(scale)
        for i in range(0, whole, LANES):
            normed = (lanes(work, at + i) - means) * scales
            put(work, put_at + i, fused(normed, lanes(weights, start + i), lanes(weights, bias + i)))
        for i in range(whole, dim):
            work[put_at + i] = (work[at + i] - mean) * scale * weights[start + i] + weights[bias + i]
    return bias + dim


@compiled
def add(work, to, source, stride, rows, dim):
    """Up to whole lanes: what is after the features is read by nobody."""
    for row in range(rows):
        for i in range(0, dim, LANES):
            at = to + row * stride + i
            put(work, at, lanes(work, at) + lanes(work, source + row * stride + i))


@part
def _gelu(x):
    """x Φ(x) = max(x, 0) − |x| erfc(|x| / √2) / 2, erfc by Abramowitz and Stegun 7.1.26, wrong by 1.5e-7 at most."""
    above = bounded(x, same(0.0), same(3e38))
    size = above + above - x
    t = same(1.0) / fused(size, same(0.3275911 * 0.7071067811865476), same(1.0))
    series = fused(same(1.061405429), t, same(-1.453152027))
    series = fused(series, t, same(1.421413741))
    series = fused(series, t, same(-0.284496736))
    series = fused(series, t, same(0.254829592)) * t
    return above - same(0.5) * size * series * exponential(same(-0.5) * x * x)


@part
def _gelu_tanh(x):
    """x (1 + tanh u) / 2 = x / (1 + e^−2u), u = √(2/π) (x + 0.044715 x³)."""
    twice = same(-1.5957691216057308) * x * fused(same(0.044715) * x, x, same(1.0))
    return x / (same(1.0) + exponential(twice))


@compiled
def activate(work, to, stride, rows, size, activation):
    """In place, up to whole lanes; a gated one multiplies by the `size` numbers after these."""
    for row in range(rows):
        at = to + row * stride
        for i in range(at, at + size, LANES):
            x = lanes(work, i)
            if activation == RELU:
                put(work, i, bounded(x, same(0.0), same(3e38)))
            elif activation == GELU:
                put(work, i, _gelu(x))
            elif activation == GELU_TANH:
                put(work, i, _gelu_tanh(x))
            else:
                put(work, i, _gelu_tanh(x) * lanes(work, i + size))
