"""A pre-trained network on labelled texts: what is asked of them is the data's, and each kind has its own file.

| kind | asked | loss | file |
| --- | --- | --- | --- |
| class | one of C classes of a sequence | cross-entropy | finetune_text.py |
| number | y of a sequence | (f − (y − ȳ)/s)² | finetune_text.py |
| choice | the right one of K sequences | −log softmax over the K outputs | finetune_text.py |
| tags | one of C classes of each word | cross-entropy per word | finetune_tags.py |
| span | first and last token in a window | half of −log softmax over its tokens, for both ends | finetune_spans.py |
Classes and tags may be weighted and smoothed (canon.objectives.classes).
Radford et al. 2018, equation 5: L₃ = L₂ + λ L₁, λ = objective.auxiliary. L₂ is the loss above, L₁ that of next tokens,
of each sequence its mean over tokens (as in the authors' code; the paper writes sums), and of sequences the mean in
which each counts for its targets: a loss stays a sum over targets, Σ (ℓ_y + λ ℓ_s), and divided by their global number.
Shapes: N tokens of S sequences, B examples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.errors import CanonError
from canon.nn.ragged import Layout
from canon.objectives.classes import class_weights
from canon.objectives.record import Choice
from canon.objectives.settings import FineTuning
from canon.tasks.base import Outputs, Task
from canon.tasks.finetune_kinds import Kind, by_example
from canon.tasks.finetune_spans import Spans
from canon.tasks.finetune_tags import Tags
from canon.tasks.finetune_text import Choices, Classes, Numbers

KINDS: dict[str, type[Kind]] = {
    "class": Classes,
    "number": Numbers,
    "choice": Choices,
    "tags": Tags,
    "span": Spans,
}
_TYPICAL = 64  # tokens of a sequence, where the data does not say


class FineTune(Task):
    target = "any"
    whole = True  # the network calls its backbone's `encode`, not its forward
    at_once = 128
    monitor = "accuracy"
    rising = tuple(dict.fromkeys(name for kind in KINDS.values() for name in kind.rising))

    def __init__(self, choice: Choice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        name = schema.target if schema.target in KINDS else config.kind or "class"
        settings: FineTuning = choice.settings
        weights_C = class_weights(settings.class_weights, schema.classes, schema.counts)
        self.kind = KINDS[name](choice.create(weights_C), config, schema)
        if not self.kind.of_classes and (settings.label_smoothing or settings.class_weights != "none"):
            raise CanonError(
                "objective.label_smoothing and objective.class_weights are for classes and tags, but the data asks "
                f"for a {name}: leave them out."
            )
        self.auxiliary = settings.auxiliary
        self.monitor = (schema.reading.monitor if schema.reading else "") or self.kind.monitor
        # What the report draws: a confusion matrix of classes, numbers beside the right ones.
        if isinstance(self.kind, Classes):
            self.scores = self.kind.scores
        if isinstance(self.kind, Numbers):
            self.predictions = self.kind.numbers

    def example(self) -> tuple[Any, ...]:
        length = (self.schema.typical or (_TYPICAL,))[0]
        token_N = torch.zeros(length, dtype=torch.int64)
        return token_N, Layout(torch.tensor([length])), token_N

    def parameters(self, network: nn.Module, phase: str) -> list[tuple[str, nn.Parameter]]:
        """All that is not frozen."""
        return [(name, own) for name, own in network.named_parameters() if own.requires_grad]

    def paces(self, network: nn.Module) -> dict[str, tuple[float, bool]]:
        return network.paces()  # type: ignore[operator]

    def example_options(self) -> dict[str, Any]:
        return {"share_S": torch.ones(1)} if self.auxiliary else {}

    def ask(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Any]:
        """The head's outputs and, where it is asked for and there are targets, how well next tokens are foretold."""
        device = batch["input"].device
        layout = Layout(batch["input_lengths"], device)
        places = batch["places"] if self.kind.by_word else None
        if not self.auxiliary or "target" not in batch:
            return network(batch["input"], layout, batch["segment"], places), None
        share_S = self.kind.shares(batch).to(device, non_blocking=True)
        return network(batch["input"], layout, batch["segment"], places, share_S)

    def count(self, batch: Batch) -> int:
        return self.kind.count(batch)

    def loss(self, network: nn.Module, batch: Batch, phase: str) -> Tensor:
        logits, language = self.ask(network, batch)
        total = self.kind.losses(logits, batch).sum()
        if language is None:
            return total
        self.observe("language_loss", language.total, self.count(batch))
        return total + self.auxiliary * language.total

    def run(self, network: nn.Module, batch: Batch) -> Outputs:
        logits, language = self.ask(network, batch)
        found = self.kind.outputs(logits, batch)
        if language is not None:
            share_S = self.kind.shares(batch).to(logits.device)
            told = by_example(share_S * language.losses.to(logits.dtype), batch["part_lengths"])["loss"]
            found |= {"language": told, "loss": found["loss"] + self.auxiliary * told}
        return found

    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        return outputs["loss"] / outputs["count"]

    def names(self) -> tuple[str, ...]:
        return ("loss", *(("language_loss",) if self.auxiliary else ()), *self.kind.names())

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        total, count = (outputs[name].double().sum().item() for name in ("loss", "count"))
        found = {"loss": total / max(count, 1.0)}
        if "language" in outputs:
            found["language_loss"] = outputs["language"].double().sum().item() / max(count, 1.0)
        return {**found, **self.kind.score(outputs, columns)}

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return {} if self.auxiliary else self.kind.floors(targets)

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        return self.kind.samples(outputs, columns)

    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        return self.records(outputs, {}, top)

    def records(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return self.kind.records(outputs, columns, top)
