"""Factors of users and items: x_ui = p_u·q_i and what a system adds to it; how they are used.

A user who is not in the training set is folded in: with the items as they are, p minimises the system's own loss on the
user's items, by Newton's method from 0 (`newton`). Items are alike by the cosine of their factors.
Shapes: U users, I items, D factors, S numbers of a row in memory, M rows of a fold-in.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.batching.sequences import Uneven
from canon.errors import CanonError
from canon.kernels import Later
from canon.systems.recommendation.base import Recommender, in_lines
from canon.systems.settings import Positive

kernels = Later("cpu.factors")
_MARKS = 64 << 20  # bytes
_NEWTON = 12  # steps, at most
_NEGATIVES = 20  # of a fold-in, for each item: more than in training, where each is drawn again in every epoch

Rate = Annotated[float, Field(gt=0)]
Decay = Annotated[float, Field(ge=0)]


@settings
class EventSizes:
    num_users: Positive = Field(default=1000, description="the data decides")
    num_items: Positive = Field(default=1000, description="the data decides")


class FactorLearner(Recommender):
    """Arrays "users" [U, D] and "items" [I, D]; a system may have more, which begin at 0."""

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.more: dict[str, int] = {}  # names and lengths of other arrays
        self.stride = self.width = 0
        self.marks = np.zeros(0, np.uint64)
        self.flat_users = self.flat_items = np.zeros(0, np.float32)

    def mark(self) -> None:
        """One bit for each user and item, where that takes little memory: whether the user has the item."""
        self.width = -(-self.num_items // 64)
        fits = self.num_users * self.width <= _MARKS // 8
        self.marks = np.zeros(self.num_users * self.width if fits else 0, np.uint64)
        if fits:
            kernels.mark(self.marks, self.width, self.users_N, self.items_N)

    def make(self) -> None:
        """First factors: normal, as wide as system.spread."""
        random = np.random.default_rng(self.context.seed)
        first = {
            name: random.normal(0, self.config.spread, (rows, self.config.dim)).astype(np.float32)
            for name, rows in (("users", self.num_users), ("items", self.num_items))
        }
        self.take_arrays({**first, **{name: np.zeros(size, np.float32) for name, size in self.more.items()}})

    def take_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.flat_users, self.stride = in_lines(arrays["users"])
        self.flat_items, _ = in_lines(arrays["items"])
        both = {"users": self.flat_users, "items": self.flat_items}
        views = {name: flat.reshape(-1, self.stride)[:, : self.config.dim] for name, flat in both.items()}
        self.arrays = {**arrays, **views}

    def item_offsets(self) -> np.ndarray | float:
        """What is added to the scores of all users [I]."""
        return 0.0

    def scores(self, users: np.ndarray, histories: Uneven) -> np.ndarray:
        return self._products(self.arrays["users"][users])

    def fold_in(self, histories: Uneven) -> np.ndarray:
        return self._products(np.stack([self.user_of(histories[row]) for row in range(len(histories))]))

    def _products(self, users_BD: np.ndarray) -> np.ndarray:
        scores_BI: np.ndarray = users_BD @ self.arrays["items"].T
        scores_BI += self.item_offsets()
        return scores_BI

    def user_of(self, items: np.ndarray) -> np.ndarray:
        """The factors [D] of a user who has these items."""
        raise NotImplementedError

    def alike(self, items: np.ndarray) -> np.ndarray:
        known_ID = self.arrays["items"]
        unit_ID = known_ID / np.maximum(np.linalg.norm(known_ID, axis=1, keepdims=True), 1e-12)
        return unit_ID[items] @ unit_ID.T

    def others(self, items: np.ndarray) -> np.ndarray:
        """For each of a user's items some that the user does not have, drawn evenly, seeded by the items themselves."""
        unseen = np.setdiff1d(np.arange(self.num_items), items)
        if not len(unseen):
            return np.zeros((len(items), 0), np.int64)
        random = np.random.RandomState(np.array([len(items), *np.sort(items)[:64]], np.uint32))
        return unseen[random.randint(0, len(unseen), (len(items), _NEGATIVES))]


def newton(
    rows_MD: np.ndarray, offset_M: np.ndarray, target_M: np.ndarray, weight_M: np.ndarray, decay: float
) -> np.ndarray:
    """The p [D] that minimises Σ_m w_m (log(1 + e^x_m) − y_m x_m) + decay/2 ‖p‖², x = rows · p + offset."""
    wide_MD = rows_MD.astype(np.float64)
    p_D = np.zeros(wide_MD.shape[1])
    for _ in range(_NEWTON):
        likely_M = 1 / (1 + np.exp(-np.clip(wide_MD @ p_D + offset_M, -30, 30)))
        slope_D = wide_MD.T @ (weight_M * (likely_M - target_M)) + decay * p_D
        curve_DD = (wide_MD.T * (weight_M * likely_M * (1 - likely_M))) @ wide_MD
        curve_DD.flat[:: len(p_D) + 1] += max(decay, 1e-6)
        step_D = np.linalg.solve(curve_DD, slope_D)
        p_D -= step_D / max(1.0, np.linalg.norm(step_D) / 2)
        if np.linalg.norm(step_D) < 1e-6:
            break
    return p_D.astype(np.float32)


def checked(loss: float, number: int) -> float:
    """A loss, if it is a number."""
    if not np.isfinite(loss):
        raise CanonError(f"The loss is no longer a finite number at step {number:,}: lower system.lr.")
    return loss
