"""AdaRank: a weighted sum of features, each the best by MAP or NDCG for the queries that are still ranked badly.

Xu and Li 2007, AdaRank: a boosting algorithm for information retrieval, figure 1. E(q) in [0, 1] measures the ranking
of a query; P is a distribution over queries, at first even. A round takes the feature k that maximises Σ_q P(q) E_k(q):
  α = ½ ln(Σ_q P(q)(1 + E_k(q)) / Σ_q P(q)(1 − E_k(q)))        f ← f + α x_k        P(q) ∝ e^(−E_f(q))
in `step`. Deviations: a round that changes no query's measure would leave P unchanged and repeat for ever: the next
best feature is taken in its place, and where no feature changes anything the run ends.
Shapes: N documents, F features, Q queries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.objectives.ranking.plain import measured
from canon.objectives.ranking.plain_records import Measured
from canon.systems.ranking.learner import RankingLearner
from canon.systems.settings import Shape


@settings
class Config:
    shape: Shape = Field(default=(46,), description="features of a document; the data decides")


class AdaRank(RankingLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.rounds: list[tuple[int, float]] = []  # feature, α
        self.measure: Measured = self.objective(Measured)
        self.scores_N, self.reached_Q = np.zeros(0), np.zeros(0)  # the training documents' scores, E of their queries

    @property
    def num_parameters(self) -> int:
        return 2 * len(self.rounds)

    def start(self) -> None:
        self._measured_FQ = np.stack([self._measure(x_N) for x_N in self.documents.values.T])
        self.scores_N = np.zeros(len(self.documents.labels))
        self.reached_Q = np.zeros(self.documents.num_queries)

    def _measure(self, scores_N: np.ndarray) -> np.ndarray:
        return measured(self.documents.labels, scores_N, self.documents.offsets, self.measure)

    def step(self, number: int) -> bool:
        losses_Q = np.exp(-self.reached_Q)
        weights_Q = losses_Q / losses_Q.sum()  # P
        weighted_F = self._measured_FQ @ weights_Q
        for feature in np.argsort(-weighted_F, kind="stable").tolist():
            right, wrong = 1 + weighted_F[feature], 1 - weighted_F[feature]
            weight = 0.5 * math.log(right / max(wrong, 1e-10))
            scores_N = self.scores_N + weight * self.documents.values[:, feature].astype(np.float64)
            reached_Q = self._measure(scores_N)
            if self.rounds and np.array_equal(reached_Q, self.reached_Q):
                continue
            self.rounds.append((feature, weight))
            self.scores_N, self.reached_Q = scores_N, reached_Q
            loss = float(np.exp(-reached_Q).mean())
            self._logged = {"alpha": weight, "measure": float(reached_Q.mean()), "loss": loss}
            return bool(wrong > 1e-10)
        return False

    def importances(self) -> dict[str, np.ndarray]:
        features, weights = list(zip(*self.rounds, strict=True)) or [(), ()]
        return {"weight": np.bincount(np.array(features, np.int64), weights, self.config.shape[0])}

    def scores(self, values_NF: np.ndarray) -> np.ndarray:
        scores_N = np.zeros(len(values_NF))
        for feature, weight in self.rounds:
            scores_N = scores_N + weight * values_NF[:, feature].astype(np.float64)
        return scores_N

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        features, weights = list(zip(*self.rounds, strict=True)) or [(), ()]
        model = {"feature": np.array(features, np.int64), "alpha": np.array(weights, np.float64)}
        return {"model": model, "optimizer": {"scores": self.scores_N.copy(), "reached": self.reached_Q.copy()}}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.take_state(state)
        model = tensors["model"]
        self.rounds = list(zip(model["feature"].tolist(), model["alpha"].tolist(), strict=True))
        if "optimizer" in tensors:
            kept = tensors["optimizer"]
            self.scores_N, self.reached_Q = np.array(kept["scores"]), np.array(kept["reached"])
