"""One number from an input.

The network predicts (y − mean) / std of the training targets; losses are in that unit, metrics in the data's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.data.targets import Number
from canon.objectives.record import ObjectiveChoice
from canon.tasks import guesses
from canon.tasks.base import NetworkTask, Outputs, PredictsNumbers, Turn


class Regression(NetworkTask, PredictsNumbers):
    monitor = "mse"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema.target, Number)
        self.target, self.objective = schema.target, choice.create()

    def losses(self, logits_B1: Tensor, target_B: Tensor) -> Tensor:
        return self.objective.losses(logits_B1.squeeze(1), self.target.scaled(target_B))

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        return self.losses(self.run(network, batch, turn)["logits"], batch["target"]).sum()

    def numbers(self, outputs: Outputs) -> np.ndarray:
        return np.asarray(self.target.restored(outputs["logits"].astype(np.float64).squeeze(1)))

    def names(self) -> tuple[str, ...]:
        return ("loss", "mse", "mae", "r2", "spearman")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        target_B, predicted_B = np.asarray(columns["target"]), self.numbers(outputs)
        losses_B = self.losses(torch.from_numpy(outputs["logits"]), torch.from_numpy(target_B))
        return {
            "loss": losses_B.double().mean().item(),
            "mse": metrics.mean_squared_error(target_B, predicted_B),
            "mae": metrics.mean_absolute_error(target_B, predicted_B),
            "r2": metrics.r2(target_B, predicted_B, force_finite=False),  # of equal targets it is undefined
            "spearman": metrics.spearman(target_B, predicted_B),
        }

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return {"a constant": self.objective.floor(self.target.scaled(targets.astype(float)))}

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        return guesses.of_numbers(np.asarray(columns["target"]), self.numbers(outputs), self.target.mean)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return [{"prediction": float(number)} for number in self.numbers(outputs)]
