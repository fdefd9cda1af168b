"""RankBoost: a sum of votes on whether a feature is above a threshold, each the best for the pairs still wrong.

Freund, Iyer, Schapire and Singer 2003, An efficient boosting algorithm for combining preferences. D is a distribution
over the pairs (i, j) of a query with l_i > l_j, at first even; in each round
  r = Σ D(i, j) (h(x_i) − h(x_j))        α = ½ ln((1 + r)/(1 − r))        D(i, j) ← D(i, j) e^(−α (h(x_i) − h(x_j)))/Z
of the h(x) = [x_f > θ] with the largest |r| (their third method, section 3.2). D(i, j) ∝ e^(s_j − s_i) is a product, so
sums over all partners of a document take one pass over its query for each grade (`potentials`; their section 3.3 for
two grades). Deviations: every value of a feature is a threshold, and all features are known of every document; with
objective.per = "query" the first D is even over queries and then over their pairs.
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
from canon.objectives.ranking.settings import Pairwise
from canon.systems.ranking.learner import RankingLearner, TrainingLists
from canon.systems.settings import Shape

_MOST = 1 - 1e-10  # a perfect vote would have an infinite weight


@settings
class Config:
    shape: Shape = Field(default=(46,), description="features of a document; the data decides")


class RankBoost(RankingLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.votes: list[tuple[int, float, float]] = []  # feature, threshold, α
        self.scores_N = np.zeros(0)  # of the training documents
        self.pair: Pairwise = self.objective(Pairwise)

    @property
    def num_parameters(self) -> int:
        return 3 * len(self.votes)

    def start(self) -> None:
        values_FN = np.ascontiguousarray(self.documents.values.T)
        self._order_FN = np.argsort(-values_FN, axis=1, kind="stable")
        self._sorted_FN = np.take_along_axis(values_FN, self._order_FN, axis=1)
        # A threshold lies between two different values: after the last document above it.
        self._is_cut_FN = self._sorted_FN[:, :-1] > self._sorted_FN[:, 1:]
        self.scores_N = np.zeros(len(self.documents.labels))
        self._weights_Q = self.documents.pair_weights(self.pair.per)

    def step(self, number: int) -> bool:
        potential_N, _ = potentials(self.documents, self.scores_N, self._weights_Q)
        # r of every feature and threshold: what the documents above it weigh.
        r_FN = np.where(self._is_cut_FN, np.cumsum(potential_N[self._order_FN[:, :-1]], axis=1), 0.0)
        feature, place = np.unravel_index(int(np.abs(r_FN).argmax()), r_FN.shape)
        r = float(np.clip(r_FN[feature, place], -_MOST, _MOST))
        if abs(r) < 1e-12:  # no vote would change anything
            return False
        low, high = float(self._sorted_FN[feature, place + 1]), float(self._sorted_FN[feature, place])
        middle = float(np.float32((low + high) / 2))
        threshold = middle if middle < high else low
        weight = 0.5 * math.log((1 + r) / (1 - r))
        self.votes.append((int(feature), threshold, weight))
        self.scores_N = self.scores_N + weight * (self.documents.values[:, feature] > threshold)
        self._logged = {"r": r, "alpha": weight, "loss": potentials(self.documents, self.scores_N, self._weights_Q)[1]}
        return True

    def importances(self) -> dict[str, np.ndarray]:
        """Σ|α| of each feature's votes."""
        features, _, weights = list(zip(*self.votes, strict=True)) or [(), (), ()]
        return {"votes": np.bincount(np.array(features, np.int64), np.abs(weights), self.config.shape[0])}

    def scores(self, values_NF: np.ndarray) -> np.ndarray:
        scores_N = np.zeros(len(values_NF))
        for feature, threshold, weight in self.votes:
            scores_N = scores_N + weight * (values_NF[:, feature] > threshold)
        return scores_N

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        columns = list(zip(*self.votes, strict=True)) or [(), (), ()]
        model = {
            "feature": np.array(columns[0], np.int64),
            "threshold": np.array(columns[1], np.float64),
            "alpha": np.array(columns[2], np.float64),
        }
        return {"model": model, "optimizer": {"scores": self.scores_N.copy()}}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.take_state(state)
        model = tensors["model"]
        self.votes = list(zip(*(model[name].tolist() for name in ("feature", "threshold", "alpha")), strict=True))
        if "optimizer" in tensors:
            self.scores_N = np.array(tensors["optimizer"]["scores"])


def potentials(documents: TrainingLists, scores_N: np.ndarray, weights_Q: np.ndarray) -> tuple[np.ndarray, float]:
    """[N] Σ_j D(i, j) − Σ_j D(j, i) of each document i; and the weighted mean of e^(s_j − s_i) over all pairs."""
    query_N, labels_N = documents.query, documents.labels
    up_N, down_N = np.zeros(len(scores_N)), np.zeros(len(scores_N))
    most_Q = np.maximum.reduceat(scores_N, documents.offsets[:-1])
    least_Q = np.minimum.reduceat(scores_N, documents.offsets[:-1])
    low_N, high_N = np.exp(scores_N - most_Q[query_N]), np.exp(least_Q[query_N] - scores_N)
    scale_Q = weights_Q * np.exp(most_Q - least_Q)  # what both have been divided by
    for grade in np.unique(labels_N)[1:]:
        is_N, below_N = labels_N == grade, labels_N < grade
        upper_Q, lower_Q = documents.sums(high_N * is_N), documents.sums(low_N * below_N)
        up_N += is_N * high_N * (lower_Q * scale_Q)[query_N]
        down_N += below_N * low_N * (upper_Q * scale_Q)[query_N]
    total = up_N.sum()
    return (up_N - down_N) / total, float(total / documents.pairs.sum())
