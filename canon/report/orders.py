"""What a ranker or a recommender makes of its test part, as JSON and as a section of the report.

| of | shown |
| --- | --- |
| a ranker | scores by grade; queries whose NDCG@10 is most above and below that of one feature alone |
| a recommender | the share of the items that lists of k have; who gets recommended, popular items or rare ones; a map |

The feature is the one whose order, rising or falling, has the best NDCG@10 on the training part. The map has the most
popular items where the two first principal components of their likeness (the cosine of factors, or of users in common)
put them. Shapes: N documents, I items, K places of a list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon import figures, metrics
from canon.config import Table
from canon.contracts import Recommends
from canon.data.batching.lists import Grades, Lists
from canon.data.encodings.events import EventSchema
from canon.data.encodings.lists import ListSchema
from canon.data.schema import Columns, Data, take
from canon.report import page
from canon.report.chart import Chart, Line
from canon.report.page import note
from canon.tasks.base import spread
from canon.use.model import Model

_CUT = 10
_MOVED = 8  # queries that gained most, and as many that lost most
_MOST_QUERIES, _MOST_USERS = 2000, 2000
_CHOSEN_BY = 300  # training queries
_MAPPED, _NAMED = 400, 12  # items of the map, and of these with names
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def orders_of(model: Model, data: Data) -> Table | None:
    """None for runs that order nothing."""
    test = data.splits["test"]
    if isinstance(model.schema, ListSchema) and "target" in test:
        return _rankings(model, data.splits["train"], take(test, spread(len(test["input"]), _MOST_QUERIES)))
    if isinstance(model.schema, EventSchema) and isinstance(model.learner, Recommends):
        return _recommendations(model, take(test, spread(len(test["input"]), _MOST_USERS)))
    return None


# ---- rankers


def _rankings(model: Model, train: Columns, test: Columns) -> Table:
    grades, documents = test["target"], test["input"]
    assert isinstance(grades, Grades) and isinstance(documents, Lists) and isinstance(model.schema, ListSchema)
    scores_N = np.asarray(model.learner.outputs(test)["scores"], dtype=np.float64)
    feature, sign = _best_feature(take(train, spread(len(train["input"]), _CHOSEN_BY)))
    before = _ndcg(grades, sign * documents.values[:, feature])
    after = _ndcg(grades, scores_N)
    order = np.argsort(before - after, kind="stable")
    order = order if len(order) <= 2 * _MOVED else np.concatenate([order[:_MOVED], order[-_MOVED:]])
    queries: Any = test["query"]
    rows = [
        {
            "query": str(queries[query]),
            "documents": int(grades.lengths[query]),
            "feature alone": float(before[query]),
            "this run": float(after[query]),
            "change": float(after[query] - before[query]),
        }
        for query in order.tolist()
    ]
    by_grade = [
        {"grade": float(grade), "documents": int((grades.values == grade).sum()), "quantiles": _quantiles(own)}
        for grade in np.unique(grades.values)
        if len(own := scores_N[grades.values == grade])
    ]
    return {
        "kind": "rankings",
        "examples": len(before),
        "feature": model.schema.features[feature],
        "rising": sign < 0,
        "means": [float(before.mean()), float(after.mean())],
        "counts": {name: int(way.sum()) for name, way in _ways(before, after).items()},
        "queries": rows,
        "grades": by_grade,
    }


def _ndcg(grades: Grades, scores_N: np.ndarray) -> np.ndarray:
    """[Q]"""
    ranked = metrics.rank(grades.values, scores_N, sizes=grades.lengths, ties="average")
    return np.asarray(metrics.ndcg_by_query(ranked, k=_CUT))


def _best_feature(train: Columns) -> tuple[int, float]:
    """The place of a feature, and 1 where more of it comes first, else −1."""
    grades, documents = train["target"], train["input"]
    assert isinstance(grades, Grades) and isinstance(documents, Lists)
    tried = [
        (float(_ndcg(grades, sign * documents.values[:, feature]).mean()), -feature, sign)
        for feature in range(documents.values.shape[1])
        for sign in (1.0, -1.0)
    ]
    _, feature, sign = max(tried)
    return -feature, sign


def _ways(before: np.ndarray, after: np.ndarray) -> dict[str, np.ndarray]:
    close = np.isclose(before, after)
    return {"better": ~close & (after > before), "same": close, "worse": ~close & (after < before)}


def _quantiles(values: np.ndarray) -> list[float]:
    return [round(float(value), 5) for value in np.quantile(values, _QUANTILES)]


# ---- recommenders


def _recommendations(model: Model, test: Columns) -> Table:
    schema, learner = model.schema, model.learner
    assert isinstance(schema, EventSchema) and isinstance(learner, Recommends)
    top_UK = np.asarray(model.learner.outputs(test)["top"])[:, :_CUT]
    counts_I = np.array(schema.counts)
    order_I = np.argsort(-counts_I, kind="stable")
    listed_I = np.bincount(top_UK[top_UK >= 0], minlength=len(counts_I))
    at = np.unique(np.linspace(1, len(order_I), min(100, len(order_I))).astype(np.int64))
    return {
        "kind": "recommendations",
        "examples": len(top_UK),
        "items": len(counts_I),
        "coverage": [metrics.coverage(top_UK[:, : k + 1], len(counts_I)) for k in range(top_UK.shape[1])],
        "popularity": {
            "items": (at / len(order_I)).round(5).tolist(),
            "events": _cumulated(counts_I[order_I], at),
            "recommended": _cumulated(listed_I[order_I], at),
        },
        "map": _map(schema, learner, order_I[:_MAPPED]),
    }


def _cumulated(values: np.ndarray, at: np.ndarray) -> list[float]:
    return (np.cumsum(values)[at - 1] / max(values.sum(), 1)).round(5).tolist()


def _map(schema: EventSchema, learner: Recommends, items: np.ndarray) -> list[Table]:
    """The first two principal components of items, by their likeness; [] where the learner knows none."""
    alike_II = np.asarray(learner.alike(items), dtype=np.float64)[:, items]
    alike_II = (alike_II + alike_II.T) / 2
    mean_I = alike_II.mean(0)
    values, vectors_IK = np.linalg.eigh(alike_II - mean_I - mean_I[:, None] + mean_I.mean())
    if len(items) < 3 or values[-2] <= 1e-9:
        return []
    place_I2 = vectors_IK[:, :-3:-1] * np.sqrt(values[:-3:-1])
    place_I2 *= np.where(place_I2[np.abs(place_I2).argmax(0), [0, 1]] < 0, -1.0, 1.0)  # a sign means nothing
    return [
        {"item": schema.items[item], "events": int(schema.counts[item]), "place": [round(x, 4) for x in place]}
        for item, place in zip(items.tolist(), place_I2.tolist(), strict=True)
    ]


# ---- the section


def section(facts: Table | None, draw: bool) -> str:
    if facts is None:
        return ""
    part = note(f"Of {facts['examples']:,} test {'queries' if facts['kind'] == 'rankings' else 'users'}.")
    if facts["kind"] == "recommendations":
        drawn = [*_coverage_charts(facts), *([_map_chart(facts["map"])] if facts["map"] else [])] if draw else []
        return part + page.charts(drawn)
    counts, (before, after) = facts["counts"], facts["means"]
    way = " (the least first)" if facts["rising"] else ""
    compared = (
        f"Against the order by feature {facts['feature']} alone{way}: NDCG@10 {after:.4f}, not {before:.4f}; "
        f"{counts['better']:,} queries better, {counts['same']:,} the same, {counts['worse']:,} worse. "
        "Those that changed most:"
    )
    return (
        part
        + (page.drawings([_grades_figure(facts["grades"])]) if draw else "")
        + note(compared)
        + page.table(facts["queries"])
    )


def _grades_figure(grades: list[Table]) -> figures.Figure:
    """A box from quarter to quarter, whiskers from 5 % to 95 %, of the scores of each grade."""
    figure, axes = figures.new_figure(size=(5.6, 0.9 + 0.45 * len(grades)))
    axis = axes[0, 0]
    with figures.style():
        for row, one in enumerate(grades):
            low, quarter, middle, three, high = one["quantiles"]
            color = figures.COLORS[row % len(figures.COLORS)]
            axis.plot([low, high], [row, row], color=color, lw=1.2)
            axis.plot([quarter, three], [row, row], color=color, lw=7, alpha=0.45, solid_capstyle="butt")
            axis.plot([middle], [row], "|", color=color, ms=14, mew=2)
        labels = [f"grade {one['grade']:g} ({one['documents']:,})" for one in grades]
        axis.set_yticks(range(len(grades)), labels)
        axis.set(title="Scores by grade", xlabel="score", ylim=(-0.6, len(grades) - 0.4))
        axis.grid(False, axis="y")
    return figure


def _coverage_charts(facts: Table) -> list[Chart]:
    share, coverage = facts["popularity"], np.array(facts["coverage"])
    items = np.array(share["items"])
    lines = [
        Line("places in lists of 10", items, np.array(share["recommended"])),
        Line("training events", items, np.array(share["events"])),
    ]
    shares = Chart("Who is recommended", "share of the items, popular ones first", "share of all", lines)
    places = [Line("coverage", np.arange(1.0, len(coverage) + 1), coverage)]
    return [shares, Chart("Coverage", "places of a list", "share of items in any list", places, from_zero=True)]


def _map_chart(items: list[Table]) -> Chart:
    across, up = np.array([one["place"] for one in items]).T
    names = [one["item"][:20] for one in items[:_NAMED]]
    title = f"The {len(items):,} most popular items by likeness"
    return Chart(title, "first component", "second component", dots=(across, up), names=names)
