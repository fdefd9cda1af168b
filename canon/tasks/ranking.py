"""The order of each query's documents, by a network that gives each document a score.

A loss (canon.objectives.ranking) is a sum over queries, which is divided by the queries that have documents of unequal
grades, by pairs, or by documents. Equal scores are ranked by a random number of (seed, step, document): never in the
order of the file, which may be that of the grades.
Shapes: B queries of a batch, N documents, F features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from canon.data.batching.lists import Grades
from canon.data.batching.loader import Batch
from canon.data.encodings.lists import ListSchema
from canon.data.schema import Columns, Schema
from canon.nn.ragged import Layout, layout_of
from canon.objectives.ranking.base import Queries, RankLoss, tie_keys
from canon.objectives.record import ObjectiveChoice
from canon.tasks.base import NetworkTask, Outputs, Turn
from canon.tasks.rankings import RankingScores

_TYPICAL = 20  # documents of a query, where the data does not say


class Ranking(RankingScores, NetworkTask):
    at_once = 256
    risk_examples = 5000

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema, ListSchema)
        self.objective: RankLoss = choice.create()
        self.typical = schema.typical or _TYPICAL

    # ---- training

    def example(self) -> tuple[Any, ...]:
        return torch.zeros(self.typical, *self.schema.shape), Layout(torch.tensor([self.typical]))

    def count(self, batch: Batch) -> int:
        return self.objective.count(batch["input_lengths"], batch["pair_lengths"])

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        layout = layout_of(batch)
        logits_N = network(batch["input"], layout)
        with torch.autocast(logits_N.device.type, enabled=False):  # differences of scores are small
            keys_N = tie_keys(batch["input_items"], 0 if turn.generator is None else turn.generator.initial_seed())
            queries = Queries(batch["target"], layout, keys_N, batch["pair_lengths"])
            return self.objective.losses(logits_N.float(), queries).sum()

    # ---- scoring

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        logits_N = network(batch["input"], layout_of(batch)).float()
        return {"logits": logits_N, "scores": self.objective.scores(logits_N)}

    def names(self) -> tuple[str, ...]:
        return ("loss", *super().names())

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        return {"loss": self.mean_loss(outputs, columns), **super().score(outputs, columns)}

    def mean_loss(self, outputs: Outputs, columns: Columns) -> float:
        """Over all queries of a split, some at a time; 0 where none says anything about order."""
        grades, total, start = columns["target"], 0.0, 0
        assert isinstance(grades, Grades)
        for first in range(0, len(grades), self.at_once):
            some = grades.slice(first, min(first + self.at_once, len(grades)))
            stop = start + len(some.values)
            layout = Layout(torch.from_numpy(some.lengths))
            items_N = torch.arange(start, stop)
            queries = Queries(
                torch.from_numpy(some.values).double(), layout, tie_keys(items_N, 0), torch.from_numpy(some.pairs)
            )
            logits_N = torch.from_numpy(outputs["logits"][start:stop]).double()
            total += self.objective.losses(logits_N, queries).sum().item()
            start = stop
        count = self.objective.count(torch.from_numpy(grades.lengths), torch.from_numpy(grades.pairs))
        return total / max(count, 1)
