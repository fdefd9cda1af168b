"""Stochastic gradient descent on factors of users and items, compiled: pairs of items (BPR), or single ones.

Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009, BPR: with x = p·(q_i − q_j) + b_i − b_j and g = σ(−x), of an
event (u, i) and an item j that u has not, all from what they were before (`learn_pairs`):
  p ← p + η(g(q_i − q_j) − λp)      q_i ← q_i + η(gp − λq_i)      q_j ← q_j + η(−gp − λq_j)      b_i, b_j alike
Rendle, Krichene, Zhang and Anderson 2020, Neural collaborative filtering vs. matrix factorization revisited: with
x = b + b_u + b_i + p·q, for (u, i) and m items that u has not, one after the other, e = y − σ(x), y 1 or 0; or with
ratings y and e = y − x (`learn_points`):
  p ← p + η(eq − λp)      q ← q + η(ep − λq)      b, b_u, b_i alike, b without λ
Draw n is a function of the key and n alone: an event evenly of all, then items until one is unseen, evenly or by an
alias table. Rows of the draws to come are asked for, so that they are near when their turn comes. Threads may work on
ranges of draws side by side (Hogwild: Recht, Ré, Wright and Niu 2011).
Plain version: the same code uncompiled with NumPy for lanes, equal but for rounding in tests/kernels/test_factors.py;
the equations one by one in tests/systems/test_bpr.py and test_mf.py.
Shapes: N events by user and item, S numbers of a row (a multiple of LINE); users and items are flat.
"""

from __future__ import annotations

import math

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit, part
from canon.kernels.cpu.lanes import LANES, LINE, fetch, fused, lanes, put, same, total
from canon.kernels.cpu.word2vec import noise_word

_AHEAD = 8  # draws that are made before their turn
_MOST_DRAWS = 1000  # of one item; a user who has nearly all of them is passed over
_LARGEST = np.float32(30.0)  # of x, beyond which σ is 0 or 1 to rounding
_AT_ONCE = 8  # losses whose logarithm is taken once
_32 = np.uint64(32)

_compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")


@_compiled
def key_of(seed, stream):
    return mixed(mixed(np.uint64(seed) + GOLDEN) + np.uint64(stream) * GOLDEN)


@part
def bits_at(key, number):
    """64 random bits of a draw; a key comes back from Python as a signed number where it fits."""
    return mixed(np.uint64(key) + np.uint64(number) * GOLDEN)


@part
def scaled(bits, size):
    """0 … size − 1, evenly."""
    return np.int64(((bits >> _32) * np.uint64(size)) >> _32)


@part
def has(items_N, first, last, item):
    """Whether a rising range of items has one."""
    size = last - first
    while size > 1:
        half = size >> 1
        first = first + half if items_N[first + half] <= item else first
        size -= half
    return size > 0 and items_N[first] == item


@part
def unseen(bits, turn, num_items, items_N, first, last, threshold_I, other_I):
    """An item that the range has not, the first of the draws from number `turn` on; −1 where none comes."""
    for _ in range(_MOST_DRAWS):
        turn += 1
        more = mixed(bits + np.uint64(turn) * GOLDEN)
        item = noise_word(more, threshold_I, other_I) if len(threshold_I) else scaled(more, num_items)
        if not has(items_N, first, last, item):
            return item, turn
    return np.int64(-1), turn


@part
def _ask(matrix, row, stride):
    for d in range(0, stride, LINE):
        fetch(matrix, row * stride + d)


@part
def _likely(x):
    """σ(x), kept from 0 and 1."""
    x = min(max(x, -_LARGEST), _LARGEST)
    return np.float32(1) / (np.float32(1) + np.exp(-x))


@_compiled
def draw_pairs(key, first, count, users_N, items_N, starts_U, num_items, threshold_I, other_I):
    """The user, the item and the unseen item of draws [first, first + count), as `learn_pairs` has them."""
    drawn_n3 = np.empty((count, 3), np.int64)
    for n in range(count):
        bits = bits_at(key, first + n)
        event = scaled(bits, len(users_N))
        user = np.int64(users_N[event])
        other, _ = unseen(
            bits, 0, num_items, items_N, starts_U[user], starts_U[user + 1], threshold_I, other_I
        )  # fmt: skip
        drawn_n3[n, 0], drawn_n3[n, 1], drawn_n3[n, 2] = user, items_N[event], other
    return drawn_n3


