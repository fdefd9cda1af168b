"""One class out of several, from logits.

The objective (canon.objectives.classes) says what logits cost, how they become scores, and whether these are
probabilities. A network with one output for two classes gives f(x): class 1 where f(x) > 0.
Shapes: B examples, C classes, K outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.schema import Schema
from canon.data.targets import Class
from canon.objectives.classes import ClassLoss, class_weights
from canon.objectives.record import Choice
from canon.objectives.settings import Weighted
from canon.tasks.base import Outputs, Task

_SIDE = 0.3  # weight of a classifier on the side: Szegedy et al. 2015, section 5


class Classification(Task):
    targets = (Class,)
    monitor = "accuracy"
    rising = ("accuracy", "f1_macro", "auc")

    def __init__(self, choice: Choice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        asked = choice.settings.class_weights if isinstance(choice.settings, Weighted) else "none"  # a learner has none
        weights_C = class_weights(asked, schema.classes, schema.target.counts)
        self.objective: ClassLoss = choice.create(weights_C)

    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        return self.objective.losses(outputs["logits"], batch["target"])

    def loss(self, network: nn.Module, batch: Batch, phase: str) -> Tensor:
        output: Tensor | tuple[Tensor, ...] = self.run(network, batch)["logits"]
        logits_BK, *side = output if isinstance(output, tuple) else (output,)
        loss = self.objective.total(logits_BK, batch["target"])
        for side_BK in side:  # classifiers on the side, which a network has only while it trains
            loss = loss + _SIDE * self.objective.total(side_BK, batch["target"])
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
        return self.objective.floors(targets, len(self.schema.classes))

    def scores(self, outputs: Outputs) -> Tensor:
        """A score per class: probabilities where the objective gives them, else margins."""
        return self.objective.scores(outputs["logits"].float())

    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        scores_BC, order_BC = self.scores(outputs).sort(dim=1, descending=True)
        name = "probability" if self.objective.probabilities else "score"
        rows = []
        for scores, order in zip(scores_BC[:, :top].tolist(), order_BC[:, :top].tolist(), strict=True):
            ranked = [{"class": self.schema.classes[i], name: score} for i, score in zip(order, scores, strict=True)]
            rows.append({"prediction": ranked[0]["class"], "top": ranked})
        return rows
