"""How often any two words are near each other in a corpus: counted exactly, in bounded memory, kept on disk.

Pennington, Socher and Manning 2014, GloVe, section 4.2: X_ij = Σ 1/d over all places where word j is d ≤ window words
away from word i, on either side, within a sentence (a line of the text, where words that are not kept are left out).
The text is taken in stretches that fit `memory`: the places of every word are listed, the words around them added up
row by row (`Counter`), and where there are several stretches, their sorted rows go to disk and are added up again. What
takes long is in kernels/cpu/cooccurrence.py. X is symmetric, so a pair is kept once, with the rarer word, the greater
number, as its row.
Sums are whole numbers of 1/lcm(1 … window): exact, whatever the order, the memory and the threads. (Beyond a window of
22 words that unit grows too small; weights are then rounded to 1e-7 of their size.)
Kept are (row, column, count) in `num_parts` parts: every part is an even sample of all pairs, in random order but for
bands of rows that stay together (`shuffle`), so that reading them in this order finds most rows in a processor's cache.
Shapes: N places of the text, V words, R runs (stretches on disk), E pairs, W the window.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from canon.data.corpus import store
from canon.data.corpus.threads import in_order
from canon.data.progress import bar
from canon.storage import read_json, sync_file, write_text

ENTRY = np.dtype([("row", "<i4"), ("column", "<i4"), ("count", "<f4")])
BAND = 256  # rows that stay together: half a MB of GloVe's vectors of 100 dimensions
_PAIR = np.dtype([("row", "<i4"), ("column", "<i4"), ("sum", "<i8")])  # before sums are divided by their unit
_LARGEST_WINDOW = 22  # lcm(1 … 22) is 2.3e8; a sum of 4e10 of them still fits 64 bits
_AT_ONCE = 1 << 20  # pairs that a thread collects, at most
_PART = 1 << 18  # entries of a part, about
_LEAST_PARTS = 64  # so that few entries too come in several orders
_VERSION = 1
_NEEDS = (
    f"co-occurrences take {2 * ENTRY.itemsize} bytes a pair of words while they are made, fewer with a larger "
    "data.min_count"
)


@dataclass(frozen=True)
class Cooccurrence:
    """The pairs of a text in the order to learn them in."""

    entries: np.ndarray  # [E] of ENTRY: column ≤ row, each pair once
    num_diagonal: int  # pairs of a word with itself
    num_parts: int

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def bounds(self) -> np.ndarray:
        """Where each part begins, and the end: int64 [parts + 1]."""
        return bounds_of(len(self.entries), self.num_parts)


def kept(tokens_N: np.ndarray, vocab_size: int, window: int, memory: int, threads: int = 1) -> Cooccurrence:
    """`count`, or what it gave when it was last asked for this text; beside the corpora (canon.data.corpus.corpus)."""
    text = hashlib.sha256(np.ascontiguousarray(tokens_N).data).hexdigest()
    key = store.key_of({"version": _VERSION, "words": vocab_size, "window": window, "text": text})
    return store.kept(
        f"pairs-{key}", _open, lambda folder: _write(folder, tokens_N, vocab_size, window, memory, threads), _NEEDS
    )


def count(
    tokens_N: np.ndarray, vocab_size: int, window: int, memory: int = 1024, threads: int = 1, place: Path | None = None
) -> Cooccurrence:
    """The co-occurrences of a text, in a temporary folder (below `place`) that is removed with them.

    memory: MB that the counting takes, about; vocab_size: words are below it.
    """
    try:
        with ExitStack() as stack:
            folder = tempfile.TemporaryDirectory(prefix="canon-pairs-", dir=place, ignore_cleanup_errors=True)
            stack.callback(folder.cleanup)
            _write(Path(folder.name), tokens_N, vocab_size, window, memory, threads)
            pairs = _open(Path(folder.name))
            assert pairs is not None
            weakref.finalize(pairs, stack.pop_all().close)
            return pairs
    except OSError as mistake:
        raise store.cannot_write(place or Path(tempfile.gettempdir()), mistake, _NEEDS) from None


def _open(folder: Path) -> Cooccurrence | None:
    """What `_write` has left in a folder; None if it is not there or not whole."""
    try:
        record = read_json(folder / "pairs.json")
        path = folder / "entries.bin"
        if path.stat().st_size != record["pairs"] * ENTRY.itemsize:
            return None
        entries_E = np.memmap(path, dtype=ENTRY, mode="r") if record["pairs"] else np.empty(0, ENTRY)
        if not 0 <= record["diagonal"] <= record["pairs"] or not record["parts"] > 0:
            return None
        return Cooccurrence(entries_E, int(record["diagonal"]), int(record["parts"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(folder: Path, tokens_N: np.ndarray, vocab_size: int, window: int, memory: int, threads: int) -> None:
    """entries.bin and pairs.json: counted, then dealt out to the parts."""
    view_N = np.asarray(tokens_N).view()
    view_N.flags.writeable = False
    counter = Counter(view_N, vocab_size, window, memory << 20, threads)
    diagonal = counter.write(folder / "sorted.bin")
    size = (folder / "sorted.bin").stat().st_size // ENTRY.itemsize
    num_parts = max(_LEAST_PARTS, -(-size // _PART))
    shuffle(folder / "sorted.bin", folder / "entries.bin", num_parts, threads)
    (folder / "sorted.bin").unlink()
    sync_file(folder / "entries.bin")  # before the folder has its name
    write_text(folder / "pairs.json", json.dumps({"pairs": size, "diagonal": diagonal, "parts": num_parts}))


# Counting


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
        """The pairs whose rarer word is in the stretch that begins at `start`, by row and column."""
        stop = min(start + self.stretch, len(self.tokens_N))
        counts_V = np.zeros(self.vocab_size, dtype=np.int64)
        self.kernels.count_words(self.tokens_N, start, stop, counts_V)
        begins_V = np.concatenate([[0], np.cumsum(counts_V)])
        places = np.empty(begins_V[-1], dtype=np.int32)
        self.kernels.list_places(self.tokens_N, start, stop, begins_V[:-1].copy(), places)

        def work(first: int, last: int, *space: np.ndarray) -> int:
            text = (self.tokens_N, start, places, begins_V)
            return int(self.kernels.count_rows(*text, first, last, self.weights_W, *space))

        most_V = np.minimum(counts_V * 2 * (len(self.weights_W) - 1), np.arange(1, self.vocab_size + 1))
        return self._collect(work, most_V, counts_V, progress)

    def _merged(self, path: Path, begins_RV: np.ndarray, progress: Any) -> Iterator[np.ndarray]:
        runs = np.memmap(path, dtype=_PAIR, mode="r") if path.stat().st_size else np.empty(0, _PAIR)
        sizes_V = sum((np.diff(begins_V) for begins_V in begins_RV), np.zeros(self.vocab_size, dtype=np.int64))

        def work(first: int, last: int, *space: np.ndarray) -> int:
            return int(self.kernels.add_rows(np.asarray(runs), begins_RV, first, last, *space))

        return self._collect(work, np.minimum(sizes_V, np.arange(1, self.vocab_size + 1)), sizes_V, progress)

    def _collect(
        self, work: Callable[..., int], most_V: np.ndarray, cost_V: np.ndarray, progress: Any
    ) -> Iterator[np.ndarray]:
        """The pairs that `work` gives for some rows after the others, in order, by several threads.

        most_V: pairs that a row may have; cost_V: how long it takes, in any unit.
        """
        spare: deque[tuple[np.ndarray, ...]] = deque()

        def new_space() -> tuple[np.ndarray, ...]:
            sums_V, seen_V = np.zeros(self.vocab_size, dtype=np.int64), np.empty(self.vocab_size, dtype=np.int32)
            return sums_V, seen_V, np.empty(self.at_once, dtype=_PAIR)

        def collect(rows: tuple[int, int]) -> np.ndarray:
            space = spare.pop() if spare else new_space()
            pairs = space[-1][: work(*rows, *space)].copy()
            spare.append(space)
            return pairs

        edges = _cut(most_V, self.at_once, cost_V, max(int(cost_V.sum()) // (16 * self.threads), 1))
        for (first, last), pairs in in_order(collect, pairwise(edges), self.threads):
            yield pairs
            progress.advance(last - first)

    def _save(self, path: Path, rows: Iterable[np.ndarray]) -> int:
        diagonal = 0
        with path.open("wb") as file:
            for pairs in rows:
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

    def deal(turns: tuple[int, int]) -> None:
        kernels.deal(sorted_E, *turns, num_parts, dealt_E)

    def shuffle_part(part: int) -> None:
        entries = dealt_E[bounds[part] : bounds[part + 1]]
        kernels.shuffle_part(entries.copy(), part, BAND, entries)

    with bar("shuffling co-occurrences", 2 * size) as progress:
        edges = np.linspace(0, rounds, max(1, size // _AT_ONCE) + 1).astype(np.int64).tolist()
        for (first, last), _ in in_order(deal, pairwise(edges), threads):
            progress.advance((last - first) * num_parts)
        for part, _ in in_order(shuffle_part, range(num_parts), threads):
            progress.advance(bounds[part + 1] - bounds[part])


def _allocate(file: BinaryIO, size: int) -> None:
    """Takes the room on the disk now: a full disk would kill the process when a mapped page is written."""
    if size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)
