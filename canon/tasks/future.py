"""What comes next among what comes next elsewhere: contrastive predictive coding.

The loss of a strand is the mean over times t and distances k of −log p(its own z_{t+k} among those of all strands of
the global batch). log N − loss is a lower bound of the mutual information of c_t and z_{t+k} in nats (van den Oord et
al. 2018, section 2.3); it cannot be more than log N. A linear probe tells from c at a strand's end of which document it
is, or which class a series has there; nothing is learned from that.
Shapes: B strands, N of the global batch, T steps, K ahead, D features.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch, shares
from canon.data.encodings.steps import StepSchema
from canon.data.schema import Columns, Schema
from canon.errors import CanonError
from canon.nn.ragged import Layout
from canon.objectives.contrastive import FutureSteps
from canon.objectives.record import ObjectiveChoice
from canon.tasks.base import Compares, NetworkTask, Outputs, Turn
from canon.tasks.contrastive import probe_accuracy

_TOGETHER = 256  # strands of a split that are compared with each other
_TYPICAL = 16  # tokens of a sentence, where the data does not say


class Future(NetworkTask, Compares):
    monitor = "step_accuracy"
    whole = True
    risk_examples = 2000

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema, StepSchema)
        self.objective: FutureSteps = choice.create()
        self.steps = schema.steps
        if config.ahead >= schema.steps:
            raise CanonError(
                f"system.ahead is {config.ahead}, but strands have {schema.steps} steps: lower it to "
                f"{schema.steps - 1}, or raise data.steps."
            )

    def example(self) -> tuple[Any, ...]:
        parts = Layout(torch.tensor([self.steps]))
        if not self.config.vocab_size:
            return torch.zeros(self.steps, self.config.shape[-1] if self.config.shape else 1), parts
        assert isinstance(self.schema, StepSchema)
        length = (self.schema.typical or (_TYPICAL,))[0]
        lengths = torch.full((self.steps,), length)
        return torch.zeros(self.steps * length, dtype=torch.int64), parts, Layout(lengths)

    def count(self, batch: Batch) -> int:
        return len(batch["part_lengths"] if "part_lengths" in batch else batch["input"])

    def _coded(self, network: nn.Module, batch: Batch) -> tuple[Any, Layout]:
        x = batch["input"]
        if "part_lengths" in batch:
            parts = Layout(batch["part_lengths"], x.device)
            return network(x, parts, Layout(batch["input_lengths"], x.device)), parts
        parts = Layout(torch.full((len(x),), x.shape[1], dtype=torch.int64), x.device)
        return network(x.flatten(0, 1), parts), parts

    def embed(self, network: nn.Module, batch: Batch, turn: Turn) -> Tensor:
        """z_t, then W_k c_t for k = 1 … K: [B, T, 1 + K, D]."""
        coded, parts = self._coded(network, batch)
        both_SKD = torch.cat([coded.z_SD[:, None], coded.predicted_SKD], dim=1)
        return both_SKD.view(parts.size, -1, *both_SKD.shape[1:])

    def facts(self, batch: Batch) -> dict[str, Tensor]:
        return {}

    def compare(self, vectors_N: Tensor, facts: dict[str, Tensor], rows: tuple[int, int], turn: Turn) -> Tensor:
        if len(vectors_N) < 2:
            raise CanonError(
                "cpc compares strands with each other, but the batch has one: set train.batch to 2 or more."
            )
        with torch.autocast(vectors_N.device.type, enabled=False):
            return self.objective.losses(vectors_N.float(), rows).sum()

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        return self.compared(self.embed(network, batch, turn), {}, turn)

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        coded, parts = self._coded(network, batch)
        outputs = {"context": coded.c_SE.index_select(0, parts.ends)}
        if parts.is_full and parts.max_length == self.steps:
            both_SKD = torch.cat([coded.z_SD[:, None], coded.predicted_SKD], dim=1)
            outputs["steps"] = both_SKD.view(parts.size, -1, *both_SKD.shape[1:])
        return outputs

    def names(self) -> tuple[str, ...]:
        return ("loss", "step_accuracy", "information", "probe_accuracy")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        """In groups of at most 256 strands, the mean over strands."""
        steps_nTKD = torch.from_numpy(outputs["steps"]).double()
        n = len(steps_nTKD)
        loss = right = known = 0.0
        for start, stop in shares(n, math.ceil(n / _TOGETHER)):
            part = steps_nTKD[start:stop]
            losses, rights = self.objective.judged(part)
            loss += losses.sum().item()
            right += rights.sum().item()
            known += (math.log(len(part)) - losses).sum().item()
        scores = {"loss": loss / n, "step_accuracy": right / n, "information": known / n}
        probe_n = torch.from_numpy(np.asarray(columns["probe"]))
        asked = probe_n >= 0
        if len(probe_n[asked].unique()) > 1:
            context_nE = torch.from_numpy(outputs["context"])
            scores["probe_accuracy"] = probe_accuracy(context_nE[asked], probe_n[asked])
        return scores

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return [{"context": context} for context in outputs["context"].tolist()]
