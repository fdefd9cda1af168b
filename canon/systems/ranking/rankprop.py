"""RankProp: a scorer fitted to targets in the order of the labels that are otherwise as near as possible to its own
scores.

Caruana, Baluja and Mitchell 1996, Using the future to sort out the present: Rankprop and multitask learning for medical
risk evaluation, section 3. A step is
  t = the numbers nearest to s (least Σ (t − s)²) that do not fall from a lower label to a higher one in a query,
  w minimises Σ (w·x + w₀ − t)² + λ‖w‖², t scaled to the labels' mean and deviation
→ canon.objectives.ranking.plain.in_order (pool adjacent violators) and `step`.
Deviations: a linear scorer that is fitted exactly in place of a network that takes steps of gradient descent; targets
are nearest numbers in place of evenly spaced ranks; the first fit is to the labels. Shapes: N documents, F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.objectives.ranking.plain import in_order
from canon.systems.ranking.learner import RankingLearner
from canon.systems.settings import Shape


@settings
class Config:
    shape: Shape = Field(default=(46,), description="features of a document; the data decides")
    penalty: Annotated[float, Field(gt=0)] = Field(default=10.0, description="λ: of ‖w‖²")


class RankProp(RankingLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.weights_F, self.bias = np.zeros(config.shape[0]), 0.0

    @property
    def num_parameters(self) -> int:
        return len(self.weights_F) + 1

    def start(self) -> None:
        values_NF = self.documents.values.astype(np.float64)
        self._mean_F = values_NF.mean(axis=0)
        self._centred_NF = values_NF - self._mean_F
        gram_FF = self._centred_NF.T @ self._centred_NF + self.config.penalty * np.eye(len(self._mean_F))
        self._inverse_FF = np.linalg.inv(gram_FF)

    def step(self, number: int) -> bool:
        labels_N = self.documents.labels
        if number == 1:
            targets_N = labels_N
        else:
            scores_N = self._centred_NF @ self.weights_F
            targets_N = in_order(labels_N, scores_N, self.documents.offsets)
            moved = float(((targets_N - scores_N) ** 2).mean())
            self._logged = {"moved": moved / max(float(scores_N.var()), 1e-300)}
        spread = targets_N.std()
        if not spread:
            return False
        targets_N = (targets_N - targets_N.mean()) / spread * labels_N.std()
        self.weights_F = self._inverse_FF @ (self._centred_NF.T @ targets_N)
        self.bias = float(labels_N.mean() - self._mean_F @ self.weights_F)
        return True

    def importances(self) -> dict[str, np.ndarray]:
        return {"weight": self.weights_F}

    def scores(self, values_NF: np.ndarray) -> np.ndarray:
        return values_NF.astype(np.float64) @ self.weights_F + self.bias

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        return {"model": {"weights": self.weights_F.copy(), "bias": np.array(self.bias)}}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.take_state(state)
        self.weights_F, self.bias = np.array(tensors["model"]["weights"]), float(tensors["model"]["bias"])
