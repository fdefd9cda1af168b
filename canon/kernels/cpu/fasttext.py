"""The inner loops of fastText's word vectors, compiled: n-gram rows summed, outputs learned, and what follows spread.

With R_w the rows of word w (its own and its n-grams'), x = mean of u_r over r in R_w (skip-gram), or over the rows of
all words in the window together (CBOW). Outputs o_k (a word and its noise, or nodes of the tree) pull x by
Δ = Σ_k g_k o_k, g_k = lr s_k σ(−s_k x·o_k), and fastText adds Δ itself, undivided, to every u_r:
  skip-gram: the mean moves by ρ_w Δ, where ρ_w = Σ_r m_r² / |R_w| for rows that are there m_r times (1, but for those
    that collide). So a window needs its rows only twice: they are summed once, x ← x + ρ_w Δ after each of its words,
    and the sum of all Δ is added once. The numbers are those of reading and writing them for every word.
  CBOW: the sum of a word's rows serves all windows that the word is in; it moves by |R_w| ρ_w Δ each time, and its rows
    are written when the last of these windows has passed. Rows that two words of a window share are late by that.
Rows of the inputs follow each other without gaps, those of the outputs begin at whole cache lines. Reading the last
lanes of an input row reaches into the next, and 0 is added there.
Plain version: the same code uncompiled with NumPy for lanes, equal but for rounding in tests/kernels/test_learners.py;
the equations pair by pair in tests/systems/test_fasttext.py.
Shapes: N places, V words, S rows of all words, flat matrices of floats; L nodes on the ways to all words.
"""

from __future__ import annotations

import math

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit, part
from canon.kernels.cpu.lanes import LANES, LINE, fetch, fused, lanes, put, same
from canon.kernels.cpu.word2vec import (
    MARK,
    TILE,
    ask_for,
    draw_outputs,
    drawn_at,
    key_of,
    learn_one,
    reach_of,
    read_kept,
    tiled,
)

__all__ = ["fill_uniform", "growth", "key_of", "read_span"]

_BLOCK = 8192  # places that are read at once

_compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")


@part
def _sum_rows(inputs, dim, starts_V, rows_S, word, sums, at, stride):
    """Puts the sum of a word's rows at sums[at:], and zeros after its end; gives how many there are."""
    first, last = starts_V[word], starts_V[word + 1]
    for d in range(0, stride, LANES):
        added = same(0.0)
        for s in range(first, last):
            added = added + lanes(inputs, np.int64(rows_S[s]) * dim + d)
        put(sums, at + d, added)
    for d in range(dim, stride):
        sums[at + d] = np.float32(0.0)
    return last - first


@part
def _spread(inputs, dim, starts_V, rows_S, word, change, at, stride):
    """Adds change[at:] to every row of a word."""
    for s in range(starts_V[word], starts_V[word + 1]):
        row = np.int64(rows_S[s]) * dim
        for d in range(0, stride, LANES):
            put(inputs, row + d, lanes(inputs, row + d) + lanes(change, at + d))


@part
def _ask_for_rows(inputs, dim, starts_V, rows_S, word):
    for s in range(starts_V[word], starts_V[word + 1]):
        row = np.int64(rows_S[s]) * dim
        for d in range(0, dim, LINE):
            fetch(inputs, row + d)


@part
def _window(ids, t, reach):
    """The first and the last word that are at most `reach` words away, within the sentence."""
    low, high = t, t
    while low > t - reach and ids[low - 1] != MARK:
        low -= 1
    while high < t + reach and ids[high + 1] != MARK:
        high += 1
    return low, high


