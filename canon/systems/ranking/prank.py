"""PRank: a perceptron that learns grades one document at a time.

Crammer and Singer 2002, Pranking with ranking, figure 1 → `_learn`. Of grade l = 0 … K − 1 and thresholds
b_1 ≤ … ≤ b_{K−1}:
  predicted: the smallest k with w·x < b_{k+1}, else K − 1        y_k = +1 if l ≥ k, else −1
  τ_k = y_k where y_k (w·x − b_k) ≤ 0, else 0                            w += (Σ τ) x,    b_k −= τ_k
A step learns from `batch` queries; the seed gives the queries and their documents another order in each pass. There may
be several perceptrons, each of which learns from a random part of the documents, and whose mean is the model
(canon.systems.ranking.oap_bpm).
Deviations: queries of one grade only are left out. Shapes: N documents, F features, K grades, M perceptrons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.batching.draws import Draws
from canon.data.schema import Columns
from canon.systems.ranking.learner import RankingLearner
from canon.systems.settings import Classes, Shape

_ORDER, _TAKEN = 1, 2  # streams of random numbers


@settings
class Config:
    shape: Shape = Field(default=(46,), description="features of a document; the data decides")
    grades: Classes = Field(default=3, description="K; the data decides")


class PRank(RankingLearner):
    """M perceptrons; the model is their mean."""

    perceptrons = 1
    share = 1.0  # of the documents that each one learns from

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.weights_MF = np.zeros((self.perceptrons, config.shape[0]))
        self.thresholds_MK = np.zeros((self.perceptrons, config.grades - 1))
        self._wrong = self._seen = 0

    @property
    def num_parameters(self) -> int:
        return self.weights_MF[0].size + self.thresholds_MK[0].size

    def start(self) -> None:
        self._values_NF = self.documents.values.astype(np.float64)
        self._signs_NK = np.where(self.documents.labels[:, None] > np.arange(self.config.grades - 1), 1.0, -1.0)
        self.batch = self.batch or self.documents.num_queries

    def step(self, number: int) -> bool:
        size = self.documents.num_queries
        for place in range((number - 1) * self.batch, number * self.batch):
            turn, place = divmod(place, size)
            draws = Draws(self.context.seed, turn)
            query = int(np.argsort(draws.bits(_ORDER, np.arange(size)), kind="stable")[place])
            first, end = self.documents.offsets[query : query + 2]
            rows = np.arange(first, end)
            rows = rows[np.argsort(draws.bits(_ORDER, rows, 1), kind="stable")]
            taken = draws.uniform(_TAKEN, rows[:, None], np.arange(self.perceptrons)) < self.share
            for row, taken_M in zip(rows.tolist(), taken, strict=True):
                self._learn(self._values_NF[row], self._signs_NK[row], taken_M[:, None])
        return True

    def _learn(self, x_F: np.ndarray, sign_K: np.ndarray, taken_M1: np.ndarray) -> None:
        margins_MK = sign_K * ((self.weights_MF @ x_F)[:, None] - self.thresholds_MK)
        moves_MK = np.where((margins_MK <= 0) & taken_M1, sign_K, 0.0)
        wrong = int(np.count_nonzero(moves_MK))
        self._wrong, self._seen = self._wrong + wrong, self._seen + int(taken_M1.sum())
        if wrong:
            self.weights_MF += moves_MK.sum(axis=1, keepdims=True) * x_F
            self.thresholds_MK -= moves_MK

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        scores_N = super().outputs(columns)["scores"]
        return {"scores": scores_N, "logits": scores_N[:, None] - self.thresholds_MK.mean(axis=0)}

    def importances(self) -> dict[str, np.ndarray]:
        return {"weight": self.weights_MF.mean(axis=0)}

    def scores(self, values_NF: np.ndarray) -> np.ndarray:
        return values_NF.astype(np.float64) @ self.weights_MF.mean(axis=0)

    def logs(self) -> dict[str, float]:
        logged = {"rank_error": self._wrong / max(self._seen, 1)}
        self._wrong = self._seen = 0
        return logged

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        return {"model": {"weights": self.weights_MF.copy(), "thresholds": self.thresholds_MK.copy()}}

    def state(self) -> dict[str, Any]:
        return {"wrong": self._wrong, "seen": self._seen}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.weights_MF = np.array(tensors["model"]["weights"])
        self.thresholds_MK = np.array(tensors["model"]["thresholds"])
        self._wrong, self._seen = state.get("wrong", 0), state.get("seen", 0)
