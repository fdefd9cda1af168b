"""A Transformer's encoder, and one more token through its decoder, on a CPU, compiled by numba, without calls of torch.

A step of one sentence is 19 products of a row with small matrices. What it takes is reading them, 19 MB for 3 layers of
256 and 8,000 tokens; calling torch some 70 times takes several times as long, and waking a second thread for a product
longer than the product. Here a row is taken through all layers by one thread; threads share rows, not products.
Of whole texts, attention is two products (canon/kernels/cpu/products.py) for each head, with its keys and with its
values in panels. Blocks have a memory to attend to or none, norms before or after their sublayers, scores with a number
by distance or none: the forms of GPT, BERT, T5 and the first Transformer.
Plain version: the modules of canon/nn/attention/block.py and canon/systems/pretrained/t5.py, equal in
tests/nn/test_compiled.py.
Shapes: R rows, D features, H heads of d, F inner units, L layers, C places of the cache, S of the memory, V tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from canon.kernels.cpu.compiler import register_jitable
from canon.kernels.cpu.lanes import LANES, bounded, everywhere, exponential, fused, greatest, lanes, put, same, total
from canon.kernels.cpu.products import GATED_GELU, PANEL, TILE, activate, add, compiled, norm, padded, product


class KernelSizes(NamedTuple):
    """What a step needs besides its arrays; all of them numbers, so that one compiled function serves every network."""

    dim: int
    heads: int
    width: int  # of a head
    hidden: int
    layers: int
    outputs: int  # tokens, up to a whole panel; 0: of an encoder
    is_pre: bool
    is_centred: bool  # norms take the mean away
    attends_memory: bool
    activation: int  # as products.ACTIVATIONS numbers them
    eps: float
    scale: float  # of scores


@register_jitable
def places_of(sizes: KernelSizes) -> tuple[int, int, int]:
    """Where the parts of a row's work begin after its features: a wide product's result, a narrow one's, and the
    weights of attention."""
    wide, inner = padded(sizes.dim), sizes.heads * sizes.width
    hidden = 2 * sizes.hidden if sizes.activation == GATED_GELU else sizes.hidden
    narrow = wide + padded(max(3 * inner, hidden)) + LANES  # a last vector of features may reach beyond them
    return wide, narrow, narrow + padded(max(inner, sizes.dim)) + PANEL


def stride_of(sizes: KernelSizes, longest: int = 0) -> int:
    """Numbers of a row's work; with weights of attention to so many places."""
    return places_of(sizes)[2] + sizes.heads * padded(longest)


def panels_of(sizes: KernelSizes, longest: int) -> tuple[int, int, int]:
    """Numbers of one head's keys and values in panels, each with a bias of zeros, and of some rows' scores."""
    return padded(longest) * (sizes.width + 1), padded(sizes.width) * (longest + 1), 2 * TILE * padded(longest)


