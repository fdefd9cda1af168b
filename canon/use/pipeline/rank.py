"""The ranker of a pipeline: one run, or several whose scores are standardised within each query and added."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from canon.data.encodings.lists import ListSchema, columns_of
from canon.data.formats.letor import QueryRows
from canon.errors import CanonError
from canon.use.features.index import PRESETS
from canon.use.pipeline.settings import RankSettings

if TYPE_CHECKING:
    from canon.use.model import Model

RUN = "run"  # in the folder rank: the ranker that the pipeline has trained


class RankScorer:
    """names: the features of text and documents that are computed; those of recalls come after them."""

    def __init__(self, names: Sequence[str], columns: Sequence[str], runs: Sequence[tuple[Model, float]]) -> None:
        self.names, self.columns, self.runs = tuple(names), tuple(columns), runs

    def scores(self, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """[p] of candidates of queries, by their features [p, F]."""
        if not len(values):
            return np.empty(0)
        each = [_scored(model, self.columns, values, offsets) for model, _ in self.runs]
        if len(each) == 1:
            return each[0]
        weighted = [weight * z_scores(one, offsets) for one, (_, weight) in zip(each, self.runs, strict=True)]
        return np.sum(weighted, axis=0)


def z_scores(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(s − mean) / deviation within each query; 0 where all are equal."""
    sizes = np.diff(offsets)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    count = np.maximum(sizes, 1)
    apart = scores - (np.bincount(rows, weights=scores, minlength=len(sizes)) / count)[rows]
    deviation = np.sqrt(np.bincount(rows, weights=apart**2, minlength=len(sizes)) / count)[rows]
    return np.divide(apart, deviation, out=np.zeros(len(scores)), where=deviation > 1e-12)


def _scored(model: Model, columns: Sequence[str], values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    schema = model.schema
    assert isinstance(schema, ListSchema)
    kept = np.flatnonzero(np.diff(offsets))  # a query without candidates has nothing to rank
    bounds = np.concatenate([[0], offsets[1:][kept]])
    empty = np.full(len(values), "", dtype=object)
    queries = np.array([str(number) for number in kept], dtype=object)
    rows = QueryRows(
        "the candidates", values, None, bounds, queries, empty, tuple(columns), np.arange(len(values)), "row"
    )
    return np.asarray(model.learner.outputs(columns_of(schema, rows))["scores"], dtype=np.float64)


def feature_list(settings: RankSettings) -> tuple[str, ...]:
    if isinstance(settings.features, str):
        return PRESETS.get(settings.features, (settings.features,))
    return settings.features


def open_scorer(settings: RankSettings | None, folder: Path, recalled: Sequence[str]) -> RankScorer | None:
    """None where the pipeline has no ranker; recalled: names of the features that its recalls give."""
    if settings is None:
        return None
    from canon.use.model import load

    paths = [(str(folder / "rank" / RUN), 1.0)] if settings.recipe else [(one.run, one.weight) for one in settings.runs]
    names = feature_list(settings)
    columns = (*names, *recalled)
    runs = [(load(path), weight) for path, weight in paths]
    for (path, _), (model, _) in zip(paths, runs, strict=True):
        schema = model.schema
        if not isinstance(schema, ListSchema):
            raise CanonError(f"rank.runs: {path} does not rank documents by features; see canon list systems.")
        if schema.features != columns:
            different = next((name for name in schema.features if name not in columns), "")
            why = f"it has {different}" if different else f"it has {len(schema.features)}, and another order"
            raise CanonError(
                f"rank.runs: {path} was trained on other features than the pipeline computes, {len(columns)} by "
                f"rank.features and the recalls ({why}): train it on the candidates in rank/ of a pipeline like this."
            )
    return RankScorer(names, columns, runs)
