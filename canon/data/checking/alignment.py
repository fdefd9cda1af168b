"""Whether two lists of sentences say the same line by line, judged by their lengths and by rare words that both have.

Paper: Gale and Church (1993), A program for aligning sentences in bilingual corpora: long sentences have long
translations. r_i = log(|t_i| + 1) − log(|s_i| + 1) less its median, in `_misfit`; lengths in characters.
`broken_line` is the p that makes Σ_{i<p} |r(s_i, t_i)| + Σ_{i≥p} |r(s_{i+d}, t_i)| least, d the missing lines.
Deviations: |r| in place of the paper's normal density, which a few odd lines would rule; one break instead of a search.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

FEWEST = 30  # pairs; fewer are not judged
RARE = 0.01  # a word in at most this share of the targets is rare
BLOCK = 250  # pairs that are judged together
FAR = 1.5  # the misfit of two lines is counted up to here: one odd line shall not decide


def _lengths(texts: Sequence[str]) -> np.ndarray:
    return np.log(np.fromiter(map(len, texts), dtype=np.float64, count=len(texts)) + 1)


def _misfit(source: np.ndarray, target: np.ndarray, usual: float) -> np.ndarray:
    """|r| of pairs with these log lengths; `usual` is the median of the difference."""
    return np.minimum(np.abs(target - source - usual), FAR)


def broken_line(source: Sequence[str], target: Sequence[str]) -> int:
    """The first line, from 0, from which two lists of unequal length do not correspond; the shorter's length if it
    just ends early."""
    first, second = _lengths(source), _lengths(target)
    if len(first) > len(second):
        first, second = second, first
    count, missing = len(first), len(second) - len(first)
    if not count:
        return 0
    usual = float(np.median(second)) - float(np.median(first))  # holds whatever the alignment
    marks = _marks(source, target)
    before = _misfit(first, second[:count], usual) + marks[0]
    after = _misfit(first, second[missing:], usual) + marks[1]
    cost = np.concatenate([[0.0], np.cumsum(before)]) + np.concatenate([np.cumsum(after[::-1])[::-1], [0.0]])
    return int(cost.argmin())


_NUMBER = re.compile(r"\d+")


def _marks(source: Sequence[str], target: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """1 where lines have different numbers in them: as they lie, and moved by the missing lines."""
    shorter, longer = (source, target) if len(source) <= len(target) else (target, source)
    first, second = ([frozenset(_NUMBER.findall(text)) for text in texts] for texts in (shorter, longer))
    as_is, moved = (
        np.array([one != other for one, other in zip(first, second[start:], strict=False)], dtype=np.float64)
        for start in (0, len(second) - len(first))
    )
    return as_is, moved


def score(source: Sequence[str], target: Sequence[str]) -> float:
    """About 0 if the pairs are no better than chance, towards 1 if they fit; NaN if lengths and words do not decide.

    The correlation of log lengths, or (a − b)/(a + b) if that is more: a pairs share a rare word, b would if the
    targets were moved by half the list, and a − b is over four of its standard deviations.
    """
    if len(source) < FEWEST:
        return float("nan")
    first, second = _lengths(source), _lengths(target)
    spread = float(first.std() * second.std())
    scores = [] if spread < 1e-3 else [float(np.corrcoef(first, second)[0, 1])]
    shared, chance = _shared(source, target)
    if shared - chance > 4 * np.sqrt(shared + chance):
        scores.append((shared - chance) / (shared + chance))
    return max(scores, default=float("nan"))


def _shared(source: Sequence[str], target: Sequence[str]) -> tuple[int, int]:
    """How many pairs share a rare word, and how many would if the targets were moved by half the list."""
    sources, targets = ([set(text.split()) for text in texts] for texts in (source, target))
    counts = Counter(chain.from_iterable(targets))
    most = max(RARE * len(target), 2)
    rare = [{word for word in words if counts[word] <= most} for words in targets]
    middle = len(rare) // 2
    hits, chance = (
        sum(not words.isdisjoint(others) for words, others in zip(sources, texts, strict=True))
        for texts in (rare, rare[middle:] + rare[:middle])
    )
    return hits, chance


def loose_stretch(source: Sequence[str], target: Sequence[str]) -> tuple[int, int] | None:
    """The first and last pair, from 0, of a stretch that fits no better than chance where the rest does; None for none.

    In blocks of 250 the mean |r| is compared with that of the block's own targets turned by half.
    """
    count = len(source) // BLOCK
    if count < 4:
        return None
    first, second = (_lengths(texts)[: count * BLOCK].reshape(count, BLOCK) for texts in (source, target))
    usual = float(np.median(second - first))
    fitting = _misfit(first, second, usual).mean(axis=1)
    chance = _misfit(first, np.roll(second, BLOCK // 2, axis=1), usual).mean(axis=1)
    share = fitting / np.maximum(chance, 1e-9)
    loose = np.flatnonzero(share > 0.85)
    if not len(loose) or np.median(share) > 0.7:
        return None
    start = int(loose[0])
    stop = start
    while stop + 1 in loose:
        stop += 1
    return start * BLOCK, (stop + 1) * BLOCK - 1