@compiled
def _attend(work, query, to, scores, key_value, start, pace, first, last, sizes, bias, room, distance):
    """All heads' softmax(q·k · scale + bias) v over places [first, last), 0 where there is none; `key_value` has keys
    and values of all heads for each place, `pace` apart from `start` on. What lies together is read once, in order. The
    bias of a head has `room` numbers, of which the first place's is at `distance`; without room there is none."""
    width, heads, count = sizes.width, sizes.heads, last - first
    dim, scale = heads * width, np.float32(sizes.scale)
    whole, filled = width - width % LANES, -(-count // LANES) * LANES
    for place in range(count):
        for head in range(heads):
            own_query, key, sums = query + head * width, start + (first + place) * pace + head * width, same(0.0)
            for i in range(0, whole, LANES):
                sums = fused(lanes(work, own_query + i), lanes(key_value, key + i), sums)
            score = total(sums)
            for i in range(whole, width):
                score += work[own_query + i] * key_value[key + i]
            work[scores + head * filled + place] = score * scale
    for head in range(heads):
        own, most = scores + head * filled, np.float32(-np.inf)
        if room > 0:
            for place in range(count):
                work[own + place] += bias[head * room + distance + place]
        for place in range(count):
            most = max(most, work[own + place])
        for place in range(count, filled):
            work[own + place] = np.float32(-np.inf)
        sums = same(0.0)
        for place in range(0, filled, LANES):
            shares = exponential(lanes(work, own + place) - same(most))
            put(work, own + place, shares)
            sums = sums + shares
        mass = same(total(sums))
        for place in range(0, filled, LANES):
            put(work, own + place, lanes(work, own + place) / mass)
    for i in range(dim):
        work[to + i] = np.float32(0)
    for place in range(count):
        for head in range(heads):
            share, value = scores + head * filled + place, start + (first + place) * pace + dim + head * width
            for i in range(0, whole, LANES):
                at = to + head * width + i
                put(work, at, fused(everywhere(work, share), lanes(key_value, value + i), lanes(work, at)))
            for i in range(whole, width):
                work[to + head * width + i] += work[share] * key_value[value + i]


@compiled
def _softmax(scores, own, place, length, filled, prefix, window, factor, bias, room, distance):
    """Of a token's scores in place; what it does not see has a share of 0. The bias begins at `distance`."""
    scale, first, last = same(factor), 0, min(length, max(prefix, place + 1))
    if window:
        first, last = max(0, place - window + 1), min(last, place + window)
    for i in range(first):
        scores[own + i] = np.float32(-np.inf)
    for i in range(last, filled):
        scores[own + i] = np.float32(-np.inf)
    most, sums = same(-np.inf), same(0.0)
    for i in range(0, filled, LANES):
        score = lanes(scores, own + i) * scale
        if room > 0:
            score = score + lanes(bias, distance + i)
        put(scores, own + i, score)
        most = bounded(score, most, same(np.inf))
    most = same(greatest(most))
    for i in range(0, filled, LANES):
        shares = exponential(lanes(scores, own + i) - most)
        put(scores, own + i, shares)
        sums = sums + shares
    part = same(np.float32(1) / total(sums))
    for i in range(0, filled, LANES):
        put(scores, own + i, lanes(scores, own + i) * part)


@compiled
def _attend_all(
    work, wide, narrow, stride, length, prefix, window, sizes, bias, room, centre, near, far, scores
):  # fmt: skip
    """The same for all tokens of a text, head by head: each sees those up to itself, those in the prefix, and none
    further away than the window. `near` and `far` have room for a head's keys and values in panels, `scores` for those
    of some rows; up to TILE − 1 rows after the text are worked on too, before anybody reads them."""
    width, heads = sizes.width, sizes.heads
    inner, tiles, filled = heads * width, -(-length // TILE) * TILE, padded(length)
    scale = np.float32(sizes.scale)
    for i in range((width + 1) * filled):
        near[i] = np.float32(0)
    for i in range(padded(width) * (length + 1)):
        far[i] = np.float32(0)
    for head in range(heads):
        for place in range(length):
            key = wide + place * stride + inner + head * width
            to = place // PANEL * PANEL * width + place % PANEL
            for i in range(width):
                near[to + i * PANEL] = work[key + i]
                far[i // PANEL * PANEL * length + place * PANEL + i % PANEL] = work[key + inner + i]
        for begin in range(0, tiles, 2 * TILE):
            rows, asked, to = min(2 * TILE, tiles - begin), wide + head * width, narrow + head * width
            product(work, asked + begin * stride, stride, rows, near, 0, width, length, scores, 0, filled)
            for place in range(begin, min(begin + rows, length)):
                own, distance = (place - begin) * filled, head * room + centre - place
                _softmax(scores, own, place, length, filled, prefix, window, scale, bias, room, distance)
            product(scores, 0, filled, rows, far, 0, length, width, work, to + begin * stride, stride)


@compiled
def _join(work, x, read, wide, narrow, stride, rows, sizes, weights, at):
    """The heads' output is projected and added, and the sum normed for what comes next."""
    at = product(work, narrow, stride, rows, weights, at, sizes.heads * sizes.width, sizes.dim, work, wide, stride)
    add(work, x, wide, stride, rows, sizes.dim)
    return norm(work, x, read, stride, rows, sizes.dim, weights, at, sizes.eps, sizes.is_centred)


@compiled
def _feed_forward(work, x, read, wide, narrow, stride, rows, sizes, weights, at):
    inner = 2 * sizes.hidden if sizes.activation == GATED_GELU else sizes.hidden
    at = product(work, read, stride, rows, weights, at, sizes.dim, inner, work, wide, stride)
    activate(work, wide, stride, rows, sizes.hidden, sizes.activation)
    at = product(work, wide, stride, rows, weights, at, sizes.hidden, sizes.dim, work, narrow, stride)
    add(work, x, narrow, stride, rows, sizes.dim)
    if sizes.is_pre:
        return at
    return norm(work, x, x, stride, rows, sizes.dim, weights, at, sizes.eps, sizes.is_centred)


@compiled
def project(first, rows, x, dim, weights, layers, outputs, y):
    """Keys and values of all layers for rows [first, first + rows); each layer's `outputs` fill whole panels."""
    wide = padded(outputs)
    at = 0
    for layer in range(layers):
        to, step = (first * layers + layer) * wide, layers * wide
        at = product(x, first * dim, dim, rows, weights, at, dim, outputs, y, to, step)


@compiled
def encode(
    first, last, rows, embedded, start_B, length_B, prefix_B, sizes, weights, windows_L, bias, room, centre, work,
    stride, near, far, scores, states, kept, total_rows, cache, capacity, slot_B,
):  # fmt: skip
    """Sequences [first, last) through a stack; `start` is where each one's tokens begin among the `embedded`.

    `rows` are their tokens, filled up to a multiple of TILE unless it is one; the outputs of the last `kept` layers go
    into `states` [kept, N, D]. With a capacity, keys and values go into the cache from each one's slot on.
    """
    dim, inner, layers = sizes.dim, sizes.heads * sizes.width, sizes.layers
    wide, narrow, _ = places_of(sizes)
    read = narrow if sizes.is_pre else 0
    begin = start_B[first]
    count = start_B[last - 1] + length_B[last - 1] - begin
    for row in range(count):
        for i in range(dim):
            work[row * stride + i] = embedded[(begin + row) * dim + i]
    at = 0
    for layer in range(layers):
        if sizes.is_pre:
            at = norm(work, 0, narrow, stride, rows, dim, weights, at, sizes.eps, sizes.is_centred)
        at = product(work, read, stride, rows, weights, at, dim, 3 * inner, work, wide, stride)
        for sequence in range(first, last):
            length, own = length_B[sequence], (start_B[sequence] - begin) * stride
            if capacity:
                to = ((sequence * layers + layer) * capacity + slot_B[sequence]) * 2 * inner
                for place in range(length):
                    for i in range(2 * inner):
                        cache[to + place * 2 * inner + i] = work[wide + own + place * stride + inner + i]
            if length:
                _attend_all(
                    work, wide + own, narrow + own, stride, length, prefix_B[sequence], windows_L[layer], sizes, bias,
                    room, centre, near, far, scores,
                )  # fmt: skip
        at = _join(work, 0, read, wide, narrow, stride, rows, sizes, weights, at)
        at = _feed_forward(work, 0, read, wide, narrow, stride, rows, sizes, weights, at)
        out = (layer - layers + kept) * total_rows + begin
        if sizes.is_pre and layer == layers - 1:
            at = norm(work, 0, 0, stride, rows, dim, weights, at, sizes.eps, sizes.is_centred)
        if layer >= layers - kept:
            for row in range(count):
                for i in range(dim):
                    states[(out + row) * dim + i] = work[row * stride + i]


@compiled
def step(
    first, rows, embedded, size, sizes, weights, windows_L, bias, room, work, stride, cache, capacity, position,
    first_R, memory, sources, pace, length_R, logits,
):  # fmt: skip
    """Rows [first, first + rows): their tokens' keys and values go into the cache, and their logits come out.

    `rows` is 1 or a multiple of TILE; those beyond `size` are worked on, and nobody looks at them. A row's text begins
    at the place first_R of the cache.
    """
    dim, layers, inner = sizes.dim, sizes.layers, sizes.heads * sizes.width
    eps, is_centred = sizes.eps, sizes.is_centred
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
            at = norm(work, x, narrow, stride, rows, dim, weights, at, eps, is_centred)
        at = product(work, read, stride, rows, weights, at, dim, 3 * inner, work, wide, stride)
        near = max(0, position + 1 - windows_L[layer]) if windows_L[layer] else 0
        for row in range(real):
            own, mine = ((first + row) * layers + layer) * capacity * 2 * inner, row * stride
            begin = max(near, first_R[first + row])
            for i in range(2 * inner):
                cache[own + position * 2 * inner + i] = work[wide + mine + inner + i]
            _attend(
                work, wide + mine, narrow + mine, scores + mine, cache, own, 2 * inner, begin, position + 1, sizes,
                bias, room, room - 1 - position + begin,
            )  # fmt: skip
        at = _join(work, x, read, wide, narrow, stride, rows, sizes, weights, at)
        if sizes.attends_memory:
            at = product(work, read, stride, rows, weights, at, dim, inner, work, wide, stride)
            for row in range(real):
                own, mine = (first + row) * sources * pace + layer * (pace // layers), row * stride
                length = length_R[first + row]
                _attend(
                    work, wide + mine, narrow + mine, scores + mine, memory, own, pace, 0, length, sizes, bias, 0, 0
                )
            at = _join(work, x, read, wide, narrow, stride, rows, sizes, weights, at)
        at = _feed_forward(work, x, read, wide, narrow, stride, rows, sizes, weights, at)
    if sizes.is_pre:
        at = norm(work, x, x, stride, rows, dim, weights, at, eps, is_centred)
    product(work, x, stride, rows, weights, at, dim, sizes.outputs, logits, first * sizes.outputs, sizes.outputs)
