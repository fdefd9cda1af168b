"""What the losses of class scores have in common: weights of classes, scores to rank by, what a constant guess costs.

With weights w an example of class y costs w_y ℓ, and the loss is Σ w_y ℓ / n. Weights are scaled so that Σ w_y = n over
the training examples: there the loss is torch's weighted mean Σ w_y ℓ / Σ w_y. Of a batch it is Σ w_y ℓ over its number
of examples, so that one process and several, and any micro-batches, compute the same gradient, and so that the mean
over batches is the whole; Σ w_y of a batch in the divisor would take the weight off a class that is alone in it.
Shapes: B examples, C classes, K outputs (C, or 1 for two classes: class 1 where f > 0).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from canon.errors import unknown

Settings = TypeVar("Settings")


class ClassLoss(ABC, Generic[Settings]):
    probabilities: ClassVar[bool] = False  # whether `scores` are

    def __init__(self, settings: Settings, weights_C: Tensor | None = None) -> None:
        self.settings = settings
        self.weights_C = weights_C

    @abstractmethod
    def unweighted(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        """One loss per example."""

    def losses(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        """One loss per example, times the weight of its class."""
        return self.weighted(self.unweighted(logits_BK, label_B), label_B)

    def weighted(self, losses_B: Tensor, label_B: Tensor) -> Tensor:
        if self.weights_C is None:
            return losses_B
        if self.weights_C.device != losses_B.device:
            self.weights_C = self.weights_C.to(losses_B.device)
        return losses_B * self.weights_C[label_B.clamp(min=0)]  # what is ignored costs 0

    def total(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        """The sum of `losses`."""
        return self.losses(logits_BK, label_B).sum()

    def scores(self, logits_BK: Tensor) -> Tensor:
        """[B, C] to rank the classes by."""
        return logits_BK if logits_BK.shape[1] > 1 else torch.cat([-logits_BK, logits_BK], dim=1)

    def floors(self, label_N: np.ndarray, num_classes: int) -> dict[str, float]:
        """The loss of predictors that know nothing, or how often each class comes in training, by name."""
        return {}


def class_weights(asked: str | Mapping[str, float], classes: tuple[str, ...], counts: tuple[int, ...]) -> Tensor | None:
    """[C] with the mean 1 over the training examples, of which `counts` are of each class; None for none.

    balanced: n / (C n_c), as scikit-learn has it.
    """
    if asked == "none" or not counts:
        return None
    counts_C = torch.tensor(counts, dtype=torch.float32)
    if isinstance(asked, str):
        return counts_C.sum() / (len(counts_C) * counts_C.clamp(min=1))
    for name in asked:
        if name not in classes:
            raise unknown("class (objective.class_weights)", name, classes)
    weights_C = torch.tensor([asked.get(name, 1.0) for name in classes], dtype=torch.float32)
    return weights_C * (counts_C.sum() / (counts_C * weights_C).sum())
