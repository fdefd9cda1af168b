"""Stochastic gradient descent on factors of users and items, compiled: pairs of items (BPR), or single ones.

Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009, BPR: with x = p·(q_i − q_j) + b_i − b_j and g = σ(−x), of an
event (u, i) and an item j that u does not have, all from what they were before (`learn_pairs`):
  p ← p + η(g(q_i − q_j) − λp)      q_i ← q_i + η(gp − λq_i)      q_j ← q_j + η(−gp − λq_j)      b_i, b_j alike
Rendle, Krichene, Zhang and Anderson 2020, Neural collaborative filtering vs. matrix factorization revisited: with
x = b + b_u + b_i + p·q, for (u, i) and m items that u lacks, one after the other, e = y − σ(x), y 1 or 0; or with
ratings y and e = y − x (`learn_points`):
  p ← p + η(eq − λp)      q ← q + η(ep − λq)      b, b_u, b_i alike, b without λ
Draw n is a function of the key and n alone: an event evenly of all, then items until one is unseen, evenly or by an
alias table. Rows of the draws to come are asked for, so that they are near when their turn comes. Threads may work on
ranges of draws side by side (Hogwild: Recht, Ré, Wright and Niu 2011).
Plain version: the same code uncompiled with NumPy for lanes, equal but for rounding in
tests/kernels/test_recommendation.py;
the equations one by one in tests/systems/test_bpr.py and test_mf.py.
Shapes: N events by user and item, S numbers of a row (a multiple of LINE); users and items are flat.
"""

from __future__ import annotations

import math

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit, part
from canon.kernels.cpu.lanes import LANES, LINE, fetch, fetch_to_read, fused, lanes, put, same, total
from canon.kernels.cpu.word2vec import noise_word

_STAGES = 8  # draws between the stages of a draw: its event, its items, what is known of them
_RING = 32  # draws that are under way, at least three times as many
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
    """64 random bits of a draw."""
    return mixed(key + np.uint64(number) * GOLDEN)


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
def is_seen(marks, width, items_N, starts_U, user, item):
    """Whether a user has an item: by its bit, where there are bits, else by the user's rising list."""
    if len(marks):
        return (marks[user * width + (item >> 6)] >> np.uint64(item & 63)) & np.uint64(1) != 0
    return has(items_N, starts_U[user], starts_U[user + 1], item)


@_compiled
def mark(marks, width, users_N, items_N):
    """Sets the bits of all events."""
    for n in range(len(users_N)):
        marks[np.int64(users_N[n]) * width + (items_N[n] >> 6)] |= np.uint64(1) << np.uint64(items_N[n] & 63)


@part
def other_item(bits, turn, num_items, threshold_I, other_I):
    """The item of draw `turn` of an event's own series."""
    more = mixed(bits + np.uint64(turn) * GOLDEN)
    return noise_word(more, threshold_I, other_I) if len(threshold_I) else scaled(more, num_items)


@part
def _ask(matrix, row, stride):
    for d in range(0, stride, LINE):
        fetch(matrix, row * stride + d)


@part
def _likely(x):
    """σ(x), kept from 0 and 1."""
    x = min(max(x, -_LARGEST), _LARGEST)
    return np.float32(1) / (np.float32(1) + np.exp(-x))


@part
def _advance(
    n, last, key, users_N, items_N, starts_U, marks, width, num_items, threshold_I, other_I, users, items, stride, room,
    ring_bits, ring_event, ring_user, ring_item,
):  # fmt: skip
    """Takes draw n to its first stage, and those before it to theirs: the event; user, items and what tells whether
    they are seen; unseen items. Each asks for what the next one reads. A draw without unseen items has −1."""
    if n < last:
        bits = bits_at(key, n)
        place = n % _RING
        event = scaled(bits, len(users_N))
        ring_bits[place], ring_event[place] = bits, event
        fetch_to_read(users_N, event)
        fetch_to_read(items_N, event)
    if n - _STAGES >= 0 and ring_event[(n - _STAGES) % _RING] >= 0:
        place = (n - _STAGES) % _RING
        user, item = np.int64(users_N[ring_event[place]]), np.int64(items_N[ring_event[place]])
        ring_user[place], ring_item[place * room] = user, item
        _ask(users, user, stride)
        _ask(items, item, stride)
        for k in range(1, room):
            other = other_item(ring_bits[place], k, num_items, threshold_I, other_I)
            ring_item[place * room + k] = other
            if len(marks):
                fetch_to_read(marks, user * width + (other >> 6))
        if len(marks) == 0:
            fetch_to_read(items_N, (starts_U[user] + starts_U[user + 1]) >> 1)
        ring_event[place] = -1
    if n - 2 * _STAGES >= 0 and ring_user[(n - 2 * _STAGES) % _RING] >= 0:
        place = (n - 2 * _STAGES) % _RING
        user, turn = ring_user[place], room - 1
        for k in range(1, room):
            other = ring_item[place * room + k]
            tries = 0
            while is_seen(marks, width, items_N, starts_U, user, other):
                turn, tries = turn + 1, tries + 1
                if tries == _MOST_DRAWS:
                    other = np.int64(-1)
                    break
                other = other_item(ring_bits[place], turn, num_items, threshold_I, other_I)
            ring_item[place * room + k] = other
            _ask(items, max(other, 0), stride)


