"""Implicit alternating least squares: all pairs of users and items count, unobserved ones with a small weight.

Hu, Koren and Volinsky 2008, Collaborative filtering for implicit feedback datasets, in the form of Rendle, Krichene,
Zhang and Koren 2022, Revisiting the performance of iALS on item recommendation benchmarks (arXiv:2110.14037), eq. 1–3:
  L = Σ_{(u,i) ∈ S} (x̂_ui − 1)² + α₀ Σ_u Σ_i x̂_ui² + λ (Σ_u (n_u + α₀ I)^ν ‖p_u‖² + Σ_i (n_i + α₀ U)^ν ‖q_i‖²)
with x̂_ui = p_u·q_i, S the events, n_u and n_i how many of them a user and an item have. With one side fixed, each row
of the other solves its normal equations (canon/kernels/cpu/least_squares.py), by some steps of conjugate gradients.
Deviations: ratings are not used as weights; conjugate gradients start from the current row, where the papers solve.
In an epoch each user's row moves, then each item's; a step of `train.batch` of the N events moves the same share of all
rows. Threads share the rows of a step, which do not depend on each other: any number gives the same numbers.
Shapes: U users, I items, D factors, S numbers of a row in memory, R = U + I rows.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.batching.sequences import Uneven
from canon.data.schema import Data
from canon.kernels import Later
from canon.systems.recommendation.base import in_lines
from canon.systems.recommendation.factors import Decay, EventSizes, FactorLearner, Rate
from canon.systems.settings import Positive

solver = Later("cpu.least_squares")


@settings
class Config(EventSizes):
    dim: Positive = Field(default=64, description="D: factors of a user and of an item")
    unobserved: Rate = Field(default=0.3, description="α₀: weight of a pair, beside 1 more where it is an event")
    decay: Decay = Field(default=0.01, description="λ")
    exponent: Annotated[float, Field(ge=0, le=2)] = Field(
        default=1.0, description="ν: how λ grows with what a row is learned from"
    )
    steps: Positive = Field(default=3, description="of conjugate gradients, each time that a row moves")
    spread: Rate = Field(default=0.1, description="standard deviation of the first factors, times √D")


class IALS(FactorLearner):
    def begin(self, data: Data, batch: int, steps: int) -> None:
        super().begin(data, batch, steps)
        order = np.argsort(self.items_N, kind="stable")
        self.havers = Uneven(self.users_N[order], np.bincount(self.items_N, minlength=self.num_items))
        self.make()
        scale = np.float32(1 / np.sqrt(self.config.dim))
        self.flat_users *= scale
        self.flat_items *= scale

    def step(self, number: int) -> bool:
        """Rows [(k − 1) b R / N, k b R / N) of the endless row of users, items, users, …"""
        rows = self.num_users + self.num_items
        first, last = ((number - 1 + more) * self.batch * rows // len(self.users_N) for more in (0, 1))
        while first < last:
            epoch, place = divmod(first, rows)
            of_users = place < self.num_users
            stop = min(last, epoch * rows + (self.num_users if of_users else rows))
            begin = place if of_users else place - self.num_users
            self._move(of_users, begin, begin + stop - first)
            first = stop
        return True

    def _move(self, of_users: bool, first: int, last: int) -> None:
        lists, fixed, rows, others = (
            (self.seen, self.flat_items, self.flat_users, self.num_items)
            if of_users
            else (self.havers, self.flat_users, self.flat_items, self.num_users)
        )
        decay_R = self._decays(lists.lengths, others)
        gram = self._gram(fixed)

        def solve(part: tuple[int, int]) -> None:
            solver.solve_rows(
                *part, lists.offsets, lists.tokens, fixed, gram, self.config.dim, self.stride, self.config.unobserved,
                decay_R, self.config.steps, rows,
            )  # fmt: skip

        self.in_threads(solve, self.ranges(first, last))

    def _decays(self, lengths: np.ndarray, others: int) -> np.ndarray:
        config = self.config
        return np.asarray(config.decay * (lengths + config.unobserved * others) ** config.exponent, np.float64)

    def _gram(self, fixed: np.ndarray) -> np.ndarray:
        rows_RD = fixed.reshape(-1, self.stride)[:, : self.config.dim]
        return in_lines(rows_RD.T @ rows_RD)[0]

    def logs(self) -> dict[str, float]:
        """The objective, by event: Σ x̂² of all pairs is the sum of the products of both Gram matrices."""
        config = self.config
        users_UD, items_ID = self.arrays["users"].astype(np.float64), self.arrays["items"].astype(np.float64)
        everywhere = float(((users_UD.T @ users_UD) * (items_ID.T @ items_ID)).sum())
        observed, at_once = 0.0, 1 << 18
        for n in range(0, len(self.users_N), at_once):
            part = slice(n, n + at_once)
            x = np.einsum(
                "nd,nd->n", self.arrays["users"][self.users_N[part]], self.arrays["items"][self.items_N[part]]
            )
            observed += float(((x.astype(np.float64) - 1) ** 2).sum())
        sizes = ((users_UD, self.seen.lengths, self.num_items), (items_ID, self.havers.lengths, self.num_users))
        norms = sum(float(self._decays(n, of) @ (rows**2).sum(axis=1)) for rows, n, of in sizes)
        return {"loss": (observed + config.unobserved * everywhere + norms) / len(self.users_N)}

    def fold_in(self, histories: Uneven) -> np.ndarray:
        """The normal equations of each new user, solved by as many steps as there are factors."""
        rows, _ = in_lines(np.zeros((len(histories), self.config.dim), np.float32))
        lists: Any = histories.tokens, histories.offsets
        solver.solve_rows(
            0, len(histories), lists[1], lists[0], self.flat_items, self._gram(self.flat_items), self.config.dim,
            self.stride, self.config.unobserved, self._decays(histories.lengths, self.num_items), self.config.dim, rows,
        )  # fmt: skip
        return self._products(rows.reshape(-1, self.stride)[:, : self.config.dim])
