"""The labels of a document, one or several, from a learner that ranks them.

A learner's outputs are labels [n, K] by falling probability, their probabilities [n, K] and losses [n]. What is
predicted for an example are its `top` most likely labels with a probability of `threshold` at least: if neither is set,
one label, or with one-vs-all every label of ½ and more. An example with no label that training knows is not scored, as
in fastText.
Shapes: n examples, K labels ranked for each, L labels in all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.data.batching.documents import LabelLists, unseen_sentence
from canon.data.schema import Columns, Schema
from canon.errors import CanonError
from canon.metrics.classification import divide
from canon.objectives.record import ObjectiveChoice
from canon.objectives.words import OfWords
from canon.tasks import guesses
from canon.tasks.base import ListsLabels, Outputs, Task

_WIDE = 5  # precision and recall are reported at so many labels too, where there are more


class LabelTask(Task, ListsLabels):
    monitor = "accuracy"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        self.objective: OfWords = choice.create()

    def names(self) -> tuple[str, ...]:
        wide = (f"precision@{_WIDE}", f"recall@{_WIDE}") if len(self.schema.classes) > _WIDE else ()
        return ("loss", "accuracy", "f1_micro", "f1_macro", "recall@1", *wide)

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        labels = LabelLists.of(columns["target"])
        unseen = unseen_sentence(labels)
        self.remarks = (unseen[0].upper() + unseen[1:],) if unseen else ()
        scored = np.flatnonzero(labels.lengths)
        if not len(scored):
            raise CanonError("No example has a label that the training examples have; there is nothing to score.")
        labels = labels.take(scored)
        ranked_nK, shares_nK = outputs["labels"][scored], outputs["probabilities"][scored]
        right_nK = _are_right(ranked_nK, labels, len(self.schema.classes))
        scores = {
            "loss": float(outputs["loss"][scored].mean()),
            "accuracy": float(right_nK[:, 0].mean()),
            **self._averages(ranked_nK, shares_nK, right_nK, labels),
        }
        if (labels.lengths > 1).any():
            scores["recall@1"] = right_nK[:, 0].sum() / len(labels.flat)
        if len(self.schema.classes) > _WIDE:
            hits = int(right_nK[:, :_WIDE].sum())
            scores |= {f"precision@{_WIDE}": hits / (_WIDE * len(labels)), f"recall@{_WIDE}": hits / len(labels.flat)}
        return {name: float(value) for name, value in scores.items()}

    def _averages(
        self, ranked_nK: np.ndarray, shares_nK: np.ndarray, right_nK: np.ndarray, labels: LabelLists
    ) -> dict[str, float]:
        """F1 over all predictions and over labels that occur; and the table of each label."""
        size = len(self.schema.classes)
        separate = self.objective.separate
        top = self.top or (size if separate or self.threshold is not None else 1)
        threshold = (0.5 if separate and self.top is None else 0.0) if self.threshold is None else self.threshold
        predicted_nK = (np.arange(ranked_nK.shape[1]) < top) & (shares_nK >= threshold)
        called_L = np.bincount(ranked_nK[predicted_nK], minlength=size)
        hit_L = np.bincount(ranked_nK[predicted_nK & right_nK], minlength=size)
        true_L = np.bincount(labels.flat, minlength=size)
        precision_L, recall_L = divide(hit_L, called_L, 0.0), divide(hit_L, true_L, 0.0)
        f1_L = divide(2 * hit_L, called_L + true_L, 0.0)
        columns = {
            "label": self.schema.classes,
            "precision": precision_L.tolist(),
            "recall": recall_L.tolist(),
            "f1": f1_L.tolist(),
            "examples": true_L.tolist(),
            "predicted": called_L.tolist(),
        }
        self.table = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        micro = 2 * hit_L.sum() / max(called_L.sum() + true_L.sum(), 1)
        return {"f1_micro": micro, "f1_macro": f1_L[(called_L + true_L) > 0].mean()}

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        """Of examples with one label each."""
        shares_L = np.bincount(targets, minlength=len(self.schema.classes)) / len(targets)
        return self.objective.label_floors(shares_L)

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        """Of examples with one label each."""
        labels = LabelLists.of(columns["target"])
        single = np.flatnonzero(labels.lengths == 1)
        true, target = labels.take(single).flat, self.schema.target
        return guesses.of_classes(true, outputs["labels"][single, 0], target.classes, target.counts)

    def scores(self, outputs: Outputs) -> np.ndarray:
        """A probability per label [n, L]; 0 for those that are not ranked."""
        scores_nL = np.zeros((len(outputs["labels"]), len(self.schema.classes)), np.float32)
        np.put_along_axis(scores_nL, outputs["labels"], outputs["probabilities"], axis=1)
        return scores_nL

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        rows = []
        pairs = zip(outputs["labels"][:, :top].tolist(), outputs["probabilities"][:, :top].tolist(), strict=True)
        for labels, shares in pairs:
            ranked = [
                {"class": self.schema.classes[label], "probability": share}
                for label, share in zip(labels, shares, strict=True)
                if share >= (self.threshold or 0.0)
            ]
            rows.append({"prediction": ranked[0]["class"] if ranked else "", "top": ranked})
        return rows


def _are_right(ranked_nK: np.ndarray, labels: LabelLists, size: int) -> np.ndarray:
    """Whether each ranked label is one of the example's labels, bool [n, K]."""
    true = np.repeat(np.arange(len(labels)), labels.lengths) * size + labels.flat
    return np.isin(np.arange(len(labels))[:, None] * size + ranked_nK, true)
