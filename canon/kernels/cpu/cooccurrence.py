"""The inner loops of counting co-occurrences, compiled by numba; they let go of Python's lock.

Everything is added up in whole numbers (cooccurrence.py says in which unit), so that no order of adding changes a sum.
Pairs are kept once, with the rarer word, the greater number, as the row: column ≤ row.
Plain version: the same code uncompiled, equal to the bit in tests/kernels/test_loops.py; brute force in
tests/data/test_cooccurrence.py.
Shapes: N places of the text, V words, E pairs, W the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit


@njit(nogil=True, cache=True, boundscheck=False)
def count_words(tokens_N: np.ndarray, start: int, stop: int, counts_V: np.ndarray) -> None:
    """Adds to `counts_V` how often each word occurs at the places [start, stop)."""
    for place in range(start, stop):
        word = tokens_N[place]
        if word >= 0:
            counts_V[word] += 1


@njit(nogil=True, cache=True, boundscheck=False)
def list_places(tokens_N: np.ndarray, start: int, stop: int, next_V: np.ndarray, places: np.ndarray) -> None:
    """The places [start, stop) word by word, counted from `start`; `next_V`: where the places of each word begin."""
    for place in range(start, stop):
        word = tokens_N[place]
        if word >= 0:
            places[next_V[word]] = place - start
            next_V[word] += 1


@njit(nogil=True, cache=True, boundscheck=False)
def count_rows(
    tokens_N: np.ndarray,
    origin: int,
    places: np.ndarray,
    begins_V: np.ndarray,
    first: int,
    last: int,
    weights_W: np.ndarray,
    sums_V: np.ndarray,
    seen_V: np.ndarray,
    pairs: np.ndarray,
) -> int:
    """All pairs of the words [first, last) with words at most as rare, sorted; returns how many.

    The words around every place of a word are added to `sums_V`, which is all zeros before and after.
    """
    size = 0
    window = len(weights_W) - 1
    for row in range(first, last):
        seen = 0
        for at in range(begins_V[row], begins_V[row + 1]):
            place = origin + int(places[at])
            for side in (-1, 1):
                room = place if side < 0 else len(tokens_N) - 1 - place
                for distance in range(1, min(window, room) + 1):
                    word = tokens_N[place + side * distance]
                    if word < 0:
                        break
                    if word <= row:
                        if sums_V[word] == 0:
                            seen_V[seen] = word
                            seen += 1
                        sums_V[word] += weights_W[distance]
        size = _emit(row, seen, sums_V, seen_V, pairs, size)
    return size


@njit(nogil=True, cache=True, boundscheck=False)
def add_rows(
    runs: np.ndarray,
    begins_RV: np.ndarray,
    first: int,
    last: int,
    sums_V: np.ndarray,
    seen_V: np.ndarray,
    pairs: np.ndarray,
) -> int:
    """The rows [first, last) of R sorted runs, added up; begins_RV: where each row begins in each run."""
    size = 0
    for row in range(first, last):
        seen = 0
        for run in range(len(begins_RV)):
            for at in range(begins_RV[run, row], begins_RV[run, row + 1]):
                word = runs[at]["column"]
                if sums_V[word] == 0:
                    seen_V[seen] = word
                    seen += 1
                sums_V[word] += runs[at]["sum"]
        size = _emit(row, seen, sums_V, seen_V, pairs, size)
    return size


@njit(nogil=True, cache=True, boundscheck=False)
def _emit(row: int, seen: int, sums_V: np.ndarray, seen_V: np.ndarray, pairs: np.ndarray, size: int) -> int:
    """Writes the sums of one row after the `size` pairs that are there, and sets them to zero."""
    columns = seen_V[:seen]
    columns.sort()
    for column in columns:
        pairs[size]["row"] = row
        pairs[size]["column"] = column
        pairs[size]["sum"] = sums_V[column]
        sums_V[column] = 0
        size += 1
    return size


@njit(nogil=True, cache=True, boundscheck=False)
def deal(entries_E: np.ndarray, first: int, last: int, num_parts: int, dealt_E: np.ndarray) -> None:
    """Deals the rounds [first, last) of `num_parts` entries each out to the parts, in another order every round.

    Every part gets one entry of each round, so all have their share of every stretch of rows. What is left when no
    round can be filled goes to the first parts, one each; parts lie one after the other.
    """
    size = len(entries_E)
    rounds, rest = size // num_parts, size % num_parts
    order = np.arange(num_parts)
    for turn in range(first, last):
        left = min(num_parts, size - turn * num_parts)
        if left == num_parts:
            for i in range(num_parts - 1, 0, -1):
                j = np.int64(_random(turn, i) % np.uint64(i + 1))
                order[i], order[j] = order[j], order[i]
        for i in range(left):
            part = order[i] if left == num_parts else i
            dealt_E[part * rounds + min(part, rest) + turn] = entries_E[turn * num_parts + i]


@njit(nogil=True, cache=True, boundscheck=False)
def shuffle_part(sorted_E: np.ndarray, part: int, band: int, shuffled_E: np.ndarray) -> None:
    """Entries sorted by row in random order, but those of `band` rows together: their vectors then stay in the cache.

    The bands themselves come in random order too.
    """
    size = len(sorted_E)
    begins = np.empty(size + 1, np.int64)
    count = 0
    for i in range(size):
        if i == 0 or sorted_E[i]["row"] // band != sorted_E[i - 1]["row"] // band:
            begins[count] = i
            count += 1
    begins[count] = size
    order = np.arange(count)
    for i in range(count - 1, 0, -1):
        j = np.int64(_random(part, -1 - i) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
    written = 0
    for number in range(count):
        begin, end = begins[order[number]], begins[order[number] + 1]
        for i in range(end - begin):  # Fisher and Yates, from the inside out
            j = np.int64(_random(part, begin + i) % np.uint64(i + 1))
            shuffled_E[written + i] = shuffled_E[written + j]
            shuffled_E[written + j] = sorted_E[begin + i]
        written += end - begin


@njit(nogil=True, cache=True, boundscheck=False, inline="always")
def _random(stream: int, number: int) -> Any:
    """64 random bits for each (stream, number): splitmix64 (Steele, Lea and Flood 2014), twice."""
    return mixed(mixed(np.uint64(stream) * GOLDEN + GOLDEN) + np.uint64(np.int64(number)) * GOLDEN)
