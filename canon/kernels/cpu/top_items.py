"""What is asked of scores of all items, compiled: the best items of a user, and the ranks of those to be found.

Equal scores are ordered by a number that the user and the item decide (`mixed` of both), never by the order of items,
which may be that of their popularity. Items that a user has already are not ranked.
Plain version: the same code uncompiled, equal to sorting with NumPy in tests/kernels/test_recommendation.py.
Shapes: B users of a block, I items, K best ones; lists of users end to end, those of user b from starts[b] on.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit, part
from canon.kernels.cpu.factors import has, scaled

_compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")
GONE = np.float32(-np.inf)  # the score of an item that is not ranked


@part
def _chance(user, item):
    return mixed(np.uint64(user + 2) * GOLDEN + np.uint64(item))


@part
def _is_before(one, chance, other, other_chance):
    return one > other or (one == other and chance > other_chance)


@_compiled
def pair_losses(scores_BI, users_B, seen, seen_starts, targets, target_starts, out_T):
    """log(1 + e^(−(x_i − x_j))) of each target i, j an item drawn by user and place that is neither seen nor a target;
    0 where there is none."""
    num_items = scores_BI.shape[1]
    for b in range(len(users_B)):
        first, last = seen_starts[b], seen_starts[b + 1]
        low, high = target_starts[b], target_starts[b + 1]
        for t in range(low, high):
            out_T[t] = 0.0
            bits = mixed(np.uint64(users_B[b] + 2) * GOLDEN + np.uint64(targets[t]))
            for turn in range(1000):
                j = scaled(mixed(bits + np.uint64(turn) * GOLDEN), num_items)
                if not has(seen, first, last, j) and not has(targets, low, high, j):
                    x = np.float64(scores_BI[b, targets[t]]) - np.float64(scores_BI[b, j])
                    out_T[t] = np.log1p(np.exp(-abs(x))) + max(-x, 0.0)
                    break


@_compiled
def rank_block(
    scores_BI, users_B, seen, seen_starts, targets, target_starts, candidates, candidate_starts, top_BK, top_scores_BK,
    above_T, among_T, ranked_B,
):  # fmt: skip
    """Fills the best items of each user (−1: there are no more) with their scores; for each target how many items of
    all come before it, and how many of the candidates (−1: the user has it already); and how many items are ranked.
    Scores of items that a user has are lost."""
    num_items, most = scores_BI.shape[1], top_BK.shape[1]
    chance_K = np.zeros(most, np.uint64)
    longest = 1
    for b in range(len(users_B)):
        longest = max(longest, target_starts[b + 1] - target_starts[b])
    score_t, chance_t = np.zeros(longest, np.float32), np.zeros(longest, np.uint64)
    place_t, count_t = np.zeros(longest, np.int64), np.zeros(longest + 1, np.int64)
    for b in range(len(users_B)):
        user = users_B[b]
        ranked = num_items
        for k in range(seen_starts[b], seen_starts[b + 1]):
            if scores_BI[b, seen[k]] != GONE:
                ranked -= 1
            scores_BI[b, seen[k]] = GONE
        ranked_B[b] = ranked
        size = 0  # targets that are ranked, by falling score
        for t in range(target_starts[b], target_starts[b + 1]):
            above_T[t] = among_T[t] = -1
            item = targets[t]
            score = scores_BI[b, item]
            if score == GONE:
                continue
            chance = _chance(user, item)
            k = size
            while k > 0 and _is_before(score, chance, score_t[k - 1], chance_t[k - 1]):
                score_t[k], chance_t[k], place_t[k] = score_t[k - 1], chance_t[k - 1], place_t[k - 1]
                k -= 1
            score_t[k], chance_t[k], place_t[k] = score, chance, t
            size += 1
            among = 0
            for c in range(candidate_starts[b], candidate_starts[b + 1]):
                other = candidates[c]
                if other != item and _is_before(scores_BI[b, other], _chance(user, other), score, chance):
                    among += 1
            among_T[t] = among
        count_t[: size + 1] = 0
        filled = 0
        for item in range(num_items):
            score = scores_BI[b, item]
            if score == GONE:
                continue
            least = top_scores_BK[b, most - 1] if filled == most else GONE
            if (size == 0 or score < score_t[size - 1]) and score < least:
                continue
            chance = _chance(user, item)
            if size:  # how many targets the item does not come before
                low, high = 0, size
                while low < high:
                    middle = (low + high) >> 1
                    if _is_before(score, chance, score_t[middle], chance_t[middle]):
                        high = middle
                    else:
                        low = middle + 1
                count_t[low] += 1
            if filled < most or _is_before(score, chance, least, chance_K[most - 1]):
                k = filled if filled < most else most - 1
                while k > 0 and _is_before(score, chance, top_scores_BK[b, k - 1], chance_K[k - 1]):
                    top_BK[b, k], top_scores_BK[b, k] = top_BK[b, k - 1], top_scores_BK[b, k - 1]
                    chance_K[k] = chance_K[k - 1]
                    k -= 1
                top_BK[b, k], top_scores_BK[b, k], chance_K[k] = item, score, chance
                filled = min(filled + 1, most)
        for k in range(filled, most):
            top_BK[b, k], top_scores_BK[b, k] = -1, GONE
        before = 0
        for k in range(size):
            before += count_t[k]
            above_T[place_t[k]] = before
