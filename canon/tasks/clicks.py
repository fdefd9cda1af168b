"""Clicks from a network over fields. Shapes: B examples, S places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch
from canon.tasks.base import Turn
from canon.tasks.classification import Classification
from canon.tasks.clicks_plain import ClickScores


class ClickTask(ClickScores, Classification):
    at_once = 8192

    def example(self) -> tuple[Any, ...]:
        places, crossed = sum(self.config.widths), self.config.crosses
        crosses = torch.zeros(1, crossed, dtype=torch.int64) if crossed else None
        return torch.zeros(1, places, dtype=torch.int64), torch.ones(1, places), crosses

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        return {"logits": network(batch["input"], batch.get("weights"), batch.get("crosses"))}
