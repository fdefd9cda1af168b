"""Methods of ranking on the five folds of MQ2008, in one table: `CANON_DATA=… python benchmarks/mq2008.py [ROW …]`.

A row a method: mean and standard deviation over folds of the test part, at the weights that the validation part chose
(train.monitor of the recipe). Where a method has several settings, the validation MAP of each fold chooses one for that
fold; `listwise` is the list loss that the validation part of each fold chooses; nothing is chosen by a test part. Ridge
regression and one feature alone stand beside. Rows that are measured again replace those of
benchmarks/results/mq2008.json; the others stay. `--quick` takes the tests' small queries, an epoch and no folds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, SMALL, arguments, machine_record, write_result

from canon.recipe import load
from canon.tasks.rankings import measures
from canon.training.data import read_data
from canon.training.trainer import train

FOLDS = range(1, 6)
SHOWN = ("map", *(f"{name}@{k}" for name in ("ndcg", "letor_ndcg") for k in (1, 3, 5, 10)))
LISTWISE = "listwise"
_ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of ridge regression
_BM25 = 24  # the place of feature 25


@dataclass(frozen=True)
class Method:
    name: str
    recipe: str
    changes: dict[str, Any] = field(default_factory=dict)
    grid: Sequence[dict[str, Any]] = ({},)


def _tuned(name: str) -> Method:
    grid = [{"optimizer.lr": rate} for rate in (0.003, 0.01, 0.03)]
    return Method(f"{name}, tuned", f"ranking/{name}", grid=grid)


def _loss(name: str, **settings: Any) -> Method:
    """Of the linear ranker, the loss alone changed."""
    changes = {"objective.name": name, **{f"objective.{key}": value for key, value in settings.items()}}
    return Method(", ".join([name, *(f"{key}={value}" for key, value in settings.items())]), "ranking/ranknet", changes)


POINTWISE = (
    Method("grade-squared", "ranking/linear"),
    _loss("grade-logistic", per="document"),
    Method("mcrank", "ranking/mcrank"),
    Method("cumulative-logit", "ranking/ordinal"),
    _loss("grade-hinge", per="document"),
    _loss("ordinal-hinge", per="document"),
)
PAIRWISE = (
    Method("ranknet", "ranking/ranknet"),
    _loss("ranknet", pairs="adjacent"),
    _loss("ranknet", ties="half"),
    _loss("pair-hinge"),
    _loss("pair-exponential"),
    _loss("rank-mix"),
    _loss("pair-bpr"),
)
LIST_LOSSES = (
    Method("listnet", "ranking/listnet"),
    Method("listmle", "ranking/listmle"),
    Method("approxndcg", "ranking/approxndcg"),
    Method("lambdarank", "ranking/lambdarank"),
    Method("boltzrank", "ranking/boltzrank"),
    *map(_tuned, ("listnet", "listmle", "lambdarank")),
)
LEARNERS = (
    *(
        Method(name, f"ranking/{name}")
        for name in (
            *("prank", "oap-bpm", "rankprop", "ranking-svm", "rankboost", "adarank", "svm-map", "svm-ndcg", "rankgp"),
            *("gbdt", "lambdamart"),
        )
    ),
    Method("xe-ndcg", "ranking/lambdamart", {"objective.name": "xe-ndcg"}),
)
NETWORKS = (Method("mlp-ranker, lambdarank", "ranking/neural"), Method("attention-ranker", "ranking/attention"))
FM = Method("fm-ranker, ranknet", "ranking/fm-ranker")
METHODS = (*POINTWISE, *PAIRWISE, *LIST_LOSSES, *LEARNERS, *NETWORKS, FM, Method("softrank", "ranking/softrank"))
OTHERS = ("ridge", "bm25")


def measured(method: Method, data: str, fold: dict[str, Any], quick: dict[str, Any]) -> dict[str, Any]:
    """What one fold gives with the settings that its validation part chooses."""
    best: dict[str, Any] = {}
    begin = time.perf_counter()
    for settings in method.grid[: 1 if quick else None]:
        with tempfile.TemporaryDirectory() as folder:
            changes = {**method.changes, **settings, **fold, **quick}
            run = train(method.recipe, data, Path(folder) / "run", changes=changes, quiet=True)
            assert run.result is not None
            scores, spent = run.result["scores"], run.result["cost"]["seconds"]
        if not best or scores["valid"]["map"] > best["valid"]:
            test = {name: round(scores["test"][name], 5) for name in SHOWN}
            best = {"test": test, "valid": scores["valid"]["map"], "train_seconds": spent, "settings": settings}
    return {**best, "seconds": round(time.perf_counter() - begin, 1)}


def beside(name: str, data: str, fold: dict[str, Any]) -> dict[str, Any]:
    """Ridge regression of the grades by scikit-learn, α chosen by the validation MAP; or one feature as it is."""
    from sklearn.linear_model import Ridge

    splits = read_data(load("ranking/linear", data, {"data.normalize": "none", **fold})).splits
    begin, best = time.perf_counter(), dict[str, Any]()
    for alpha in _ALPHAS if name == "ridge" else (0.0,):
        scores = {}
        for split in ("valid", "test"):
            values, grades = splits[split]["input"].values, splits[split]["target"]  # type: ignore[union-attr]
            if name == "ridge":
                rows, labels = splits["train"]["input"].values, splits["train"]["target"].values  # type: ignore[union-attr]
                scores[split] = measures(grades, Ridge(alpha=alpha).fit(rows, labels).predict(values))
            else:
                scores[split] = measures(grades, values[:, min(_BM25, values.shape[1] - 1)])
        if not best or scores["valid"]["map"] > best["valid"]:
            test = {metric: round(float(scores["test"][metric]), 5) for metric in SHOWN}
            best = {"test": test, "valid": float(scores["valid"]["map"]), "settings": {"alpha": alpha}}
    spent = round(time.perf_counter() - begin, 2)
    return {**best, "train_seconds": spent, "seconds": spent}


def chosen(rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each fold the list loss that its validation part likes best; "settings" says which."""
    lists = {method.name: rows[method.name] for method in LIST_LOSSES if method.name in rows}
    folds = zip(*(row["folds"] for row in lists.values()), strict=True)
    best = [max(zip(lists, fold, strict=True), key=lambda pair: pair[1]["valid"]) for fold in folds]
    return [{**fold, "settings": {"loss": name, **fold["settings"]}} for name, fold in best]


