"""What the trainer drives: anything that learns in steps and whose whole state is tensors and JSON.

`Gradient` (canon.training.gradient) trains a torch network; a system with loop="learner" in the registry is such a
class itself and learns in its own way. Runs, curves, checkpoints, resume and all verbs are the same for both.
"""

from __future__ import annotations

from typing import Any, Protocol

from canon.data.schema import Columns
from canon.runs.checkpoint import Tensors
from canon.tasks.base import Outputs


class Learner(Protocol):
    @property
    def num_parameters(self) -> int: ...

    def begin(self, columns: Columns, seed: int, batch: int, steps: int) -> None:
        """Takes the training columns, examples per step and steps; called before the first step, not for prediction."""

    def step(self, number: int) -> bool:
        """One step of learning, counted from 1; False when there is nothing more to learn."""

    def logs(self) -> dict[str, float]:
        """The numbers to log since the last call."""

    def tensors(self) -> dict[str, Tensors]:
        """Everything that learning has made: "model" is enough to predict, the rest is needed to go on."""

    def state(self) -> dict[str, Any]:
        """What is not a tensor, as JSON."""

    def restore(self, tensors: dict[str, Tensors], state: dict[str, Any]) -> None:
        """Takes up where `tensors` and `state` were made; "model" alone is enough to predict."""

    def outputs(self, columns: Columns) -> Outputs:
        """The outputs for all rows, on the CPU."""
