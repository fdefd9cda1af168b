"""A Transformer's encoder, and one more token through its decoder, on a CPU, compiled by numba, without calls of torch.

A step of one sentence is 19 products of a row with small matrices. What it takes is reading them, 19 MB for 3 layers of
256 and 8,000 tokens; calling torch some 70 times takes several times as long, and waking a second thread for a product
longer than the product. Here a row is taken through all layers by one thread; threads share rows, not products.
A product goes by panels of 2 · LANES outputs, packed side by side: four rows at a time by all inputs of a panel, so
that its weights are read once for them and the sums stay in registers. Weights lie in one array in the order of use.
Plain version: the modules of canon/nn/attention/block.py, equal in tests/nn/test_compiled.py.
Shapes: R rows, D features, H heads of d, F inner units, L layers, C places of the cache, S of the memory, V tokens.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from canon.kernels.cpu.compiler import njit, part, register_jitable
from canon.kernels.cpu.lanes import LANES, everywhere, exponential, fetch_to_read, fused, lanes, put, same, total

PANEL = 2 * LANES
TILE = 4  # rows that go through a panel together

# Not all that is "fast": −∞ must stay what it is.
_MATHS = {"reassoc", "contract", "nsz", "arcp"}
_compiled = njit(nogil=True, cache=True, fastmath=_MATHS, boundscheck=False, error_model="numpy", _nrt=False)


class KernelSizes(NamedTuple):
    """What a step needs besides its arrays; all of them numbers, so that one compiled function serves every network."""

    dim: int
    heads: int
    hidden: int
    layers: int
    outputs: int  # tokens, up to a whole panel; 0: of an encoder
    is_pre: bool
    activation: int  # 0 ReLU, 1 GELU, 2 its form with tanh
    eps: float


@register_jitable
def padded(size: int) -> int:
    return -(-size // PANEL) * PANEL


@register_jitable
def places_of(sizes: KernelSizes) -> tuple[int, int, int]:
    """Where the parts of a row's work begin after its features: a wide product's result, a narrow one's, and the
    weights of attention."""
    wide = padded(sizes.dim)
    narrow = wide + padded(max(3 * sizes.dim, sizes.hidden))
    return wide, narrow, narrow + padded(sizes.dim)


def stride_of(sizes: KernelSizes, longest: int) -> int:
    """Numbers of a row's work."""
    return places_of(sizes)[2] + sizes.heads * padded(longest)


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


@_compiled
def _product(x, at, stride, rows, weights, start, size, outputs, y, to, step):
    """y = x W + b for `rows`, one or a multiple of TILE; where the weights after these begin."""
    wide = padded(outputs)
    bias = start + wide * size
    for first in range(0, wide, PANEL):
        panel = start + first * size
        if rows == 1:
            _one(x, at, weights, panel, bias + first, size, to + first, y)
        else:
            for row in range(0, rows, TILE):
                _four(
                    x, at + row * stride, stride, weights, panel, bias + first, size, to + row * step + first, step, y
                )
    return bias + wide


@_compiled
def _norm(work, source, to, stride, rows, dim, weights, start, eps):
    whole, bias = dim - dim % LANES, start + dim
    for row in range(rows):
        at, put_at, sums = source + row * stride, to + row * stride, same(0.0)
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


@_compiled
def _add(work, to, source, stride, rows, dim):
    """Up to a whole panel: after the features both have zeros."""
    for row in range(rows):
        for i in range(0, dim, LANES):
            at = to + row * stride + i
            put(work, at, lanes(work, at) + lanes(work, source + row * stride + i))


