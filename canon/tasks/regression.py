"""One number from an input.

The network predicts (y − mean) / std of the training targets; losses are in that unit, metrics in the data's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.targets import Number
from canon.data.schema import Schema
from canon.errors import unknown
from canon.objectives import regression
from canon.tasks.base import Outputs, Task

_OBJECTIVES = {"squared": regression.squared, "absolute": regression.absolute}


class Regression(Task):
    targets = (Number,)
    monitor = "mse"
    rising = ("r2",)

    def __init__(self, objective: str, config: Any, schema: Schema) -> None:
        super().__init__(objective, config, schema)
        if objective not in _OBJECTIVES:
            raise unknown("objective", objective, _OBJECTIVES)

    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        target_B = (batch["target"] - self.schema.target_mean) / self.schema.target_std
        return _OBJECTIVES[self.objective](outputs["logits"].squeeze(1), target_B)

    def predictions(self, outputs: Outputs) -> np.ndarray:
        numbers = outputs["logits"].double().squeeze(1) * self.schema.target_std + self.schema.target_mean
        return numbers.numpy()

    def names(self) -> tuple[str, ...]:
        return ("loss", "mse", "mae", "r2")

    def metrics(self, outputs: Outputs, targets: np.ndarray) -> dict[str, float]:
        predicted = self.predictions(outputs)
        return {
            "mse": metrics.mean_squared_error(targets, predicted),
            "mae": metrics.mean_absolute_error(targets, predicted),
            "r2": metrics.r2(targets, predicted, force_finite=False),  # of equal targets it is undefined
        }

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        scaled = (targets.astype(float) - self.schema.target_mean) / self.schema.target_std
        guess = scaled.mean() if self.objective == "squared" else np.median(scaled)
        error = np.abs(scaled - guess)
        return {"a constant": float((error**2 if self.objective == "squared" else error).mean())}

    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        return [{"prediction": float(number)} for number in self.predictions(outputs)]
