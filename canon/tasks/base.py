"""The contract between a network and the loops that train, evaluate and use it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch, Compose
from canon.data.schema import Columns, Schema
from canon.data.targets import Target
from canon.objectives.record import Choice

Outputs = dict[str, Tensor]  # one row per example


class Task(ABC):
    """Subclasses say what a network's outputs mean; a loss is a sum that the loop divides by the global count."""

    targets: ClassVar[tuple[type[Target], ...]]  # what it can predict; the first that the data has is taken
    monitor: str  # the metric that decides which checkpoint is best
    rising: ClassVar[tuple[str, ...]] = ()  # the metrics of which more is better
    # A training step goes through these in order. Each name has its own optimiser; each turn draws its own batch.
    phases: tuple[str, ...] = ("all",)
    least: ClassVar[int] = 1  # examples that a split must have to be scored
    divisible: ClassVar[bool] = True  # whether the loss of a batch is the sum of those of its micro-batches
    # (columns, rows, their places in the global batch, draws) to the arrays of a batch, where a task makes its batches
    # itself; called in the loader's own thread. Every choice is a number of `draws`, counted by the places; what ends
    # in "_lengths" stays on the host.
    compose: Compose | None = None
    of_sequences: ClassVar[tuple[str, ...]] = ()  # labels in a batch of which each sequence has one
    words: ClassVar[bool] = False  # whether a file of text is read by words, where nothing else is said
    carries: ClassVar[bool] = False  # whether `state` goes on from one batch to the next
    # Whether the network is used by other ways than its forward (decoding): then it cannot be sharded part by part.
    whole: ClassVar[bool] = False
    at_once: ClassVar[int] = 512  # examples that are evaluated together
    risk_examples: ClassVar[int] = 50_000  # of the training set that the empirical risk is measured on, at most

    def __init__(self, choice: Choice, config: Any, schema: Schema) -> None:
        self.choice = choice
        self.config = config
        self.schema = schema
        self.observed: dict[str, tuple[Any, Any]] = {}  # sums and counts since the last log
        # Set by the loop before `loss` and `run`: noise that is the same on every process, and the rows [start, stop)
        # of all `total` (the global batch, or the split) that it gives. Draw for all rows, use your own.
        self.generator: torch.Generator | None = None
        self.share: tuple[int, int, int] | None = None
        # Carried over batches where `carries` is set: tensors with one row per row of the batch. The loop empties it
        # where a stream begins, and keeps it in checkpoints.
        self.state: dict[str, Tensor] | None = None
        self.final = False  # whether this is the last evaluation, or one that was asked for
        self.remarks: tuple[str, ...] = ()  # what is to be told beside the scores

    def observe(self, name: str, total: Tensor, count: int | Tensor) -> None:
        """Logs the mean of something beside the loss, without waiting for the device."""
        before, counted = self.observed.get(name, (0.0, 0))
        self.observed[name] = (before + total.detach(), counted + count)

    def longest(self, columns: Columns) -> int:
        """The length that no sequence exceeds, where `loss` is the device's work alone and can be recorded
        (canon.training.graphs); 0 where it cannot."""
        return 0

    def parameters(self, network: nn.Module, phase: str) -> list[tuple[str, nn.Parameter]]:
        """What the optimiser of `phase` may change."""
        return list(network.named_parameters())

    def paces(self, network: nn.Module) -> dict[str, tuple[float, bool]]:
        """Of parameters that learn otherwise than the rest, by name: the share of the rate that they learn with, and
        whether their weights decay."""
        return {}

    def example(self) -> tuple[Any, ...]:
        """What the network takes, of the right shape, to count operations with."""
        return (torch.zeros(1, *self.schema.shape),)

    def example_options(self) -> dict[str, Any]:
        """What it takes by name beside these."""
        return {}

    def run(self, network: nn.Module, batch: Batch) -> Outputs:
        return {"logits": network(batch["input"])}

    @abstractmethod
    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        """One loss per target."""

    def count(self, batch: Batch) -> int:
        """Valid targets in the batch: what a sum of losses is divided by."""
        return len(batch["input"])

    def loss(self, network: nn.Module, batch: Batch, phase: str) -> Tensor:
        """The sum of losses that `phase` minimises."""
        return self.losses(self.run(network, batch), batch).sum()

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        """Loss and metrics of all examples of a split."""
        targets = torch.from_numpy(np.asarray(columns["target"]))
        losses = self.losses(outputs, {"target": targets}).double()
        return {"loss": losses.mean().item(), **self.metrics(outputs, np.asarray(columns["target"]))}

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What `score` may give; one of them may be train.monitor."""

    def metrics(self, outputs: Outputs, targets: np.ndarray) -> dict[str, float]:
        """Metrics of all examples of a split, in the units of the data; for tasks whose `score` is this one's."""
        return {}

    @abstractmethod
    def floors(self, targets: np.ndarray) -> dict[str, float]:
        """The loss of predictors that look at no input, to read a first loss against."""

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        """Lines to print at an evaluation: some inputs and what the network makes of them."""
        return []

    def pictures(self, outputs: Outputs, columns: Columns) -> dict[str, bytes]:
        """What is to be seen at an evaluation: PNG files, by the folder of the run that they go to."""
        return {}

    def scores(self, outputs: Outputs) -> Tensor | None:
        """[n, C] a score per class, where classes are predicted."""
        return None

    def numbers(self, outputs: Outputs) -> np.ndarray | None:
        """[n] in the units of the data, where a number is predicted."""
        return None

    @abstractmethod
    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        """Predictions as records to print."""

    def records(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """`rows` for tasks that need the inputs too, as those that cut answers from a text do."""
        return self.rows(outputs, top)
