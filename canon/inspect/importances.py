"""How much each feature counts for a learner that knows it (canon.contracts.WeighsFeatures).

Gains of splits, votes or weights are the learner's own; nothing is estimated. Weights are those of the features as the
learner reads them, so they compare only where features are of similar size. Shape: F features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from canon import figures
from canon.contracts import WeighsFeatures
from canon.data.encodings.lists import ListSchema
from canon.errors import CanonError
from canon.use.model import Model

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


def importances(model: Model) -> Importances:
    """Of all features of a run."""
    learner = model.learner
    if not isinstance(learner, WeighsFeatures):
        raise CanonError(
            f"{model.run.path}: {model.run.recipe.system.name} does not know how much its features count; learners of "
            "rankings do (canon list systems)."
        )
    values = learner.importances()
    first = next(iter(values.values()))
    names = model.schema.features if isinstance(model.schema, ListSchema) else tuple(map(str, range(1, len(first) + 1)))
    order = np.argsort(-np.abs(first), kind="stable")
    return Importances([names[place] for place in order], {name: row[order] for name, row in values.items()})


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
