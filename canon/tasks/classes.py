"""One class out of several, from scores: metrics and predictions, whatever learned the scores.

`ClassTask` judges what any learner puts out as "logits"; its objective says what they cost and how they become a
score per class: in torch for networks (classification.py), in NumPy for learners that need no torch (`PlainClasses`).
Shapes: B examples, C classes, K outputs (C, or 1 for two classes: class 1 where f > 0).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from canon import metrics
from canon.data.schema import Columns, Schema
from canon.errors import CanonError
from canon.objectives.plain import PlainLoss
from canon.objectives.record import ObjectiveChoice
from canon.objectives.settings import Decided
from canon.tasks import guesses
from canon.tasks.base import Decides, Outputs, PredictsClasses, Remarks, Task, ranked

_RARE = 0.2  # share of the training examples under which a class of two is rare
_LEAST = 5  # validation examples of each class to choose a threshold by
_TRIED = 200  # thresholds that are tried, at most


class ClassTask(Task, PredictsClasses, Decides, Remarks):
    monitor = "accuracy"
    probabilities: bool = False  # whether `scores` are

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        self.decides = len(schema.classes) == 2 and self.probabilities
        self._asked = choice.settings.threshold if isinstance(choice.settings, Decided) else None
        if isinstance(self._asked, float | int):
            self.threshold = float(self._asked)
            if len(schema.classes) > 2:
                raise CanonError(
                    f"objective.threshold is for two classes, but the data has {len(schema.classes)}: leave it out."
                )

    @abstractmethod
    def losses(self, logits_BK: np.ndarray, target_B: np.ndarray) -> np.ndarray:
        """float64 [B] what the outputs cost."""

    def names(self) -> tuple[str, ...]:
        return ("loss", "accuracy", "f1_macro", *(["auc"] if len(self.schema.classes) == 2 else []))

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        target_B, scores_BC = np.asarray(columns["target"]), self.scores(outputs)
        predicted_B = self.decided(outputs)
        scores = {
            "loss": float(self.losses(outputs["logits"], target_B).mean()),
            "accuracy": metrics.accuracy(target_B, predicted_B),
            "f1_macro": metrics.f1(target_B, predicted_B, average="macro"),
        }
        if len(self.schema.classes) == 2 and len(np.unique(target_B)) == 2:
            scores["auc"] = metrics.auc(target_B, scores_BC[:, 1])
        return scores

    def decided(self, outputs: Outputs) -> np.ndarray:
        if self.threshold is None:
            return super().decided(outputs)
        return (self.scores(outputs)[:, 1] >= self.threshold).astype(np.int64)

    def decide(self, outputs: Outputs, columns: Columns) -> None:
        """The threshold of the best f1_macro, midway between two probabilities; nearest to ½ of equals."""
        counts, target_B = self.schema.target.counts, np.asarray(columns["target"])
        if self._asked != "auto" or len(counts) != 2 or not 0 < min(counts) < _RARE * sum(counts):
            return
        share_B = self.scores(outputs)[:, 1].astype(np.float64)
        rare = int(np.argmin(counts))
        least = int((target_B == rare).sum())
        if min(least, len(target_B) - least) < _LEAST:
            self.remarks = (
                f'"{self.schema.classes[rare]}" is {counts[rare] / sum(counts):.1%} of the training examples, and '
                f"{least:,} of {len(target_B):,} validation examples are too few to choose a threshold by "
                '(objective.threshold, a higher data.valid); objective.class_weights = "balanced" makes it count more.',
            )
            return
        levels = np.unique(share_B)
        between = np.append((levels[1:] + levels[:-1]) / 2, 0.5)
        tried = sorted(
            {0.5, *np.quantile(between, np.linspace(0, 1, _TRIED)).tolist()}, key=lambda level: abs(level - 0.5)
        )
        self.threshold = max(tried, key=lambda level: metrics.f1(target_B, share_B >= level, average="macro"))

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        target = self.schema.target
        return guesses.of_classes(np.asarray(columns["target"]), self.decided(outputs), target.classes, target.counts)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        name = "probability" if self.probabilities else "score"
        first = None if self.threshold is None else self.decided(outputs)
        return ranked(self.scores(outputs), self.schema.classes, top, name, first)


class PlainClasses(ClassTask):
    """Of a learner that needs no torch."""

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        self.objective: PlainLoss = choice.create_plain()
        self.probabilities = self.objective.probabilities
        super().__init__(choice, config, schema)

    def losses(self, logits_BC: np.ndarray, target_B: np.ndarray) -> np.ndarray:
        return self.objective.losses(logits_BC, target_B)

    def scores(self, outputs: Outputs) -> np.ndarray:
        return self.objective.scores(outputs["logits"])
