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
_PLACE_BITS = 24  # of a sorting key; the other 40 are random
_LAST = np.iinfo(np.uint64).max  # sorts after every place


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
        state = self._base(stream)
        for counter, step in zip(counters, _STEPS, strict=False):
            state = state + np.atleast_1d(counter).astype(np.uint64, copy=False) * np.uint64(step)
        return _mix(state).reshape(shape)

    def grid(self, stream: int, rows_B: np.ndarray, longest: int) -> np.ndarray:
        """[B, L] bits for the places of some rows of the global batch, of which `smallest` takes the least and
        `shuffled` the order."""
        return self.bits(stream, rows_B[:, None], np.arange(longest))

    def uniform(self, stream: int, *counters: Any) -> np.ndarray:
        """float64 in [0, 1), all multiples of 2⁻⁵³."""
        return (self.bits(stream, *counters) >> np.uint64(11)) * _UNIT

    def integers(self, high: Any, stream: int, *counters: Any) -> np.ndarray:
        """Whole numbers from 0 to `high` − 1 (a number or an array); beyond 2⁵³ they would not be even."""
        return (self.uniform(stream, *counters) * high).astype(np.int64)

    def _base(self, stream: int) -> np.ndarray:
        """Where a stream begins, uint64 [1]: arrays wrap in silence, single numbers do not."""
        state = np.zeros(1, dtype=np.uint64)
        for number in (self.seed, self.position, stream):
            state = _mix((state + np.uint64(_GOLDEN)) ^ np.uint64(number & _MASK))
        return state


EVALUATION = Draws(0, 0, evaluating=True)  # every run is judged with the same numbers


def smallest(bits_BL: np.ndarray, able_BL: np.ndarray, counts_B: np.ndarray) -> np.ndarray:
    """[B, L] bool: in each row `count` of the places where `able`, any as likely as another: those with least bits."""
    keys_BL = np.where(able_BL, bits_BL, _LAST)
    ordered_BL = np.sort(keys_BL, axis=1)
    last_B = np.take_along_axis(ordered_BL, np.maximum(counts_B - 1, 0)[:, None], axis=1)
    return (keys_BL <= last_B) & able_BL & (counts_B > 0)[:, None]


def shuffled(bits_BL: np.ndarray, able_BL: np.ndarray) -> np.ndarray:
    """[B, L] the places of each row where `able`, by rising bits; the entries after them mean nothing.

    A place is the low part of its key, so sorting numbers is enough; rows are sorted apart, so that a row's order
    does not depend on the rows beside it.
    """
    low = np.uint64((1 << _PLACE_BITS) - 1)
    keys_BL = (bits_BL & ~low) | np.arange(bits_BL.shape[1], dtype=np.uint64)
    keys_BL[~able_BL] = _LAST
    keys_BL.sort(axis=1)
    return np.minimum((keys_BL & low).astype(np.int64), max(bits_BL.shape[1] - 1, 0))


def _mix(state: np.ndarray) -> np.ndarray:
    """SplitMix64's output function, in place."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state