@_compiled
def draw_items(
    key, first, count, users_N, items_N, starts_U, marks, width, num_items, threshold_I, other_I, users, items, stride,
    room,
):  # fmt: skip
    """User and items of draws [first, first + count), int64 [count, 1 + room], as they are learned from."""
    drawn = np.empty((count, 1 + room), np.int64)
    ring_bits, ring_event = np.zeros(_RING, np.uint64), np.full(_RING, -1, np.int64)
    ring_user, ring_item = np.full(_RING, -1, np.int64), np.zeros(_RING * room, np.int64)
    for n in range(first, first + count + 3 * _STAGES):
        _advance(
            n, first + count, key, users_N, items_N, starts_U, marks, width, num_items, threshold_I, other_I, users,
            items, stride, room, ring_bits, ring_event, ring_user, ring_item,
        )  # fmt: skip
        done = n - 3 * _STAGES
        if done >= first:
            drawn[done - first, 0] = ring_user[done % _RING]
            drawn[done - first, 1:] = ring_item[done % _RING * room : (done % _RING + 1) * room]
            ring_user[done % _RING] = -1
    return drawn


@_compiled
def learn_pairs(
    key, first, last, users_N, items_N, starts_U, marks, width, num_items, threshold_I, other_I, users, items, bias_I,
    stride, lr, falls, draws, decay,
):  # fmt: skip
    """Learns from draws [first, last) of `draws`; the sum of losses, and how many draws were learned from.

    falls: by which share the rate has fallen at the last draw."""
    ring_bits, ring_event = np.zeros(_RING, np.uint64), np.full(_RING, -1, np.int64)
    ring_user, ring_item = np.full(_RING, -1, np.int64), np.zeros(_RING * 2, np.int64)
    loss, count, product, kept = np.float64(0.0), 0, np.float64(1.0), 0
    for n in range(first, last + 3 * _STAGES):
        _advance(
            n, last, key, users_N, items_N, starts_U, marks, width, num_items, threshold_I, other_I, users, items,
            stride, 2, ring_bits, ring_event, ring_user, ring_item,
        )  # fmt: skip
        now = n - 3 * _STAGES
        if now < first:
            continue
        place = now % _RING
        u, i, j = ring_user[place], ring_item[place * 2], ring_item[place * 2 + 1]
        ring_user[place] = -1
        if j < 0:
            continue
        rate = np.float32(lr * (1.0 - falls * now / draws))
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
    return loss - math.log(product), count


@part
def _point(users, at_u, items, at_i, stride, bias_U, u, bias_I, i, bias_1, target, squared, rate, shrink):
    """One step for a user and an item; the squared error before it, or the probability of what is right."""
    sums = same(0.0)
    for d in range(0, stride, LANES):
        sums = fused(lanes(users, at_u + d), lanes(items, at_i + d), sums)
    x = total(sums) + bias_1[0] + bias_U[u] + bias_I[i]
    if squared:
        error = target - x
        judged = error * error
    else:
        likely = _likely(x)
        error = target - likely
        judged = likely if target > 0 else np.float32(1) - likely
    moved = rate * error
    step, keep = same(moved), same(shrink)
    for d in range(0, stride, LANES):
        p, q = lanes(users, at_u + d), lanes(items, at_i + d)
        put(users, at_u + d, fused(step, q, keep * p))
        put(items, at_i + d, fused(step, p, keep * q))
    bias_U[u] = shrink * bias_U[u] + moved
    bias_I[i] = shrink * bias_I[i] + moved
    bias_1[0] += moved
    return judged


@_compiled
def learn_points(
    key, first, last, users_N, items_N, ratings_N, starts_U, marks, width, num_items, negatives, users, items, bias_U,
    bias_I, bias_1, stride, lr, falls, draws, decay,
):  # fmt: skip
    """Learns from draws [first, last), each of an event and `negatives` unseen items; with ratings from these alone.
    The sum of losses, and of how many."""
    squared = len(ratings_N) > 0
    no_threshold, no_other = np.empty(0, np.uint32), np.empty(0, np.int32)
    room = negatives + 1
    ring_bits, ring_event = np.zeros(_RING, np.uint64), np.full(_RING, -1, np.int64)
    ring_user, ring_item = np.full(_RING, -1, np.int64), np.zeros(_RING * room, np.int64)
    loss, count, product, kept = np.float64(0.0), 0, np.float64(1.0), 0
    for n in range(first, last + 3 * _STAGES):
        _advance(
            n, last, key, users_N, items_N, starts_U, marks, width, num_items, no_threshold, no_other, users, items,
            stride, room, ring_bits, ring_event, ring_user, ring_item,
        )  # fmt: skip
        now = n - 3 * _STAGES
        if now < first:
            continue
        place = now % _RING
        u = ring_user[place]
        ring_user[place] = -1
        rate = np.float32(lr * (1.0 - falls * now / draws))
        shrink = np.float32(1.0) - rate * np.float32(decay)
        for k in range(room):
            i = ring_item[place * room + k]
            if i < 0:
                continue
            target = np.float32(1) if k == 0 else np.float32(0)
            if squared:
                target = ratings_N[scaled(ring_bits[place], len(users_N))]
            judged = _point(
                users, u * stride, items, i * stride, stride, bias_U, u, bias_I, i, bias_1, target, squared, rate,
                shrink,
            )  # fmt: skip
            count += 1
            if squared:
                loss += judged
                continue
            product = np.float64(product * judged)
            kept += 1
            if kept == _AT_ONCE:
                loss -= math.log(product)
                product, kept = np.float64(1.0), 0
    return loss - math.log(product), count
