"""The inner loops of word2vec, compiled: a span of the corpus read, its words drawn and learned from.

For inputs x_i (contexts) and outputs o_k (the word and its noise, or the inner nodes on its way down the tree), with
s_k = 1 where o_k is to be likely and −1 where not:  loss −Σ log σ(s_k x·o),  g_ik = lr s_k σ(−s_k x_i·o_k),
  x_i ← x_i + Σ_k g_ik o_k        o_k ← o_k + Σ_i g_ik x_i
`_foresee_together` and `_move_together` do this for all contexts of one word at once: six outputs stay in registers
while the contexts pass. `learn_one` does it for one x (a pair; the mean of CBOW). Rows are whole cache lines that end
in zeros.
Random numbers depend on key (of seed and epoch) and place alone: neither on threads nor on where a span was cut.
The loss is kept as the product of all σ: in each lane a mantissa and a sum of exponents, whose logarithm is taken once.
Plain version: the same code uncompiled with NumPy for lanes, equal but for rounding in tests/kernels/test_learners.py;
the equations word by word in tests/systems/test_word2vec.py.
Shapes: N places, V words, flat matrices of rows · stride floats, n contexts, m outputs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit, part
from canon.kernels.cpu.lanes import (
    LANES,
    LINE,
    everywhere,
    exponent,
    exponential,
    fetch,
    fused,
    lanes,
    mantissa,
    once,
    put,
    same,
    totals,
    twice,
    where_counted,
)

SKIP_GRAM, PAIRWISE, CBOW = 0, 1, 2  # contexts together; one by one; their mean
TILE = 6  # outputs that are worked on together: six rows, six sums and what passes fit in 32 registers
MARK = -1

_BLOCK = 8192  # places that are read at once
_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)

_compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")


@_compiled
def key_of(seed: int, epoch: int) -> Any:
    return mixed(mixed(np.uint64(seed) + GOLDEN) + np.uint64(epoch) * GOLDEN)


@part
def drawn_at(key, place):
    """64 random bits of a place: the upper half says whether it is kept, the lower how wide its window is. The bits
    are also where the place's own series begins: number j is mixed(bits + j · golden)."""
    return mixed(key + np.uint64(place) * GOLDEN)


@part
def reach_of(bits, window):
    """1 … window, evenly."""
    return 1 + np.int64(((bits & _LOW) * np.uint64(window)) >> _32)


@part
def noise_word(bits, threshold_V, other_V):
    row = np.int64(((bits >> _32) * np.uint64(len(threshold_V))) >> _32)
    other = np.int64(other_V[row])  # read in any case: a branch here would be foreseen wrongly every other time
    return row if (bits & _LOW) < np.uint64(threshold_V[row]) else other


@_compiled
def draw_noise(seed, count, threshold_V, other_V):
    """`count` noise words, as the kernels draw them."""
    words = np.empty(count, np.int32)
    key = key_of(seed, 0)
    for i in range(count):
        words[i] = noise_word(mixed(key + np.uint64(i + 1) * GOLDEN), threshold_V, other_V)
    return words


@part
def read_kept(tokens, start, stop, keep_V, key, window, ids, places):
    """Fills `ids` and `places` with the words of [start, stop) that are kept, and `window` more at either side, between
    two marks; returns where the own ones begin and end."""
    before = 0
    place = start - 1
    while place >= 0 and before < window and tokens[place] != MARK:
        if np.int64(drawn_at(key, place) >> _32) < keep_V[tokens[place]]:
            before += 1
            ids[window + 1 - before] = tokens[place]
            places[window + 1 - before] = place
        place -= 1
    ids[window - before] = MARK
    first = window + 1
    size = first
    for place in range(start, stop):
        token = tokens[place]
        if token == MARK or np.int64(drawn_at(key, place) >> _32) < keep_V[token]:
            ids[size] = token
            places[size] = place
            size += 1
    last = size
    place = stop
    while place < len(tokens) and size - last < window and tokens[place] != MARK:
        if np.int64(drawn_at(key, place) >> _32) < keep_V[tokens[place]]:
            ids[size] = tokens[place]
            size += 1
        place += 1
    ids[size] = MARK
    return first, last


