"""SVM-MAP and SVM-NDCG: a linear scorer that minimises a bound on 1 − MAP or 1 − NDCG, by cutting planes.

Minimises ½‖w‖² + C · mean over queries of max_y [Δ(y) + w·Ψ(y) − w·Ψ(y*)], y* a right ranking, Δ = 1 − measure of y.
Yue, Finley, Radlinski and Joachims 2007, A support vector method for optimizing average precision; Chakrabarti, Khanna,
Sawant and Bhattacharyya 2008, Structured learning for non-smooth ranking losses, and Le and Smola 2007, Direct
optimization of ranking measures (arXiv:0704.3359), section 4. The maximum over y and Ψ: canon.objectives.ranking.plain.
A step is one plane (canon.systems.ranking.planes) of all queries together; the run ends where the gap is 1e-4.
Deviations: one slack variable for all queries in place of one each (Joachims, Finley and Yu 2009), with the same
minimum.
Shapes: N documents, F features, Q queries, n documents of one query.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.objectives.ranking.plain import MAPHinge, NDCGHinge, Structured, spans
from canon.objectives.ranking.plain_records import Cutoff
from canon.objectives.settings import NoSettings
from canon.systems.ranking.planes import PlaneLearner
from canon.systems.settings import Shape

_ENOUGH = 1e-4


@settings
class Config:
    shape: Shape = Field(default=(46,), description="features of a document; the data decides")
    c: Annotated[float, Field(gt=0)] = Field(default=100.0, description="C: weight of the mean over queries")


class StructuredSVM(PlaneLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self._hinge = self.hinge

    @property
    @abstractmethod
    def hinge(self) -> Structured[Any]:
        """The objective, which knows the worst ranking of a query."""

    def step(self, number: int) -> bool:
        documents, at_F = self.documents, self.planes.weights_F
        values_NF = documents.values.astype(np.float64)
        scores_N = values_NF @ at_F
        weights_N, miss = np.zeros(len(scores_N)), 0.0
        for first, end in spans(documents.offsets):
            weights_N[first:end], delta = self._hinge.worst(scores_N[first:end], documents.labels[first:end])
            miss += delta
        slope_F, gain = weights_N @ values_NF / documents.num_queries, miss / documents.num_queries
        value = 0.5 * float(at_F @ at_F) + self.config.c * (gain + float(slope_F @ at_F))
        if value < self.value:
            self.weights_F, self.value = at_F, value
        gap = (self.value - self.planes.bound) / self.value if self.value else 0.0
        self._logged = {"value": self.value, "gap": gap, "loss": gain + float(slope_F @ at_F)}
        if gap < _ENOUGH:
            return False
        self.planes.add(slope_F, gain)
        return True

    def penalty(self) -> float:
        return 0.5 / self.config.c * float(self.weights_F @ self.weights_F)


class SVMMAP(StructuredSVM):
    @property
    def hinge(self) -> Structured[Any]:
        return MAPHinge(NoSettings())


class SVMNDCG(StructuredSVM):
    @property
    def hinge(self) -> Structured[Any]:
        return NDCGHinge(self.objective(Cutoff))
