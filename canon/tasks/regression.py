"""One number from an input.

The network predicts (y − mean) / std of the training targets; losses are in that unit, metrics in the data's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.schema import Schema
from canon.data.targets import Number
from canon.objectives.record import Choice
from canon.tasks.base import Outputs, Task


class Regression(Task):
    targets = (Number,)
    monitor = "mse"
    rising = ("r2",)

    def __init__(self, choice: Choice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema.target, Number)
        self.target, self.objective = schema.target, choice.create()

    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        return self.objective.losses(outputs["logits"].squeeze(1), self.target.scaled(batch["target"]))

    def numbers(self, outputs: Outputs) -> np.ndarray:
        return self.target.restored(outputs["logits"].double().squeeze(1)).numpy()

    def names(self) -> tuple[str, ...]:
        return ("loss", "mse", "mae", "r2")

    def metrics(self, outputs: Outputs, targets: np.ndarray) -> dict[str, float]:
        predicted = self.numbers(outputs)
        return {
            "mse": metrics.mean_squared_error(targets, predicted),
            "mae": metrics.mean_absolute_error(targets, predicted),
            "r2": metrics.r2(targets, predicted, force_finite=False),  # of equal targets it is undefined
        }

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return {"a constant": self.objective.floor(self.target.scaled(targets.astype(float)))}

    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        return [{"prediction": float(number)} for number in self.numbers(outputs)]