@part
def tiled(word, negatives, starts_V):
    """The outputs of a word, in whole tiles."""
    count = negatives + 1 if negatives > 0 else starts_V[word + 1] - starts_V[word]
    return (count + TILE - 1) // TILE * TILE


@part
def draw_outputs(
    word, bits, sets, threshold_V, other_V, starts_V, nodes_L, turns_L, stride, negatives, rows, signs, at,
):  # fmt: skip
    """Fills rows and signs from `at` on with the word and its noise, `sets` times, or with the nodes on its way. What
    fills the last tile is the word's own row, or its last node, with sign 0."""
    if negatives > 0:
        for _ in range(sets):
            for k in range((negatives + TILE) // TILE * TILE):
                row, sign = word, np.float32(1.0 if k == 0 else 0.0)
                if 0 < k <= negatives:
                    bits += GOLDEN
                    row = noise_word(mixed(bits), threshold_V, other_V)
                    sign = np.float32(-1.0 if row != word else 0.0)
                rows[at], signs[at] = row * stride, sign
                at += 1
    else:
        first, count = starts_V[word], starts_V[word + 1] - starts_V[word]
        for k in range((count + TILE - 1) // TILE * TILE):
            node = first + min(k, count - 1)
            row = np.int64(nodes_L[node])
            rows[at], signs[at] = row * stride, np.float32(1 - 2 * turns_L[node] if k < count else 0)
            at += 1


@part
def ask_for(outputs, stride, rows, at, m):
    """Has m rows brought into the cache."""
    for k in range(at, at + m):
        for d in range(0, stride, LINE):
            fetch(outputs, rows[k] + d)


@part
def _rated(sums, sign, rate, product, powers):
    """g = lr s σ(−s x·o) of dot products x·o; σ(s x·o) goes into the product where s is not 0."""
    raised = exponential(sign * sums)
    unlikely = same(1.0) / (same(1.0) + raised)
    product = product * where_counted(raised * unlikely, sign)
    return rate * sign * unlikely, mantissa(product), powers + exponent(product)


@part
def _foresee_together(inputs, input_rows, n, outputs, rows, at, m, stride, lr, signs, rates, product, powers):
    """Every context with each of the m outputs from `at` on; the g of context i and tile q go to
    rates[(q · room + i) · 8:]."""
    room, tiles = len(input_rows), m // TILE
    rate = same(lr)
    for q in range(tiles):
        k = at + q * TILE
        r0, r1, r2, r3, r4, r5 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3], rows[k + 4], rows[k + 5]
        both, one = twice(lanes(signs, k)), once(lanes(signs, k))
        for i in range(0, n, 2):
            # Two contexts at a time: an output is loaded once for both. An odd one out goes with itself.
            a, b = input_rows[i], input_rows[min(i + 1, n - 1)]
            a0 = a1 = a2 = a3 = a4 = a5 = same(0.0)
            b0 = b1 = b2 = b3 = b4 = b5 = same(0.0)
            for d in range(0, stride, LANES):
                x, y = lanes(inputs, a + d), lanes(inputs, b + d)
                o = lanes(outputs, r0 + d)
                a0, b0 = fused(x, o, a0), fused(y, o, b0)
                o = lanes(outputs, r1 + d)
                a1, b1 = fused(x, o, a1), fused(y, o, b1)
                o = lanes(outputs, r2 + d)
                a2, b2 = fused(x, o, a2), fused(y, o, b2)
                o = lanes(outputs, r3 + d)
                a3, b3 = fused(x, o, a3), fused(y, o, b3)
                o = lanes(outputs, r4 + d)
                a4, b4 = fused(x, o, a4), fused(y, o, b4)
                o = lanes(outputs, r5 + d)
                a5, b5 = fused(x, o, a5), fused(y, o, b5)
            sums = totals(a0, a1, a2, a3, a4, a5, b0, b1, b2, b3, b4, b5)
            g, product, powers = _rated(sums, both if i + 1 < n else one, rate, product, powers)
            put(rates, (q * room + i) * 8, g)
            if LANES == 8 and i + 1 < n:
                sums = totals(b0, b1, b2, b3, b4, b5, b0, b1, b2, b3, b4, b5)
                g, product, powers = _rated(sums, one, rate, product, powers)
                put(rates, (q * room + i + 1) * 8, g)
    return product, powers


@part
def _move_together(inputs, input_rows, n, outputs, rows, at, m, stride, rates, change):
    """Moves all of them by what `_foresee_together` computed, from what they were then."""
    room, tiles = len(input_rows), m // TILE
    for d in range(0, stride, LANES):
        for q in range(tiles):
            k = at + q * TILE
            r0, r1, r2, r3, r4, r5 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3], rows[k + 4], rows[k + 5]
            o0, o1, o2 = lanes(outputs, r0 + d), lanes(outputs, r1 + d), lanes(outputs, r2 + d)
            o3, o4, o5 = lanes(outputs, r3 + d), lanes(outputs, r4 + d), lanes(outputs, r5 + d)
            s0 = s1 = s2 = s3 = s4 = s5 = same(0.0)
            for i in range(n):
                x = lanes(inputs, input_rows[i] + d)
                # With one tile all move at once; with more they stay what they were until the last has seen them.
                moved = x if tiles == 1 else (same(0.0) if q == 0 else lanes(change, i * LANES))
                of = (q * room + i) * 8
                g = everywhere(rates, of)
                s0, moved = fused(g, x, s0), fused(g, o0, moved)
                g = everywhere(rates, of + 1)
                s1, moved = fused(g, x, s1), fused(g, o1, moved)
                g = everywhere(rates, of + 2)
                s2, moved = fused(g, x, s2), fused(g, o2, moved)
                g = everywhere(rates, of + 3)
                s3, moved = fused(g, x, s3), fused(g, o3, moved)
                g = everywhere(rates, of + 4)
                s4, moved = fused(g, x, s4), fused(g, o4, moved)
                g = everywhere(rates, of + 5)
                s5, moved = fused(g, x, s5), fused(g, o5, moved)
                if tiles == 1:
                    put(inputs, input_rows[i] + d, moved)
                else:
                    put(change, i * LANES, moved)
            if tiles == 1:
                # A row may be there twice: what is added goes to what stands there now.
                put(outputs, r0 + d, lanes(outputs, r0 + d) + s0)
                put(outputs, r1 + d, lanes(outputs, r1 + d) + s1)
                put(outputs, r2 + d, lanes(outputs, r2 + d) + s2)
                put(outputs, r3 + d, lanes(outputs, r3 + d) + s3)
                put(outputs, r4 + d, lanes(outputs, r4 + d) + s4)
                put(outputs, r5 + d, lanes(outputs, r5 + d) + s5)
            else:
                to = (room + q * TILE) * LANES
                put(change, to, s0)
                put(change, to + LANES, s1)
                put(change, to + 2 * LANES, s2)
                put(change, to + 3 * LANES, s3)
                put(change, to + 4 * LANES, s4)
                put(change, to + 5 * LANES, s5)
        if tiles > 1:
            for i in range(n):
                put(inputs, input_rows[i] + d, lanes(inputs, input_rows[i] + d) + lanes(change, i * LANES))
            for k in range(m):
                put(outputs, rows[at + k] + d, lanes(outputs, rows[at + k] + d) + lanes(change, (room + k) * LANES))


