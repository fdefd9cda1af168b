"""One class out of several, from a network's logits.

The objective (canon.objectives.classes) says what logits cost, how they become scores, and whether these are
probabilities. A network with one output for two classes gives f(x): class 1 where f(x) > 0.
Shapes: B examples, C classes, K outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch
from canon.data.schema import Schema
from canon.objectives.classes import ClassLoss, class_weights
from canon.objectives.record import ObjectiveChoice
from canon.objectives.settings import Weighted
from canon.tasks.base import NetworkTask, Outputs, Turn
from canon.tasks.classes import ClassTask

_SIDE = 0.3  # weight of a classifier on the side: Szegedy et al. 2015, section 5


class Classification(ClassTask, NetworkTask):
    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        asked = choice.settings.class_weights if isinstance(choice.settings, Weighted) else "none"
        weights_C = class_weights(asked, schema.classes, schema.target.counts)
        self.objective: ClassLoss = choice.create(weights_C)
        self.probabilities = self.objective.probabilities
        super().__init__(choice, config, schema)

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        output: Tensor | tuple[Tensor, ...] = self.run(network, batch, turn)["logits"]
        logits_BK, *side = output if isinstance(output, tuple) else (output,)
        loss = self.objective.total(logits_BK, batch["target"])
        for side_BK in side:  # classifiers on the side, which a network has only while it trains
            loss = loss + _SIDE * self.objective.total(side_BK, batch["target"])
        return loss

    def losses(self, logits_BK: np.ndarray, target_B: np.ndarray) -> np.ndarray:
        losses_B = self.objective.losses(torch.from_numpy(logits_BK), torch.from_numpy(target_B))
        return losses_B.double().numpy()

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return self.objective.floors(targets, len(self.schema.classes))

    def scores(self, outputs: Outputs) -> np.ndarray:
        """A score per class: probabilities where the objective gives them, else margins."""
        scores_BC: Tensor = self.objective.scores(torch.from_numpy(outputs["logits"]).float())
        return scores_BC.numpy()
