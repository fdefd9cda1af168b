"""The next token of a running text.

Loss: cross-entropy per token; perplexity = exp(loss). Training reads the text as train.batch streams side by side and
carries each one's state from window to window, without its gradient (truncated backpropagation through time); at the
beginning of an epoch the state is empty. Evaluation reads sixteen streams, every token once.
Shapes: B streams, T tokens of a window, V vocabulary.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch
from canon.objectives.classification import CrossEntropy, cross_entropy
from canon.tasks.base import Carries, NetworkTask, Turn
from canon.tasks.next_tokens import NextTokens

_AFTER_THE_END = -1


class LanguageModelling(NextTokens, NetworkTask, Carries):
    whole = True
    divisible = False

    @cached_property
    def objective(self) -> CrossEntropy:
        """Of two directions the network's own heads compute theirs."""
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

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        logits_BTV = self.advance(network, batch, turn)
        losses_BT = cross_entropy(logits_BTV.float(), batch["target"], ignore_index=_AFTER_THE_END)
        right_BT = logits_BTV.argmax(2) == batch["target"]
        return {
            "loss": losses_BT.sum(1),
            "right": right_BT.sum(1).float(),
            "count": batch["target_lengths"].float(),
        }
