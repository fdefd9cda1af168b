"""Clicks from a network over fields. Shapes: B examples, S places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch
from canon.data.encodings.fields import FieldSchema
from canon.tasks.base import Turn
from canon.tasks.classification import Classification
from canon.tasks.clicks_plain import ClickScores


class ClickTask(ClickScores, Classification):
    at_once = 8192

    def example(self) -> tuple[Any, ...]:
        assert isinstance(self.schema, FieldSchema)
        places = sum(self.schema.widths)
        crosses = torch.zeros(1, len(self.schema.crosses), dtype=torch.int64) if self.schema.crosses else None
        return torch.zeros(1, places, dtype=torch.int64), torch.ones(1, places), crosses

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        return {"logits": network(batch["input"], batch.get("weights"), batch.get("crosses"))}
