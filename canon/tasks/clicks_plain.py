"""Clicks, from one output f: P(click) = σ(f). What scores and predicts, whatever learned the output.

Shapes: B examples.
"""

from __future__ import annotations

import numpy as np

from canon import metrics
from canon.data.schema import Columns
from canon.tasks.base import DrawsPictures, Outputs
from canon.tasks.classes import ClassTask, PlainClasses


class ClickScores(ClassTask, DrawsPictures):
    monitor = "auc"

    def names(self) -> tuple[str, ...]:
        return ("loss", "auc", "user_auc", "ece", "accuracy")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        target_B, click_B = np.asarray(columns["target"]), self.scores(outputs)[:, 1]
        scores = {"loss": float(self.losses(outputs["logits"], target_B).mean())}
        if len(np.unique(target_B)) == 2:
            scores["auc"] = metrics.auc(target_B, outputs["logits"][:, 0])
        if "user" in columns:
            by_user = metrics.grouped_auc(target_B, outputs["logits"][:, 0], np.asarray(columns["user"]))
            scores |= {} if by_user is None else {"user_auc": by_user}
        ece, right = metrics.expected_calibration_error(target_B, click_B), self.decided(outputs)
        return {**scores, "ece": ece, "accuracy": metrics.accuracy(target_B, right)}

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        """By the AUC of chance, whose standard error is that of ranks without a relation: √((n + 1)/(12 p q))."""
        target_B = np.asarray(columns["target"])
        clicks, others = int(target_B.sum()), int((1 - target_B).sum())
        if not clicks or not others:
            return ""
        auc = metrics.auc(target_B, outputs["logits"][:, 0])
        if auc > 0.5 + 1.64 * np.sqrt((clicks + others + 1) / (12 * clicks * others)):
            return ""
        return f"no better than an order by chance: auc {auc:.3f} against 0.5 on {len(target_B):,} examples"

    def pictures(self, outputs: Outputs, columns: Columns) -> dict[str, bytes]:
        from canon.tasks import pictures

        if not pictures.can_draw():
            return {}
        curve = metrics.calibration_curve(np.asarray(columns["target"]), self.scores(outputs)[:, 1])
        return {"calibration": pictures.calibration(curve.probability, curve.share)}


class PlainClicks(ClickScores, PlainClasses):
    """Of a learner that needs no torch."""
