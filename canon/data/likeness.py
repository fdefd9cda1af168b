"""How alike two texts of a row are, as a few numbers: what a network of plain features cannot work out from its words.

| number | formula, words and triples of characters counted once a text |
| --- | --- |
| cosine | Σ_{w in both} idf² / (‖a‖ ‖b‖), each word's entry its idf = ln((1 + n) / (1 + n_w)) + 1 |
| shared | words in both / words in either |
| first, second | words in both / words of the first, of the second |
| characters | 2 · triples in both / (triples of the first + of the second) |
| lengths | ln((1 + words of the first) / (1 + words of the second)) |
n texts of training rows, n_w those with the word. Words that are not kept count as the rarest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

MOST_WEIGHTED = 10_000  # words whose idf is kept
WIDTH = 6


def weights_of(texts: Iterable[str], words: Callable[[str], Sequence[str]]) -> tuple[dict[str, float], float]:
    """The idf of the frequent words, and that of the rarest."""
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        counts.update(set(words(text)))
        total += 1
    kept = sorted(((-count, word) for word, count in counts.items() if count > 1))[:MOST_WEIGHTED]
    return {word: round(math.log((1 + total) / (1 - count)) + 1, 4) for count, word in kept}, _rarest(total)


def _rarest(total: int) -> float:
    return round(math.log((1 + total) / 2) + 1, 4)


def likeness(
    pairs: Iterable[tuple[str, str]],
    idf: Mapping[str, float],
    rarest: float,
    words: Callable[[str], Sequence[str]],
) -> np.ndarray:
    """The numbers of each pair, [N, 6]."""

    def square(some: Iterable[str]) -> float:
        return sum(idf.get(word, rarest) ** 2 for word in some)

    rows = []
    for first, second in pairs:
        one, two = set(words(first)), set(words(second))
        both = one & two
        threes, others = _threes(first), _threes(second)
        norm = math.sqrt(square(one) * square(two))
        rows.append(
            (
                square(both) / norm if norm else 0.0,
                len(both) / max(len(one | two), 1),
                len(both) / max(len(one), 1),
                len(both) / max(len(two), 1),
                2 * len(threes & others) / max(len(threes) + len(others), 1),
                math.log((1 + len(one)) / (1 + len(two))),
            )
        )
    return np.array(rows, dtype=np.float64).reshape(-1, WIDTH)


def _threes(text: str) -> set[str]:
    padded = f" {' '.join(text.lower().split())} "
    return {padded[place : place + 3] for place in range(len(padded) - 2)}
