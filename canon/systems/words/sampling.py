"""What word2vec draws from: noise words by an alias table, the share of a word that is kept, and the Huffman tree.

Mikolov, Sutskever, Chen, Corrado and Dean 2013, Distributed representations of words and phrases: noise ∝ count^¾
(section 2.2) in `noise_shares`, drawn in constant time by Walker's alias method (1977; built as Vose 1991) in
`alias_table`; subsampling (section 2.3) in `keep_shares`; a binary Huffman tree (section 2.1) in `huffman`.
Deviations: the share kept is min(1, √(t/f) + t/f) as their program has it, where the paper has √(t/f).
Shapes: V words, by falling count; L the sum of all codes' lengths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_ONE = 1 << 32  # probabilities are whole numbers of 2^-32, compared with 32 random bits


def noise_shares(counts_V: np.ndarray, power: float = 0.75) -> np.ndarray:
    """count^power, divided by their sum."""
    weights_V = counts_V.astype(np.float64) ** power
    return weights_V / weights_V.sum()


class Alias(NamedTuple):
    """Draw a row evenly; keep it where 32 random bits are below `threshold`, else take `other`."""

    threshold_V: np.ndarray  # noqa: N815 (uint32)
    other_V: np.ndarray  # noqa: N815 (int32)


def alias_table(shares_V: np.ndarray) -> Alias:
    size = len(shares_V)
    scaled = (shares_V * size).tolist()
    other = list(range(size))
    small = [row for row, share in enumerate(scaled) if share < 1]
    large = [row for row, share in enumerate(scaled) if share >= 1]
    while small and large:  # a row below 1 is filled up by one above it
        poor, rich = small.pop(), large[-1]
        other[poor] = rich
        scaled[rich] -= 1 - scaled[poor]
        if scaled[rich] < 1:
            small.append(large.pop())
    for row in (*small, *large):  # 1 but for rounding; its other is itself
        scaled[row] = 1.0
        other[row] = row
    pairs_V2 = np.empty((size, 2), dtype=np.uint32)  # side by side: a draw reads one cache line
    pairs_V2[:, 0] = np.minimum(np.round(np.array(scaled) * _ONE), _ONE - 1)
    pairs_V2[:, 1] = other
    return Alias(pairs_V2[:, 0], pairs_V2[:, 1].view(np.int32))


def keep_shares(counts_V: np.ndarray, threshold: float) -> np.ndarray:
    """min(1, √(t/f) + t/f) with f the word's share of all words; 1 for t = 0, which means that none is left out."""
    if threshold <= 0:
        return np.ones(len(counts_V))
    ratio_V = threshold * counts_V.sum() / np.maximum(counts_V, 1)
    return np.minimum(1.0, np.sqrt(ratio_V) + ratio_V)


def keep_limits(counts_V: np.ndarray, threshold: float) -> np.ndarray:
    """`keep_shares` in whole 2^-32: a place is kept where 32 random bits are below it. int64 [V]."""
    return np.round(keep_shares(counts_V, threshold) * _ONE).astype(np.int64)


class Tree(NamedTuple):
    """The way from the root to each word: inner nodes and the turns taken there, word after word."""

    starts_V: np.ndarray  # noqa: N815 (int64 [V + 1]: where the way of word v begins)
    nodes_L: np.ndarray  # noqa: N815 (int32: rows of the outputs, 0 … V − 2, the root being the last)
    turns_L: np.ndarray  # noqa: N815 (int8: 0 or 1, the word's code)

    @property
    def lengths_V(self) -> np.ndarray:  # noqa: N802
        return np.diff(self.starts_V)


def huffman(counts_V: np.ndarray) -> Tree:
    """Joins the two rarest until one is left; of equals the word goes before the joined.

    Words are sorted, and joined nodes come in rising order by themselves: two queues take the place of a heap."""
    size = len(counts_V)
    rising_V = size - 1 - np.argsort(counts_V[::-1], kind="stable")  # leaf i is word rising_V[i]
    weights = [*counts_V[rising_V].tolist(), *[0] * (size - 1)]
    parent, turn = [0] * len(weights), [0] * len(weights)
    leaf, inner = 0, size
    for node in range(size, 2 * size - 1):
        for side in (0, 1):
            if leaf < size and (inner == node or weights[leaf] <= weights[inner]):
                least, leaf = leaf, leaf + 1
            else:
                least, inner = inner, inner + 1
            parent[least], turn[least] = node, side
            weights[node] += weights[least]
    # From the root down: a node's depth is one more than its parent's.
    depth = [0] * len(weights)
    for node in range(2 * size - 3, -1, -1):
        depth[node] = depth[parent[node]] + 1
    lengths_V, at_V = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    lengths_V[rising_V] = depth[:size]
    at_V[rising_V] = np.arange(size)
    starts_V = np.concatenate([[0], np.cumsum(lengths_V)])
    nodes_L, turns_L = np.zeros(starts_V[-1], dtype=np.int32), np.zeros(starts_V[-1], dtype=np.int8)
    # All words climb one step at a time; the ways are written from their ends.
    parents, turns = np.array(parent), np.array(turn)
    for back in range(1, int(lengths_V.max(initial=0)) + 1):
        climbing = lengths_V >= back
        place = starts_V[1:][climbing] - back
        nodes_L[place] = parents[at_V[climbing]] - size
        turns_L[place] = turns[at_V[climbing]]
        at_V[climbing] = parents[at_V[climbing]]
    return Tree(starts_V, nodes_L, turns_L)
