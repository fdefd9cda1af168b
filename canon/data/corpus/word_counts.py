"""The words of a text and how often each comes, counted block by block on all cores in bounded memory.

Blocks are counted by themselves and added up in their order, so the outcome does not depend on the number of threads.
Where there are over MOST_WORDS different words, the rarest are forgotten, with a threshold that rises each time, as
word2vec does; else counts are exact.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.threads import in_order
from canon.data.progress import bar
from canon.data.settings import Vocabulary
from canon.data.text import segment
from canon.data.text.cutting import choose_cutting
from canon.data.text.vocabularies import HAN
from canon.errors import CanonError

TOKENIZERS = ("split", "word", "jieba")
# Planes 4 to 13 have no characters, 15 and 16 private ones: to look at all takes 0.3 s.
_ASSIGNED = (range(0x40000), range(0xE0000, 0xE1000))
MOST_WORDS = 7_500_000  # different ones that are counted at a time: about a gigabyte
MOST_BYTES = 1 << 29  # of them end to end
LEAST = ((10, 100_000_000), (5, 100_000), (2, 20_000), (1, 0))  # times that a word must come, by the words of the text
SAMPLE = 1 << 16  # bytes by which it is seen what a text is written in
SEGMENTED = "segmented.txt"  # the file with what jieba made of the last text

Result = TypeVar("Result")


@dataclass
class TextCounts:
    """What is known of a text once it was counted."""

    words: int = 0
    different: int = 0  # at a time, where some are forgotten
    sentences: int = 0  # lines with words
    longest: int = 0  # words of the longest line
    left: int = 0  # words that are too long for one
    forgotten: int = 0  # words seen fewer times may have been forgotten on the way; 0: none


def cut_as(config: Any, text: TextStream, defaults: Sequence[str] = ()) -> tuple[Any, str]:
    """Settings with the tokenizer that is asked for, else the default of a named set, else one that suits the text,
    which is then in lower case; and a note on what was chosen."""
    kind, note = config.tokenizer or next((name for name in defaults if name in TOKENIZERS), ""), ""
    if not kind:
        first = next(text.blocks(SAMPLE, spaced=False), np.empty(0, dtype=np.uint8))
        kind, _, note = choose_cutting(first.tobytes().decode("utf-8", "replace"))
    if kind not in TOKENIZERS:
        raise CanonError(f'data.tokenizer must be split, word or jieba for word vectors, got "{kind}".')
    lowercase = bool(note) if config.lowercase is None else config.lowercase
    return replace(config, tokenizer=kind, lowercase=lowercase), note


def least_count(wanted: int, words: int) -> int:
    """How often a word must come to be kept, where nobody says: so often that its vector is not of chance alone."""
    return wanted or next(least for least, size in LEAST if words >= size)


class _NotText(Exception):
    """A block has a byte that is not text."""


class WordReader:
    """How bytes become words: the tokenizer (chosen by `cut_as`), lower case, and threads to do it with."""

    def __init__(self, config: Vocabulary, threads: int) -> None:
        from canon.kernels.cpu import corpus as kernels_corpus

        self.kind = config.tokenizer or "split"
        self.lowercase = bool(config.lowercase)
        self.threads = threads
        self.kernels = kernels_corpus
        self.classes = code_point_classes() if self.kind == "word" else np.empty(0, dtype=np.uint8)

    def identity(self) -> dict[str, Any]:
        """All of it that the words depend on."""
        settings = {"tokenizer": self.kind, "lowercase": self.lowercase, "longest": self.kernels.LONGEST_WORD}
        return settings if self.kind != "jieba" else {**settings, "jieba": segment.load_jieba().__version__}

    def segment(self, text: TextStream, folder: Path) -> TextStream:
        """The text with spaces between its words: itself, or what jieba makes of it, in a file."""
        if self.kind != "jieba":
            return text

        def good() -> Iterator[np.ndarray]:
            for block in text.blocks(segment.BLOCK, spaced=False):
                if self.kernels.first_bad(block) >= 0:
                    raise _refusal(text)
                yield block

        with (folder / SEGMENTED).open("wb") as file:
            file.writelines(segment.segment(good(), self.threads))
        return TextStream((folder / SEGMENTED,), name=text.name)

    def map(self, work: Callable[[np.ndarray], Result], text: TextStream, doing: str) -> Iterator[Result]:
        """work(block) of every block, in order; a few blocks more than threads are in memory."""
        try:
            with bar(doing, text.size, "bytes") as progress:
                for block, result in in_order(work, text.blocks(spaced=self.kind != "word"), self.threads):
                    progress.advance(len(block))
                    yield result
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


def _refusal(text: TextStream) -> CanonError:
    text.explain()
    return CanonError(f"{text.name} has bytes that are not text, or changed while it was read; start again.")


@lru_cache(maxsize=1)
def code_point_classes() -> np.ndarray:
    """The class of every code point, by which the kernels split words, uint8 [0x110000]."""
    from canon.kernels.cpu import corpus as kernels

    classes = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    for code in chain(*_ASSIGNED):
        character = chr(code)
        kind = unicodedata.category(character)[0]
        if kind == "N":
            classes[code] = kernels.DIGIT
        elif kind in "LM":
            classes[code] = kernels.LETTER
        elif character.isspace() and not "\x1c" <= character <= "\x1f":  # separators of data are not white space
            classes[code] = kernels.SPACE
    classes[ord("_")] = kernels.LETTER
    ends = HAN.replace("-", "")
    for first, last in zip(ends[::2], ends[1::2], strict=True):
        classes[ord(first) : ord(last) + 1] = kernels.SINGLE
    return classes


# Counting


class Counts:
    """A growing table of words and their counts (kernels/cpu/corpus.py has its layout)."""

    def __init__(self, kernels: ModuleType) -> None:
        self._kernels = kernels
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
        while self.size > MOST_WORDS or self.used > MOST_BYTES:
            self.least += 1
            self.size, self.used = self._kernels.prune(self.least, self.slots, self.entries, self.store, self.size)

    def _make_room(self, entries: int, size: int) -> None:
        if self.size + entries > len(self.entries):
            more = np.empty((max(2 * len(self.entries) - self.size, entries), 4), dtype=np.uint64)
            self.entries = np.concatenate([self.entries[: self.size], more])
        if 2 * len(self.entries) > len(self.slots):
            power_of_two = 1 << (2 * len(self.entries) - 1).bit_length()
            self.slots = np.empty((power_of_two, 2), dtype=np.uint64)
            self._kernels.index_entries(self.entries, self.size, self.slots)
        if self.used + size > len(self.store):
            room = np.empty(max(2 * len(self.store) - self.used, size), dtype=np.uint8)
            self.store = np.concatenate([self.store[: self.used], room])

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


def count(text: TextStream, reader: WordReader) -> tuple[Counts, TextCounts]:
    counts, seen, line = Counts(reader.kernels), TextCounts(), 0

    def work(block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ready = reader.ready(block)
        return ready, *reader.kernels.count_block(ready, reader.classes)

    for ready, entries, tally in reader.map(work, text, "counting words"):
        counts.add(ready, entries)
        words, left, ends, head, tail, lines, most = tally.tolist()
        seen.words += words
        seen.left += left
        if not ends:
            line += tail
            continue
        seen.sentences += lines + (line + head > 0)
        seen.longest = max(seen.longest, most, line + head)
        line = tail
    seen.sentences += line > 0
    seen.longest = max(seen.longest, line)
    seen.different, seen.forgotten = counts.peak, counts.least if counts.least > 1 else 0
    return counts, seen
