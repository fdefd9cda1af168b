"""Pre-training on running text: hidden words, next words, words in any order, missing spans, next sentences.

The objective composes what a network reads and must predict from passages (canon/data/batching/composer.py). Loss:
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
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.config import HasPositions
from canon.contracts import IGNORE
from canon.data.batching.composer import Composer, Pretext
from canon.data.batching.draws import EVALUATION, Draws
from canon.data.batching.loader import Batch
from canon.data.batching.passages import Passages
from canon.data.schema import Columns, Schema, TokenSchema
from canon.nn.compiling import unwrapped
from canon.nn.ragged import Layout, layout_of
from canon.nn.token_loss import TokenLoss
from canon.objectives.classification import cross_entropy
from canon.objectives.record import ObjectiveChoice
from canon.tasks import tokens
from canon.tasks.base import Composes, FitsGraphs, NetworkTask, Outputs, ShowsSamples, Turn
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


class Pretraining(NetworkTask, Composes, FitsGraphs, ShowsSamples):
    of_sequences = ("next",)
    whole = True
    risk_examples = 2000
    monitor = "loss"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
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
        layout = Layout(torch.tensor([self._typical_length()]))
        token_N = torch.full((layout.total,), max(self._tokenizer.specials.eos, 0))
        if not self.objective.decodes:
            return token_N, layout
        target = Layout(torch.tensor([self.objective.predicted(layout.total)]))
        return token_N, layout, token_N[: target.total], target

    def _typical_length(self) -> int:
        length = max(self.typical or (128,))
        return min(length, self._max_positions) if self._max_positions else length

    def trial(self, network: nn.Module, *example: Any) -> Any:
        options = {}
        if not self.objective.decodes:
            places = self.objective.predicted(self._typical_length())
            options["places_M"] = torch.arange(places, device=example[0].device)
            if self.objective.ranked:
                options["places_lengths"] = torch.tensor([places])
        return unwrapped(network).logits(network(*example, **options)["hidden"])

    def ask(self, network: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The network's outputs: features of the places to predict, and what it says of whole sequences."""
        layout = layout_of(batch)
        if self.objective.decodes:
            return network(batch["input"], layout, batch["target_input"], layout_of(batch, "target"))
        more = {name: batch[key] for key, name in _MORE.items() if key in batch}
        if "rank" in batch:
            more["places_lengths"] = batch["places_lengths"]
        return network(batch["input"], layout, places_M=batch["places"], **more)

    def token_losses(self, network: nn.Module, outputs: dict[str, Tensor], batch: Batch) -> TokenLoss:
        return unwrapped(network).token_losses(outputs["hidden"], batch["target"])

    # Training

    def count(self, batch: Batch) -> int:
        """Predicted tokens; of several tasks, the targets of the step's own. The lengths are on the host."""
        labels = () if self.labels == ("next",) else self.labels
        return len(batch["target"]) + sum(int(batch[f"{name}_lengths"].sum()) for name in labels)

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        outputs = self.ask(network, batch)
        total = self.token_losses(network, outputs, batch).total
        if self.labels:
            turn.observe("token_loss", total, (batch["target"] != IGNORE).sum())
        for name in self.labels:
            if name not in outputs:
                continue
            losses = cross_entropy(outputs[name], batch[name], ignore_index=IGNORE)
            turn.observe(f"{name}_loss", losses.sum(), (batch[name] != IGNORE).sum())
            total = total + (losses * _counts_of_targets(batch) if name == "next" else losses).sum()
        return total

    # Evaluation

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        """Sums over each sequence's targets; of the first sequences of a split, what the network would fill in."""
        outputs = self.ask(network, batch)
        losses = self.token_losses(network, outputs, batch)
        size, device = len(batch["input_lengths"]), batch["input"].device
        counts_B = batch["target_lengths" if self.objective.decodes else "places_lengths"]
        row_M = torch.arange(size).repeat_interleave(counts_B).to(device)
        sums = {
            "loss": _sums(losses.losses.detach(), row_M, size),
            "right": _sums(losses.right, row_M, size),
            "count": counts_B.float(),
        }
        for name in self.labels:
            sums |= _judged(name, outputs[name], batch, size)
        sums["guesses"] = torch.full((size, GUESSES), -1.0, device=device)
        if turn.rows(size)[0] == 0:
            self._guess(network, batch, counts_B, sums["guesses"])
        return sums

    def _guess(self, network: nn.Module, batch: Batch, counts_B: Tensor, guesses: Tensor) -> None:
        """Fills in the likeliest tokens at the first places of the first sequences."""
        first = {name: _first(name, rows, batch) for name, rows in batch.items()}
        if not len(first["target"]):
            return
        logits_MV = unwrapped(network).logits(self.ask(network, first)["hidden"])
        for row, token_M in enumerate(logits_MV.argmax(1).split(counts_B[:SHOWN].tolist())):
            guesses[row, : min(len(token_M), GUESSES)] = token_M[:GUESSES].float()

    def names(self) -> tuple[str, ...]:
        of_tokens = ("perplexity", "token_accuracy") if self.objective.tokens else ()
        token_loss = ("token_loss",) if self.labels and self.objective.tokens else ()
        more = (f"{name}_{kind}" for name in self.labels for kind in ("loss", "accuracy"))
        return ("loss", *of_tokens, *token_loss, *more)

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        scores = tokens.scores(outputs) if outputs["count"].sum() else {}
        means = [scores["loss"]] if scores else []
        if self.labels and scores:
            scores["token_loss"] = scores["loss"]
        for name in self.labels:
            count, loss, right = (tokens.total(outputs[f"{name}_{kind}"]) for kind in ("count", "loss", "right"))
            if count:
                scores |= {f"{name}_loss": loss / count, f"{name}_accuracy": right / count}
                means.append(loss / count)
        if self.labels == ("next",):
            weighted = tokens.total(outputs["next_loss"] * outputs["count"])
            scores["loss"] += weighted / tokens.total(outputs["count"])
        elif self.labels and means:
            scores["loss"] = sum(means) / len(means)
        return scores

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        """Of guesses of tokens; where next sentences are asked for, a coin is tossed for them."""
        if self.objective.several:
            return {}
        floors = tokens.floors(np.asarray(targets[:_SAMPLE]), self._tokenizer.size)
        return {name: value + (math.log(2) if self.labels else 0.0) for name, value in floors.items()}

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        asked, known = tokens.of_split(columns), tokens.of_split(train)
        if asked is None or known is None or self.objective.several or not self.objective.tokens:
            return ""
        return tokens.shortfall(outputs, asked, known, self._tokenizer.size)

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        size = min(len(columns["input"]), SHOWN)
        rows = np.arange(size)
        batch = self.compose(columns, rows, rows, EVALUATION)
        return lines(self.objective, batch, outputs["guesses"][:size].astype(np.int64), self._tokenizer)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """How well each passage was predicted."""
        return tokens.rows(outputs)


