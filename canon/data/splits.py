"""Which rows make train, valid and test: a file given in data.valid or data.test, else the source's own part, else a
share drawn by data.seed, or the last rows of a running text, so that no page is on both sides.

The seeded split: which examples are held out depends on their order, their classes and `data.seed`, on nothing else.

Every class gets its share: example r (in random order) of the n in its class has the key (r + 1/2) / n, and the
examples with the smallest keys are held out. Exactly round(share x N) examples, and of each class its share to
within one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.data.source import Source

Chosen = dict[str, tuple[str, np.ndarray]]  # split -> (part, rows of it)


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


def choose(source: Source, config: Any, classes: np.ndarray | None, tail: bool = False) -> tuple[Chosen, dict]:
    """Which rows of which part make each split, and the rule that says so."""
    chosen: Chosen = {}
    rule: dict[str, str] = {}
    rows = np.arange(source.size("train"))
    test_share = config.test if isinstance(config.test, float) else source.test
    for name, share in (("test", test_share), ("valid", config.valid)):
        if name in source.parts:
            chosen[name] = name, np.arange(source.size(name))
            rule[name] = f"file {source.origin[name]}" if name in source.origin else "the source's own"
        elif isinstance(share, float) and share > 0:
            kept, held = _tail(len(rows), share) if tail else _draw(rows, share, config.seed, name, classes)
            chosen[name] = "train", rows[held]
            rows = rows[kept]
            rule[name] = (
                f"the last {share:g}" if tail else f"{share:g} {'at random' if classes is None else 'of each class'}"
            )
    if 0 < config.limit < len(rows):
        drawn = _draw(rows, config.limit / len(rows), config.seed, "limit", classes)[1]
        rows = rows[: config.limit] if tail else rows[drawn]
        rule["limit"] = str(config.limit)
    ordered = {"train": ("train", rows)} | {name: chosen[name] for name in ("valid", "test") if name in chosen}
    return {name: (part, taken) for name, (part, taken) in ordered.items() if len(taken)}, rule


def _draw(
    rows: np.ndarray, share: float, seed: int, name: str, classes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    return hold_out(len(rows), share, seed, name, None if classes is None else classes[rows])


def _tail(num_examples: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    held = held_count(num_examples, share)
    return np.arange(num_examples - held), np.arange(num_examples - held, num_examples)


def held_out_shares(config: Any, source: Source) -> tuple[dict[str, float], dict[str, str]]:
    """What is cut off the training text, in this order, and the rule that says so for each part."""
    shares: dict[str, float] = {}
    rule: dict[str, str] = {}
    wanted = {"test": config.test if isinstance(config.test, float) else source.test, "valid": config.valid}
    for name, share in wanted.items():
        if name in source.parts:
            rule[name] = f"file {source.origin[name]}" if name in source.origin else "the source's own"
        elif isinstance(share, float) and share > 0:
            shares[name] = share
            rule[name] = f"the last {share:g}"
    return shares, rule
