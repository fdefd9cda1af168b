"""Bayesian personalised ranking: factors by which a user's items come before others.

Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009, BPR: Bayesian personalized ranking from implicit feedback
(arXiv:1205.2618): the loss −ln σ(x̂_ui − x̂_uj) + λ‖Θ‖² (their BPR-Opt) with x̂_ui = p_u·q_i + b_i (section 4.3.1, with
a bias of the item), and LearnBPR (their figure 4: an event (u, i) evenly of all, j evenly from the items u does not
have) in canon/kernels/cpu/factors.py; `begin` sets what negatives are drawn from, `user_of` folds in a user who is not
in the training set.
Deviations: the rate may fall; one λ for all parameters, biases too; negatives may be drawn by count^β ("popular").
A step is `train.batch` draws; draw n depends on the seed and n alone. With several threads these write to the same rows
without locks, so only one thread gives the same numbers every time.
Shapes: U users, I items, D factors, N events, M pairs of a fold-in.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.schema import Data
from canon.systems.recommendation.factors import Decay, EventSizes, FactorLearner, Rate, checked, kernels, newton
from canon.systems.settings import Positive
from canon.systems.words.sampling import alias_table, noise_shares


@settings
class Config(EventSizes):
    dim: Positive = Field(default=64, description="D: factors of a user and of an item")
    lr: Rate = Field(default=0.05, description="η at first")
    falls: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.9, description="share by which η has fallen at the end"
    )
    decay: Decay = Field(default=0.01, description="λ")
    spread: Rate = Field(default=0.1, description="standard deviation of the first factors")
    negatives: Literal["uniform", "popular"] = Field(
        default="uniform", description="j is drawn evenly, or by count^`beta`, from the items that a user does not have"
    )
    beta: Annotated[float, Field(ge=0, le=2)] = Field(default=1.0, description="β, with `popular`")


class BPR(FactorLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.more = {"bias": self.num_items}
        self.threshold_I, self.other_I = np.zeros(0, np.uint32), np.zeros(0, np.int32)

    def begin(self, data: Data, batch: int, steps: int) -> None:
        super().begin(data, batch, steps)
        self.key = np.uint64(kernels.key_of(self.context.seed, 0))  # Python has no unsigned numbers
        if self.config.negatives == "popular":
            alias = alias_table(noise_shares(np.bincount(self.items_N, minlength=self.num_items), self.config.beta))
            self.threshold_I, self.other_I = (np.ascontiguousarray(each) for each in alias)
        self.mark()
        self.make()

    def step(self, number: int) -> bool:
        config = self.config

        def learn(part: tuple[int, int]) -> tuple[float, int]:
            return kernels.learn_pairs(
                self.key, *part, self.users_N, self.items_N, self.seen.offsets, self.marks, self.width, self.num_items,
                self.threshold_I, self.other_I, self.flat_users, self.flat_items, self.arrays["bias"], self.stride,
                config.lr, config.falls, self.draws, config.decay,
            )  # fmt: skip

        for loss, count in self.in_threads(learn, self.ranges((number - 1) * self.batch, number * self.batch)):
            self._loss += checked(loss, number)
            self._count += count
        return True

    def item_offsets(self) -> np.ndarray:
        return self.arrays["bias"]

    def user_of(self, items: np.ndarray) -> np.ndarray:
        """p that minimises the same loss over pairs of these items and others, with λ of as many draws."""
        others_TM = self.others(items)
        known_ID, bias_I = self.arrays["items"], self.arrays["bias"]
        first, second = np.repeat(items, others_TM.shape[1]), others_TM.ravel()
        ones_M = np.ones(len(first))
        rows_MD, offset_M = known_ID[first] - known_ID[second], (bias_I[first] - bias_I[second]).astype(np.float64)
        return newton(rows_MD, offset_M, ones_M, ones_M, self.config.decay * len(first))
