"""Measures of lists of recommended items, beside those of retrieval (canon.metrics.retrieval).

| measure | formula |
| --- | --- |
| user_auc | mean over users of the share of pairs (item to be found, other ranked item) in the right order |
| coverage | different items in all lists / items |
| novelty | mean of −log₂(users who have the item / users) over all places of all lists |
Deviations: none. Shapes: U users, T items to be found, K places of a list (−1: empty), I items.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canon.errors import CanonError
from canon.metrics._checks import classes, number, numbers


def user_auc(above_T: ArrayLike, lengths_U: ArrayLike, ranked_U: ArrayLike) -> float:
    """above_T: how many ranked items come before each item to be found, user after user; lengths_U: how many each user
    has; ranked_U: how many items are ranked for each user. Users for whom nothing else is ranked are left out; NaN if
    none is left."""
    above, lengths, ranked = (
        classes(*one) for one in (("above_T", above_T), ("lengths_U", lengths_U), ("ranked_U", ranked_U))
    )
    if int(lengths.sum()) != len(above) or len(lengths) != len(ranked):
        raise CanonError(f"lengths_U must sum to {len(above)} and be as many as ranked_U, got {int(lengths.sum())}.")
    owner = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((above, owner))
    # Of the items before one to be found, those that are to be found themselves do not count against it.
    before = above[order] - (np.arange(len(above)) - np.repeat(np.cumsum(lengths) - lengths, lengths))
    others = ranked - lengths
    asked = (others > 0) & (lengths > 0)
    wrong = np.bincount(owner[order], before, minlength=len(lengths))[asked]
    shares = 1 - wrong / (others[asked] * lengths[asked])
    return float(shares.mean()) if len(shares) else float("nan")


def coverage(top_UK: ArrayLike, num_items: int) -> float:
    """top_UK: the list of each user, -1 where a place is empty."""
    return float(np.count_nonzero(np.unique(_items(top_UK)) >= 0) / _count("num_items", num_items))


def novelty(top_UK: ArrayLike, counts_I: ArrayLike, num_users: int) -> float:
    """counts_I: users who have each item; one that nobody has counts as if one had it."""
    top = _items(top_UK)
    shares = np.maximum(numbers("counts_I", counts_I).astype(np.float64), 1) / _count("num_users", num_users)
    places = top[top >= 0]
    if len(places) and places.max() >= len(shares):
        raise CanonError(f"top_UK has item {places.max()}, but counts_I only {len(shares)} items.")
    return float(-np.log2(shares[places]).mean()) if len(places) else float("nan")


def _items(top_UK: ArrayLike) -> NDArray[np.int64]:
    top = numbers("top_UK", top_UK, 2)
    if not (np.isfinite(top) & (top == np.floor(top))).all():
        raise CanonError("top_UK must be whole numbers of items, or -1 where a place is empty.")
    return top.astype(np.int64)


def _count(name: str, value: int) -> float:
    if not (count := number(name, value)) >= 1:
        raise CanonError(f"{name} must be at least 1, got {value!r}.")
    return count
