"""The words of a text and how often each comes, counted block by block on all cores in bounded memory.

Blocks are counted by themselves and added up in their order, so the outcome does not depend on the number of threads.
Where there are over MOST_WORDS different words, the rarest are forgotten, with a threshold that rises each time, as
word2vec does; else counts are exact.
"""

from __future__ import annotations

import os
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from canon.data.corpus.text_blocks import Texts
from canon.data.progress import Bar, bar
from canon.data.settings import Vocabulary
from canon.data.text import segment
from canon.errors import CanonError

TOKENIZERS = ("split", "word", "jieba")
MOST_WORDS = 7_500_000  # different ones that are counted at a time: about a gigabyte
MOST_BYTES = 1 << 29  # of them end to end

Result = TypeVar("Result")


@dataclass
class Told:
    """What is known of a text once it was counted."""

    words: int = 0
    different: int = 0  # at a time, where some are forgotten
    sentences: int = 0  # lines with words
    longest: int = 0  # words of the longest line
    left: int = 0  # words that are too long for one
    forgotten: int = 0  # words seen fewer times may have been forgotten on the way; 0: none


def num_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tokenizer_of(wanted: str, own: Sequence[str] = ()) -> str:
    """split, unless another is asked for or is the named set's own."""
    kind = wanted or next((name for name in own if name in TOKENIZERS), "split")
    if kind not in TOKENIZERS:
        raise CanonError(f'data.tokenizer must be split, word or jieba for word vectors, got "{kind}".')
    return kind


class _NotText(Exception):
    """A block has a byte that is no text."""


class Reader:
    """How bytes become words: the tokenizer, lower case, and threads to do it with."""

    def __init__(self, config: Vocabulary, threads: int) -> None:
        from canon.data.corpus.code_points import code_point_classes
        from canon.kernels.cpu import corpus as kernels_corpus

        self.kind = tokenizer_of(config.tokenizer)
        self.lowercase = config.lowercase
        self.threads = threads
        self.kernels = kernels_corpus
        words = self.kind == "word"
        self.classes = code_point_classes() if words else np.empty(0, dtype=np.uint8)

    def identity(self) -> dict[str, Any]:
        """All of it that the words depend on."""
        told = {"tokenizer": self.kind, "lowercase": self.lowercase, "longest": self.kernels.LONGEST_WORD}
        return told if self.kind != "jieba" else {**told, "jieba": segment.load_jieba().__version__}

    def segment(self, text: Texts, folder: Path) -> Texts:
        """The text with spaces between its words: itself, or what jieba makes of it, in a file."""
        if self.kind != "jieba":
            return text
        path = folder / "segmented.txt"
        with path.open("wb") as file:
            for block in segment.segment(self._good(text, segment.BLOCK), self.threads):
                file.write(block)
        return Texts((path,), name=text.name)

    def _good(self, text: Texts, size: int) -> Iterator[np.ndarray]:
        for block in text.blocks(size, spaced=False):
            if self.kernels.first_bad(block) >= 0:
                raise _refusal(text)
            yield block

    def map(self, work: Callable[[np.ndarray], Result], text: Texts, doing: str) -> Iterator[Result]:
        """work(block) of every block, in order; a few blocks more than threads are in memory."""
        pending: deque[tuple[int, Future[Result]]] = deque()
        try:
            with bar(doing, text.size, "bytes") as shown, ThreadPoolExecutor(self.threads) as pool:
                for block in text.blocks(spaced=self.kind != "word"):
                    pending.append((len(block), pool.submit(work, block)))
                    if len(pending) > self.threads + 1:
                        yield _next(pending, shown)
                while pending:
                    yield _next(pending, shown)
        except _NotText:
            raise _refusal(text) from None

    def ready(self, block: np.ndarray) -> np.ndarray:
        """The block in the letters that are counted."""
        if self.kernels.first_bad(block) >= 0:
            raise _NotText
        if (self.lowercase or self.kind == "word") and not (raw := block.tobytes()).isascii():
            text = raw.decode()
            text = unicodedata.normalize("NFC", text) if self.kind == "word" else text
            return np.frombuffer(bytearray((text.lower() if self.lowercase else text).encode()), dtype=np.uint8)
        if self.lowercase:
            self.kernels.lower_ascii(block)
        return block


