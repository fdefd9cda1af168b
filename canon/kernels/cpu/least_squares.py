"""The rows of one side of implicit ALS, compiled: conjugate gradients on the normal equations of each row.

Hu, Koren and Volinsky 2008, Collaborative filtering for implicit feedback datasets, as weighted by Rendle, Krichene,
Zhang and Koren 2022 (arXiv:2110.14037), equation 4; steps of conjugate gradients as Takács, Pilászy and Tikk 2011,
Applications of the conjugate gradient method for implicit feedback collaborative filtering:
  (Σ_{i ∈ S} q_i q_iᵀ + α₀ QᵀQ + λ_u 1) p = Σ_{i ∈ S} q_i
A step costs D² + 2 |S| D, where solving would cost |S| D² + D³/3.
Plain version: the same code uncompiled with NumPy for lanes, equal but for rounding in
tests/kernels/test_recommendation.py; NumPy's `solve` in tests/systems/test_ials.py.
Shapes: rows of S floats (whole lanes, zeros after D), flat; the items of row u are others[starts[u] : starts[u + 1]].
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import njit, part
from canon.kernels.cpu.lanes import LANES, fused, lanes, put, same, total

_ENOUGH = 1e-20  # of the squared residual, beside that of the right side


@part
def _dot(a, at, b, of, stride):
    sums = same(0.0)
    for d in range(0, stride, LANES):
        sums = fused(lanes(a, at + d), lanes(b, of + d), sums)
    return total(sums)


@part
def _add(a, at, b, of, times, stride):
    """a ← a + times · b"""
    factor = same(times)
    for d in range(0, stride, LANES):
        put(a, at + d, fused(factor, lanes(b, of + d), lanes(a, at + d)))


@part
def _applied(v, at, others, first, last, fixed, gram, dim, stride, share, decay, out):
    """out = (Σ q qᵀ + share · gram + decay) v"""
    for d in range(0, stride, LANES):
        put(out, d, same(decay) * lanes(v, at + d))
    for k in range(dim):
        _add(out, 0, gram, k * stride, np.float32(share * v[at + k]), stride)
    for n in range(first, last):
        row = np.int64(others[n]) * stride
        _add(out, 0, fixed, row, _dot(fixed, row, v, at, stride), stride)


@njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")
def solve_rows(first, last, starts, others, fixed, gram, dim, stride, share, decay_R, steps, rows):
    """Moves rows [first, last) by some steps of conjugate gradients from where they are."""
    residual, applied = np.zeros(stride, np.float32), np.zeros(stride, np.float32)
    way = np.zeros(stride, np.float32)
    for row in range(first, last):
        begin, end, at = starts[row], starts[row + 1], row * stride
        decay = np.float32(decay_R[row])
        _applied(rows, at, others, begin, end, fixed, gram, dim, stride, share, decay, applied)
        for d in range(0, stride, LANES):
            put(residual, d, same(0.0) - lanes(applied, d))
        for n in range(begin, end):
            _add(residual, 0, fixed, np.int64(others[n]) * stride, np.float32(1), stride)
        for d in range(0, stride, LANES):
            put(way, d, lanes(residual, d))
        size = np.float64(_dot(residual, 0, residual, 0, stride))
        for _ in range(steps):
            if size < _ENOUGH:
                break
            _applied(way, 0, others, begin, end, fixed, gram, dim, stride, share, decay, applied)
            step = size / np.float64(_dot(way, 0, applied, 0, stride))
            _add(rows, at, way, 0, np.float32(step), stride)
            _add(residual, 0, applied, 0, np.float32(-step), stride)
            new = np.float64(_dot(residual, 0, residual, 0, stride))
            turn = same(np.float32(new / size))
            for d in range(0, stride, LANES):
                put(way, d, fused(turn, lanes(way, d), lanes(residual, d)))
            size = new