@_compiled
def _attend(work, query, to, scores, key_value, start, pace, first, last, dim, heads):
    """All heads' softmax(q·k / √d) v over places [first, last), 0 where there is none; `key_value` has D of keys and
    D of values for each place, `pace` apart from `start` on. What lies together is read once, in order."""
    width, count = dim // heads, last - first
    scale, whole, room = np.float32(1 / math.sqrt(width)), width - width % LANES, -(-count // LANES) * LANES
    for place in range(count):
        for head in range(heads):
            own_query, key, sums = query + head * width, start + (first + place) * pace + head * width, same(0.0)
            for i in range(0, whole, LANES):
                sums = fused(lanes(work, own_query + i), lanes(key_value, key + i), sums)
            score = total(sums)
            for i in range(whole, width):
                score += work[own_query + i] * key_value[key + i]
            work[scores + head * room + place] = score * scale
    for head in range(heads):
        own, most = scores + head * room, np.float32(-np.inf)
        for place in range(count):
            most = max(most, work[own + place])
        for place in range(count, room):
            work[own + place] = np.float32(-np.inf)
        sums = same(0.0)
        for place in range(0, room, LANES):
            shares = exponential(lanes(work, own + place) - same(most))
            put(work, own + place, shares)
            sums = sums + shares
        mass = same(total(sums))
        for place in range(0, room, LANES):
            put(work, own + place, lanes(work, own + place) / mass)
    for i in range(dim):
        work[to + i] = np.float32(0)
    for place in range(count):
        for head in range(heads):
            share, value = scores + head * room + place, start + (first + place) * pace + dim + head * width
            for i in range(0, whole, LANES):
                at = to + head * width + i
                put(work, at, fused(everywhere(work, share), lanes(key_value, value + i), lanes(work, at)))
            for i in range(whole, width):
                work[to + head * width + i] += work[share] * key_value[value + i]


@_compiled
def _activate(work, to, stride, rows, size, activation):
    for row in range(rows):
        at = to + row * stride
        if activation == 0:
            for i in range(size):
                work[at + i] = max(work[at + i], np.float32(0))
        elif activation == 1:
            for i in range(size):
                x = work[at + i]
                work[at + i] = np.float32(0.5) * x * np.float32(1 + math.erf(x * math.sqrt(0.5)))
        else:
            for i in range(size):
                x = work[at + i]
                inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
                work[at + i] = np.float32(0.5 * x * (1 + math.tanh(inner)))


@_compiled
def _join(work, x, read, wide, narrow, stride, rows, sizes, weights, at):
    """The heads' output is projected and added, and the sum normed for what comes next."""
    at = _product(work, narrow, stride, rows, weights, at, sizes.dim, sizes.dim, work, wide, stride)
    _add(work, x, wide, stride, rows, sizes.dim)
    return _norm(work, x, read, stride, rows, sizes.dim, weights, at, sizes.eps)


@_compiled
def _feed_forward(work, x, read, wide, narrow, stride, rows, sizes, weights, at):
    at = _product(work, read, stride, rows, weights, at, sizes.dim, sizes.hidden, work, wide, stride)
    _activate(work, wide, stride, rows, sizes.hidden, sizes.activation)
    at = _product(work, wide, stride, rows, weights, at, sizes.hidden, sizes.dim, work, narrow, stride)
    _add(work, x, narrow, stride, rows, sizes.dim)
    return at if sizes.is_pre else _norm(work, x, x, stride, rows, sizes.dim, weights, at, sizes.eps)


@_compiled
def project(first, rows, x, dim, weights, layers, y):
    """Keys and values of all layers for rows [first, first + rows), each layer's 2D filled up to whole panels."""
    wide = padded(2 * dim)
    at = 0
    for layer in range(layers):
        to, step = (first * layers + layer) * wide, layers * wide
        at = _product(x, first * dim, dim, rows, weights, at, dim, 2 * dim, y, to, step)


@_compiled
def encode(first, last, rows, embedded, start_B, length_B, sizes, weights, windows_L, work, stride, out, longest):
    """Sequences [first, last) through an encoder; `start` is where each one's tokens begin among the `embedded`.

    `rows` are their tokens, filled up to a multiple of TILE unless it is one; out is [B, longest, D].
    """
    dim, heads = sizes.dim, sizes.heads
    wide, narrow, scores = places_of(sizes)
    read = narrow if sizes.is_pre else 0
    begin = start_B[first]
    for row in range(start_B[last - 1] + length_B[last - 1] - begin):
        for i in range(dim):
            work[row * stride + i] = embedded[(begin + row) * dim + i]
    at = 0
    for layer in range(sizes.layers):
        if sizes.is_pre:
            at = _norm(work, 0, narrow, stride, rows, dim, weights, at, sizes.eps)
        at = _product(work, read, stride, rows, weights, at, dim, 3 * dim, work, wide, stride)
        for sequence in range(first, last):
            length, own = length_B[sequence], (start_B[sequence] - begin) * stride
            reach = windows_L[layer] or length
            for place in range(length):
                mine, near, far = own + place * stride, max(0, place - reach + 1), min(length, place + reach)
                _attend(
                    work, wide + mine, narrow + mine, scores + mine, work, wide + own + dim, stride, near, far, dim,
                    heads,
                )  # fmt: skip
        at = _join(work, 0, read, wide, narrow, stride, rows, sizes, weights, at)
        at = _feed_forward(work, 0, read, wide, narrow, stride, rows, sizes, weights, at)
    if sizes.is_pre:
        at = _norm(work, 0, 0, stride, rows, dim, weights, at, sizes.eps)
    for sequence in range(first, last):
        for place in range(length_B[sequence]):
            row, to = start_B[sequence] - begin + place, (sequence * longest + place) * dim
            for i in range(dim):
                out[to + i] = work[row * stride + i]


@_compiled
def step(
    first, rows, embedded, size, sizes, weights, windows_L, work, stride, cache, capacity, position, memory, sources,
    pace, length_R, logits,
):  # fmt: skip
    """Rows [first, first + rows): their tokens' keys and values go into the cache, and their logits come out.

    `rows` is 1 or a multiple of TILE; those beyond `size` are worked on, and nobody looks at them.
    """
    dim, heads, layers = sizes.dim, sizes.heads, sizes.layers
    x = first * stride
    wide, narrow, scores = places_of(sizes)
    wide, narrow, scores = x + wide, x + narrow, x + scores
    read = narrow if sizes.is_pre else x
    real = min(rows, size - first)
    for row in range(real):
        for i in range(dim):
            work[x + row * stride + i] = embedded[(first + row) * dim + i]
    at = 0
    for layer in range(layers):
        if sizes.is_pre:
            at = _norm(work, x, narrow, stride, rows, dim, weights, at, sizes.eps)
        at = _product(work, read, stride, rows, weights, at, dim, 3 * dim, work, wide, stride)
        begin = max(0, position + 1 - windows_L[layer]) if windows_L[layer] else 0
        for row in range(real):
            own, mine = ((first + row) * layers + layer) * capacity * 2 * dim, row * stride
            for i in range(2 * dim):
                cache[own + position * 2 * dim + i] = work[wide + mine + dim + i]
            _attend(
                work, wide + mine, narrow + mine, scores + mine, cache, own, 2 * dim, begin, position + 1, dim, heads
            )
        at = _join(work, x, read, wide, narrow, stride, rows, sizes, weights, at)
        at = _product(work, read, stride, rows, weights, at, dim, dim, work, wide, stride)
        for row in range(real):
            own, mine = (first + row) * sources * pace + layer * (pace // layers), row * stride
            length = length_R[first + row]
            _attend(work, wide + mine, narrow + mine, scores + mine, memory, own, pace, 0, length, dim, heads)
        at = _join(work, x, read, wide, narrow, stride, rows, sizes, weights, at)
        at = _feed_forward(work, x, read, wide, narrow, stride, rows, sizes, weights, at)
    if sizes.is_pre:
        at = _norm(work, x, x, stride, rows, dim, weights, at, sizes.eps)
    _product(work, x, stride, rows, weights, at, dim, sizes.outputs, logits, first * sizes.outputs, sizes.outputs)
