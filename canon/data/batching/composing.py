"""What the transforms of pre-training have in common: sequences end to end with what is known of each token, and random
choices within them.

Random choices come from canon.data.draws, keyed by the row in the global batch and the place in it, so that a batch may
be composed in any pieces: `Draws.bits` of all places, of which `smallest` takes the least and `shuffled` the order.
Shapes: B sequences, N tokens of all end to end, L the longest; grids [B, L] are padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from canon.data.batching.draws import Draws
from canon.data.batching.passages import SENTENCE, Drawn
from canon.data.text.framing import Specials, frame

_PLACE_BITS = 24  # of a sorting key; the other 40 are random
_LAST = np.iinfo(np.uint64).max  # sorts behind every place


@dataclass(frozen=True)
class Sequences:
    """What a network reads, and what is known of it. begins: the bits of canon.data.passages, 0 at special tokens."""

    tokens: np.ndarray  # [N], int64
    lengths: np.ndarray  # [B], int64
    segments: np.ndarray  # [N], int64
    ordinary: np.ndarray  # [N], bool: a token of the text
    begins: np.ndarray  # [N], uint8

    @cached_property
    def rows(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def places(self) -> np.ndarray:
        """The place of each token in its sequence."""
        return ranges(np.zeros_like(self.lengths), self.lengths)

    @cached_property
    def starts(self) -> np.ndarray:
        return starts_of(self.lengths)

    @cached_property
    def there(self) -> np.ndarray:
        """Where the grid has a token."""
        return np.arange(self.lengths.max(initial=0)) < self.lengths[:, None]

    def grid(self, x_N: np.ndarray) -> np.ndarray:
        """[B, L], 0 behind the end."""
        if self.there.size == len(x_N):
            return x_N.reshape(self.there.shape)
        x_BL = np.zeros(self.there.shape, dtype=x_N.dtype)
        x_BL[self.there] = x_N
        return x_BL

    def flat(self, x_BL: np.ndarray) -> np.ndarray:
        """[N] of a grid."""
        return x_BL.reshape(-1) if self.there.size == len(self.tokens) else x_BL[self.there]


def framed(framing: str, specials: Specials, first: Drawn, second: Drawn | None = None) -> Sequences:
    """One or two texts for each sequence between the special tokens of `framing`."""
    tokens_N, lengths_B, segments_N, first_B, second_B = frame(framing, specials, first, second)
    begins_N = np.zeros(len(tokens_N), dtype=np.uint8)
    ordinary_N = np.zeros(len(tokens_N), dtype=np.bool_)
    for text, starts_B in ((first, first_B), (second, second_B)):
        if text is not None:
            lie = ranges(starts_B, text.lengths)
            ordinary_N[lie], begins_N[lie] = True, text.begins
    return Sequences(tokens_N, lengths_B, segments_N, ordinary_N, begins_N)


def cut(text: Drawn, starts_B: np.ndarray, lengths_B: np.ndarray) -> Drawn:
    """Of each text the tokens [start, start + length); the first of them begins a word and a sentence."""
    if not starts_B.any() and np.array_equal(lengths_B, text.lengths):
        return text
    taken = ranges(text.offsets[:-1] + starts_B, lengths_B)
    begins = text.begins[taken]
    begins[starts_of(lengths_B)[lengths_B > 0]] |= np.uint8(SENTENCE | 1)
    return Drawn(text.tokens[taken], lengths_B, begins)


def starts_of(lengths_B: np.ndarray) -> np.ndarray:
    return np.cumsum(lengths_B) - lengths_B


def ranges(starts_B: np.ndarray, lengths_B: np.ndarray) -> np.ndarray:
    """The numbers start … start + length − 1 of every row, end to end."""
    return np.arange(int(lengths_B.sum())) + np.repeat(starts_B - starts_of(lengths_B), lengths_B)


def bits(draws: Draws, stream: int, rows_B: np.ndarray, longest: int) -> np.ndarray:
    """[B, L] random bits for all places."""
    return draws.bits(stream, rows_B[:, None], np.arange(longest))


def smallest(bits_BL: np.ndarray, able_BL: np.ndarray, counts_B: np.ndarray) -> np.ndarray:
    """[B, L] bool: in each row `count` of the places where `able`, any as likely as another: those with least bits."""
    keys_BL = np.where(able_BL, bits_BL, _LAST)
    ordered_BL = np.sort(keys_BL, axis=1)
    last_B = np.take_along_axis(ordered_BL, np.maximum(counts_B - 1, 0)[:, None], axis=1)
    return (keys_BL <= last_B) & able_BL & (counts_B > 0)[:, None]


def shuffled(bits_BL: np.ndarray, able_BL: np.ndarray) -> np.ndarray:
    """[B, L] the places of each row where `able`, by rising bits; behind them, whatever.

    A place is the low part of its own key, so sorting numbers is enough; rows are sorted apart, so that a row's order
    does not depend on the rows beside it.
    """
    low = np.uint64((1 << _PLACE_BITS) - 1)
    keys_BL = (bits_BL & ~low) | np.arange(bits_BL.shape[1], dtype=np.uint64)
    keys_BL[~able_BL] = _LAST
    keys_BL.sort(axis=1)
    return np.minimum((keys_BL & low).astype(np.int64), max(bits_BL.shape[1] - 1, 0))


def rounded_share(share: float, counts_B: np.ndarray) -> np.ndarray:
    """round(share · count), at least 1 where there is anything."""
    return np.minimum(np.maximum(np.round(share * counts_B).astype(np.int64), 1), counts_B)
