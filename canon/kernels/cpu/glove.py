"""The inner loops of GloVe, compiled by numba for a width of vectors; they let go of Python's lock.

A row of the table is all that belongs to a word: its vector w, its context vector w̃ and the sums of squared steps of
both, side by side, so that a pair of words touches two stretches of memory. Widths are known when a kernel is compiled
and multiples of 16: the compiler then sees that the four do not overlap, and works on 16 numbers at a time. Numbers
beyond the vectors' own dimensions are 0 and stay 0; their sums stay 1.
A pair stands for the entries (i, j) and (j, i) of the symmetric matrix. They share no parameter, unless i = j, when
they are one; so both are learned from at once, which is the same as one after the other.
Plain version: the same code uncompiled, equal but for rounding in tests/kernels/test_learners.py; the steps of AdaGrad
in tests/systems/test_glove.py.
Shapes: V words, W width, E pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from canon.kernels.cpu.compiler import njit

LANES = 16


def width_of(dim: int) -> int:
    return -(-dim // LANES) * LANES


# Divisions by zero are not looked for (error_model): a loop that may raise is not vectorised.
_compiled = njit(nogil=True, cache=True, fastmath=True, boundscheck=False, error_model="numpy")


@cache
def learner(width: int) -> Callable[..., Any]:
    """`learn` for rows of 4 · width numbers: w, w̃, sums of w, sums of w̃."""
    row, first_sum, second_sum = 4 * width, 2 * width, 3 * width

    @_compiled
    def learn(
        entries_E: np.ndarray,
        first: int,
        last: int,
        table: np.ndarray,
        biases_V4: np.ndarray,
        lr: float,
        x_max: float,
        alpha: float,
    ) -> tuple[float, int]:
        """Learns from the pairs [first, last); the sum of f(x) difference² before each step, and of how many entries.

        difference = w_i·w̃_j + b_i + b̃_j − log x
        θ ← θ − η g/√s, s ← s + (η g)², with g = f(x) difference ∂/∂θ; for biases η = 1.
        """
        loss, count = np.float64(0), 0
        log_max = np.float32(np.log(x_max))
        power, rate = np.float32(alpha), np.float32(lr)
        for e in range(first, last):
            i, j = np.int64(entries_E[e]["row"]), np.int64(entries_E[e]["column"])
            log_x = np.log(entries_E[e]["count"])
            weight = np.exp(min(power * (log_x - log_max), np.float32(0)))
            of_i, of_j = table[i * row : i * row + row], table[j * row : j * row + row]
            dot_ij, dot_ji = np.float32(0), np.float32(0)
            for k in range(width):
                dot_ij += of_i[k] * of_j[width + k]
                dot_ji += of_j[k] * of_i[width + k]
            difference = dot_ij + biases_V4[i, 0] + biases_V4[j, 1] - log_x
            step = weight * difference
            loss += step * difference
            count += 1
            step_ij = rate * step
            if i == j:
                for k in range(width):
                    w, c = of_i[k], of_i[width + k]
                    w_step, c_step = step_ij * c, step_ij * w
                    w_sum, c_sum = of_i[first_sum + k], of_i[second_sum + k]
                    of_i[k] = w - w_step / np.sqrt(w_sum)
                    of_i[width + k] = c - c_step / np.sqrt(c_sum)
                    of_i[first_sum + k] = w_sum + w_step * w_step
                    of_i[second_sum + k] = c_sum + c_step * c_step
            else:
                other = dot_ji + biases_V4[j, 0] + biases_V4[i, 1] - log_x
                other_step = weight * other
                loss += other_step * other
                count += 1
                step_ji = rate * other_step
                for k in range(width):
                    w_i, c_i, w_j, c_j = of_i[k], of_i[width + k], of_j[k], of_j[width + k]
                    w_i_step, c_j_step, w_j_step, c_i_step = step_ij * c_j, step_ij * w_i, step_ji * c_i, step_ji * w_j
                    w_i_sum, c_i_sum = of_i[first_sum + k], of_i[second_sum + k]
                    w_j_sum, c_j_sum = of_j[first_sum + k], of_j[second_sum + k]
                    of_i[k] = w_i - w_i_step / np.sqrt(w_i_sum)
                    of_i[width + k] = c_i - c_i_step / np.sqrt(c_i_sum)
                    of_i[first_sum + k] = w_i_sum + w_i_step * w_i_step
                    of_i[second_sum + k] = c_i_sum + c_i_step * c_i_step
                    of_j[k] = w_j - w_j_step / np.sqrt(w_j_sum)
                    of_j[width + k] = c_j - c_j_step / np.sqrt(c_j_sum)
                    of_j[first_sum + k] = w_j_sum + w_j_step * w_j_step
                    of_j[second_sum + k] = c_j_sum + c_j_step * c_j_step
                biases_V4[j, 0] -= other_step / np.sqrt(biases_V4[j, 2])
                biases_V4[j, 2] += other_step * other_step
                biases_V4[i, 1] -= other_step / np.sqrt(biases_V4[i, 3])
                biases_V4[i, 3] += other_step * other_step
            biases_V4[i, 0] -= step / np.sqrt(biases_V4[i, 2])
            biases_V4[i, 2] += step * step
            biases_V4[j, 1] -= step / np.sqrt(biases_V4[j, 3])
            biases_V4[j, 3] += step * step
        return loss, count

    return learn


@cache
def measurer(width: int) -> Callable[..., Any]:
    """`measure` for rows of 4 · width numbers, of which the first two vectors count."""
    row = 4 * width

    @_compiled
    def measure(
        entries_E: np.ndarray,
        first: int,
        last: int,
        table: np.ndarray,
        biases_V4: np.ndarray,
        scale: float,
        x_max: float,
        alpha: float,
    ) -> tuple[float, int]:
        """The sum of f(x) difference² of the pairs [first, last), x being `scale` times their count; of how many."""
        loss, count = np.float64(0), 0
        log_scale, log_max, power = np.float32(np.log(scale)), np.float32(np.log(x_max)), np.float32(alpha)
        for e in range(first, last):
            i, j = np.int64(entries_E[e]["row"]), np.int64(entries_E[e]["column"])
            log_x = np.log(entries_E[e]["count"])
            weight = np.exp(min(power * (log_x - log_max), np.float32(0)))
            log_x += log_scale
            of_i, of_j = table[i * row : i * row + row], table[j * row : j * row + row]
            dot_ij, dot_ji = np.float32(0), np.float32(0)
            for k in range(width):
                dot_ij += of_i[k] * of_j[width + k]
                dot_ji += of_j[k] * of_i[width + k]
            difference = dot_ij + biases_V4[i, 0] + biases_V4[j, 1] - log_x
            loss += weight * difference * difference
            count += 1
            if i != j:
                other = dot_ji + biases_V4[j, 0] + biases_V4[i, 1] - log_x
                loss += weight * other * other
                count += 1
        return loss, count

    return measure
