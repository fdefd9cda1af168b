"""LambdaMART and gradient-boosted grades: trees of LightGBM that rank, one for each step.

Burges 2010, From RankNet to LambdaRank to LambdaMART: an overview, section 7; Friedman 2001, Greedy function
approximation: a gradient boosting machine. LightGBM (Ke et al. 2017) computes gradients and trees; canon makes
them stop and continue bit for bit (canon.systems.ranking.booster), in segments of train.checkpoint_every trees.
Deviations: leaves are grown best first on histograms, as LightGBM does.
Shapes: N documents, F features, Q queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.batching.lists import Lists
from canon.data.schema import Data
from canon.errors import CanonError
from canon.objectives.ranking.settings import Lambda, Threshold
from canon.systems.ranking.booster import Boosted, TreeRows
from canon.systems.ranking.learner import RankingLearner, TrainingLists
from canon.systems.settings import Natural, Shape

_SEGMENT = 50  # trees, where no recipe says
_HIGHEST_GRADE, _MOST_DOCUMENTS = 30, 10_000  # that LightGBM ranks by

Part = Annotated[float, Field(gt=0, le=1)]


@settings
class Config:
    shape: Shape = Field(default=(46,), description="features of a document; the data decides")
    num_leaves: Annotated[int, Field(ge=2, le=131_072)] = Field(default=31, description="of a tree, at most")
    learning_rate: Annotated[float, Field(gt=0)] = Field(default=0.1, description="what a tree's leaves are scaled by")
    min_documents: Natural = Field(default=20, description="of a leaf, at least")
    min_hessian: Annotated[float, Field(ge=0)] = Field(default=1e-3, description="Σ second derivatives of a leaf")
    l2: Annotated[float, Field(ge=0)] = Field(default=0.0, description="λ: of the squares of leaves")
    features: Part = Field(default=1.0, description="share of the features that a tree may use")
    documents: Part = Field(default=1.0, description="share of the documents that a tree is grown on")
    bins: Annotated[int, Field(ge=2, le=65_535)] = Field(default=255, description="values of a feature, at most")


class Trees(RankingLearner):
    objectives: Mapping[str, str]  # of canon: that of LightGBM
    usual: str

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        recipe = context.recipe
        self.loss = self.usual if recipe is None else recipe.objective.name
        segment = _SEGMENT if recipe is None else recipe.train.checkpoint_every
        parameters = {
            "objective": self.objectives[self.loss],
            "num_leaves": config.num_leaves,
            "learning_rate": config.learning_rate,
            "min_data_in_leaf": config.min_documents,
            "min_sum_hessian_in_leaf": config.min_hessian,
            "lambda_l2": config.l2,
            "feature_fraction": config.features,
            "bagging_fraction": config.documents,
            "bagging_freq": int(config.documents < 1),
            "max_bin": config.bins,
            "num_threads": 1 if recipe is None else recipe.train.threads,
            "metric": "None",
            "verbose": -1,
            "deterministic": True,
            "force_row_wise": True,
            **self.of_objective(),
        }
        self.trees = Boosted(parameters, context.seed, segment)
        self._rows: TreeRows | None = None

    def of_objective(self) -> dict[str, Any]:
        """Parameters of LightGBM that the objective decides."""
        return {}

    @property
    def num_parameters(self) -> int:
        """A leaf has a value, an inner node a feature and a threshold."""
        splits = int(self.trees.importances("split").sum())
        return 3 * splits + self.trees.num_trees

    def begin(self, data: Data, batch: int, steps: int) -> None:
        self.documents = TrainingLists.of(data.splits["train"], self.context.seed)
        self.documents.informative()  # there must be one
        least, count = self.config.min_documents, len(self.documents.values)
        if count < 2 * least:
            raise CanonError(
                f"A leaf has at least {least:,} documents (system.min_documents), but there are {count:,} to train on, "
                "so that no tree could split them: lower it, as by --set system.min_documents=5."
            )
        self.check(self.documents, data)
        self._rows = self.rows(self.documents)

    def check(self, documents: TrainingLists, data: Data) -> None:
        """Refuses documents that trees of this kind do not rank."""

    def rows(self, documents: TrainingLists) -> TreeRows:
        return TreeRows(documents.values, documents.labels, documents.sizes)

    def step(self, number: int) -> bool:
        assert self._rows is not None
        return self.trees.grow(self._rows)

    def logs(self) -> dict[str, float]:
        gains_F, splits_F = self.trees.importances("gain"), self.trees.importances("split")
        share = float(gains_F.max() / gains_F.sum()) if gains_F.any() else 0.0
        leaves = float(splits_F.sum()) + self.trees.num_trees
        return {"leaves": leaves, "features_used": float((splits_F > 0).sum()), "first_feature": share}

    def importances(self) -> dict[str, np.ndarray]:
        return {"gain": self.trees.importances("gain"), "splits": self.trees.importances("split")}

    def scores(self, values_NF: np.ndarray) -> np.ndarray:
        return self.trees.predict(values_NF)

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        text, start_N = self.trees.text(), self.trees.start_N
        return {
            "model": {"trees": np.frombuffer(text.encode(), np.uint8).copy()},
            "optimizer": {"scores": np.zeros(0) if start_N is None else start_N},
        }

    def state(self) -> dict[str, Any]:
        return {"closed": self.trees.num_closed, "segment": self.trees.segment}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        text = np.asarray(tensors["model"]["trees"], np.uint8).tobytes().decode()
        if "optimizer" not in tensors or self._rows is None:
            self.trees.take(text)
            return
        self.trees.segment = state["segment"]
        closed, start_N = state["closed"], np.array(tensors["optimizer"]["scores"])
        self.trees.resume(text, start_N if closed else None, closed, self._rows)


def _where(data: Data, query: int) -> str:
    """The file and the name of one of the queries that have documents."""
    columns = data.splits["train"]
    documents = columns["input"]
    assert isinstance(documents, Lists)
    return f"{data.name}, query {np.asarray(columns['query'])[documents.lengths > 0][query]}"


class LambdaMART(Trees):
    objectives = {"lambdarank": "lambdarank", "xe-ndcg": "rank_xendcg"}  # noqa: RUF012
    usual = "lambdarank"

    def of_objective(self) -> dict[str, Any]:
        lambdas = self.objective(Lambda)
        if lambdas.per != "query":
            raise CanonError(
                f'LambdaMART sums over queries, which count alike: leave objective.per = "{lambdas.per}" out.'
            )
        if self.loss != self.usual:
            return {}
        return {
            "sigmoid": lambdas.sigma,
            "lambdarank_truncation_level": lambdas.truncation,
            "lambdarank_norm": lambdas.norm == "lightgbm",
        }

    def check(self, documents: TrainingLists, data: Data) -> None:
        wrong_N = (documents.labels % 1 > 0) | (documents.labels > _HIGHEST_GRADE)
        if wrong_N.any():
            row = int(wrong_N.argmax())
            raise CanonError(
                f"{_where(data, int(documents.query[row]))}: a document has the grade {documents.labels[row]:g}, "
                f"but LambdaMART ranks by whole grades from 0 to {_HIGHEST_GRADE}: use fewer grades, or gbdt-ranker."
            )
        if documents.sizes.max() > _MOST_DOCUMENTS:
            raise CanonError(
                f"{_where(data, int(documents.sizes.argmax()))}: it has {documents.sizes.max():,} documents, but "
                f"LambdaMART ranks at most {_MOST_DOCUMENTS:,} of a query: split it, or use gbdt-ranker."
            )


class GBDTRanker(Trees):
    """Each document's grade, or whether it is relevant, on its own."""

    objectives = {"grade-squared": "regression", "grade-logistic": "binary"}  # noqa: RUF012
    usual = "grade-squared"

    def rows(self, documents: TrainingLists) -> TreeRows:
        chosen = self.objective(Threshold)
        labels_N, weights_N = documents.labels, None
        if self.loss != self.usual:
            labels_N = (labels_N >= chosen.relevant).astype(np.float64)
        if chosen.per != "document":
            counted_Q = documents.is_informative if chosen.per == "query" else documents.pairs
            kept_Q = counted_Q / documents.sizes
            weights_N = (kept_Q / (kept_Q @ documents.sizes) * len(labels_N))[documents.query]
        return TreeRows(documents.values, labels_N, documents.sizes, weights_N)
