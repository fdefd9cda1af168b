"""Random numbers that are looked up, not drawn in turn: each is a hash of where it is used.

Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators (SplitMix64) → `_mix`; Weyl steps with an odd
constant for each counter → `Draws.bits`.
A number depends on (seed, position of the batch, stream, counters). Counters are the row in the global batch and what
is counted within it, so any number of processes and micro-batches draw the same numbers, in any order, and a run
resumed at a step draws what it would have drawn.
Deviations: the state is not walked from number to number; (base + Σ counterᵢ·oddᵢ) is hashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Fractional parts of the golden ratio and of √2, √3, √5, √7, as odd 64-bit numbers: no small counters make them meet.
_GOLDEN = 0x9E3779B97F4A7C15
_STEPS = (0x9E3779B97F4A7C15, 0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1)
_MASK = (1 << 64) - 1
_UNIT = 2.0**-53


@dataclass(frozen=True)
class Draws:
    """The numbers of one batch. `evaluating`: not training, where every visit draws the same."""

    seed: int
    position: int
    evaluating: bool = False

    def bits(self, stream: int, *counters: Any) -> np.ndarray:
        """64 random bits, uint64, of the shape that the counters (arrays of whole numbers) broadcast to."""
        assert len(counters) <= len(_STEPS)
        shape = np.broadcast_shapes(*(np.shape(counter) for counter in counters))
        state = np.full(1, self._base(stream), dtype=np.uint64)  # one number is an array too: those wrap in silence
        for counter, step in zip(counters, _STEPS, strict=False):
            state = state + np.atleast_1d(counter).astype(np.uint64, copy=False) * np.uint64(step)
        return _mix(state).reshape(shape)

    def uniform(self, stream: int, *counters: Any) -> np.ndarray:
        """float64 in [0, 1), all multiples of 2⁻⁵³."""
        return (self.bits(stream, *counters) >> np.uint64(11)) * _UNIT

    def integers(self, high: Any, stream: int, *counters: Any) -> np.ndarray:
        """Whole numbers from 0 to `high` − 1 (a number or an array); beyond 2⁵³ they would not be even."""
        return (self.uniform(stream, *counters) * high).astype(np.int64)

    def _base(self, stream: int) -> int:
        """Where a stream begins, hashed in plain whole numbers."""
        state = 0
        for number in (self.seed, self.position, stream):
            state = _mix_one((state + _GOLDEN) ^ (number & _MASK))
        return state


EVALUATION = Draws(0, 0, evaluating=True)  # every run is judged with the same numbers


def _mix(state: np.ndarray) -> np.ndarray:
    """SplitMix64's output function, in place."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state


def _mix_one(state: int) -> int:
    state &= _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)
