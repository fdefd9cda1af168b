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
from canon.data.targets import NextToken
from canon.objectives.classification import CrossEntropy, cross_entropy
from canon.objectives.record import Choice
from canon.tasks import tokens
from canon.tasks.base import Outputs, Task

_BEHIND_THE_END = -1


class LanguageModel(Task):
    targets = (NextToken,)
    whole = True
    monitor = "perplexity"
    rising = ("token_accuracy",)
    divisible = False
    carries = True

    def __init__(self, choice: Choice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        self._tokenizer = schema.tokenizers["text"]

    @cached_property
    def objective(self) -> CrossEntropy:
        """Of a network; what learns without one computes its own."""
        own: CrossEntropy = self.choice.create()
        return own

    def example(self) -> tuple[Any, ...]:
        return torch.zeros(1, 16, dtype=torch.int64), None

    def advance(self, network: nn.Module, batch: Batch) -> Tensor:
        """Logits [B, T, V] of a window; the state behind it is kept for the next."""
        rows = len(batch["input"])
        before = self.state and {name: rows_[:rows] for name, rows_ in self.state.items()}
        logits_BTV, state = network(batch["input"], before)
        self.state = {name: tensor.detach() for name, tensor in state.items()}
        return logits_BTV

    def count(self, batch: Batch) -> int:
        return int(batch["target_lengths"].sum())

    def loss(self, network: nn.Module, batch: Batch, phase: str) -> Tensor:
        logits_BTV = self.advance(network, batch)
        return self.objective.total(logits_BTV, batch["target"], _BEHIND_THE_END)

    def run(self, network: nn.Module, batch: Batch) -> Outputs:
        logits_BTV = self.advance(network, batch)
        losses_BT = cross_entropy(logits_BTV.float(), batch["target"], ignore_index=_BEHIND_THE_END)
        right_BT = logits_BTV.argmax(2) == batch["target"]
        return {
            "loss": losses_BT.sum(1),
            "right": right_BT.sum(1).float(),
            "count": batch["target_lengths"].float(),
        }

    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        return outputs["loss"] / outputs["count"]

    def names(self) -> tuple[str, ...]:
        return ("loss", "perplexity", "token_accuracy", *(("bits_per_character",) if self._of_characters else ()))

    @property
    def _of_characters(self) -> bool:
        return self._tokenizer.kind == "char"

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        found = tokens.scores(outputs)
        return found | ({"bits_per_character": found["loss"] / math.log(2)} if self._of_characters else {})

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return tokens.floors(targets, self._tokenizer.size)

    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        """How well the text was foreseen, window by window."""
        loss = (outputs["loss"] / outputs["count"]).tolist()
        return [{"loss": value, "perplexity": tokens.perplexity(value)} for value in loss]
