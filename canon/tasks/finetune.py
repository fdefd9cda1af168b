"""A pre-trained network on labelled texts: the data says what is asked, and each kind of target has its own class.

| target | asked | loss | class |
| --- | --- | --- | --- |
| class | one of C classes of a sequence | cross-entropy | finetune_text.TextClasses |
| number | y of a sequence | (f − (y − ȳ)/s)² | finetune_text.TextNumbers |
| choice | the right one of K sequences | −log softmax over the K outputs | finetune_text.TextChoices |
| tags | one of C classes of each word | cross-entropy per word | finetune_tags.WordTags |
| span | first and last token in a window | ½ −log softmax over its tokens, both ends | finetune_spans.AnswerSpans |
Classes and tags may be weighted and smoothed (canon.objectives.classes).
Radford et al. 2018, equation 5: L₃ = L₂ + λ L₁, λ = objective.auxiliary. L₂ is the loss above, L₁ that of next tokens,
of each sequence its mean over tokens (as in the authors' code; the paper writes sums), and of sequences the mean in
which each counts for its targets: a loss stays a sum over targets, Σ (ℓ_y + λ ℓ_s), and divided by their global number.
Shapes: N tokens of S sequences, B examples, T targets.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.batching.loader import Batch
from canon.data.encodings.framed import FramedSchema
from canon.data.schema import Columns, Schema
from canon.errors import CanonError
from canon.nn.compiling import unwrapped
from canon.nn.ragged import Layout, layout_of
from canon.objectives.classes import class_weights
from canon.objectives.classification import CrossEntropy
from canon.objectives.record import ObjectiveChoice
from canon.objectives.settings import FineTuning, SmoothedWeighted
from canon.tasks import tokens
from canon.tasks.base import NetworkTask, Outputs, Turn

_TYPICAL = 64  # tokens of a sequence, where the data does not say


class FineTuningTask(NetworkTask):
    """Outputs have one row per example: "loss" the sum of its losses and "count" how many targets it has, where there
    are targets, and what the predictions are made from."""

    whole = True  # the network calls its backbone's `encode`, not its forward
    at_once = 128
    monitor = "accuracy"
    metrics: tuple[str, ...]  # beside the losses
    by_word: ClassVar[bool] = False  # whether the network is asked at the places of words
    of_classes: ClassVar[bool] = False  # whether its targets are classes, which the objective may weight and smooth

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema, FramedSchema)
        settings: SmoothedWeighted = choice.settings
        if not self.of_classes and (settings.label_smoothing or settings.class_weights != "none"):
            raise CanonError(
                "objective.label_smoothing and objective.class_weights are for classes and tags, but the data asks "
                f"for {schema.target.what}: leave them out."
            )
        weights_C = class_weights(settings.class_weights, schema.classes, schema.target.counts)
        self.objective: CrossEntropy = choice.create(weights_C)
        self.auxiliary = settings.auxiliary if isinstance(settings, FineTuning) else 0.0
        self.typical, self.monitor = schema.typical, schema.monitor or self.monitor

    # ---- what each kind of target decides

    def lengths(self, batch: Batch) -> Tensor:
        """[B] on the host: the targets of each example."""
        return torch.ones(len(batch["part_lengths"]), dtype=torch.int64)

    def shares(self, batch: Batch) -> Tensor:
        """[S] on the host: of how many targets each sequence is; their sum is `count`."""
        return torch.ones(len(batch["input_lengths"]))

    @abstractmethod
    def losses(self, logits: Tensor, batch: Batch) -> Tensor:
        """[T] one for each target."""

    @abstractmethod
    def predicted(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """What `measure` and `rows` need, one row per example."""

    @abstractmethod
    def measure(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        """The metrics."""

    # ---- what they share

    def example(self) -> tuple[Any, ...]:
        length = (self.typical or (_TYPICAL,))[0]
        token_N = torch.zeros(length, dtype=torch.int64)
        return token_N, Layout(torch.tensor([length])), token_N

    def trial(self, network: nn.Module, *example: Any) -> Any:
        outputs = network(*example)
        if self.auxiliary:
            token_N, layout, *_ = example
            unwrapped(network).language(token_N, outputs.hidden, layout, torch.ones(1, device=token_N.device))

    def parameters(self, network: nn.Module, phase: str) -> list[tuple[str, nn.Parameter]]:
        """All that is not frozen."""
        return [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]

    def ask(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Any]:
        """The head's outputs and, with the auxiliary objective and targets, the losses of the next tokens."""
        token_N, device = batch["input"], batch["input"].device
        layout = layout_of(batch)
        outputs, hidden_ND = network(token_N, layout, batch["segment"], batch["places"] if self.by_word else None)
        if not self.auxiliary or "target" not in batch:
            return outputs, None
        share_S = self.shares(batch).to(device, non_blocking=True)
        return outputs, unwrapped(network).language(token_N, hidden_ND, layout, share_S)

    def count(self, batch: Batch) -> int:
        return int(self.lengths(batch).sum())

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        logits, language = self.ask(network, batch)
        total = self.losses(logits, batch).sum()
        if language is None:
            return total
        turn.observe("language_loss", language.total, self.count(batch))
        return total + self.auxiliary * language.total

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        logits, language = self.ask(network, batch)
        outputs = self.outputs(logits, batch)
        if language is not None:
            losses_S = self.shares(batch).to(logits.device) * language.losses.to(logits.dtype)
            language_B = _by_example(losses_S, batch["part_lengths"])
            outputs |= {"language": language_B, "loss": outputs["loss"] + self.auxiliary * language_B}
        return outputs

    def outputs(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Predictions and, where there are targets, losses."""
        outputs = self.predicted(logits, batch)
        if "target" in batch:
            losses_T, lengths_B = self.losses(logits, batch), self.lengths(batch)
            outputs |= {"loss": _by_example(losses_T, lengths_B), "count": lengths_B.to(losses_T.dtype)}
        return outputs

    def names(self) -> tuple[str, ...]:
        return ("loss", *(("language_loss",) if self.auxiliary else ()), *self.metrics)

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        count = max(tokens.total(outputs["count"]), 1.0)
        sums = {"loss": "loss", "language_loss": "language"}
        scores = {name: tokens.total(outputs[key]) / count for name, key in sums.items() if key in outputs}
        return {**scores, **self.measure(outputs, columns)}

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        plain = self.of_classes and not self.auxiliary
        return self.objective.floors(targets, len(self.schema.classes)) if plain else {}


def _by_example(losses_T: Tensor, lengths_B: Tensor) -> Tensor:
    """[B] sums of losses that are end to end, lengths_B[b] of them of example b."""
    rows_T = torch.arange(len(lengths_B)).repeat_interleave(lengths_B).to(losses_T.device)
    return losses_T.new_zeros(len(lengths_B)).index_add(0, rows_T, losses_T)
