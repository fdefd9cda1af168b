"""Which rows make train, valid and test: a file given in data.valid or data.test, else the source's own part, else a
share drawn by data.seed, or the last rows of a running text, so that no page is on both sides.

Which examples a seeded split holds out depends on their order, their classes and `data.seed` alone. Every class gets
its share: example r (in random order) of the n in its class has the key (r + 1/2) / n, and the examples with the
smallest keys are held out. Exactly round(share x N) examples, and of each class its share to within one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.data.source import SPLITS, Source
from canon.errors import CanonError

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


def _shots(
    rows: np.ndarray, classes: np.ndarray | None, config: Any, name: str, has_valid: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """`data.shots` rows of each class to train on and, without a file for it, as many others to choose by."""
    if classes is None:
        raise CanonError("data.shots is for examples with classes: leave it out.")
    key = [config.seed & 0xFFFFFFFF, config.seed >> 32 & 0xFFFFFFFF, *b"shots"]
    order = rows[np.random.RandomState(np.array(key, dtype=np.uint32)).permutation(len(rows))]
    train, valid = [], []
    for code in np.unique(classes):
        members = order[classes[order] == code]
        wanted = config.shots * (1 if has_valid else 2)
        if len(members) < wanted:
            raise CanonError(
                f"{name} has a class with {len(members)} training examples, but data.shots = {config.shots} needs "
                f"{wanted} of each{'' if has_valid else ', half of them to choose the best checkpoint by'}."
            )
        train.append(members[: config.shots])
        valid.append(members[config.shots : wanted])
    return np.sort(np.concatenate(train)), None if has_valid else np.sort(np.concatenate(valid))


def held_out_shares(config: Any, source: Source) -> tuple[dict[str, float], dict[str, str]]:
    """The shares to hold out from the end of the training part, in this order, and the rule for each split."""
    shares: dict[str, float] = {}
    rule: dict[str, str] = {}
    wanted = {"test": config.test if isinstance(config.test, float) else source.test, "valid": config.valid}
    if config.shots:
        wanted["valid"] = 0.0  # as many as there are shots
    for name, share in wanted.items():
        if name in source.parts:
            rule[name] = f"file {source.origin[name]}" if name in source.origin else "the source's own"
        elif isinstance(share, float) and share > 0:
            shares[name] = share
            rule[name] = f"the last {share:g}"
    return shares, rule


def choose(
    source: Source,
    config: Any,
    classes: np.ndarray | None = None,
    *,
    tail: bool = False,
    groups: np.ndarray | None = None,
) -> tuple[Chosen, dict[str, str]]:
    """Which rows of which part make each split, and the rule that says so.

    tail: the last rows are held out, not rows at random. groups: the article of each training row, which stays whole.
    """
    shares, rule = held_out_shares(config, source)
    chosen: Chosen = {name: (name, np.arange(source.size(name))) for name in rule if name not in shares}
    left = np.arange(source.size("train")) if groups is None else np.unique(groups)

    def draw(share: float, name: str) -> tuple[np.ndarray, np.ndarray]:
        return hold_out(len(left), share, config.seed, name, None if classes is None else classes[left])

    def rows_of(units: np.ndarray) -> np.ndarray:
        return units if groups is None else np.flatnonzero(np.isin(groups, units))

    for name, share in shares.items():
        if groups is not None and len(left) < 2:
            raise CanonError(
                f"{source.name} has one article, so none can be held out: give files in data.valid and data.test, or "
                "set them to 0.0."
            )
        if tail:
            kept, held = np.split(np.arange(len(left)), [len(left) - held_count(len(left), share)])
        else:
            kept, held = draw(share, name)
            how = "of the texts at random" if groups is not None else "at random"
            rule[name] = f"{share:g} {how if classes is None else 'of each class'}"
        chosen[name] = "train", rows_of(left[held])
        left = left[kept]
    left = rows_of(left)
    if config.shots:
        given = isinstance(config.valid, str) and "valid" in chosen
        left, dev = _shots(left, classes, config, source.name, given)
        if dev is not None:
            chosen["valid"], rule["valid"] = ("train", dev), f"{config.shots} of each class"
        rule["train"] = f"{config.shots} of each class"
    if 0 < config.limit < len(left):
        left = left[: config.limit] if tail else left[draw(config.limit / len(left), "limit")[1]]
        rule["limit"] = str(config.limit)
    chosen["train"] = "train", left
    return {name: chosen[name] for name in SPLITS if name in chosen and len(chosen[name][1])}, rule
