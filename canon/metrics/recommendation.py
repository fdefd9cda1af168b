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
from numpy.typing import ArrayLike

from canon.errors import CanonError
from canon.metrics._checks import classes


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
    items = np.unique(np.asarray(top_UK))
    return float(np.count_nonzero(items >= 0) / num_items)


def novelty(top_UK: ArrayLike, counts_I: ArrayLike, num_users: int) -> float:
    """counts_I: users who have each item; one that nobody has counts as if one had it."""
    top = np.asarray(top_UK)
    shares = np.maximum(np.asarray(counts_I, dtype=np.float64), 1) / num_users
    places = top[top >= 0]
    return float(-np.log2(shares[places]).mean()) if len(places) else float("nan")