@_compiled
def read_span(
    tokens, start, stop, keep_V, threshold_V, other_V, tree_V, nodes_L, turns_L, starts_V, rows_S, growth_V, inputs,
    outputs, dim, stride, cbow, window, negatives, learning, key, place, lr, places, min_lr,
):  # fmt: skip
    """Learns from the tokens [start, stop), or only measures; the sum of losses and the number of pairs.

    Place `start` is number `place` of the whole training. With `negatives` 0 the outputs are the nodes of the tree."""
    room = TILE
    for v in range(len(tree_V) - 1 if negatives == 0 else 1):
        room = max(room, tiled(v, negatives, tree_V))
    slots = 2 * window + 1
    half = room if cbow else slots * room
    ids = np.empty(_BLOCK + 2 * window + 2, np.int32)
    at_place = np.empty(_BLOCK + 2 * window + 2, np.int64)
    output_rows = np.zeros(2 * half, np.int64)  # of this window, and of the next, which are on their way from memory
    signs = np.zeros(2 * half + LANES, np.float32)
    rates = np.zeros(room + LANES, np.float32)
    x = np.zeros(max(stride, LANES), np.float32)
    change = np.zeros(max(stride, LANES), np.float32)
    sums = np.zeros(slots * stride, np.float32)  # CBOW: of the rows of each word that a window may reach
    owed = np.zeros(slots * stride, np.float32)  # what those rows are still to move by; skip-gram: the one word's
    sizes = np.zeros(slots, np.int64)
    product, powers = same(1.0), same(0.0)
    loss, pairs = 0.0, 0
    for begin in range(start, stop, _BLOCK):
        end = min(begin + _BLOCK, stop)
        first, last = read_kept(tokens, begin, end, keep_V, key, window, ids, at_place)
        left, right = first, last
        while ids[left - 1] != MARK:
            left -= 1
        while ids[right] != MARK:
            right += 1
        summed = left  # CBOW: words before this one have their sums
        low = high = next_low = next_high = 0
        for t in range(first - 1, last):
            low, high = next_low, next_high
            if t + 1 < last and ids[t + 1] != MARK:
                bits = drawn_at(key, at_place[t + 1])
                next_low, next_high = _window(ids, t + 1, reach_of(bits, window))
                # Skip-gram: each word around has its own noise; CBOW: only the one in the middle.
                for c in range(t + 1 if cbow else next_low, t + 2 if cbow else next_high + 1):
                    if cbow or c != t + 1:
                        nth = 0 if cbow else c - next_low
                        to = (t + 1) % 2 * half + nth * room
                        draw_outputs(
                            np.int64(ids[c]), bits + np.uint64(nth * negatives) * GOLDEN, 1, threshold_V, other_V,
                            tree_V, nodes_L, turns_L, stride, negatives, output_rows, signs, to,
                        )  # fmt: skip
                        ask_for(outputs, stride, output_rows, to, tiled(ids[c], negatives, tree_V))
                if not cbow:
                    _ask_for_rows(inputs, dim, starts_V, rows_S, np.int64(ids[t + 1]))
            while cbow and summed < right and summed <= t + window:
                slot, leaving, coming = summed % slots, summed - slots, summed + window
                if learning and leaving >= left and ids[leaving] != MARK:
                    _spread(inputs, dim, starts_V, rows_S, np.int64(ids[leaving]), owed, slot * stride, stride)
                if coming < right and ids[coming] != MARK:
                    _ask_for_rows(inputs, dim, starts_V, rows_S, np.int64(ids[coming]))
                if ids[summed] != MARK:
                    own = np.int64(ids[summed])
                    sizes[slot] = _sum_rows(inputs, dim, starts_V, rows_S, own, sums, slot * stride, stride)
                    for d in range(0, stride, LANES):
                        put(owed, slot * stride + d, same(0.0))
                summed += 1
            if t < first or ids[t] == MARK or low == high:
                continue
            word = np.int64(ids[t])
            rate = lr * max(1 - (place + at_place[t] - start) / places, min_lr)
            at = t % 2 * half
            if cbow:
                n = 0
                for c in range(low, high + 1):
                    n += sizes[c % slots] if c != t else 0
                share = same(1 / n)
                for d in range(0, stride, LANES):
                    mean = same(0.0)
                    for c in range(low, high + 1):
                        if c != t:
                            mean = mean + lanes(sums, c % slots * stride + d)
                    put(x, d, mean * share)
                m = tiled(word, negatives, tree_V)
                product, powers = learn_one(
                    x, 0, outputs, output_rows, at, m, stride, rate, learning, signs, rates, change, product, powers, at
                )
                pairs += 1
                if learning:
                    for c in range(low, high + 1):
                        if c != t:
                            slot = c % slots
                            grown = same(sizes[slot] * growth_V[ids[c]])
                            for d in range(slot * stride, slot * stride + stride, LANES):
                                moved = lanes(change, d - slot * stride)
                                put(sums, d, fused(grown, moved, lanes(sums, d)))
                                put(owed, d, lanes(owed, d) + moved)
                continue
            n = _sum_rows(inputs, dim, starts_V, rows_S, word, x, 0, stride)
            share, grown = same(1 / n), same(growth_V[word])
            for d in range(0, stride, LANES):
                put(x, d, lanes(x, d) * share)
                put(owed, d, same(0.0))
            for c in range(low, high + 1):
                if c != t:
                    m, to = tiled(ids[c], negatives, tree_V), at + (c - low) * room
                    product, powers = learn_one(
                        x, 0, outputs, output_rows, to, m, stride, rate, learning, signs, rates, change, product,
                        powers, to,
                    )  # fmt: skip
                    pairs += 1
                    if learning:
                        for d in range(0, stride, LANES):
                            moved = lanes(change, d)
                            put(owed, d, lanes(owed, d) + moved)
                            put(x, d, fused(grown, moved, lanes(x, d)))
            if learning:
                _spread(inputs, dim, starts_V, rows_S, word, owed, 0, stride)
        if cbow and learning:
            for q in range(max(left, summed - slots), summed):
                if ids[q] != MARK:
                    _spread(inputs, dim, starts_V, rows_S, np.int64(ids[q]), owed, q % slots * stride, stride)
        # −log of the product of all σ of the block.
        put(change, 0, product)
        put(x, 0, powers)
        for i in range(LANES):
            loss -= math.log(change[i]) + np.float64(x[i]) * math.log(2.0)
        product, powers = same(1.0), same(0.0)
    return loss, pairs


@_compiled
def growth(starts_V, rows_S):
    """ρ_w of every word: by what the mean of its rows moves when 1 is added to each, as often as it is there."""
    growth_V = np.empty(len(starts_V) - 1, np.float32)
    for word in range(len(growth_V)):
        first, last = starts_V[word], starts_V[word + 1]
        own = np.sort(rows_S[first:last])
        squares, times = 0, 0
        for s in range(len(own)):
            times = times + 1 if s > 0 and own[s] == own[s - 1] else 1
            squares += 2 * times - 1  # 1 + 3 + 5 + … = times²
        growth_V[word] = squares / (last - first)
    return growth_V


@_compiled
def fill_uniform(flat, first, last, key, bound):
    """Numbers [first, last) even in ± bound, each by its own place."""
    scale = 2 * bound / (1 << 24)
    for i in range(first, last):
        flat[i] = np.float32(np.int64(mixed(key + np.uint64(i) * GOLDEN) >> np.uint64(40)) * scale - bound)
