"""One class out of several, from logits.

The objective (canon.objectives.classes) says what logits cost, how they become scores, and whether these are
probabilities. A network with one output for two classes gives f(x): class 1 where f(x) > 0.
Shapes: B examples, C classes, K outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.errors import CanonError
from canon.objectives.classes import ClassLoss, class_weights
from canon.objectives.record import ObjectiveChoice
from canon.objectives.settings import Decided, Weighted
from canon.tasks import guesses
from canon.tasks.base import Decides, NetworkTask, Outputs, PredictsClasses, Turn, ranked

_RARE = 0.2  # share of the training examples under which a class of two is rare
_LEAST = 5  # validation examples of each class to choose a threshold by
_TRIED = 200  # thresholds that are tried, at most
_SIDE = 0.3  # weight of a classifier on the side: Szegedy et al. 2015, section 5


class Classification(NetworkTask, PredictsClasses, Decides):
    monitor = "accuracy"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        asked = choice.settings.class_weights if isinstance(choice.settings, Weighted) else "none"  # a learner has none
        weights_C = class_weights(asked, schema.classes, schema.target.counts)
        self.objective: ClassLoss = choice.create(weights_C)
        self.decides = len(schema.classes) == 2 and self.objective.probabilities
        self._asked = choice.settings.threshold if isinstance(choice.settings, Decided) else None
        if isinstance(self._asked, float | int):
            self.threshold = float(self._asked)
            if len(schema.classes) > 2:
                raise CanonError(
                    f"objective.threshold is for two classes, but the data has {len(schema.classes)}: leave it out."
                )

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        output: Tensor | tuple[Tensor, ...] = self.run(network, batch, turn)["logits"]
        logits_BK, *side = output if isinstance(output, tuple) else (output,)
        loss = self.objective.total(logits_BK, batch["target"])
        for side_BK in side:  # classifiers on the side, which a network has only while it trains
            loss = loss + _SIDE * self.objective.total(side_BK, batch["target"])
        return loss

    def names(self) -> tuple[str, ...]:
        return ("loss", "accuracy", "f1_macro", *(["auc"] if len(self.schema.classes) == 2 else []))

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        target_B, scores_BC = np.asarray(columns["target"]), self.scores(outputs).numpy()
        predicted_B = self.decided(outputs)
        scores = {
            "loss": self.objective.losses(outputs["logits"], torch.from_numpy(target_B)).double().mean().item(),
            "accuracy": metrics.accuracy(target_B, predicted_B),
            "f1_macro": metrics.f1(target_B, predicted_B, average="macro"),
        }
        if len(self.schema.classes) == 2 and len(np.unique(target_B)) == 2:
            scores["auc"] = metrics.auc(target_B, scores_BC[:, 1])
        return scores

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return self.objective.floors(targets, len(self.schema.classes))

    def scores(self, outputs: Outputs) -> Tensor:
        """A score per class: probabilities where the objective gives them, else margins."""
        return self.objective.scores(outputs["logits"].float())

    def decided(self, outputs: Outputs) -> np.ndarray:
        if self.threshold is None:
            return super().decided(outputs)
        return (self.scores(outputs)[:, 1] >= self.threshold).long().numpy()

    def decide(self, outputs: Outputs, columns: Columns) -> None:
        """The threshold of the best f1_macro, midway between two probabilities; nearest to ½ of equals."""
        counts, target_B = self.schema.target.counts, np.asarray(columns["target"])
        if self._asked != "auto" or len(counts) != 2 or not 0 < min(counts) < _RARE * sum(counts):
            return
        share_B = self.scores(outputs)[:, 1].double().numpy()
        if min(np.bincount(target_B, minlength=2)) < _LEAST:
            return
        levels = np.unique(share_B)
        between = np.append((levels[1:] + levels[:-1]) / 2, 0.5)
        tried = sorted(
            {0.5, *np.quantile(between, np.linspace(0, 1, _TRIED)).tolist()}, key=lambda level: abs(level - 0.5)
        )
        self.threshold = max(tried, key=lambda level: metrics.f1(target_B, share_B >= level, average="macro"))

    def shortfall(self, outputs: Outputs, columns: Columns) -> str:
        target = self.schema.target
        return guesses.of_classes(np.asarray(columns["target"]), self.decided(outputs), target.classes, target.counts)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        name = "probability" if self.objective.probabilities else "score"
        first = None if self.threshold is None else self.decided(outputs)
        return ranked(self.scores(outputs), self.schema.classes, top, name, first)
