"""Matrix factorisation learned from single items: had or not, or their ratings.

Koren, Bell and Volinsky 2009, Matrix factorization techniques for recommender systems: x̂_ui = b + b_u + b_i + p_u·q_i,
their equation 4. "logistic", as Rendle, Krichene, Zhang and Anderson 2020, Neural collaborative filtering vs. matrix
factorization revisited (arXiv:2005.09683), section 2.2: −ln σ(x̂) of an event, −ln(1 − σ(x̂)) of m items that the user
does not have, + λ/2 of all squared parameters; "squared": (r − x̂)² of ratings, equation 5 of the former. Steps of
gradient descent in canon/kernels/cpu/factors.py; `user_of` folds in a user who is not in the training set.
Deviations: events are drawn evenly, where these papers go through all in an epoch; the rate may fall.
A step is `train.batch` events, each with its m items; draw n depends on the seed and n alone. With several threads
these write to the same rows without locks, so only one thread gives the same numbers every time.
Shapes: U users, I items, D factors, N events, M rows of a fold-in.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.schema import Data
from canon.errors import CanonError
from canon.systems.recommendation.factors import Decay, EventSizes, FactorLearner, Rate, checked, kernels, newton
from canon.systems.settings import Positive


@settings
class Config(EventSizes):
    dim: Positive = Field(default=64, description="D: factors of a user and of an item")
    loss: Literal["logistic", "squared"] = Field(
        default="logistic", description="of items that a user has or not, or of ratings"
    )
    negatives: Annotated[int, Field(gt=0, le=1000)] = Field(
        default=8, description="m: items that the user does not have, for each event; with `logistic`"
    )
    lr: Rate = Field(default=0.02, description="η at first")
    falls: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.9, description="share by which η has fallen at the end"
    )
    decay: Decay = Field(default=0.01, description="λ")
    spread: Rate = Field(default=0.1, description="standard deviation of the first factors")


class MF(FactorLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.more = {"user_bias": self.num_users, "item_bias": self.num_items, "bias": 1, "liked": 1}
        self.squared = config.loss == "squared"

    def begin(self, data: Data, batch: int, steps: int) -> None:
        super().begin(data, batch, steps)
        self.key = np.uint64(kernels.key_of(self.context.seed, 0))  # Python has no unsigned numbers
        self.mark()
        self.make()
        if not self.squared:
            self.ratings_N = np.zeros(0, np.float32)
        elif not len(self.ratings_N):
            raise CanonError(f"system.loss = squared learns from ratings, which {data.name} does not have in training.")
        else:
            self.arrays["bias"][:] = self.ratings_N.mean()
            self.arrays["liked"][:] = self.ratings_N.max()

    def step(self, number: int) -> bool:
        config, arrays = self.config, self.arrays

        def learn(part: tuple[int, int]) -> tuple[float, int]:
            return kernels.learn_points(
                self.key, *part, self.users_N, self.items_N, self.ratings_N, self.seen.offsets, self.marks, self.width,
                self.num_items, 0 if self.squared else config.negatives, self.flat_users, self.flat_items,
                arrays["user_bias"], arrays["item_bias"], arrays["bias"], self.stride, config.lr, config.falls,
                self.draws, config.decay,
            )  # fmt: skip

        for loss, count in self.in_threads(learn, self.ranges((number - 1) * self.batch, number * self.batch)):
            self._loss += checked(loss, number)
            self._count += count
        return True

    def scores(self, users: np.ndarray, histories: object) -> np.ndarray:
        scores_BI = self._products(self.arrays["users"][users])
        scores_BI += self.arrays["user_bias"][users][:, None]
        return scores_BI

    def item_offsets(self) -> np.ndarray:
        return self.arrays["item_bias"] + self.arrays["bias"]

    def user_of(self, items: np.ndarray) -> np.ndarray:
        """p that minimises the same loss over these items and others; with ratings over these items alone, as if each
        had the best one."""
        known_ID, offset_I = self.arrays["items"], self.item_offsets().astype(np.float64)
        if self.squared:
            rows_MD = known_ID[items].astype(np.float64)
            curve_DD = rows_MD.T @ rows_MD + (self.config.decay * len(items) + 1e-6) * np.eye(rows_MD.shape[1])
            wanted_M = float(self.arrays["liked"][0]) - offset_I[items]
            return np.linalg.solve(curve_DD, rows_MD.T @ wanted_M).astype(np.float32)
        others_TM = self.others(items)
        rows = np.concatenate([items, others_TM.ravel()])
        each = self.config.negatives / max(others_TM.shape[1], 1)
        weight_M = np.concatenate([np.ones(len(items)), np.full(others_TM.size, each)])
        target_M = np.concatenate([np.ones(len(items)), np.zeros(others_TM.size)])
        decay = self.config.decay * len(items) * (1 + self.config.negatives)
        return newton(known_ID[rows], offset_I[rows], target_M, weight_M, decay)