@part
def _pull(outputs, at, g, x, moved):
    """o ← o + g x, and what x moves by grown by g o."""
    o = lanes(outputs, at)
    put(outputs, at, fused(g, x, o))
    return fused(g, o, moved)


@part
def learn_one(
    inputs, row, outputs, rows, at, m, stride, lr, learning, signs, rates, change, product, powers, signs_at=0,
):  # fmt: skip
    """Both for one x, but what x is to move by goes to `change`, and g_k to rates[k]."""
    rate = same(lr)
    for k in range(0, m, TILE):
        r0, r1, r2 = rows[at + k], rows[at + k + 1], rows[at + k + 2]
        r3, r4, r5 = rows[at + k + 3], rows[at + k + 4], rows[at + k + 5]
        s0 = s1 = s2 = s3 = s4 = s5 = same(0.0)
        for d in range(0, stride, LANES):
            x = lanes(inputs, row + d)
            s0, s1 = fused(x, lanes(outputs, r0 + d), s0), fused(x, lanes(outputs, r1 + d), s1)
            s2, s3 = fused(x, lanes(outputs, r2 + d), s2), fused(x, lanes(outputs, r3 + d), s3)
            s4, s5 = fused(x, lanes(outputs, r4 + d), s4), fused(x, lanes(outputs, r5 + d), s5)
        sums = totals(s0, s1, s2, s3, s4, s5, s0, s1, s2, s3, s4, s5)
        g, product, powers = _rated(sums, once(lanes(signs, signs_at + k)), rate, product, powers)
        put(rates, k, g)  # the lanes after the sixth are those of the next tile, or of nothing
    if not learning:
        return product, powers
    for k in range(0, m, TILE):
        r0, r1, r2 = rows[at + k], rows[at + k + 1], rows[at + k + 2]
        r3, r4, r5 = rows[at + k + 3], rows[at + k + 4], rows[at + k + 5]
        g0, g1, g2 = everywhere(rates, k), everywhere(rates, k + 1), everywhere(rates, k + 2)
        g3, g4, g5 = everywhere(rates, k + 3), everywhere(rates, k + 4), everywhere(rates, k + 5)
        for d in range(0, stride, LANES):
            x = lanes(inputs, row + d)
            moved = same(0.0) if k == 0 else lanes(change, d)
            # One after the other: a row may be there twice.
            moved = _pull(outputs, r0 + d, g0, x, moved)
            moved = _pull(outputs, r1 + d, g1, x, moved)
            moved = _pull(outputs, r2 + d, g2, x, moved)
            moved = _pull(outputs, r3 + d, g3, x, moved)
            moved = _pull(outputs, r4 + d, g4, x, moved)
            moved = _pull(outputs, r5 + d, g5, x, moved)
            put(change, d, moved)
    return product, powers


