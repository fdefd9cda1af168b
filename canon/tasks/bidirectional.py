"""The next token of a running text and the one before, by two language models that share their words and softmax.

Loss: the mean of both directions' cross-entropies per token; perplexity = exp(loss), and of each direction by itself.
The text is read in windows as by LanguageModelling. The forward direction carries its state from window to window; the
backward one starts again at the last token of each window.
Shapes: B streams, T tokens of a window, N tokens of all windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch
from canon.data.schema import Columns
from canon.data.text.vocabularies import UNK
from canon.nn.ragged import Layout
from canon.nn.token_loss import TokenLoss
from canon.tasks import tokens
from canon.tasks.base import Outputs, Turn
from canon.tasks.language_model import LanguageModelling

_SIDES = ("forward", "backward")


class BidirectionalModelling(LanguageModelling):
    def example(self) -> tuple[Any, ...]:
        token_BT = torch.zeros(1, 16, dtype=torch.int64)
        return token_BT, token_BT, Layout(torch.tensor([16])), None

    def predict_window(self, network: nn.Module, batch: Batch, turn: Turn) -> tuple[TokenLoss, Layout]:
        """The losses of a window's tokens, forward then backward; the forward state is kept for the next window."""
        layout = Layout(batch["target_lengths"], batch["input"].device)
        losses, state = network(batch["input"], batch["target"], layout, turn.carried(layout.size))
        turn.carry(state)
        return losses, layout

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        return self.predict_window(network, batch, turn)[0].total / 2

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        losses, layout = self.predict_window(network, batch, turn)

        def by_row(values_2N: Tensor) -> Tensor:
            values_2N = values_2N.float()
            return values_2N.new_zeros(2, layout.size).index_add(1, layout.rows, values_2N)

        forward_B, backward_B = by_row(losses.losses.view(2, -1))
        return {
            "loss": (forward_B + backward_B) / 2,
            "forward": forward_B,
            "backward": backward_B,
            "right": by_row(losses.right.view(2, -1)).mean(0),
            "count": batch["target_lengths"].float(),
        }

    def names(self) -> tuple[str, ...]:
        return ("loss", "perplexity", *(f"{side}_perplexity" for side in _SIDES), "token_accuracy")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        scores, count = tokens.scores(outputs), tokens.total(outputs["count"])
        for side in _SIDES:
            scores[f"{side}_perplexity"] = tokens.perplexity(tokens.total(outputs[side]) / count)
        return {name: scores[name] for name in self.names()}

    def _counted(self, targets: np.ndarray) -> tuple[np.ndarray, int]:
        known = self.config.softmax_words or self._tokenizer.size
        return np.where(targets < known, targets, UNK), min(known, self._tokenizer.size)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """How well each window was predicted, also from each side."""
        rows = super().rows(outputs, columns, top)
        for side in _SIDES:
            for row, loss in zip(rows, (outputs[side] / outputs["count"]).tolist(), strict=True):
                row[f"{side}_perplexity"] = tokens.perplexity(loss)
        return rows
