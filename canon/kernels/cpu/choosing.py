"""The likeliest tokens of rows of logits on a CPU, compiled by numba: two passes over a row while it is near.

log softmax(x)_v = x_v − m − log Σ exp(x − m), m the greatest of the row; the best are those above the least of the best
so far, which few are. Of equal ones the first is taken first.
Plain version: log_softmax and `largest` of canon/nn/choosing.py, equal in tests/nn/test_compiled.py.
Shapes: R rows, V tokens, C candidates of a row.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import njit, part
from canon.kernels.cpu.lanes import LANES, exponential, greatest, lanes, same, total


@part
def _insert(gain_RC, token_RC, row, x, token, banned, least):
    """Puts a token in its place among the best of a row if it is one; the least of the best, to be better than."""
    if not x > least:
        return least
    for other in banned:
        if other == token:
            return least
    place = gain_RC.shape[1] - 1
    while place > 0 and gain_RC[row, place - 1] < x:
        gain_RC[row, place], token_RC[row, place] = gain_RC[row, place - 1], token_RC[row, place - 1]
        place -= 1
    gain_RC[row, place], token_RC[row, place] = x, token
    return gain_RC[row, gain_RC.shape[1] - 1]


@njit(nogil=True, cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def best(first, count, logits, width, banned, gain_RC, token_RC):
    """Fills rows [first, first + count) of gain and token, best first; what is banned counts in the sum alone."""
    whole = width - width % LANES
    candidates = gain_RC.shape[1]
    for row in range(first, first + count):
        start = row * width
        for place in range(candidates):
            gain_RC[row, place], token_RC[row, place] = -np.inf, 0
        least = np.float32(-np.inf)
        for i in range(0, whole, LANES):
            if greatest(lanes(logits, start + i)) > least:
                for token in range(i, i + LANES):
                    least = _insert(gain_RC, token_RC, row, logits[start + token], token, banned, least)
        for token in range(whole, width):
            least = _insert(gain_RC, token_RC, row, logits[start + token], token, banned, least)
        top = gain_RC[row, 0]
        for token in banned:
            top = max(top, logits[start + token])
        sums = same(0.0)
        for i in range(0, whole, LANES):
            sums = sums + exponential(lanes(logits, start + i) - same(top))
        mass = total(sums)
        for i in range(whole, width):
            mass += np.exp(logits[start + i] - top)
        spread = np.log(mass)
        for place in range(candidates):
            gain_RC[row, place] = (gain_RC[row, place] - top) - spread
