"""Pre-training on running text: hidden words, next words, words in any order, missing spans, next sentences.

What a network reads and must predict is made of passages by the objective (canon/data/batching/composer.py). Loss:
cross-entropy per predicted token. Where next sentences are asked for, BERT's loss is the sum of two means, of the
tokens' and of the sentences'; here a loss is a sum over all predicted tokens of the global batch, so that a sequence's
next-sentence loss counts as often as it has such tokens: Σ_b (Σ_m ℓ_bm + M_b ℓ_b) / Σ_b M_b, the same on any number of
processes. Several tasks in one run (ERNIE 2.0): a step's loss is the mean over its own task's targets; an evaluation's
is the mean of the tasks' means.
Deviations: the mean of next-sentence losses is weighted by M_b, which hardly differ (15 % of a full sequence).
Shapes: N tokens of B sequences, M predicted ones, R tokens whose relation is asked for, V vocabulary, G guesses shown.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from canon.contracts import IGNORE
from canon.data.batching.composer import Composer, Pretext
from canon.data.batching.draws import EVALUATION, Draws
from canon.data.batching.loader import Batch
from canon.data.batching.passages import Passages
from canon.data.batching.several_tasks import TASKS
from canon.data.schema import Columns, Schema, TokenSchema
from canon.data.targets import HiddenTokens
from canon.nn.ragged import Layout, layout_of
from canon.objectives.classification import cross_entropy
from canon.objectives.record import Choice
from canon.tasks import tokens
from canon.tasks.base import Outputs, Task
from canon.tasks.filled import GUESSES, SHOWN, lines

_KEPT = 4  # columns whose settings are remembered: the splits
_SAMPLE = 1 << 24  # tokens by which the shares of tokens are counted
_OF_TOKENS = ("relation",)  # labels of tokens; the others are of sequences
# What a network takes by name beside tokens, places and targets, where a batch has it.
_MORE = {
    "segment": "segment_N",
    "rank": "rank_N",
    "prefix_lengths": "prefix_lengths",
    "task": "task_B",
    "relation_places": "relation_R",
}


@runtime_checkable
class HasPositions(Protocol):
    """The settings of a network that has room for so many tokens."""

    max_positions: int


class Pretraining(Task):
    targets = (HiddenTokens,)
    of_sequences = ("next",)
    whole = True
    risk_examples = 2000
    monitor = "loss"
    rising = ("token_accuracy", "next_accuracy", *(f"{name}_accuracy" for name in TASKS))

    def __init__(self, choice: Choice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema, TokenSchema)
        self.typical = schema.typical
        self._tokenizer = schema.tokenizers["text"]
        self._composers: list[Composer] = []
        self._max_positions = config.max_positions if isinstance(config, HasPositions) else 0
        self.objective: Pretext = choice.create()
        # What is predicted of whole sequences, or of tokens beside their names: each has its loss and its accuracy.
        self.labels = self.objective.labels

    def composer(self, columns: Columns) -> Composer:
        passages = columns["input"]
        assert isinstance(passages, Passages)
        for known in self._composers:
            if known.passages is passages:
                return known
        composer = Composer(self.objective, passages, self._max_positions)
        self._composers = [*self._composers[1 - _KEPT :], composer]
        return composer

    def compose(self, columns: Columns, indices: np.ndarray, places: np.ndarray, draws: Draws) -> dict[str, np.ndarray]:
        return self.composer(columns)(indices, places, draws)

    def longest(self, columns: Columns) -> int:
        return self.composer(columns).longest if self.objective.recordable else 0

    def example(self) -> tuple[Any, ...]:
        layout = Layout(torch.tensor([max(self.typical or (128,))]))
        token_N = torch.full((layout.total,), max(self._tokenizer.specials.eos, 0))
        if not self.objective.decodes:
            return token_N, layout
        target = Layout(torch.tensor([self.objective.predicted(layout.total)]))
        return token_N, layout, token_N[: target.total], target

    def example_options(self) -> dict[str, Any]:
        if self.objective.decodes:
            return {}
        places_M = torch.arange(self.objective.predicted(max(self.typical or (128,))))
        more = {"places_lengths": torch.tensor([len(places_M)])} if self.objective.ranked else {}
        return {"places_M": places_M, **more}

    def ask(self, network: nn.Module, batch: Batch, scored: bool = True) -> Outputs:
        """The network's outputs with the losses of the targets, or without `scored` with logits at the places."""
        layout = layout_of(batch)
        target_M = batch["target"] if scored else None
        if self.objective.decodes:
            return network(batch["input"], layout, batch["target_input"], layout_of(batch, "target"), target_M)
        more = {name: batch[key] for key, name in _MORE.items() if key in batch}
        if "rank" in batch:
            more["places_lengths"] = batch["places_lengths"]
        return network(batch["input"], layout, places_M=batch["places"], target_M=target_M, **more)

    # Training

    def count(self, batch: Batch) -> int:
        """Predicted tokens; of several tasks, the targets of the step's own."""
        more = 0 if self.labels == ("next",) else sum(_asked(batch, name) for name in self.labels)
        return len(batch["target"]) + more

    def loss(self, network: nn.Module, batch: Batch, phase: str) -> Tensor:
        outputs = self.ask(network, batch)
        total = outputs["loss"]
        if self.labels:
            self.observe("token_loss", total, (batch["target"] != IGNORE).sum())
        for name in self.labels:
            if name not in outputs:
                continue
            losses = cross_entropy(outputs[name], batch[name], ignore_index=IGNORE)
            self.observe(f"{name}_loss", losses.sum(), (batch[name] != IGNORE).sum())
            total = total + (losses * _told_places(batch) if name == "next" else losses).sum()
        return total

    # Evaluation

    def run(self, network: nn.Module, batch: Batch) -> Outputs:
        """Sums over each sequence's targets; of the first sequences of a split, what the network would fill in."""
        outputs = self.ask(network, batch)
        size, device = len(batch["input_lengths"]), batch["input"].device
        counts_B = batch["target_lengths" if self.objective.decodes else "places_lengths"]
        row_M = torch.arange(size).repeat_interleave(counts_B).to(device)
        found = {
            "loss": _sums(outputs["losses"].detach(), row_M, size),
            "right": _sums(outputs["right"], row_M, size),
            "count": counts_B.float(),
        }
        for name in self.labels:
            found |= _judged(name, outputs[name], batch, size)
        found["guesses"] = torch.full((size, GUESSES), -1.0, device=device)
        if self.share is None or self.share[0] == 0:
            self._guess(network, batch, counts_B, found["guesses"])
        return found

    def _guess(self, network: nn.Module, batch: Batch, counts_B: Tensor, guesses: Tensor) -> None:
        """Fills in the likeliest tokens at the first places of the first sequences."""
        first = {name: _first(name, rows, batch) for name, rows in batch.items()}
        if not len(first["target"]):
            return
        likeliest = self.ask(network, first, scored=False)["logits"].argmax(1).split(counts_B[:SHOWN].tolist())
        for row, told in enumerate(likeliest):
            guesses[row, : min(len(told), GUESSES)] = told[:GUESSES].float()

    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        return outputs["loss"] / outputs["count"]

    def names(self) -> tuple[str, ...]:
        of_tokens = ("perplexity", "token_accuracy") if self.objective.tokens else ()
        token_loss = ("token_loss",) if self.labels and self.objective.tokens else ()
        more = (f"{name}_{kind}" for name in self.labels for kind in ("loss", "accuracy"))
        return ("loss", *of_tokens, *token_loss, *more)

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        found = tokens.scores(outputs) if outputs["count"].sum() else {}
        means = [found["loss"]] if found else []
        if self.labels and found:
            found["token_loss"] = found["loss"]
        for name in self.labels:
            asked = outputs[f"{name}_count"].double().sum().item()
            if asked:
                found[f"{name}_loss"] = outputs[f"{name}_loss"].double().sum().item() / asked
                found[f"{name}_accuracy"] = outputs[f"{name}_right"].double().sum().item() / asked
                means.append(found[f"{name}_loss"])
        if self.labels == ("next",):
            weighted = (outputs["next_loss"] * outputs["count"]).double().sum().item()
            found["loss"] += weighted / outputs["count"].double().sum().item()
        elif self.labels and means:
            found["loss"] = sum(means) / len(means)
        return found

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        """Of guesses of tokens; where next sentences are asked for, a coin is tossed for them."""
        if self.objective.several:
            return {}
        found = tokens.floors(np.asarray(targets[:_SAMPLE]), self._tokenizer.size)
        return {name: value + (math.log(2) if self.labels else 0.0) for name, value in found.items()}

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        size = min(len(columns["input"]), SHOWN)
        rows = np.arange(size)
        batch = self.compose(columns, rows, rows, EVALUATION)
        return lines(self.objective, batch, outputs["guesses"][:size].long().numpy(), self._tokenizer)

    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        """How well each passage was told."""
        mean = (outputs["loss"] / outputs["count"].clamp(min=1)).tolist()
        return [{"loss": value, "perplexity": tokens.perplexity(value)} for value in mean]