def _next(pending: deque[tuple[int, Future[Result]]], shown: Bar) -> Result:
    size, future = pending.popleft()
    result = future.result()
    shown.advance(size)
    return result


def _refusal(text: Texts) -> CanonError:
    text.explain()
    return CanonError(f"{text.name} has bytes that are no text, or changed while it was read.")


# Counting


class Counts:
    """A growing table of words and their counts (kernels/cpu/corpus.py tells its layout)."""

    def __init__(self, kernels: ModuleType, most_words: int = 0, most_bytes: int = 0) -> None:
        self._kernels = kernels
        self._most_words, self._most_bytes = most_words or MOST_WORDS, most_bytes or MOST_BYTES
        self.entries = np.empty((1 << 12, 4), dtype=np.uint64)
        self.slots = np.zeros((1 << 13, 2), dtype=np.uint64)
        self.store = np.empty(1 << 16, dtype=np.uint8)
        self.size = self.used = 0
        self.peak = 0  # the most entries there were at a time
        self.least = 1  # words that were seen fewer times when there were too many are forgotten

    def add(self, text: np.ndarray, block: np.ndarray) -> None:
        self._make_room(len(block), int((block[:, self._kernels.PLACE] & np.uint64(1023)).sum()))
        self.size, self.used = self._kernels.merge(
            text, block, self.slots, self.entries, self.store, self.size, self.used
        )
        self.peak = max(self.peak, self.size)
        while self.size > self._most_words or self.used > self._most_bytes:
            self.least += 1
            self.size, self.used = self._kernels.prune(self.least, self.slots, self.entries, self.store, self.size)

    def _make_room(self, entries: int, size: int) -> None:
        if self.size + entries > len(self.entries):
            larger = np.empty((max(2 * len(self.entries), self.size + entries), 4), dtype=np.uint64)
            larger[: self.size] = self.entries[: self.size]
            self.entries = larger
        if 2 * len(self.entries) > len(self.slots):
            self.slots = np.empty((_power_of_two(2 * len(self.entries)), 2), dtype=np.uint64)
            self._kernels.index_entries(self.entries, self.size, self.slots)
        if self.used + size > len(self.store):
            store = np.empty(max(2 * len(self.store), self.used + size), dtype=np.uint8)
            store[: self.used] = self.store[: self.used]
            self.store = store

    @property
    def counts(self) -> np.ndarray:
        return self.entries[: self.size, self._kernels.COUNT].astype(np.int64)

    def words(self, rows: np.ndarray) -> list[str]:
        places = self.entries[rows, self._kernels.PLACE]
        starts, lengths = (places >> np.uint64(10)).tolist(), (places & np.uint64(1023)).tolist()
        store = self.store[: self.used].tobytes()
        return [store[start : start + length].decode() for start, length in zip(starts, lengths, strict=True)]

    def find(self, words: Sequence[str]) -> np.ndarray:
        """How often each of some words was counted, int64."""
        lines = np.frombuffer(bytearray("\n".join(words).encode()), dtype=np.uint8)
        none = np.empty(0, dtype=np.uint8)
        rows, _ = self._kernels.encode_block(lines, none, self.slots, self.entries, self.store, True)
        rows = rows[rows != self._kernels.MARK]
        return np.where(rows >= 0, self.counts[np.maximum(rows, 0)], 0) if self.size else np.zeros(len(rows), np.int64)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def count(text: Texts, reader: Reader) -> tuple[Counts, Told]:
    counts, told, line = Counts(reader.kernels), Told(), 0

    def work(block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ready = reader.ready(block)
        return ready, *reader.kernels.count_block(ready, reader.classes)

    for ready, entries, tally in reader.map(work, text, "counting words"):
        counts.add(ready, entries)
        words, left, ends, head, tail, lines, most = tally.tolist()
        told.words += words
        told.left += left
        if not ends:
            line += tail
            continue
        told.sentences += lines + (line + head > 0)
        told.longest = max(told.longest, most, line + head)
        line = tail
    told.sentences += line > 0
    told.longest = max(told.longest, line)
    told.different, told.forgotten = counts.peak, counts.least if counts.least > 1 else 0
    return counts, told