def row_of(folds: list[dict[str, Any]]) -> dict[str, Any]:
    def figures(values: list[float]) -> list[float]:
        return [round(float(np.mean(values)), 4), round(float(np.std(values, ddof=1)), 4)]

    means = {name: figures([fold["test"][name] for fold in folds]) for name in SHOWN}
    seconds = {name: round(sum(fold[name] for fold in folds), 1) for name in ("train_seconds", "seconds")}
    return {
        **means,
        "valid map": round(float(np.mean([fold["valid"] for fold in folds])), 4),
        **seconds,
        "folds": folds,
    }


def show(name: str, row: dict[str, Any]) -> None:
    spread = {"map", "ndcg@10", "letor_ndcg@10"}
    cells = [f"{row[n][0]:.4f}" + (f" ± {row[n][1]:.3f}" if n in spread else "") for n in SHOWN]
    print(f"| {name} | {' | '.join(cells)} | {row['valid map']:.4f} | {row['train_seconds']:.0f} |", flush=True)


def main() -> None:
    parser = arguments(__doc__)
    known = {method.name: method for method in METHODS}
    parser.add_argument("rows", nargs="*", help=f"default: all of {', '.join([*OTHERS, *known])}")
    parser.add_argument("--show", action="store_true", help="print the table of the kept file, and measure nothing")
    options = parser.parse_args()
    kept = RESULTS / "mq2008.json"
    rows: dict[str, Any] = json.loads(kept.read_text())["rows"] if kept.exists() and not options.quick else {}
    data, quick = "", {}
    folds: list[dict[str, Any]] = [{"data.fold": fold} for fold in FOLDS]
    asked = options.rows or [*OTHERS, *known]
    if options.quick:
        data, quick, folds = str(SMALL / "queries.letor"), {"train.epochs": 1}, [{}, {}]
        asked = options.rows or ["ridge", "grade-squared", "listnet"]
    print(f"| method | {' | '.join(SHOWN)} | valid map | seconds |\n|{' --- |' * (len(SHOWN) + 3)}", flush=True)
    for name in [] if options.show else asked:
        if name in OTHERS:
            results = [beside(name, data, fold) for fold in folds]
        else:
            results = [measured(known[name], data, fold, quick) for fold in folds]
        rows[name] = {**row_of(results), "commit": machine_record()["commit"]}
        show(name, rows[name])
        _write(rows, options)
    if options.show:
        for name, row in rows.items():
            show(name, row)
    elif any(method.name in rows for method in LIST_LOSSES):
        rows[LISTWISE] = row_of(chosen(rows))
        show(LISTWISE, rows[LISTWISE])
        _write(rows, options)


def _write(rows: dict[str, Any], options: argparse.Namespace) -> None:
    write_result("mq2008", {"rows": rows}, options, packages=("numpy", "torch", "lightgbm", "scikit-learn"))


if __name__ == "__main__":
    main()
