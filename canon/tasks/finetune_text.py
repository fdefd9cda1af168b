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
from canon.data.batching.framed import FramedTexts
from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.data.targets import Number
from canon.nn.ragged import Layout
from canon.objectives.classification import distribution_cross_entropy
from canon.objectives.record import ObjectiveChoice
from canon.tasks import guesses
from canon.tasks.base import FitsGraphs, Outputs, PredictsClasses, PredictsNumbers, ranked
from canon.tasks.finetune import FineTuningTask

_MOST_CHOICES = 16  # outputs have one width for all batches


class TextClasses(FineTuningTask, PredictsClasses, FitsGraphs):
    metrics = ("accuracy", "f1_macro", "matthews")
    of_classes = True
    of_sequences = ("target",)

    def longest(self, columns: Columns) -> int:
        texts = columns["input"]
        assert isinstance(texts, FramedTexts)
        return 0 if self.auxiliary else int(texts.lengths_S.max())

    def losses(self, logits_BC: Tensor, batch: Batch) -> Tensor:
        """Where a text has a probability of each class (distillation), of these: −Σ_c p_c log softmax(f)_c."""
        if "soft" in batch:
            return distribution_cross_entropy(logits_BC, batch["soft"].to(logits_BC.dtype))
        return self.objective.losses(logits_BC, batch["target"])

    def predicted(self, logits_BC: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"logits": logits_BC}

    def measure(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        target_B, predicted_B = np.asarray(columns["target"]), outputs["logits"].argmax(1)
        return {
            "accuracy": metrics.accuracy(target_B, predicted_B),
            "f1_macro": metrics.f1(target_B, predicted_B, average="macro"),
            "matthews": metrics.matthews(target_B, predicted_B),
        }

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        target = self.schema.target
        return guesses.of_classes(np.asarray(columns["target"]), self.decided(outputs), target.classes, target.counts)

    def scores(self, outputs: Outputs) -> np.ndarray:
        """A probability per class, [B, C]."""
        scores_BC: Tensor = self.objective.scores(torch.from_numpy(outputs["logits"]))
        return scores_BC.numpy()

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return ranked(self.scores(outputs), self.schema.classes, top)


class TextNumbers(FineTuningTask, PredictsNumbers):
    monitor = "spearman"
    metrics = ("pearson", "spearman", "mse")

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema.target, Number)
        self.target = schema.target

    def losses(self, logits_B1: Tensor, batch: Batch) -> Tensor:
        return (logits_B1.squeeze(1) - self.target.scaled(batch["target"])) ** 2

    def predicted(self, logits_B1: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"logits": logits_B1}

    def numbers(self, outputs: Outputs) -> np.ndarray:
        return np.asarray(self.target.restored(outputs["logits"].astype(np.float64).squeeze(1)))

    def measure(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        target_B, predicted_B = np.asarray(columns["target"]), self.numbers(outputs)
        return {
            "pearson": metrics.pearson(target_B, predicted_B),
            "spearman": metrics.spearman(target_B, predicted_B),
            "mse": metrics.mean_squared_error(target_B, predicted_B),
        }

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        return guesses.of_numbers(np.asarray(columns["target"]), self.numbers(outputs), self.target.mean)

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return {} if self.auxiliary else {"a constant": float(self.target.scaled(targets.astype(float)).var())}

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return [{"prediction": float(number)} for number in self.numbers(outputs)]


class TextChoices(FineTuningTask):
    metrics = ("accuracy",)

    def shares(self, batch: Batch) -> Tensor:
        """The choices of one question have one target together."""
        return (1.0 / batch["part_lengths"]).repeat_interleave(batch["part_lengths"])

    def _grid(self, logits_S1: Tensor, batch: Batch) -> Tensor:
        """[B, K] the outputs of each example's choices; −∞ where it has fewer."""
        layout = Layout(batch["part_lengths"], logits_S1.device)
        return layout.pad(logits_S1.squeeze(1), fill=float("-inf"))

    def losses(self, logits_S1: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(self._grid(logits_S1, batch), batch["target"], reduction="none")

    def predicted(self, logits_S1: Tensor, batch: Batch) -> dict[str, Tensor]:
        grid_BK = self._grid(logits_S1, batch)
        wide_BK = F.pad(grid_BK, (0, max(_MOST_CHOICES - grid_BK.shape[1], 0)), value=float("-inf"))
        return {"logits": wide_BK[:, :_MOST_CHOICES]}

    def measure(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        return {"accuracy": metrics.accuracy(np.asarray(columns["target"]), outputs["logits"].argmax(1))}

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        sizes = np.array([len(texts) for _, texts in columns["choices"]])  # type: ignore[union-attr]
        places = np.asarray(train.get("target", ()), dtype=np.int64)
        return guesses.of_choices(np.asarray(columns["target"]), outputs["logits"].argmax(1), sizes, places)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        share_BK, order_BK = torch.from_numpy(outputs["logits"]).softmax(1).sort(dim=1, descending=True)
        rows = []
        for row, (shares, order) in enumerate(zip(share_BK.tolist(), order_BK.tolist(), strict=True)):
            names, texts = columns["choices"][row]  # type: ignore[index]
            best = [
                {"choice": names[k], "text": texts[k], "probability": share}
                for k, share in zip(order[: len(texts)], shares, strict=False)
            ][:top]
            rows.append({"prediction": best[0]["choice"], "top": best})
        return rows
