"""Rows of n-grams by hashing, compiled: of the letters of a word and of the words of a line (fastText's FNV-1a).

The layout of the rows is in canon/systems/words/subwords.py.
Plain version: the same code uncompiled, equal to the bit in tests/kernels/test_loops.py.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import njit

_BASIS = 2166136261  # FNV's offset basis and prime of 32 bits
_PRIME = 16777619
_LINE_PRIME = 116049371
_BITS = 0xFFFFFFFF


@njit(nogil=True, cache=True)
def hash_bytes(text: np.ndarray, start: int, stop: int) -> int:
    """FNV-1a of text[start:stop] (uint8), as an unsigned number of 32 bits."""
    state = np.uint64(_BASIS)
    for place in range(start, stop):
        byte = np.uint64(text[place])
        if byte >= 128:
            byte |= np.uint64(0xFFFFFF00)
        state = ((state ^ byte) * np.uint64(_PRIME)) & np.uint64(_BITS)
    return int(np.int64(state))


@njit(nogil=True, cache=True)
def put_subwords(
    text: np.ndarray, start: int, stop: int, least: int, most: int, buckets: int, offset: int, out: np.ndarray, at: int
) -> int:
    """Puts the rows of all n-grams of text[start:stop] ("<word>" in UTF-8) at out[at:]; gives where they end."""
    for first in range(start, stop):
        if text[first] & 0xC0 == 0x80:  # inside a character
            continue
        state = np.uint64(_BASIS)
        place, length = first, 0
        while place < stop and length < most:
            while True:  # one character
                byte = np.uint64(text[place])
                if byte >= 128:
                    byte |= np.uint64(0xFFFFFF00)
                state = ((state ^ byte) * np.uint64(_PRIME)) & np.uint64(_BITS)
                place += 1
                if place >= stop or text[place] & 0xC0 != 0x80:
                    break
            length += 1
            marker = length == 1 and (first == start or place == stop)  # "<" or ">" alone says nothing
            if length >= least and not marker:
                out[at] = offset + np.int64(state % np.uint64(buckets))
                at += 1
    return at


@njit(nogil=True, cache=True)
def put_word_ngrams(
    hashes_T: np.ndarray, length: int, most: int, buckets: int, offset: int, out: np.ndarray, at: int
) -> int:
    """Puts the rows of n-grams of 2 to `most` words, of the first `length` hashes (int32), at out[at:]."""
    for first in range(length):
        state = np.uint64(np.int64(hashes_T[first]))
        for place in range(first + 1, min(length, first + most)):
            state = state * np.uint64(_LINE_PRIME) + np.uint64(np.int64(hashes_T[place]))
            out[at] = offset + np.int64(state % np.uint64(buckets))
            at += 1
    return at


@njit(nogil=True, cache=True)
def put_table(
    text: np.ndarray, ends_V: np.ndarray, plain_V: np.ndarray, least: int, most: int, buckets: int, out_S: np.ndarray
) -> np.ndarray:
    """The rows of every word, its own first, at out_S; gives where each word's begin. `text` holds every "<word>"."""
    size = len(ends_V)
    starts = np.zeros(size + 1, np.int64)
    start, at = 0, 0
    for word in range(size):
        out_S[at] = word
        at += 1
        if not plain_V[word]:
            at = put_subwords(text, start, ends_V[word], least, most, buckets, size, out_S, at)
        start = ends_V[word]
        starts[word + 1] = at
    return starts


@njit(nogil=True, cache=True)
def mean_rows(
    input_RD: np.ndarray, starts_V: np.ndarray, rows_S: np.ndarray, first: int, last: int, out_VD: np.ndarray
) -> None:
    """The mean of the rows of every word from `first` to before `last`."""
    for word in range(first, last):
        out_VD[word] = 0
        for s in range(starts_V[word], starts_V[word + 1]):
            out_VD[word] += input_RD[rows_S[s]]
        out_VD[word] *= np.float32(1 / (starts_V[word + 1] - starts_V[word]))
