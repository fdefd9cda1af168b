"""One class out of several, from logits.

Objectives: cross-entropy (softmax), logistic and hinge (one class against the rest, in ±1 form), exponential.
A network with one output for two classes gives f(x): class 1 where f(x) > 0. Shapes: B examples, C classes, K outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.targets import Class
from canon.data.schema import Schema
from canon.errors import unknown
from canon.objectives import classification, margin
from canon.tasks.base import Outputs, Task

_MARGIN_LOSSES = {"logistic": margin.logistic, "hinge": margin.hinge}
_SIDE = 0.3  # weight of a classifier on the side: Szegedy et al. 2015, section 5
_OBJECTIVES = ("cross-entropy", "exponential", *_MARGIN_LOSSES)


class Classification(Task):
    targets = (Class,)
    monitor = "accuracy"
    rising = ("accuracy", "f1_macro", "auc")

    def __init__(self, objective: str, config: Any, schema: Schema) -> None:
        super().__init__(objective, config, schema)
        if objective not in _OBJECTIVES:
            raise unknown("objective", objective, _OBJECTIVES)
        self._smoothing = getattr(config, "label_smoothing", 0.0)

    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        logits_BK, target_B = outputs["logits"], batch["target"]
        if self.objective == "cross-entropy":
            return classification.cross_entropy(logits_BK, target_B, smoothing=self._smoothing)
        if self.objective == "exponential":
            return margin.multiclass_exponential(logits_BK, target_B)
        return margin.one_vs_rest(logits_BK, target_B, _MARGIN_LOSSES[self.objective])

    def loss(self, network: nn.Module, batch: Batch, phase: str) -> Tensor:
        if self.objective != "cross-entropy":
            return super().loss(network, batch, phase)
        output: Tensor | tuple[Tensor, ...] = self.run(network, batch)["logits"]
        logits_BC, *side = output if isinstance(output, tuple) else (output,)
        loss = classification.cross_entropy(logits_BC, batch["target"], self._smoothing, reduction="sum")
        for side_BC in side:  # classifiers on the side, which a network has only while it trains
            side_loss = classification.cross_entropy(side_BC, batch["target"], self._smoothing, reduction="sum")
            loss = loss + _SIDE * side_loss
        return loss

    def names(self) -> tuple[str, ...]:
        return ("loss", "accuracy", "f1_macro", *(["auc"] if len(self.schema.classes) == 2 else []))

    def metrics(self, outputs: Outputs, targets: np.ndarray) -> dict[str, float]:
        scores_BC = self.scores(outputs).numpy()
        predicted_B = scores_BC.argmax(axis=1)
        found = {
            "accuracy": metrics.accuracy(targets, predicted_B),
            "f1_macro": metrics.f1(targets, predicted_B, average="macro"),
        }
        if len(self.schema.classes) == 2 and len(np.unique(targets)) == 2:
            found["auc"] = metrics.auc(targets, scores_BC[:, 1])
        return found

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        if self.objective != "cross-entropy":
            return {}
        shares = np.bincount(targets, minlength=len(self.schema.classes)) / len(targets)
        return {"uniform": float(np.log(len(self.schema.classes))), "class shares": metrics.entropy(shares, base=np.e)}

    def scores(self, outputs: Outputs) -> Tensor:
        """A score per class: probabilities where the objective gives them, else margins."""
        logits_BK = outputs["logits"].float()
        if logits_BK.shape[1] == 1:
            logits_BK = torch.cat([-logits_BK, logits_BK], dim=1)
            return logits_BK.sigmoid() if self.objective == "logistic" else logits_BK
        if self.objective == "cross-entropy":
            return logits_BK.softmax(dim=1)
        return logits_BK.sigmoid() if self.objective == "logistic" else logits_BK

    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        scores_BC, order_BC = self.scores(outputs).sort(dim=1, descending=True)
        name = "probability" if self.objective in ("cross-entropy", "logistic") else "score"
        rows = []
        for scores, order in zip(scores_BC[:, :top].tolist(), order_BC[:, :top].tolist(), strict=True):
            ranked = [{"class": self.schema.classes[i], name: score} for i, score in zip(order, scores, strict=True)]
            rows.append({"prediction": ranked[0]["class"], "top": ranked})
        return rows
