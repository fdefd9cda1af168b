"""What learners of rankings share: documents of queries end to end, the measures of a ranking, and sums over pairs.

Documents of equal score are in a random order that the seed decides, never in that of the file: `TrainingLists.of`
shuffles them within their queries. Queries whose documents all have one label teach nothing and are left out.
Shapes: N documents, Q queries, F features; query q is the documents offsets[q] … offsets[q+1] − 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from canon.contracts import Context, Learner, WeighsFeatures
from canon.data.batching.draws import Draws
from canon.data.batching.lists import Lists
from canon.data.schema import Columns, Data
from canon.errors import CanonError


@dataclass(frozen=True)
class TrainingLists:
    """The documents of a training set's informative queries."""

    values: np.ndarray  # float32
    labels: np.ndarray  # float64
    offsets: np.ndarray  # [Q + 1]

    @classmethod
    def of(cls, columns: Columns, seed: int) -> TrainingLists:
        """All documents of a split, shuffled within their queries; queries without documents are left out."""
        values, target = columns["input"], columns["target"]
        assert isinstance(values, Lists) and isinstance(target, Lists)
        order_N = np.lexsort((Draws(seed, 0).bits(0, np.arange(len(values.values))), values.rows))
        labels_N = np.asarray(target.values[order_N], np.float64)
        return cls(np.asarray(values.values[order_N], np.float32), labels_N, np.unique(values.offsets))

    def informative(self) -> TrainingLists:
        """The documents of queries that have two labels or more."""
        kept_Q = self.is_informative
        if not kept_Q.any():
            raise CanonError("In no training query do labels differ, so there is nothing to learn an order from.")
        kept_N = kept_Q[self.query]
        offsets_Q = np.concatenate(([0], np.cumsum(self.sizes[kept_Q])))
        return TrainingLists(self.values[kept_N], self.labels[kept_N], offsets_Q)

    @cached_property
    def is_informative(self) -> np.ndarray:
        starts_Q = self.offsets[:-1]
        return np.minimum.reduceat(self.labels, starts_Q) < np.maximum.reduceat(self.labels, starts_Q)

    @property
    def num_queries(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    @cached_property
    def query(self) -> np.ndarray:
        return np.repeat(np.arange(self.num_queries), self.sizes)

    @cached_property
    def pairs(self) -> np.ndarray:
        """How many pairs with different labels each query has."""
        _, key_N = np.unique(self.labels, return_inverse=True)
        counts = np.zeros((self.num_queries, int(key_N.max()) + 1))
        np.add.at(counts, (self.query, key_N), 1)
        return np.asarray((self.sizes**2 - (counts**2).sum(axis=1)) / 2)

    def sums(self, values_N: np.ndarray) -> np.ndarray:
        """[Q] by query."""
        return np.bincount(self.query, weights=values_N, minlength=self.num_queries)

    def pair_weights(self, per: str) -> np.ndarray:
        """[Q] what a pair of each query counts, 1 in the mean over pairs; per: what counts alike, queries or pairs."""
        if per != "query":
            return np.ones(self.num_queries)
        return np.asarray(self.pairs.mean() / self.pairs)


class RankingLearner(Learner, WeighsFeatures):
    """A learner whose model scores each document by its features."""

    documents: TrainingLists

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self._logged: dict[str, float] = {}

    def begin(self, data: Data, batch: int, steps: int) -> None:
        self.documents = TrainingLists.of(data.splits["train"], self.context.seed).informative()
        self.batch = batch
        self.start()

    def objective(self, usual: type) -> Any:
        """The settings of the objective; the default ones for a learner without a recipe."""
        return usual() if self.context.recipe is None else self.context.recipe.objective.settings

    def start(self) -> None:
        """Called after the documents were read."""

    @abstractmethod
    def importances(self) -> dict[str, np.ndarray]: ...

    @abstractmethod
    def scores(self, values_NF: np.ndarray) -> np.ndarray:
        """[N] float64"""

    def logs(self) -> dict[str, float]:
        return dict(self._logged)

    def state(self) -> dict[str, Any]:
        return {"logged": self._logged}

    def take_state(self, state: Mapping[str, Any]) -> None:
        self._logged = dict(state.get("logged", {}))

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        values = columns["input"]
        assert isinstance(values, Lists)
        scores_N = self.scores(values.values)
        return {"scores": scores_N, "logits": scores_N}