@_compiled
def learn_pairs(
    key, first, last, users_N, items_N, starts_U, num_items, threshold_I, other_I, users, items, bias_I, stride, lr,
    falls, draws, decay,
):  # fmt: skip
    """Learns from draws [first, last) of `draws`; the sum of losses, and how many draws were learned from.

    falls: by which share the rate has fallen at the last draw."""
    ring_u, ring_i = np.zeros(_AHEAD, np.int64), np.zeros(_AHEAD, np.int64)
    ring_j = np.zeros(_AHEAD, np.int64)
    loss, count, product, kept = np.float64(0.0), 0, np.float64(1.0), 0
    for n in range(first, last + _AHEAD):
        place = n % _AHEAD
        if n >= first + _AHEAD:
            u, i, j = ring_u[place], ring_i[place], ring_j[place]
            if j >= 0:
                rate = np.float32(lr * (1.0 - falls * (n - _AHEAD) / draws))
                shrink = np.float32(1.0) - rate * np.float32(decay)
                at_u, at_i, at_j = u * stride, i * stride, j * stride
                sums = same(0.0)
                for d in range(0, stride, LANES):
                    sums = fused(lanes(users, at_u + d), lanes(items, at_i + d) - lanes(items, at_j + d), sums)
                likely = _likely(total(sums) + bias_I[i] - bias_I[j])
                product = np.float64(product * likely)
                kept += 1
                if kept == _AT_ONCE:
                    loss -= math.log(product)
                    product, kept = np.float64(1.0), 0
                count += 1
                moved = rate * (np.float32(1) - likely)
                step, keep = same(moved), same(shrink)
                for d in range(0, stride, LANES):
                    p, q, r = lanes(users, at_u + d), lanes(items, at_i + d), lanes(items, at_j + d)
                    change = step * p
                    put(users, at_u + d, fused(step, q - r, keep * p))
                    put(items, at_i + d, fused(keep, q, change))
                    put(items, at_j + d, keep * r - change)
                bias_I[i] = shrink * bias_I[i] + moved
                bias_I[j] = shrink * bias_I[j] - moved
        if n < last:
            bits = bits_at(key, n)
            event = scaled(bits, len(users_N))
            user, item = np.int64(users_N[event]), np.int64(items_N[event])
            other, _ = unseen(
                bits, 0, num_items, items_N, starts_U[user], starts_U[user + 1], threshold_I, other_I
            )  # fmt: skip
            ring_u[place], ring_i[place], ring_j[place] = user, item, other
            _ask(users, user, stride)
            _ask(items, item, stride)
            _ask(items, max(other, 0), stride)
    return loss - math.log(product), count


@part
def _point(users, at_u, items, at_i, stride, bias_U, u, bias_I, i, bias_1, target, squared, rate, shrink):
    """One step for a user and an item; the loss before it."""
    sums = same(0.0)
    for d in range(0, stride, LANES):
        sums = fused(lanes(users, at_u + d), lanes(items, at_i + d), sums)
    x = total(sums) + bias_1[0] + bias_U[u] + bias_I[i]
    if squared:
        error = target - x
        loss = np.float64(error) * np.float64(error)
    else:
        likely = _likely(x)
        error = target - likely
        loss = -math.log(np.float64(likely)) if target > 0 else -math.log(1.0 - np.float64(likely))
    moved = rate * error
    step, keep = same(moved), same(shrink)
    for d in range(0, stride, LANES):
        p, q = lanes(users, at_u + d), lanes(items, at_i + d)
        put(users, at_u + d, fused(step, q, keep * p))
        put(items, at_i + d, fused(step, p, keep * q))
    bias_U[u] = shrink * bias_U[u] + moved
    bias_I[i] = shrink * bias_I[i] + moved
    bias_1[0] += moved
    return loss


@_compiled
def learn_points(
    key, first, last, users_N, items_N, ratings_N, starts_U, num_items, negatives, users, items, bias_U, bias_I,
    bias_1, stride, lr, falls, draws, decay,
):  # fmt: skip
    """Learns from draws [first, last), each of an event and `negatives` unseen items; with ratings from these alone.
    The sum of losses, and of how many."""
    squared = len(ratings_N) > 0
    no_threshold, no_other = np.empty(0, np.uint32), np.empty(0, np.int32)
    room = negatives + 1
    ring_u, ring_i = np.zeros(_AHEAD, np.int64), np.zeros(_AHEAD * room, np.int64)
    ring_y = np.ones(_AHEAD, np.float32)
    loss, count = 0.0, 0
    for n in range(first, last + _AHEAD):
        place = n % _AHEAD
        if n >= first + _AHEAD:
            u = ring_u[place]
            rate = np.float32(lr * (1.0 - falls * (n - _AHEAD) / draws))
            shrink = np.float32(1.0) - rate * np.float32(decay)
            for k in range(room):
                i = ring_i[place * room + k]
                if i >= 0:
                    target = ring_y[place] if k == 0 else np.float32(0)
                    loss += _point(
                        users, u * stride, items, i * stride, stride, bias_U, u, bias_I, i, bias_1, target, squared,
                        rate, shrink,
                    )  # fmt: skip
                    count += 1
        if n < last:
            bits = bits_at(key, n)
            event = scaled(bits, len(users_N))
            user, turn = np.int64(users_N[event]), 0
            ring_u[place], ring_i[place * room] = user, items_N[event]
            if squared:
                ring_y[place] = ratings_N[event]
            _ask(users, user, stride)
            _ask(items, np.int64(items_N[event]), stride)
            for k in range(1, room):
                item, turn = unseen(
                    bits, turn, num_items, items_N, starts_U[user], starts_U[user + 1], no_threshold, no_other
                )  # fmt: skip
                ring_i[place * room + k] = item
                _ask(items, max(item, 0), stride)
    return loss, count
