"""Item-based nearest neighbours: an item's score for a user is its similarity to the items that the user has.

Sarwar, Karypis, Konstan and Riedl 2001, Item-based collaborative filtering recommendation algorithms; the cosine of two
items' users with shrinkage as Bell and Koren 2007 have it:
  s_ij = c_ij / (√(c_i c_j) + shrink)      x̂_ui = Σ_j s_ij over the items j of u that are among the K nearest of i
in canon/kernels/cpu/neighbours.py. A user who is not in the training set is scored like any other, by the items alone.
Deviations: who has an item counts, not how it was rated.
A step of `train.batch` of the N events finds the neighbours of the same share of the items; the run then ends.
Shapes: I items, K neighbours, B users.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.batching.sequences import Uneven
from canon.data.schema import Data
from canon.kernels import Later
from canon.systems.recommendation.base import Recommender
from canon.systems.recommendation.factors import Decay, EventSizes
from canon.systems.settings import Positive

kernels = Later("cpu.neighbours")


@settings
class Config(EventSizes):
    neighbours: Positive = Field(default=200, description="K: the nearest items that count")
    shrink: Decay = Field(default=10.0, description="how many users two items must share to be surely alike")


class ItemKNN(Recommender):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        shape = self.num_items, min(config.neighbours, self.num_items)
        self.arrays = {"near": np.full(shape, -1, np.int32), "alike": np.zeros(shape, np.float32)}
        self._found = 0  # items whose neighbours are known

    def begin(self, data: Data, batch: int, steps: int) -> None:
        super().begin(data, batch, steps)
        order = np.argsort(self.items_N, kind="stable")
        self.havers = Uneven(self.users_N[order], np.bincount(self.items_N, minlength=self.num_items))

    def step(self, number: int) -> bool:
        first, last = (
            min((number - 1 + more) * self.batch * self.num_items // len(self.users_N), self.num_items)
            for more in (0, 1)
        )
        last = max(last, min(number, self.num_items))
        near, alike = self.arrays["near"], self.arrays["alike"]

        def find(part: tuple[int, int]) -> None:
            kernels.nearest(
                *part, self.seen.tokens, self.seen.offsets, self.havers.tokens, self.havers.offsets,
                self.config.shrink, near, alike,
            )  # fmt: skip

        self.in_threads(find, self.ranges(first, last))
        self._found = last
        vars(self).pop("given", None)
        return last < self.num_items

    def logs(self) -> dict[str, float]:
        return {"found": float(self._found)}

    def take_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        super().take_arrays(arrays)
        vars(self).pop("given", None)

    @cached_property
    def given(self) -> tuple[Uneven, np.ndarray]:
        """For each item those that have it among their neighbours, and how alike they are."""
        near, alike = self.arrays["near"], self.arrays["alike"]
        item, place = np.nonzero(near >= 0)
        neighbour = near[item, place]
        order = np.argsort(neighbour, kind="stable")
        lists = Uneven(item[order].astype(np.int32), np.bincount(neighbour, minlength=self.num_items))
        return lists, np.ascontiguousarray(alike[item, place][order])

    def scores(self, users: np.ndarray, histories: Uneven) -> np.ndarray:
        return self.fold_in(histories)

    def fold_in(self, histories: Uneven) -> np.ndarray:
        scores_BI = np.zeros((len(histories), self.num_items), np.float32)
        lists, alike = self.given
        kernels.sums_of(histories.tokens, histories.offsets, lists.tokens, alike, lists.offsets, scores_BI)
        return scores_BI

    def alike(self, items: np.ndarray) -> np.ndarray:
        likeness = np.zeros((len(items), self.num_items), np.float32)
        for row, item in enumerate(items.tolist()):
            near = self.arrays["near"][item]
            likeness[row, near[near >= 0]] = self.arrays["alike"][item][near >= 0]
        return likeness
