"""What the kinds of fine-tuning have in common: the contract, sums by example.

Outputs have one row per example: "loss" the sum of its losses and "count" how many targets it has, where there are
targets, and what the kind itself needs. Shapes: B examples, S sequences, C classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.objectives.classification import CrossEntropy
from canon.tasks.base import Outputs


class Kind(ABC):
    monitor: ClassVar[str]
    rising: ClassVar[tuple[str, ...]]
    by_word: ClassVar[bool] = False  # whether the network is asked at the places of words

    of_classes: ClassVar[bool] = False  # whether its targets are classes, which the objective may weight and smooth

    def __init__(self, objective: CrossEntropy, config: Any, schema: Schema) -> None:
        self.objective, self.config, self.schema = objective, config, schema
        self.classes = schema.classes

    @abstractmethod
    def count(self, batch: Batch) -> int:
        """Targets of a batch."""

    def shares(self, batch: Batch) -> Tensor:
        """[S] on the host: of how many targets each sequence is; their sum is `count`."""
        return torch.ones(len(batch["input_lengths"]))

    @abstractmethod
    def losses(self, logits: Tensor, batch: Batch) -> Tensor:
        """One for each target."""

    @abstractmethod
    def outputs(self, logits: Tensor, batch: Batch) -> Outputs: ...

    @abstractmethod
    def names(self) -> tuple[str, ...]: ...

    @abstractmethod
    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]: ...

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return {}

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        return []

    @abstractmethod
    def records(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """Predictions to print; `columns` are those of the outputs."""


def by_example(losses_T: Tensor, lengths_B: Tensor) -> Outputs:
    """Losses of targets end to end, lengths_B[b] of them to example b, as rows of outputs."""
    rows_T = torch.arange(len(lengths_B)).repeat_interleave(lengths_B).to(losses_T.device)
    sums_B = losses_T.new_zeros(len(lengths_B)).index_add(0, rows_T, losses_T)
    return {"loss": sums_B, "count": lengths_B.to(losses_T.dtype)}
