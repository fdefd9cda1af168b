"""Fine-tuning for whole texts: a class or a number of a text or of two, the right one of several choices.

Metrics are GLUE's (Wang et al. 2018): accuracy, F1 over classes, Matthews' correlation (CoLA), Pearson's and Spearman's
correlation (STS-B); of choices, accuracy.
Shapes: B examples, S sequences, C classes, K the most choices of an example.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.data.targets import Number
from canon.nn.ragged import Layout
from canon.objectives.classification import CrossEntropy
from canon.tasks.base import Outputs
from canon.tasks.finetune_kinds import Kind

_MOST_CHOICES = 16  # outputs have one width for all batches


class Classes(Kind):
    monitor = "accuracy"
    rising = ("accuracy", "f1_macro", "matthews")
    of_classes = True

    def count(self, batch: Batch) -> int:
        return len(batch["part_lengths"])

    def losses(self, logits_BC: Tensor, batch: Batch) -> Tensor:
        return self.objective.losses(logits_BC, batch["target"])

    def outputs(self, logits_BC: Tensor, batch: Batch) -> Outputs:
        found = {"logits": logits_BC}
        if "target" in batch:
            found |= {"loss": self.losses(logits_BC, batch), "count": torch.ones(len(logits_BC))}
        return found

    def names(self) -> tuple[str, ...]:
        return ("accuracy", "f1_macro", "matthews")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        target_B, predicted_B = np.asarray(columns["target"]), outputs["logits"].argmax(1).numpy()
        return {
            "accuracy": metrics.accuracy(target_B, predicted_B),
            "f1_macro": metrics.f1(target_B, predicted_B, average="macro"),
            "matthews": metrics.matthews(target_B, predicted_B),
        }

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return self.objective.floors(targets, len(self.classes))

    def scores(self, outputs: Outputs) -> Tensor:
        """A probability per class, [B, C]."""
        return self.objective.scores(outputs["logits"])

    def records(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        share_BC, order_BC = self.scores(outputs).sort(dim=1, descending=True)
        rows = []
        for shares, order in zip(share_BC[:, :top].tolist(), order_BC[:, :top].tolist(), strict=True):
            ranked = [{"class": self.classes[c], "probability": p} for c, p in zip(order, shares, strict=True)]
            rows.append({"prediction": ranked[0]["class"], "top": ranked})
        return rows


class Numbers(Kind):
    monitor = "spearman"
    rising = ("pearson", "spearman")

    def __init__(self, objective: CrossEntropy, config: Any, schema: Schema) -> None:
        super().__init__(objective, config, schema)
        assert isinstance(schema.target, Number)
        self.target = schema.target

    def count(self, batch: Batch) -> int:
        return len(batch["part_lengths"])

    def losses(self, logits_B1: Tensor, batch: Batch) -> Tensor:
        target_B = self.target.scaled(batch["target"])
        return (logits_B1.squeeze(1) - target_B) ** 2

    def outputs(self, logits_B1: Tensor, batch: Batch) -> Outputs:
        found = {"logits": logits_B1}
        if "target" in batch:
            found |= {"loss": self.losses(logits_B1, batch), "count": torch.ones(len(logits_B1))}
        return found

    def numbers(self, outputs: Outputs) -> np.ndarray:
        """In the unit of the data."""
        return self.target.restored(outputs["logits"].double().squeeze(1)).numpy()

    def names(self) -> tuple[str, ...]:
        return ("pearson", "spearman", "mse")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        target_B, predicted_B = np.asarray(columns["target"]), self.numbers(outputs)
        return {
            "pearson": metrics.pearson(target_B, predicted_B),
            "spearman": metrics.spearman(target_B, predicted_B),
            "mse": metrics.mean_squared_error(target_B, predicted_B),
        }

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        scaled = self.target.scaled(targets.astype(float))
        return {"a constant": float(scaled.var())}

    def records(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return [{"prediction": float(number)} for number in self.numbers(outputs)]


class Choices(Kind):
    monitor = "accuracy"
    rising = ("accuracy",)

    def count(self, batch: Batch) -> int:
        return len(batch["part_lengths"])

    def shares(self, batch: Batch) -> Tensor:
        """The choices of one question have one target together."""
        return (1.0 / batch["part_lengths"]).repeat_interleave(batch["part_lengths"])

    def _grid(self, logits_S1: Tensor, batch: Batch) -> Tensor:
        """[B, K] the outputs of each example's choices; −∞ where it has fewer."""
        layout = Layout(batch["part_lengths"], logits_S1.device)
        return layout.pad(logits_S1.squeeze(1), fill=float("-inf"))

    def losses(self, logits_S1: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(self._grid(logits_S1, batch), batch["target"], reduction="none")

    def outputs(self, logits_S1: Tensor, batch: Batch) -> Outputs:
        grid_BK = self._grid(logits_S1, batch)
        wide_BK = F.pad(grid_BK, (0, max(_MOST_CHOICES - grid_BK.shape[1], 0)), value=float("-inf"))
        found = {"logits": wide_BK[:, :_MOST_CHOICES]}
        if "target" in batch:
            found |= {"loss": self.losses(logits_S1, batch), "count": torch.ones(len(grid_BK))}
        return found

    def names(self) -> tuple[str, ...]:
        return ("accuracy",)

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        return {"accuracy": metrics.accuracy(np.asarray(columns["target"]), outputs["logits"].argmax(1).numpy())}

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return {}  # the number of choices may differ

    def records(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        share_BK, order_BK = outputs["logits"].softmax(1).sort(dim=1, descending=True)
        rows = []
        for row, (shares, order) in enumerate(zip(share_BK.tolist(), order_BK.tolist(), strict=True)):
            names, texts = columns["choices"][row]  # type: ignore[index]
            ranked = [
                {"choice": names[k], "text": texts[k], "probability": share}
                for k, share in zip(order[: len(texts)], shares, strict=False)
            ][:top]
            rows.append({"prediction": ranked[0]["choice"], "top": ranked})
        return rows
