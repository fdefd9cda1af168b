"""The nearest items of items by who has both, and scores of items from these, compiled.

Sarwar, Karypis, Konstan and Riedl 2001, Item-based collaborative filtering recommendation algorithms:
  s_ij = c_ij / (√(c_i c_j) + shrink), c_ij users who have both       x_ui = Σ s_ij, j of u's and of i's K nearest
Items are counted for one item at a time, through the items of its users: never a matrix of all pairs.
Plain version: the same code uncompiled, equal in tests/kernels/test_recommendation.py; a dense matrix product in
tests/systems/test_item_knn.py.
Shapes: I items, K neighbours; lists end to end, those of row r from starts[r] on.
"""

from __future__ import annotations

import math

import numpy as np

from canon.kernels.cpu.compiler import njit

_compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")


@_compiled
def nearest(first, last, items, starts_U, users, starts_I, shrink, near_IK, alike_IK):
    """Fills the neighbours of items [first, last), the nearest first; of equals the one whom more users have, then the
    first. −1 where there are no more."""
    num_items, most = len(starts_I) - 1, near_IK.shape[1]
    both_I = np.zeros(num_items, np.int32)
    met = np.zeros(num_items, np.int32)
    for item in range(first, last):
        size = 0
        for n in range(starts_I[item], starts_I[item + 1]):
            user = users[n]
            for m in range(starts_U[user], starts_U[user + 1]):
                other = items[m]
                if both_I[other] == 0:
                    met[size] = other
                    size += 1
                both_I[other] += 1
        own = starts_I[item + 1] - starts_I[item]
        filled = 0
        for n in range(size):
            other = met[n]
            shared = both_I[other]
            both_I[other] = 0
            if other == item:
                continue
            count = starts_I[other + 1] - starts_I[other]
            alike = np.float32(shared / (math.sqrt(np.float64(own) * np.float64(count)) + shrink))
            k = filled if filled < most else most - 1
            if filled == most and alike < alike_IK[item, k]:
                continue
            if filled == most and not _goes_before(alike, count, other, alike_IK[item, k], near_IK[item, k], starts_I):
                continue
            while k > 0 and _goes_before(alike, count, other, alike_IK[item, k - 1], near_IK[item, k - 1], starts_I):
                near_IK[item, k], alike_IK[item, k] = near_IK[item, k - 1], alike_IK[item, k - 1]
                k -= 1
            near_IK[item, k], alike_IK[item, k] = other, alike
            filled = min(filled + 1, most)
        for k in range(filled, most):
            near_IK[item, k], alike_IK[item, k] = -1, np.float32(0)


@njit(nogil=True, boundscheck=False, error_model="numpy")
def _goes_before(alike, count, item, other_alike, other, starts_I):
    if alike != other_alike:
        return alike > other_alike
    other_count = starts_I[other + 1] - starts_I[other]
    return count > other_count or (count == other_count and item < other)


@_compiled
def sums_of(owned, owned_starts, near_of, alike_of, starts_I, scores_BI):
    """Adds to each user's scores what every owned item gives to the items that have it among their neighbours."""
    for b in range(len(owned_starts) - 1):
        for n in range(owned_starts[b], owned_starts[b + 1]):
            item = owned[n]
            for m in range(starts_I[item], starts_I[item + 1]):
                scores_BI[b, near_of[m]] += alike_of[m]
