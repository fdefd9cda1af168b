"""Compiled loops over a list of words that lie end to end: a word's row by its hash, words twice, nearest spellings.

Words are looked up by FNV-1a (Fowler, Noll and Vo; 64 bits) in a table of at least twice their number, stepping on from
where the hash points. Spellings are compared by edit distance (Levenshtein 1966) in bytes, given up at a limit.
Plain version: the same code uncompiled, equal to the bit in tests/kernels/test_loops.py.
Deviations: none. Shapes: B bytes, V words, Q words asked for, S slots of the hash table.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import njit

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
EMPTY = -1


@njit(nogil=True, cache=True)
def _slot(text_B: np.ndarray, start: int, stop: int, slots: int) -> int:
    state = _OFFSET
    for place in range(start, stop):
        state = (state ^ np.uint64(text_B[place])) * _PRIME
    return int(np.int64((state ^ (state >> np.uint64(32))) & np.uint64(slots - 1)))


@njit(nogil=True, cache=True)
def _find(
    text_B: np.ndarray, ends_V: np.ndarray, rows_S: np.ndarray, asked_B: np.ndarray, start: int, stop: int
) -> tuple[int, int]:
    """The row of asked[start:stop] and its slot; the row is EMPTY where there is no such word."""
    slot = _slot(asked_B, start, stop, len(rows_S))
    while rows_S[slot] != EMPTY:
        row = rows_S[slot]
        first = ends_V[row - 1] + 1 if row else 0
        if ends_V[row] - first == stop - start:
            same = True
            for place in range(stop - start):
                if text_B[first + place] != asked_B[start + place]:
                    same = False
                    break
            if same:
                return row, slot
        slot = (slot + 1) & (len(rows_S) - 1)
    return EMPTY, slot


@njit(nogil=True, cache=True)
def index_words(text_B: np.ndarray, ends_V: np.ndarray, rows_S: np.ndarray, again_V: np.ndarray) -> int:
    """Fills the table (EMPTY before) and marks words that stood before; gives how many did. The first one counts."""
    repeated = 0
    for row in range(len(ends_V)):
        first = ends_V[row - 1] + 1 if row else 0
        earlier, slot = _find(text_B, ends_V, rows_S, text_B, first, ends_V[row])
        if earlier == EMPTY:
            rows_S[slot] = row
        else:
            again_V[row] = True
            repeated += 1
    return repeated


@njit(nogil=True, cache=True)
def find_words(
    text_B: np.ndarray,
    ends_V: np.ndarray,
    rows_S: np.ndarray,
    asked_B: np.ndarray,
    starts_Q: np.ndarray,
    stops_Q: np.ndarray,
    out_Q: np.ndarray,
) -> None:
    """The row of each word asked[start:stop], EMPTY for unknown ones."""
    for word in range(len(starts_Q)):
        out_Q[word] = _find(text_B, ends_V, rows_S, asked_B, starts_Q[word], stops_Q[word])[0]


@njit(nogil=True, cache=True)
def edit_distances(text_B: np.ndarray, ends_V: np.ndarray, word_B: np.ndarray, limit: int, out_V: np.ndarray) -> None:
    """Bytes to change, add or leave out between `word` and each other one; limit + 1 stands for more than `limit`."""
    length = len(word_B)
    above, row = np.empty(length + 1, np.int64), np.empty(length + 1, np.int64)
    for other in range(len(ends_V)):
        first = ends_V[other - 1] + 1 if other else 0
        size = ends_V[other] - first
        out_V[other] = limit + 1
        if abs(size - length) > limit:
            continue
        for j in range(length + 1):
            above[j] = j
        for i in range(1, size + 1):
            byte = text_B[first + i - 1]
            row[0] = least = i
            for j in range(1, length + 1):
                changed = above[j - 1] + (byte != word_B[j - 1])
                row[j] = min(changed, above[j] + 1, row[j - 1] + 1)
                least = min(least, row[j])
            above, row = row, above
            if least > limit:
                break
        else:
            out_V[other] = min(above[length], limit + 1)


@njit(nogil=True, cache=True)
def gather(text_B: np.ndarray, starts_Q: np.ndarray, ends_Q: np.ndarray, out_B: np.ndarray) -> int:
    """Copies words end to end, each with a line's end after it; gives the bytes written."""
    at = 0
    for word in range(len(starts_Q)):
        for place in range(starts_Q[word], ends_Q[word]):
            out_B[at] = text_B[place]
            at += 1
        out_B[at] = 10
        at += 1
    return at


@njit(nogil=True, cache=True)
def keep_rows(matrix_RB: np.ndarray, again_V: np.ndarray) -> None:
    """Moves rows that are not marked up over those that are, in place."""
    to = 0
    for row in range(len(again_V)):
        if not again_V[row]:
            if to != row:
                for place in range(matrix_RB.shape[1]):
                    matrix_RB[to, place] = matrix_RB[row, place]
            to += 1
