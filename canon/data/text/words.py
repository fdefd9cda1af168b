"""The words of a corpus by falling frequency, and how often each was seen: the vocabulary of word vectors.

Stored in a run as vocab/words.tsv: a line with the total, then one `word TAB count` a line. Ties go by the alphabet, so
that the same text gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Words:
    words: list[str]
    counts: np.ndarray  # [V] int64, falling
    total: int  # words of the whole corpus, rare ones that are left out among them

    def __post_init__(self) -> None:
        assert len(self.words) == len(self.counts)

    @classmethod
    def of(cls, counted: Iterable[tuple[str, int]], total: int) -> Words:
        """In order, whatever the order of `counted`."""
        pairs = sorted(counted, key=lambda pair: (-pair[1], pair[0]))
        return cls([word for word, _ in pairs], np.array([count for _, count in pairs], dtype=np.int64), total)

    @property
    def size(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def to_text(self) -> str:
        lines = [f"{word}\t{count}" for word, count in zip(self.words, self.counts.tolist(), strict=True)]
        return "\n".join([str(self.total), *lines]) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Words:
        total, *lines = text.removesuffix("\n").split("\n")
        pairs = [line.rsplit("\t", 1) for line in lines]
        counts = np.array([int(count) for _, count in pairs], dtype=np.int64)
        return cls([word for word, _ in pairs], counts, int(total))
