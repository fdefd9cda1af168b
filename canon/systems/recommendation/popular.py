"""Popularity: the items that most users have, the same for all users; the baseline that every other system must beat.

Cremonesi, Koren and Turrin 2010, Performance of recommender algorithms on top-N recommendation tasks, section 3.1
(TopPop): x̂_ui = log(1 + c_i), c_i the users who have item i, so that σ(x̂_ui − x̂_uj) is i's share of both.
Deviations: the logarithm, which changes no order.
A step counts `train.batch` more of the N events; the run ends when all are counted. The seed decides nothing.
Shapes: I items, B users, N events.
"""

from __future__ import annotations

import numpy as np

from canon.config import settings
from canon.contracts import Context
from canon.data.batching.sequences import Uneven
from canon.systems.recommendation.base import Recommender
from canon.systems.recommendation.factors import EventSizes


@settings
class Config(EventSizes):
    pass


class Popular(Recommender):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.arrays = {"count": np.zeros(self.num_items, np.float32)}

    def step(self, number: int) -> bool:
        first, last = (number - 1) * self.batch, number * self.batch
        self.arrays["count"] += np.bincount(self.items_N[first:last], minlength=self.num_items)
        return last < len(self.items_N)

    def logs(self) -> dict[str, float]:
        return {"counted": float(self.arrays["count"].sum())}

    def scores(self, users: np.ndarray, histories: Uneven) -> np.ndarray:
        return np.tile(np.log1p(self.arrays["count"]), (len(users), 1))

    def fold_in(self, histories: Uneven) -> np.ndarray:
        return self.scores(np.zeros(len(histories), np.int32), histories)

    def alike(self, items: np.ndarray) -> np.ndarray:
        """Counts say nothing about which items are alike."""
        return np.zeros((len(items), self.num_items), np.float32)
