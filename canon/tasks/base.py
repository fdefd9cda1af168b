"""The contracts between a task and what uses it: evaluation (`Scoring`), prediction (`Predicting`) and the loop that
trains a network (`Training`).

A `Task` scores and predicts, whatever learned the outputs; a `NetworkTask` trains a network too. What only some tasks
can do is an ability, a class that they name: code asks `isinstance`. Importing this imports no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from canon.contracts import Arrays
from canon.data.batching.draws import Draws
from canon.data.schema import Columns, Schema
from canon.objectives.record import ObjectiveChoice

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from canon.data.batching.loader import Batch, Compose

Outputs = Arrays  # one row per example; of a task that is `OfLists`, per item


@dataclass
class Turn:
    """What a network's turn with a batch depends on beside the batch, and what it leaves to the next turn."""

    generator: torch.Generator | None = None  # noise, the same on every process
    # The rows [start, stop) of all `total` (the global batch, or the split) that the batch is. A task draws noise for
    # all rows and uses that of its own.
    share: tuple[int, int, int] | None = None
    careful: bool = False  # whether to decode by the slow search: the last evaluation, or one that a user asked for
    # Of a task that `Carries`: tensors with one row per row of the batch; None where a stream begins.
    state: dict[str, Tensor] | None = None
    observed: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # sums and counts since the last log

    def rows(self, size: int) -> tuple[int, int, int]:
        """The share; without one, a batch of `size` rows is all there is."""
        return self.share or (0, size, size)

    def observe(self, name: str, total: Tensor, count: int | Tensor) -> None:
        """Logs the mean of something beside the loss, without waiting for the device."""
        before, counted = self.observed.get(name, (0.0, 0))
        self.observed[name] = (before + total.detach(), counted + count)

    def carried(self, rows: int) -> dict[str, Tensor] | None:
        """The state of the first `rows` streams."""
        return self.state and {name: values[:rows] for name, values in self.state.items()}

    def carry(self, state: dict[str, Tensor]) -> None:
        """Keeps a state for the next batch, without its gradient."""
        self.state = {name: values.detach() for name, values in state.items()}


class Scoring(ABC):
    """What evaluation asks of a task."""

    monitor: str  # the metric that decides which checkpoint is best
    least: ClassVar[int] = 1  # examples that a split must have to be scored
    loss_falls: ClassVar[bool] = True  # whether the training loss of a run that learns does
    scores_last: ClassVar[bool] = False  # whether the last weights are scored on the test set too, beside the best
    drawn_together: ClassVar[tuple[tuple[str, ...], ...]] = ()  # logged numbers, each group in one chart of a report
    risk_examples: ClassVar[int] = 50_000  # of the training set that the empirical risk is measured on, at most

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What `score` may return; one of them may be train.monitor."""

    @abstractmethod
    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        """Loss and metrics of all examples of a split, in the units of the data."""

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        """The loss of predictors that look at no input, to compare a first loss with."""
        return {}

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        """Where the outputs for a split are no better than a guess that looks at no input, or at single words, what
        says so ("no better than …"); else "". train: the training set, empty where a run has none."""
        return ""


class Predicting(ABC):
    """What `canon predict` asks of a task."""

    @abstractmethod
    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """Predictions as records to print; `columns` are those of the outputs."""


class Task(Scoring, Predicting):
    """What outputs mean, whether a network or another learner computed them."""

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        self.choice, self.config, self.schema = choice, config, schema


class Training(ABC):
    """What the gradient loop asks of a task: a loss is a sum, which the loop divides by the global count."""

    schema: Schema
    # A training step goes through these in order. Each name has its own optimiser; each turn draws its own batch.
    phases: tuple[str, ...] = ("all",)
    divisible: ClassVar[bool] = True  # whether the loss of a batch is the sum of those of its micro-batches
    # Whether the network is used by other ways than its forward (decoding): then it cannot be sharded part by part.
    whole: ClassVar[bool] = False
    at_once: ClassVar[int] = 512  # examples that are evaluated together

    def parameters(self, network: nn.Module, phase: str) -> list[tuple[str, nn.Parameter]]:
        """What the optimiser of `phase` may change."""
        return list(network.named_parameters())

    def example(self) -> tuple[Any, ...]:
        """What the network takes, of the right shape, to count operations with."""
        import torch

        return (torch.zeros(1, *self.schema.shape),)

    def trial(self, network: nn.Module, *example: Any) -> Any:
        """What a training step computes of an example, to count operations with."""
        return network(*example)

    def count(self, batch: Batch) -> int:
        """Valid targets in the batch: what a sum of losses is divided by."""
        return len(batch["input"])

    @abstractmethod
    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        """The sum of losses that `phase` minimises."""

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        """The outputs to score and to predict from, of a batch."""
        return {"logits": network(batch["input"])}


class NetworkTask(Task, Training):
    """A task that a network can be trained for."""


# ---- abilities


class Carries:
    """A task whose network goes on from one batch of a stream to the next (`Turn.state`)."""


class OfLists:
    """A task whose examples are lists (canon.data.batching.lists) and whose outputs have one row for each item, list
    after list."""


class Composes(ABC):
    """A task that makes its batches itself."""

    @abstractmethod
    def compose(self, columns: Columns, indices: np.ndarray, places: np.ndarray, draws: Draws) -> dict[str, np.ndarray]:
        """The arrays of a batch; `places` are those of its rows in the global batch. Called in the loader's thread, so
        that every choice is a number of `draws`, counted by the places; what ends in "_lengths" stays on the host."""


class Compares(ABC):
    """A task whose loss compares the rows of the global batch with each other. Each process gives vectors of its rows,
    in one piece or several (canon.training.comparing), and has the loss of its rows among those of all."""

    needs_several = False  # whether the loss says nothing about one row alone

    @abstractmethod
    def embed(self, network: nn.Module, batch: Batch, turn: Turn) -> Tensor:
        """What is compared, a row for each row of the batch."""

    @abstractmethod
    def facts(self, batch: Batch) -> dict[str, Tensor]:
        """What is known of each row beside, on the device."""

    @abstractmethod
    def compare(self, vectors_N: Tensor, facts: dict[str, Tensor], rows: tuple[int, int], turn: Turn) -> Tensor:
        """The sum of the losses of rows [start, stop), of which all rows of the global batch are given."""

    def compared(self, vectors_B: Tensor, facts: dict[str, Tensor], turn: Turn) -> Tensor:
        """`compare` of this process's rows, with those of all processes."""
        from canon.tasks.gathering import gathered

        share = turn.rows(len(vectors_B))
        everything = gathered(vectors_B, share)
        return self.compare(everything, {n: gathered(x, share) for n, x in facts.items()}, share[:2], turn)


