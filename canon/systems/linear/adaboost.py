"""AdaBoost with decision stumps: a learner that is not a gradient loop; one step is one round of boosting.

Freund and Schapire 1997; for K > 2 classes SAMME (Zhu, Zou, Rosset and Hastie 2009, Multi-class AdaBoost, algorithm 2):
  err = Σ_i w_i [h(x_i) ≠ y_i] / Σ w_i       α = log((1 − err)/err) + log(K − 1)       w_i ← w_i exp(α [h(x_i) ≠ y_i])
in `step`; the stump of least weighted error in `_best_stump`; the additive model f_k(x) = Σ_m β_m g_mk(x), with
β = α (K−1)²/K and g = 1 for the class voted for, −1/(K−1) for the others (their eq. 4 and 9), in `outputs`.
Deviations: none. Shapes: N examples, F features, K classes, M rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context, Learner
from canon.data.schema import Columns, Data, num_examples
from canon.systems.settings import Classes, Shape

_LEAST_ERROR = 1e-10  # a perfect stump would have an infinite vote


@settings
class Config:
    shape: Shape = Field(default=(8,), description="of one input; the data decides")
    num_classes: Classes = Field(default=2, description="the data decides")


class AdaBoost(Learner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.num_features = math.prod(config.shape)
        self.num_classes = config.num_classes
        self.stumps: list[tuple[int, float, int, int]] = []  # feature, threshold, class at or below it, class above
        self.votes: list[float] = []
        self.weights_N = np.zeros(0)
        self._error = 0.0

    @property
    def num_parameters(self) -> int:
        return 5 * len(self.votes)

    def begin(self, data: Data, batch: int, steps: int) -> None:
        columns = data.splits["train"]
        self._input_NF = _features(columns)
        self._target_N = np.asarray(columns["target"])
        self._order_FN = np.argsort(self._input_NF, axis=0, kind="stable").T.copy()
        self.weights_N = np.full(len(self._target_N), 1 / len(self._target_N))

    def step(self, number: int) -> bool:
        stump, error = self._best_stump()
        if error >= 1 - 1 / self.num_classes:  # no stump is better than chance on these weights
            return False
        self._error = max(error, _LEAST_ERROR)
        vote = math.log((1 - self._error) / self._error) + math.log(self.num_classes - 1)
        self.stumps.append(stump)
        self.votes.append(vote)
        wrong_N = _vote(stump, self._input_NF) != self._target_N
        self.weights_N *= np.exp(vote * wrong_N)
        self.weights_N /= self.weights_N.sum()
        return error > 0

    def _best_stump(self) -> tuple[tuple[int, float, int, int], float]:
        """The stump of least weighted error; ties go to the first feature and the lowest threshold."""
        weights_NK = np.zeros((len(self._target_N), self.num_classes))
        weights_NK[np.arange(len(self._target_N)), self._target_N] = self.weights_N
        total_K = weights_NK.sum(axis=0)
        best, least = (0, math.inf, int(total_K.argmax()), int(total_K.argmax())), 1 - total_K.max()
        for feature in range(self.num_features):
            order_N = self._order_FN[feature]
            sorted_N = self._input_NF[order_N, feature]
            below_NK = np.cumsum(weights_NK[order_N], axis=0)
            right_N = below_NK.max(axis=1) + (total_K - below_NK).max(axis=1)
            right_N[:-1][sorted_N[:-1] == sorted_N[1:]] = -1  # no threshold lies between equal values
            cut = int(right_N[:-1].argmax()) if len(right_N) > 1 else 0
            # Sums in another order differ in the last bits; a new stump must be better by more than that.
            if len(right_N) > 1 and 1 - right_N[cut] < least - 1e-12:
                least = 1 - right_N[cut]
                low, high = sorted_N[cut], sorted_N[cut + 1]
                middle = (low + high) / 2
                threshold = float(middle if middle < high else low)  # neighbouring floats have nothing between them
                classes = int(below_NK[cut].argmax()), int((total_K - below_NK[cut]).argmax())
                best = (feature, threshold, *classes)
        return best, float(max(least, 0.0))

    def logs(self) -> dict[str, float]:
        return {"weighted_error": self._error}

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        columns = list(zip(*self.stumps, strict=True)) or [(), (), (), ()]
        model = {
            "feature": np.array(columns[0], np.int64),
            "threshold": np.array(columns[1], np.float64),
            "class_below": np.array(columns[2], np.int64),
            "class_above": np.array(columns[3], np.int64),
            "vote": np.array(self.votes, np.float64),
        }
        return {"model": model, "optimizer": {"weights": self.weights_N.copy()}}

    def state(self) -> dict[str, Any]:
        return {"error": self._error}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        model = tensors["model"]
        names = ("feature", "threshold", "class_below", "class_above")
        self.stumps = list(zip(*(model[name].tolist() for name in names), strict=True))
        self.votes = model["vote"].tolist()
        self._error = state.get("error", 0.0)
        if "optimizer" in tensors:
            self.weights_N = np.array(tensors["optimizer"]["weights"])

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        input_NF = _features(columns)
        scores_NK = np.zeros((num_examples(columns), self.num_classes))
        others = -1 / (self.num_classes - 1)
        for stump, vote in zip(self.stumps, self.votes, strict=True):
            beta = vote * (self.num_classes - 1) ** 2 / self.num_classes
            scores_NK += beta * others
            scores_NK[np.arange(len(scores_NK)), _vote(stump, input_NF)] += beta * (1 - others)
        return {"logits": scores_NK}


def _features(columns: Columns) -> np.ndarray:
    column = columns["input"]
    rows = column if isinstance(column, np.ndarray) else column.take(np.arange(len(column)))
    return rows.reshape(len(rows), -1).astype(np.float32)


def _vote(stump: tuple[int, float, int, int], input_NF: np.ndarray) -> np.ndarray:
    feature, threshold, below, above = stump
    return np.where(input_NF[:, feature] <= threshold, below, above)