@_compiled
def read_span(
    tokens, start, stop, keep_V, threshold_V, other_V, starts_V, nodes_L, turns_L, inputs, outputs, stride, way, window,
    negatives, learning, key, place, lr, places, min_lr,
):  # fmt: skip
    """Learns from the tokens [start, stop), or only measures; the sum of losses and the number of pairs.

    Place `start` is number `place` of the whole training. With `negatives` 0 the outputs are the nodes of the tree."""
    most = 2 * window  # contexts of a word
    longest = negatives + 1
    if negatives == 0:
        for v in range(len(starts_V) - 1):
            longest = max(longest, starts_V[v + 1] - starts_V[v])
    m = (longest + TILE - 1) // TILE * TILE
    sets = most if way == PAIRWISE and negatives > 0 else 1  # of outputs for one word: each context its own noise
    half = sets * m
    ids = np.empty(_BLOCK + most + 2, np.int32)
    at_place = np.empty(_BLOCK + most + 2, np.int64)
    input_rows = np.empty(most, np.int64)
    rows = np.zeros(2 * half, np.int64)  # of this word, and of the next, which are on their way from memory
    signs = np.zeros(2 * half + LANES, np.float32)
    rates = np.zeros(m // TILE * most * 8 + m + 2 * LANES, np.float32)
    change = np.zeros(max(stride, (most + m) * LANES), np.float32)
    mean = np.zeros(max(stride, LANES), np.float32)
    product, powers = same(1.0), same(0.0)
    loss, pairs = 0.0, 0
    for begin in range(start, stop, _BLOCK):
        end = min(begin + _BLOCK, stop)
        first, last = read_kept(tokens, begin, end, keep_V, key, window, ids, at_place)
        for t in range(first - 1, last):
            word, n = ids[t], 0
            if t >= first and word != MARK:
                reach = reach_of(drawn_at(key, at_place[t]), window)
                c = t - 1
                while c >= t - reach and ids[c] != MARK:
                    input_rows[n] = np.int64(ids[c]) * stride
                    n += 1
                    c -= 1
                c = t + 1
                while c <= t + reach and ids[c] != MARK:
                    input_rows[n] = np.int64(ids[c]) * stride
                    n += 1
                    c += 1
            at = t % 2 * half
            if n > 0:
                m = tiled(word, negatives, starts_V)
                rate = lr * max(1 - (place + at_place[t] - start) / places, min_lr)
                if way == SKIP_GRAM:
                    product, powers = _foresee_together(
                        inputs, input_rows, n, outputs, rows, at, m, stride, rate, signs, rates, product, powers
                    )
            # What the next word needs is drawn and asked for here, while the processor waits for the last exponential.
            if t + 1 < last and ids[t + 1] != MARK:
                bits = drawn_at(key, at_place[t + 1])
                draw_outputs(
                    np.int64(ids[t + 1]), bits, min(sets, 2 * reach_of(bits, window)), threshold_V, other_V, starts_V,
                    nodes_L, turns_L, stride, negatives, rows, signs, (t + 1) % 2 * half,
                )  # fmt: skip
                ask_for(outputs, stride, rows, (t + 1) % 2 * half, tiled(ids[t + 1], negatives, starts_V))
                if t + window + 1 < last and ids[t + window + 1] != MARK:
                    for d in range(0, stride, LINE):
                        fetch(inputs, np.int64(ids[t + window + 1]) * stride + d)
            if n == 0:
                continue
            if way == SKIP_GRAM:
                if learning:
                    _move_together(inputs, input_rows, n, outputs, rows, at, m, stride, rates, change)
                pairs += n
            elif way == PAIRWISE:
                for i in range(n):
                    own = at + (i * m if sets > 1 else 0)
                    if sets > 1 and i + 1 < n:
                        ask_for(outputs, stride, rows, own + m, m)
                    product, powers = learn_one(
                        inputs, input_rows[i], outputs, rows, own, m, stride, rate, learning, signs, rates, change,
                        product, powers, own,
                    )  # fmt: skip
                    if learning:
                        for d in range(0, stride, LANES):
                            put(inputs, input_rows[i] + d, lanes(inputs, input_rows[i] + d) + lanes(change, d))
                pairs += n
            else:
                share = same(1 / n)
                for d in range(0, stride, LANES):
                    x = same(0.0)
                    for i in range(n):
                        x = x + lanes(inputs, input_rows[i] + d)
                    put(mean, d, x * share)
                product, powers = learn_one(
                    mean, 0, outputs, rows, at, m, stride, rate, learning, signs, rates, change, product, powers, at,
                )  # fmt: skip
                if learning:
                    for d in range(0, stride, LANES):
                        moved = lanes(change, d)
                        for i in range(n):
                            put(inputs, input_rows[i] + d, lanes(inputs, input_rows[i] + d) + moved)
                pairs += 1
        # −log of the product of all σ of the block.
        put(change, 0, product)
        put(mean, 0, powers)
        for i in range(LANES):
            loss -= math.log(change[i]) + np.float64(mean[i]) * math.log(2.0)
        product, powers = same(1.0), same(0.0)
    return loss, pairs