def _asked(batch: Batch, name: str) -> int:
    """Targets of that name, without waiting for the device."""
    return int(batch[f"{name}_lengths"].sum())


def _told_places(batch: Batch) -> Tensor:
    """How many tokens each sequence tells, counted on the device."""
    ends_B = layout_of(batch).offsets[1:].long()
    row_M = torch.searchsorted(ends_B, batch["places"], right=True)
    return torch.zeros(len(ends_B), device=ends_B.device).index_add_(0, row_M, (batch["target"] != IGNORE).float())


def _sums(x_M: Tensor, row_M: Tensor, size: int) -> Tensor:
    return torch.zeros(size, device=x_M.device).index_add(0, row_M, x_M.float())


def _judged(name: str, logits: Tensor, batch: Batch, size: int) -> Outputs:
    """Losses, right answers and targets of each sequence."""
    label, counts_B = batch[name], batch[f"{name}_lengths"]
    losses, right = cross_entropy(logits.float(), label, ignore_index=IGNORE), logits.argmax(-1) == label
    if name in _OF_TOKENS:
        row = torch.arange(size).repeat_interleave(counts_B).to(label.device)
        losses, right = _sums(losses, row, size), _sums(right, row, size)
    return {f"{name}_loss": losses, f"{name}_right": right, f"{name}_count": counts_B.float()}


def _first(name: str, rows: Tensor, batch: Batch) -> Tensor:
    """Of an array of a batch, what belongs to the first sequences; lengths tell how much that is, on the host."""
    lengths = {
        "input": "input_lengths",
        "segment": "input_lengths",
        "rank": "input_lengths",
        "places": "places_lengths",
        "target": "target_lengths" if "target_lengths" in batch else "places_lengths",
        "target_input": "target_lengths",
        "relation": "relation_lengths",
        "relation_places": "relation_lengths",
    }
    return rows[: int(batch[lengths[name]][:SHOWN].sum())] if name in lengths else rows[:SHOWN]
