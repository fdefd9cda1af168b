"""Minimises ½‖w‖² + C·R(w), R convex and at least 0, by planes below R.

Joachims, Finley and Yu 2009, Cutting-plane training of structural SVMs, algorithm 3 (one slack); Teo et al. 2010,
Bundle methods for regularized risk minimization. R is at least the largest of its planes a_t·w + b_t and 0. Over their
weights α (Σ α = C, α ≥ 0; the plane 0 takes what is left) this is the minimum of ½αᵀKα − bᵀα, K = AAᵀ, w = −Aᵀα,
which `least` finds by an interior point method (Mehrotra 1992). Planes without weight for 50 steps are dropped.
`PlaneLearner` is what linear scorers share that learn so. Shapes: T planes, N documents, F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from canon.contracts import Context
from canon.systems.ranking.learner import RankingLearner

_IDLE = 50


def least(gram_TT: np.ndarray, gains_T: np.ndarray) -> np.ndarray:
    """The α that minimises ½αᵀKα − bᵀα with Σ α = 1 and α ≥ 0."""
    size = len(gains_T)
    if size == 1:
        return np.ones(1)
    scale = max(float(np.abs(gram_TT).max()), float(np.abs(gains_T).max()), 1e-300)
    gram, gains = gram_TT / scale, gains_T / scale
    a, z, y = np.full(size, 1 / size), np.ones(size), 0.0
    for _ in range(100):
        dual = gram @ a - gains - y - z
        gap = float(a @ z) / size
        if gap < 1e-15 and np.abs(dual).max() < 1e-13 and abs(a.sum() - 1) < 1e-13:
            break
        system = np.linalg.inv(gram + np.diag(z / a))
        # Towards a_i z_i = 0 first; how far that leads says what to aim for.
        da, _, dz = _newton(system, a, z, dual, np.zeros(size))
        ahead = float((a + _reach(a, da) * da) @ (z + _reach(z, dz) * dz)) / size
        da, dy, dz = _newton(system, a, z, dual, (ahead / gap) ** 3 * gap - da * dz)
        length = 0.995 * min(_reach(a, da), _reach(z, dz))
        a, z, y = a + length * da, z + length * dz, y + length * dy
    a = np.where(a > 1e-9, a, 0.0)
    return np.asarray(a / a.sum())


def _newton(
    system: np.ndarray, a: np.ndarray, z: np.ndarray, dual: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """The step to a_i z_i = target_i, Σ a = 1 and dual = 0."""
    with_ones, step = system.sum(axis=1), system @ (-dual + (target - a * z) / a)
    dy = (1 - a.sum() - step.sum()) / with_ones.sum()
    da = step + dy * with_ones
    return da, float(dy), (target - a * z - z * da) / a


def _reach(at: np.ndarray, step: np.ndarray) -> float:
    """How far one may go until something is 0; at most 1 / 0.995."""
    down = step < 0
    return min(1.0 / 0.995, float((-at[down] / step[down]).min(initial=np.inf)))


class Planes:
    """The planes of R so far, and the minimum over them."""

    def __init__(self, size: int, c: float) -> None:
        self.c = c
        self.slopes_TF, self.gains_T = np.zeros((1, size)), np.zeros(1)  # the plane 0
        self.idle_T = np.zeros(1, np.int64)
        self.weights_F, self.bound = np.zeros(size), 0.0

    def add(self, slope_F: np.ndarray, gain: float) -> None:
        self.slopes_TF = np.vstack([self.slopes_TF, slope_F])
        self.gains_T = np.append(self.gains_T, gain)
        self.idle_T = np.append(self.idle_T, 0)
        a_T = self.c * least(self.c * (self.slopes_TF @ self.slopes_TF.T), self.gains_T)
        self.weights_F = -(a_T @ self.slopes_TF)
        self.bound = float(self.gains_T @ a_T - 0.5 * self.weights_F @ self.weights_F)
        self.idle_T = np.where(a_T > 0, 0, self.idle_T + 1)
        self.idle_T[0] = 0
        kept = self.idle_T < _IDLE
        self.slopes_TF, self.gains_T, self.idle_T = self.slopes_TF[kept], self.gains_T[kept], self.idle_T[kept]

    def tensors(self) -> dict[str, np.ndarray]:
        return {"slopes": self.slopes_TF, "gains": self.gains_T, "idle": self.idle_T}

    def take(self, tensors: dict[str, np.ndarray], weights_F: np.ndarray) -> None:
        self.slopes_TF, self.gains_T = np.array(tensors["slopes"]), np.array(tensors["gains"])
        self.idle_T, self.weights_F = np.array(tensors["idle"]), np.array(weights_F)


class PlaneLearner(RankingLearner):
    """A linear scorer, its weights those of the least value so far."""

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.weights_F, self.value = np.zeros(config.shape[0]), np.inf
        self.planes = Planes(config.shape[0], config.c)

    @property
    def num_parameters(self) -> int:
        return len(self.weights_F)

    def importances(self) -> dict[str, np.ndarray]:
        return {"weight": self.weights_F}

    def scores(self, values_NF: np.ndarray) -> np.ndarray:
        return values_NF.astype(np.float64) @ self.weights_F

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        optimizer = {"value": np.array(self.value), "at": self.planes.weights_F, "bound": np.array(self.planes.bound)}
        return {"model": {"weights": self.weights_F.copy()}, "optimizer": {**optimizer, **self.planes.tensors()}}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.take_state(state)
        self.weights_F = np.array(tensors["model"]["weights"])
        if "optimizer" in tensors:
            kept = tensors["optimizer"]
            self.value, self.planes.bound = float(kept["value"]), float(kept["bound"])
            self.planes.take(dict(kept), kept["at"])