class FitsGraphs(ABC):
    """A task whose `loss` is the device's work alone, so that it can be recorded (canon.training.graphs)."""

    of_sequences: ClassVar[tuple[str, ...]] = ()  # labels in a batch of which each sequence has one

    @abstractmethod
    def longest(self, columns: Columns) -> int:
        """The length that no sequence exceeds; 0 where this objective cannot be recorded."""


class ShowsSamples(ABC):
    @abstractmethod
    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        """Lines to print at an evaluation: some inputs and what the network makes of them."""


class DrawsPictures(ABC):
    @abstractmethod
    def pictures(self, outputs: Outputs, columns: Columns) -> dict[str, bytes]:
        """PNG files of an evaluation, by the folder of the run that they go to."""


class Remarks:
    remarks: tuple[str, ...] = ()  # sentences to print beside the newest scores


class PredictsClasses(ABC):
    @abstractmethod
    def scores(self, outputs: Outputs) -> np.ndarray:
        """[n, C] a score per class."""

    def decided(self, outputs: Outputs) -> np.ndarray:
        """[n] the class that is predicted."""
        return self.scores(outputs).argmax(axis=1)


class Decides(ABC):
    """A task that decides between two classes by a threshold, which the run keeps."""

    threshold: float | None = None  # least probability of the second class; None: the likelier class
    decides: bool = False  # whether there are two classes with probabilities

    @abstractmethod
    def decide(self, outputs: Outputs, columns: Columns) -> None:
        """Sets the threshold that is best for the validation set, where the classes ask for one."""


class PredictsNumbers(ABC):
    @abstractmethod
    def numbers(self, outputs: Outputs) -> np.ndarray:
        """[n] in the units of the data."""


class PredictsTags(ABC):
    of_entities: bool = False  # whether the tags mark entities

    @abstractmethod
    def tags(self, outputs: Outputs) -> list[list[str]]:
        """Of each example a tag of every word."""


class PredictsTexts(ABC):
    @abstractmethod
    def shown(self, outputs: Outputs, columns: Columns) -> list[tuple[str, str, tuple[str, ...]]]:
        """Of each example what is given, the text that is put out, and those that are right."""


class DrawsSamples:
    """A task whose outputs are samples, drawn from no input."""


class Plays:
    """A task of agents, whose episodes can be watched."""


class ListsLabels(PredictsClasses, Remarks):
    """A task that predicts several labels of an example."""

    top: int | None = None  # labels predicted of an example at most, and their least probability
    threshold: float | None = None
    table: list[dict[str, Any]] = []  # noqa: RUF012   of each label, by the newest `score`


# ---- what several tasks use


def composer(task: Training) -> Compose | None:
    return task.compose if isinstance(task, Composes) else None


def spread(size: int, most: int) -> np.ndarray:
    """At most `most` rows from all over a split of `size`, whose order may be one class after the other."""
    return np.linspace(0, size - 1, min(most, size)).astype(np.int64)


def ranked(
    scores_BC: np.ndarray,
    classes: tuple[str, ...],
    top: int,
    name: str = "probability",
    first_B: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """Predictions as records: each row's `top` classes by falling score; `first_B` are put first, where given."""
    keys_BC = np.array(scores_BC)
    if first_B is not None:
        np.put_along_axis(keys_BC, first_B[:, None], np.inf, axis=1)
    order_BC = np.argsort(-keys_BC, axis=1, kind="stable")
    scores_BC = np.take_along_axis(scores_BC, order_BC, axis=1)
    rows = []
    for scores, order in zip(scores_BC[:, :top].tolist(), order_BC[:, :top].tolist(), strict=True):
        best = [{"class": classes[code], name: score} for code, score in zip(order, scores, strict=True)]
        rows.append({"prediction": best[0]["class"], "top": best})
    return rows
