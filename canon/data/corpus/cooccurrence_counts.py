"""Counting pairs of words stretch by stretch, and the order in which they are learned from; see cooccurrence.py.

Of each stretch of the text the places of every word are listed, and the words around them are added up row by row
(`Counter`). Where there are several stretches their sorted rows go to disk and are added up again. `shuffle` then deals
the pairs out to parts. What takes long is in kernels/cpu/cooccurrence.py.
Shapes: N places of the text, V words, R runs (stretches on disk), E pairs, W the window.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from canon.data.progress import bar

ENTRY = np.dtype([("row", "<i4"), ("column", "<i4"), ("count", "<f4")])
BAND = 256  # rows that stay together: half a MB of GloVe's vectors of 100 dimensions
_PAIR = np.dtype([("row", "<i4"), ("column", "<i4"), ("sum", "<i8")])  # before sums are divided by their unit
_LARGEST_WINDOW = 22  # lcm(1 … 22) is 2.3e8; a sum of 4e10 of them still fits 64 bits
_AT_ONCE = 1 << 20  # pairs that a thread collects, at most


class Counter:
    """Counts a text stretch by stretch; `memory` bytes decide how long a stretch is."""

    def __init__(self, tokens_N: np.ndarray, vocab_size: int, window: int, memory: int, threads: int) -> None:
        from canon.kernels.cpu import cooccurrence as kernels_cooccurrence

        self.kernels = kernels_cooccurrence
        self.tokens_N, self.vocab_size, self.threads = tokens_N, vocab_size, threads
        self.unit = math.lcm(*range(1, min(window, _LARGEST_WINDOW) + 1))
        weights = [0, *(round(self.unit / distance) for distance in range(1, window + 1))]
        self.weights_W = np.array(weights, dtype=np.int64)
        # Half for the text and the list of its places, 4 bytes each; half for what threads collect and have collected.
        self.stretch = int(min(max(memory // 16, 1 << 12), (1 << 31) - 1))
        self.at_once = int(max(min(memory // (4 * _PAIR.itemsize * (threads + 1)), _AT_ONCE), vocab_size))

    def write(self, path: Path) -> int:
        """All pairs as ENTRY, sorted by row and column; returns how many are of a word with itself."""
        starts = list(range(0, len(self.tokens_N), self.stretch)) or [0]
        if len(starts) == 1:
            with bar("counting co-occurrences", self.vocab_size) as progress:
                return self._save(path, self._rows_of(0, progress))
        runs, begins = path.with_name("runs.bin"), path.with_name("begins.bin")
        shape = (len(starts), self.vocab_size + 1)
        begins_RV = np.asarray(np.memmap(begins, dtype=np.int64, mode="w+", shape=shape))
        with runs.open("wb") as file, bar("counting co-occurrences", len(starts) * self.vocab_size) as progress:
            for run, start in enumerate(starts):
                before = file.tell() // _PAIR.itemsize
                lengths_V = np.zeros(self.vocab_size, dtype=np.int64)
                for pairs in self._rows_of(start, progress):
                    lengths_V += np.bincount(pairs["row"], minlength=self.vocab_size)
                    file.write(pairs.data)
                begins_RV[run] = before + np.concatenate([[0], np.cumsum(lengths_V)])
        with bar("merging co-occurrences", self.vocab_size) as progress:
            diagonal = self._save(path, self._merged(runs, begins_RV, progress))
        runs.unlink()
        begins.unlink()
        return diagonal

    def _rows_of(self, start: int, progress: Any) -> Iterator[np.ndarray]:
        """The pairs whose rarer word stands in the stretch that begins at `start`, by row and column."""
        stop = min(start + self.stretch, len(self.tokens_N))
        counts_V = np.zeros(self.vocab_size, dtype=np.int64)
        self.kernels.count_words(self.tokens_N, start, stop, counts_V)
        begins_V = np.concatenate([[0], np.cumsum(counts_V)])
        places = np.empty(begins_V[-1], dtype=np.int32)
        self.kernels.list_places(self.tokens_N, start, stop, begins_V[:-1].copy(), places)

        def work(first: int, last: int, *space: np.ndarray) -> int:
            given = (self.tokens_N, start, places, begins_V, first, last, self.weights_W)
            return int(self.kernels.count_rows(*given, *space))

        most_V = np.minimum(counts_V * 2 * (len(self.weights_W) - 1), np.arange(1, self.vocab_size + 1))
        return self._collect(work, most_V, counts_V, progress)

    def _merged(self, path: Path, begins_RV: np.ndarray, progress: Any) -> Iterator[np.ndarray]:
        runs = np.memmap(path, dtype=_PAIR, mode="r") if path.stat().st_size else np.empty(0, _PAIR)
        given_V = np.zeros(self.vocab_size, dtype=np.int64)
        for begins_V in begins_RV:
            given_V += np.diff(begins_V)

        def work(first: int, last: int, *space: np.ndarray) -> int:
            return int(self.kernels.add_rows(np.asarray(runs), begins_RV, first, last, *space))

        return self._collect(work, np.minimum(given_V, np.arange(1, self.vocab_size + 1)), given_V, progress)

    def _collect(
        self, work: Callable[..., int], most_V: np.ndarray, cost_V: np.ndarray, progress: Any
    ) -> Iterator[np.ndarray]:
        """The pairs that `work` gives for some rows after the others, in order, by several threads.

        most_V: pairs that a row may have; cost_V: how long it takes, in any unit.
        """
        spare: deque[tuple[np.ndarray, ...]] = deque()

        def collect(first: int, last: int) -> np.ndarray:
            space = spare.pop() if spare else self._space()
            pairs = space[-1]
            size = work(first, last, *space)
            found = pairs[:size].copy()
            spare.append(space)
            return found

        edges = _cut(most_V, self.at_once, cost_V, max(int(cost_V.sum()) // (16 * self.threads), 1))
        for (first, last), pairs in _in_threads(collect, list(pairwise(edges)), self.threads):
            yield pairs
            progress.advance(last - first)

    def _space(self) -> tuple[np.ndarray, ...]:
        sums_V, seen_V = np.zeros(self.vocab_size, dtype=np.int64), np.empty(self.vocab_size, dtype=np.int32)
        return sums_V, seen_V, np.empty(self.at_once, dtype=_PAIR)

    def _save(self, path: Path, found: Iterable[np.ndarray]) -> int:
        diagonal = 0
        with path.open("wb") as file:
            for pairs in found:
                entries = np.empty(len(pairs), dtype=ENTRY)
                entries["row"], entries["column"] = pairs["row"], pairs["column"]
                entries["count"] = pairs["sum"] / self.unit
                diagonal += int(np.count_nonzero(pairs["row"] == pairs["column"]))
                file.write(entries.data)
        return diagonal


def _cut(most_V: np.ndarray, room: int, cost_V: np.ndarray, limit: int) -> list[int]:
    """Edges between ranges of rows: each has at most `room` of most_V, and not much more than `limit` of cost_V."""
    edges, filled, spent = [0], 0, 0
    for row, (most, cost) in enumerate(zip(most_V.tolist(), cost_V.tolist(), strict=True)):
        if row > edges[-1] and (filled + most > room or spent + cost > limit):
            edges.append(row)
            filled, spent = 0, 0
        filled, spent = filled + most, spent + cost
    return [*edges, len(most_V)]


def _in_threads(
    work: Callable[..., Any], items: Sequence[tuple[int, int]], threads: int
) -> Iterator[tuple[tuple[int, int], Any]]:
    """Each item and what `work` makes of it, in order; never more than a few are under way or waiting."""
    if threads == 1:
        for item in items:
            yield item, work(*item)
        return
    waiting: deque[tuple[tuple[int, int], Future[Any]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append((item, pool.submit(work, *item)))
            if len(waiting) > threads:
                done, future = waiting.popleft()
                yield done, future.result()
        while waiting:
            done, future = waiting.popleft()
            yield done, future.result()


# The order to learn in


def bounds_of(size: int, num_parts: int) -> np.ndarray:
    """Where each part begins, and the end: int64 [parts + 1]; the first parts have what is left over."""
    each, rest = divmod(size, num_parts)
    numbers = np.arange(num_parts + 1)
    return numbers * each + np.minimum(numbers, rest)


def shuffle(source: Path, target: Path, num_parts: int, threads: int) -> None:
    """Deals sorted entries out to parts, and shuffles each; no more than a few parts are in memory at a time."""
    from canon.kernels.cpu import cooccurrence as kernels

    size = source.stat().st_size // ENTRY.itemsize
    with target.open("wb") as file:
        _allocate(file, size * ENTRY.itemsize)
    if not size:
        return
    sorted_E = np.asarray(np.memmap(source, dtype=ENTRY, mode="r"))
    dealt_E = np.asarray(np.memmap(target, dtype=ENTRY, mode="r+"))
    bounds = bounds_of(size, num_parts).tolist()
    rounds = -(-size // num_parts)

    def shuffle_part(part: int, after: int) -> None:
        del after
        own = dealt_E[bounds[part] : bounds[part + 1]]
        kernels.shuffle_part(own.copy(), part, BAND, own)

    with bar("shuffling co-occurrences", 2 * size) as progress:
        edges = np.linspace(0, rounds, max(1, size // _AT_ONCE) + 1).astype(np.int64).tolist()
        turns = list(pairwise(edges))
        for (first, last), _ in _in_threads(
            lambda first, last: kernels.deal(sorted_E, first, last, num_parts, dealt_E), turns, threads
        ):
            progress.advance((last - first) * num_parts)
        for (part, _), _ in _in_threads(shuffle_part, [(part, part + 1) for part in range(num_parts)], threads):
            progress.advance(bounds[part + 1] - bounds[part])


def _allocate(file: BinaryIO, size: int) -> None:
    """Takes the room on the disk now: a full one would else kill the process when a mapped page is written."""
    if size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)
