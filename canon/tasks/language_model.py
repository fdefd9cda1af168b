"""The next token of a running text.

Loss: cross-entropy per token; perplexity = exp(loss). Training reads the text as train.batch streams side by side and
carries each one's state from window to window, without its gradient (truncated backpropagation through time); at the
beginning of an epoch the state is empty. Evaluation reads sixteen streams, every token once.
Shapes: B streams, T tokens of a window, V vocabulary.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.objectives.classification import CrossEntropy, cross_entropy
from canon.objectives.record import ObjectiveChoice
from canon.tasks import tokens
from canon.tasks.base import Carries, NetworkTask, Outputs, Turn

_AFTER_THE_END = -1


class LanguageModelling(NetworkTask, Carries):
    whole = True
    monitor = "perplexity"
    divisible = False

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        self._tokenizer = schema.tokenizers["text"]
        self._of_characters = self._tokenizer.kind == "char"

    @cached_property
    def objective(self) -> CrossEntropy:
        """Of a network; what learns without one computes its own."""
        objective: CrossEntropy = self.choice.create()
        return objective

    def example(self) -> tuple[Any, ...]:
        return torch.zeros(1, 16, dtype=torch.int64), None

    def advance(self, network: nn.Module, batch: Batch, turn: Turn) -> Tensor:
        """Logits [B, T, V] of a window; the state after it is kept for the next."""
        logits_BTV, state = network(batch["input"], turn.carried(len(batch["input"])))
        turn.carry(state)
        return logits_BTV

    def count(self, batch: Batch) -> int:
        return int(batch["target_lengths"].sum())

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        return self.objective.total(self.advance(network, batch, turn), batch["target"], _AFTER_THE_END)

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> Outputs:
        logits_BTV = self.advance(network, batch, turn)
        losses_BT = cross_entropy(logits_BTV.float(), batch["target"], ignore_index=_AFTER_THE_END)
        right_BT = logits_BTV.argmax(2) == batch["target"]
        return {
            "loss": losses_BT.sum(1),
            "right": right_BT.sum(1).float(),
            "count": batch["target_lengths"].float(),
        }

    def names(self) -> tuple[str, ...]:
        return ("loss", "perplexity", "token_accuracy", *(("bits_per_character",) if self._of_characters else ()))

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        scores = tokens.scores(outputs)
        return scores | ({"bits_per_character": scores["loss"] / math.log(2)} if self._of_characters else {})

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return tokens.floors(targets, self._tokenizer.size)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """How well each window was predicted."""
        return tokens.rows(outputs)