def _counts_of_targets(batch: Batch) -> Tensor:
    """How many tokens each sequence has to predict, counted on the device."""
    ends_B = layout_of(batch).offsets[1:].long()
    row_M = torch.searchsorted(ends_B, batch["places"], right=True)
    return torch.zeros(len(ends_B), device=ends_B.device).index_add_(0, row_M, (batch["target"] != IGNORE).float())


def _sums(x_M: Tensor, row_M: Tensor, size: int) -> Tensor:
    return torch.zeros(size, device=x_M.device).index_add(0, row_M, x_M.float())


def _judged(name: str, logits: Tensor, batch: Batch, size: int) -> dict[str, Tensor]:
    """Losses, right answers and targets of each sequence."""
    label, counts_B = batch[name], batch[f"{name}_lengths"]
    losses, right = cross_entropy(logits.float(), label, ignore_index=IGNORE), logits.argmax(-1) == label
    if name in _OF_TOKENS:
        row = torch.arange(size).repeat_interleave(counts_B).to(label.device)
        losses, right = _sums(losses, row, size), _sums(right, row, size)
    return {f"{name}_loss": losses, f"{name}_right": right, f"{name}_count": counts_B.float()}


def _first(name: str, rows: Tensor, batch: Batch) -> Tensor:
    """Of an array of a batch, what belongs to the first sequences; lengths say how much that is, on the host."""
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
