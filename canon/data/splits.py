"""The seeded split: which examples are held out depends on their order, their classes and `data.seed`, on nothing else.

Every class gets its share: example r (in random order) of the n in its class has the key (r + 1/2) / n, and the
examples with the smallest keys are held out. Exactly round(share x N) examples, and of each class its share to
within one.
"""

from __future__ import annotations

import numpy as np


def held_count(num_examples: int, share: float) -> int:
    """How many a share holds out: at least one, and at least one is kept."""
    return min(max(round(num_examples * share), 1), num_examples - 1) if share > 0 and num_examples > 1 else 0


def hold_out(
    num_examples: int, share: float, seed: int, name: str, classes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (kept, held out), each ascending. `name` ("valid", "test", "limit") keeps the draws independent."""
    held = held_count(num_examples, share)
    if not held:
        return np.arange(num_examples), np.empty(0, dtype=np.int64)
    # RandomState, since numpy promises its stream for ever; the generators that replaced it may change.
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, *name.encode()]
    order = np.random.RandomState(np.array(key, dtype=np.uint32)).permutation(num_examples)
    if classes is not None:
        order = order[np.argsort(_keys(classes[order]), kind="stable")]
    return np.sort(order[held:]), np.sort(order[:held])


def _keys(classes: np.ndarray) -> np.ndarray:
    """(rank within the class + 1/2) / size of the class, in the order given."""
    _, index, counts = np.unique(classes, return_inverse=True, return_counts=True)
    by_class = np.argsort(index, kind="stable")
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(classes))
    ranks[by_class] = np.arange(len(classes)) - np.repeat(starts, counts)
    return (ranks + 0.5) / counts[index]
