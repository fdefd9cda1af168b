"""The counts that `check` reports: 64-bit digests for duplicates, quantiles from counts, words and vocabularies.

A word is what spaces separate; a Chinese character (Japanese kana too) is a word by itself. Digests are Python's own
hashes (of 64 bits, keyed in each process): among ten million lines the chance of one false duplicate is 3 in a million.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
ANY_HAN = re.compile(f"[{HAN}]")
WORD = re.compile(f"[{HAN}]|[^\\s{HAN}]+")
LARGEST_VOCABULARY = 2_000_000
QUANTILES = {"min": 0.0, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95, "max": 1.0}


def words(text: str) -> list[str]:
    return WORD.findall(text) if not text.isascii() and ANY_HAN.search(text) else text.split()


def digests(contents: Iterable[str | bytes]) -> np.ndarray:
    """uint64 [N]; eight bytes a text or a file, however long."""
    return np.fromiter(map(hash, contents), dtype=np.int64).view(np.uint64)


def array_digests(rows: np.ndarray) -> np.ndarray:
    """uint64 [N] of the rows of an array."""
    return digests(row.tobytes() for row in np.ascontiguousarray(rows).reshape(len(rows), -1))


def number_digests(values: np.ndarray) -> np.ndarray:
    """uint64 [N] of a column of numbers: their bits; all NaN alike."""
    return np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)


def mixed(rows: np.ndarray, more: np.ndarray) -> np.ndarray:
    """uint64 [N] of rows with one more column, whose cells' digests are `more` (mixed as splitmix64 does)."""
    both = rows + more + np.uint64(0x9E3779B97F4A7C15)
    both = (both ^ (both >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (both ^ (both >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


def distinct(values: np.ndarray) -> int:
    """How many different ones there are (by sorting: np.unique's table of hashes is slow on hashes)."""
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(ordered) > 0)


def duplicates(values: np.ndarray) -> int:
    """How many have an equal one before them."""
    return len(values) - distinct(values)


def overlap(first: np.ndarray, second: np.ndarray) -> int:
    """How many of `second` are in `first`."""
    return int(np.isin(second, first).sum())


def quantiles(counts: Mapping[int, int]) -> dict[str, int]:
    """Nearest-rank quantiles of lengths that are given as {length: how many}."""
    lengths = np.array(sorted(counts), dtype=np.int64)
    reached = np.cumsum([counts[int(length)] for length in lengths])
    ranks = {name: max(1, int(np.ceil(share * reached[-1]))) for name, share in QUANTILES.items()}
    return {name: int(lengths[np.searchsorted(reached, rank)]) for name, rank in ranks.items()}


class TextStatistics:
    """Lengths, duplicates and words of a stream of texts, in memory that the vocabulary bounds."""

    def __init__(self) -> None:
        self.count = 0
        self.characters: Counter[int] = Counter()
        self.word_lengths: Counter[int] = Counter()
        self.vocabulary: set[str] = set()
        self._digests = array("q")

    @property
    def digests(self) -> np.ndarray:
        return np.array(self._digests, dtype=np.int64).view(np.uint64)

    def add(self, text: str) -> None:
        own_words = words(text)
        self.count += 1
        self.characters[len(text)] += 1
        self.word_lengths[len(own_words)] += 1
        self._digests.append(hash(text))
        if len(self.vocabulary) < LARGEST_VOCABULARY:
            self.vocabulary.update(own_words)


def unknown_rate(texts: Iterable[Sequence[str]], vocabulary: set[str]) -> float:
    """The share of words that are not in the vocabulary."""
    total = unseen = 0
    for text in texts:
        total += len(text)
        unseen += sum(word not in vocabulary for word in text)
    return unseen / total if total else 0.0
