"""Ranking SVM: a linear scorer that minimises ½‖w‖² + C Σ max(0, m − w·(x_i − x_j)), over pairs of a query, l_i > l_j.

Herbrich, Graepel and Obermayer 2000, Large margin rank boundaries for ordinal regression; Joachims 2002, Optimizing
search engines using clickthrough data. One step is
- with this hinge: a cutting plane (Joachims 2006, Training linear SVMs in linear time) → `_add_plane`;
- with its square (objective.squared): a Newton step with a line search (Chapelle and Keerthi 2010, Efficient algorithms
  for ranking with SVMs, section 3) → `_newton`, whose equations are solved by conjugate gradients.
Pairs are never listed (canon.systems.ranking.pairs). The run ends where the duality gap, or the gradient, is 1e-6 of
what it is compared with. Deviations: with objective.per = "query" pairs are weighted so that every query has the same
sum, and all of them the same as without. Shapes: N documents, F features.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.objectives.ranking.settings import PairMargin
from canon.systems.ranking.pairs import Violations
from canon.systems.ranking.planes import PlaneLearner
from canon.systems.settings import Shape

_ENOUGH = 1e-6


@settings
class Config:
    shape: Shape = Field(default=(46,), description="features of a document; the data decides")
    c: Annotated[float, Field(gt=0)] = Field(default=1e-3, description="C: weight of the losses of pairs")


class RankingSVM(PlaneLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.pair: PairMargin = self.objective(PairMargin)

    def start(self) -> None:
        self._values_NF = self.documents.values.astype(np.float64)
        self._weights_Q = self.documents.pair_weights(self.pair.per)

    def _violations(self, scores_N: np.ndarray) -> Violations:
        return Violations(self.documents, scores_N, self.pair.margin, self._weights_Q)

    def step(self, number: int) -> bool:
        return self._newton() if self.pair.squared else self._add_plane()

    def _add_plane(self) -> bool:
        at_F = self.planes.weights_F
        violations = self._violations(self._values_NF @ at_F)
        risk = violations.hinge()
        value = 0.5 * float(at_F @ at_F) + self.config.c * risk
        if value < self.value:
            self.weights_F, self.value = at_F, value
        slope_F = self._values_NF.T @ violations.hinge_slopes()
        gap = (self.value - self.planes.bound) / self.value
        self._log(gap, violations)
        if gap < _ENOUGH:
            return False
        self.planes.add(slope_F, risk - float(slope_F @ at_F))
        return True

    def _newton(self) -> bool:
        c, at_F = self.config.c, self.weights_F
        violations = self._violations(self._values_NF @ at_F)
        self.value = 0.5 * float(at_F @ at_F) + c * violations.squared()
        slope_F = at_F + c * (self._values_NF.T @ violations.squared_slopes())
        norm, first = np.linalg.norm(slope_F), c * np.linalg.norm(self._values_NF.T @ self._first_slopes())
        self._log(float(norm / first), violations)
        if norm <= _ENOUGH * first:
            return False

        def curved(direction_F: np.ndarray) -> np.ndarray:
            curvature_N = violations.squared_curvature(self._values_NF @ direction_F)
            return np.asarray(direction_F + c * (self._values_NF.T @ curvature_N))

        direction_F = conjugate_gradients(curved, -slope_F)
        fall, length = float(slope_F @ direction_F), 1.0
        while length > 1e-10:
            to_F = at_F + length * direction_F
            value = 0.5 * float(to_F @ to_F) + c * self._violations(self._values_NF @ to_F).squared()
            if value <= self.value + 1e-4 * length * fall:
                self.weights_F = to_F
                return True
            length /= 2
        return False

    def _first_slopes(self) -> np.ndarray:
        return self._violations(np.zeros(len(self._values_NF))).squared_slopes()

    def _log(self, gap: float, violations: Violations) -> None:
        violated = float(violations.below_N.sum() / self.documents.pairs.sum())  # weighted pairs are as many
        self._logged = {"value": self.value, "gap": gap, "violated": violated}

    def penalty(self) -> float:
        return 0.5 * float(self.weights_F @ self.weights_F)


def conjugate_gradients(times: Any, right_F: np.ndarray) -> np.ndarray:
    """x with A x = `right`, A symmetric and positive; `times` multiplies by it."""
    x_F, rest_F = np.zeros_like(right_F), right_F.copy()
    direction_F, square = rest_F.copy(), float(rest_F @ rest_F)
    enough = 1e-16 * square
    for _ in range(4 * len(right_F)):
        if square <= enough:
            break
        product_F = times(direction_F)
        length = square / float(direction_F @ product_F)
        x_F, rest_F = x_F + length * direction_F, rest_F - length * product_F
        square, before = float(rest_F @ rest_F), square
        direction_F = rest_F + square / before * direction_F
    return x_F
