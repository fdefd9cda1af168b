"""What labels from clicks are worth: a ranker of true grades, of plain click rates, of rates with inverse propensities.

    CANON_DATA=… python benchmarks/click_labels.py [--views 300] [--seeds 5] [--quick]

MQ2008, Fold 1. The documents of each training query are shown in the order of one feature (BM25 of the whole document),
with some disorder, `views` times; a document at position k is clicked with the chance θ_k · γ of its grade, θ_k = 1/k,
γ = .1, .6, .9. θ is then estimated from the log alone, by the position-based model. The ranker is ridge regression of
the label on the features, the same for all; NDCG@10 on the test part, as canon and LETOR have it. Goal: inverse
propensities regain half at least of what plain rates lose against true grades.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from common import arguments, write_result

from canon.data.formats.click_log import ClickLog
from canon.data.formats.letor import read_letor
from canon.metrics.ranking import ndcg
from canon.use.features.clicks import LoggedPairs, propensities_by_em, weights

_SHOWN_BY = 36  # BM25 of the whole document
_LIKED = np.array([0.1, 0.6, 0.9])
_RIDGE, _DEPTH, _CAP = 10.0, 20, 50.0


def read(split: str, quick: bool) -> SimpleNamespace:
    if not quick:
        file = Path(os.environ.get("CANON_DATA", "")) / "mq2008" / "Fold1" / f"{split}.txt.xz"
        rows, _ = read_letor(file, "utf-8")
        assert rows.grades is not None
        return SimpleNamespace(values=rows.values, grades=rows.grades, offsets=rows.offsets)
    draw = np.random.default_rng(len(split))
    values = draw.random((400, 46)).astype(np.float32)
    grades = np.clip(np.round(2 * values[:, 0] * values[:, 1] * 2), 0, 2)
    return SimpleNamespace(values=values, grades=grades, offsets=np.arange(0, 401, 10))


def clicks(data: SimpleNamespace, views: int, seed: int) -> ClickLog:
    draw = np.random.default_rng(seed)
    columns: list[list[np.ndarray]] = [[], [], [], []]
    for query, (start, stop) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        shown = min(stop - start, _DEPTH)
        noise = draw.normal(scale=0.15, size=(views, stop - start))
        order = np.argsort(-(data.values[start:stop, _SHOWN_BY] + noise), axis=1)[:, :shown]
        theta = 1 / np.arange(1, shown + 1)
        clicked = draw.random(order.shape) < theta * _LIKED[data.grades[start:stop].astype(int)][order]
        for column, cells in zip(
            columns,
            (np.full(order.size, query), start + order, np.tile(np.arange(1, shown + 1), (views, 1)), clicked),
            strict=True,
        ):
            column.append(cells.ravel())
    asked, document, position, chosen = (np.concatenate(column) for column in columns)
    view = np.cumsum(position == 1)
    names = [str(i) for i in range(len(data.grades))]
    return ClickLog([str(q) for q in range(asked[-1] + 1)], names, asked, document, position, chosen, view)


def ranked(train: SimpleNamespace, labels: np.ndarray, known: np.ndarray, test: SimpleNamespace) -> dict[str, float]:
    """NDCG@10 of ridge regression on the documents whose label is known, each query's labels around their mean."""
    query = np.repeat(np.arange(len(train.offsets) - 1), np.diff(train.offsets))
    mean, scale = train.values.mean(0), np.maximum(train.values.std(0), 1e-6)
    x, y = ((train.values - mean) / scale)[known], labels[known]
    counts = np.bincount(query[known])
    y = y - (np.bincount(query[known], weights=y) / np.maximum(counts, 1))[query[known]]
    w = np.linalg.solve(x.T @ x + _RIDGE * np.eye(x.shape[1]), x.T @ y)
    scores = ((test.values - mean) / scale) @ w
    sizes = np.diff(test.offsets)
    return {name: ndcg(test.grades, scores, sizes=sizes, k=10, preset=name) for name in ("canon", "letor")}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--views", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if options.quick:
        options.views, options.seeds = 20, 1
    train, test = read("train", options.quick), read("test", options.quick)
    everything = np.ones(len(train.grades), dtype=bool)
    rows: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        log = clicks(train, options.views, seed)
        pairs = LoggedPairs.of(log)
        theta = propensities_by_em(log, pairs)
        views = np.bincount(log.document, minlength=len(train.grades))
        known = views > 0
        plain = np.bincount(log.document, weights=log.clicked, minlength=len(views)) / np.maximum(views, 1)
        mended = np.bincount(log.document, weights=weights(log, theta, _CAP), minlength=len(views))
        labels = {
            "true grades": train.grades,
            "click rates": plain,
            "inverse propensities": mended / np.maximum(views, 1),
        }
        for name, values in labels.items():
            measures = ranked(train, values, everything if name == "true grades" else known, test)
            for measure, value in measures.items():
                rows.setdefault(f"{name}, {measure}", []).append(value)
    means = {name: float(np.mean(values)) for name, values in rows.items()}
    for name, values in rows.items():
        print(f"{name:32s} {means[name]:.4f} ± {np.std(values):.4f}")
    regained = {
        measure: (means[f"inverse propensities, {measure}"] - means[f"click rates, {measure}"])
        / max(means[f"true grades, {measure}"] - means[f"click rates, {measure}"], 1e-9)
        for measure in ("canon", "letor")
    }
    print(f"regained: {', '.join(f'{name} {share:.0%}' for name, share in regained.items())}")
    write_result("click_labels", {"ndcg@10": means, "regained": regained}, options)


if __name__ == "__main__":
    main()
