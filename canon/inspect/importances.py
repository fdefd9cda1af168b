"""How much each feature of documents counts: what a learner knows of it, or what is lost without it.

A learner's own (canon.contracts.WeighsFeatures) are gains of splits, votes or weights; weights are those of features as
the learner reads them, so they compare only where features are of similar size. Of any ranker, `_measured` is what the
task's metric loses on the validation part (test, train where there is none) where a feature is shuffled among the
documents (Breiman 2001, Random forests, section 10; the mean of `REPEATS` shuffles) and where it has its mean.
Features that say the same stand in for each other and seem to count little. Shapes: N documents, F features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from canon import figures
from canon.contracts import WeighsFeatures
from canon.data.batching.lists import Lists
from canon.data.encodings.lists import ListSchema
from canon.data.progress import bar
from canon.data.schema import Data, take
from canon.errors import CanonError
from canon.tasks.base import spread
from canon.training.data import read_data
from canon.use.model import Model

REPEATS = 5
_QUERIES, _FEW_QUERIES = 2000, 100  # that are measured on, at most
_MOST_BARS = 30


class Importances(NamedTuple):
    features: list[str]  # the one that counts most first
    values: dict[str, np.ndarray]  # [F] by what is measured; the first decides the order

    @property
    def rows(self) -> list[dict[str, Any]]:
        columns = [values.tolist() for values in self.values.values()]
        return [
            {"feature": feature, **dict(zip(self.values, row, strict=True))}
            for feature, *row in zip(self.features, *columns, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        return {"importances": self.rows}


def importances(model: Model, data: Data | None = None, measure: bool = False, quick: bool = False) -> Importances:
    """Of all features of a run. data: the run's, if it has been read already; measure: what is lost without each, for a
    learner that has importances of its own too; quick: by one shuffle, on few queries."""
    learner, schema = model.learner, model.schema
    if isinstance(learner, WeighsFeatures) and not measure:
        values = learner.importances()
        first = np.abs(next(iter(values.values())))
    elif isinstance(schema, ListSchema):
        values = _measured(model, data, 1 if quick else REPEATS, _FEW_QUERIES if quick else _QUERIES)
        first = next(iter(values.values()))
    else:
        raise CanonError(
            f"{model.run.path}: {model.run.recipe.system.name} does not know how much its features count; rankers of "
            "documents do (canon list systems)."
        )
    names = schema.features if isinstance(schema, ListSchema) else tuple(map(str, range(1, len(first) + 1)))
    order = np.argsort(-first, kind="stable")
    return Importances([names[place] for place in order], {name: row[order] for name, row in values.items()})


def _measured(model: Model, data: Data | None, repeats: int, most: int) -> dict[str, np.ndarray]:
    """[F] what the metric loses where a feature is shuffled, and where it is its mean, on at most so many queries."""
    if data is None:
        data = read_data(model.run.recipe, model.run.path)
        model.run.check_same_data(data)
    columns = next(data.splits[name] for name in ("valid", "test", "train") if name in data.splits)
    columns = take(columns, spread(len(columns["input"]), most))
    documents, metric = columns["input"], model.task.monitor
    assert isinstance(documents, Lists)
    values_NF = documents.values

    def score(values: np.ndarray) -> float:
        changed = {**columns, "input": Lists(values, documents.offsets)}
        return model.task.score(model.learner.outputs(changed), changed)[metric]

    whole, draw = score(values_NF), np.random.default_rng(model.run.recipe.train.seed)
    orders = [draw.permutation(len(values_NF)) for _ in range(repeats)]
    shuffled, ablated = np.zeros(values_NF.shape[1]), np.zeros(values_NF.shape[1])
    with bar("importances", values_NF.shape[1], unit="features") as progress:
        for feature in range(values_NF.shape[1]):
            changed_NF = values_NF.copy()
            changed_NF[:, feature] = values_NF[:, feature].mean()
            ablated[feature] = whole - score(changed_NF)
            for order in orders:
                changed_NF[:, feature] = values_NF[order, feature]
                shuffled[feature] += (whole - score(changed_NF)) / repeats
            progress.advance(1)
    return {f"{metric} lost, shuffled": shuffled, f"{metric} lost, its mean": ablated}


def importances_figure(result: Importances) -> figures.Figure:
    """A bar for each of the features that count most."""
    shown = min(len(result.features), _MOST_BARS)
    name, values = next(iter(result.values.items()))
    figure, axes = figures.new_figure(1, 1, (6.0, 0.19 * shown + 0.9))
    with figures.style():
        axis = axes[0, 0]
        axis.barh(range(shown), values[:shown])
        axis.set_yticks(range(shown), result.features[:shown], fontsize=7)
        more = f" (the first {shown} of {len(result.features)})" if shown < len(result.features) else ""
        axis.set(title=f"{name} by feature{more}", ylim=(shown - 0.4, -0.6))
    return figure
