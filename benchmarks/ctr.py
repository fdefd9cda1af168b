"""Click-through: LR, FM, Wide & Deep, DeepFM and GBDT+LR on three data sets: `CANON_DATA=… python benchmarks/ctr.py`.

| set | learned from, scored on | repeated |
| --- | --- | --- |
| frappe | nine tenths of the validation part, the test part | seeds |
| movielens | nine tenths of the ratings as clicks by time, the last tenth | seeds |
| criteo | nine tenths of 8,000 rows, the tenth that is left out | ten folds |

Where a row has several rates, the validation part of each repetition chooses one (AUC); nothing is chosen by a test
part. Rows that are measured again replace those of benchmarks/results/ctr.json; the others stay. `--quick` takes a
table that is drawn here, and a step or two.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, arguments, machine_record, write_result

from canon.training.trainer import train

SHOWN = ("auc", "user_auc", "loss", "ece")
_DEEP = {"system.dim": 10, "system.hidden": [64, 64], "system.dropout": 0.3, "system.init_std": 0.01}
_SMALL = {"system.dim": 8, "system.hidden": [64], "system.dropout": 0.5, "system.init_std": 0.01}
_RATES = tuple({"optimizer.lr": rate} for rate in (0.001, 0.003, 0.01))
_CRITEO = {"data.source": "criteo-sample", "data.min_count": 4, "data.numbers": "quantile"}

# set, row: the recipe, its changes, and the settings of which the validation part chooses
ROWS: dict[tuple[str, str], tuple[str, dict[str, Any], tuple[dict[str, Any], ...]]] = {
    ("frappe", "field-lr"): ("ctr/lr", {}, ({},)),
    ("frappe", "fm"): ("ctr/fm", {}, ({},)),
    ("frappe", "wide-and-deep"): ("ctr/wide-and-deep", {}, ({},)),
    ("frappe", "deepfm"): ("ctr/deepfm", {}, ({},)),
    ("frappe", "gbdt-lr"): ("ctr/gbdt-lr", {}, ({},)),
    ("movielens", "field-lr"): ("ctr/movielens", {"system.name": "field-lr"}, _RATES),
    ("movielens", "fm"): ("ctr/movielens", {"system.name": "fm", "system.dim": 10, "system.init_std": 0.01}, _RATES),
    ("movielens", "wide-and-deep"): ("ctr/movielens", {"system.name": "wide-and-deep", **_DEEP}, _RATES[:1]),
    ("movielens", "deepfm"): ("ctr/movielens", {}, _RATES[:1]),
    ("movielens", "gbdt-lr"): ("ctr/gbdt-lr", {"data.source": "movielens-clicks"}, ({},)),
    ("criteo", "field-lr"): ("ctr/criteo-sample", {"system.name": "field-lr"}, _RATES),
    ("criteo", "fm"): ("ctr/criteo-sample", {"system.name": "fm", "system.dim": 8, "system.init_std": 0.01}, _RATES),
    ("criteo", "wide-and-deep"): ("ctr/criteo-sample", {"system.name": "wide-and-deep", **_SMALL}, _RATES[:1]),
    ("criteo", "deepfm"): ("ctr/criteo-sample", {}, _RATES[:1]),
    ("criteo", "gbdt-lr"): ("ctr/gbdt-lr", _CRITEO, ({},)),
}


def measured(
    recipe: str, data: str, changes: dict[str, Any], grid: tuple[dict[str, Any], ...], each: dict[str, Any]
) -> dict[str, Any]:
    best: dict[str, Any] = {}
    begin = time.perf_counter()
    for settings in grid:
        with tempfile.TemporaryDirectory() as folder:
            run = train(recipe, data, Path(folder) / "run", changes={**changes, **settings, **each}, quiet=True)
            assert run.result is not None
            scores = run.result["scores"]
        if not best or scores["valid"]["auc"] > best["valid"]:
            test = {name: round(value, 5) for name, value in scores["test"].items() if name in SHOWN}
            best = {"test": test, "valid": scores["valid"]["auc"], "settings": {**settings, **each}}
    return {**best, "seconds": round(time.perf_counter() - begin, 1)}


def row_of(repeats: list[dict[str, Any]]) -> dict[str, Any]:
    means = {}
    for name in SHOWN:
        if values := [repeat["test"][name] for repeat in repeats if name in repeat["test"]]:
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            means[name] = [round(float(np.mean(values)), 4), round(spread, 4)]
    return {**means, "seconds": round(sum(repeat["seconds"] for repeat in repeats)), "repeats": repeats}


def show(of: str, name: str, row: dict[str, Any]) -> None:
    cells = [f"{row[metric][0]:.4f} ± {row[metric][1]:.4f}" if metric in row else "" for metric in SHOWN]
    print(f"| {of} | {name} | {' | '.join(cells)} | {len(row['repeats'])} | {row['seconds']} |", flush=True)


def table(folder: str) -> str:
    draw = np.random.default_rng(0)
    rows = [f"u{draw.integers(9)},a{draw.integers(5)},{draw.random():.3f},{draw.integers(2)}" for _ in range(300)]
    path = Path(folder) / "clicks.csv"
    path.write_text("\n".join(["user,ad,price,click", *rows]) + "\n")
    return str(path)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("sets", nargs="*", help="default: frappe movielens criteo")
    parser.add_argument("--only", nargs="*", default=[], help="rows, as fm deepfm")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    kept = RESULTS / "ctr.json"
    results: dict[str, Any] = json.loads(kept.read_text())["sets"] if kept.exists() and not options.quick else {}
    print(f"| set | system | {' | '.join(SHOWN)} | repeats | seconds |\n|{' --- |' * (len(SHOWN) + 4)}", flush=True)
    for (of, name), (recipe, changes, grid) in ROWS.items():
        if (options.sets and of not in options.sets) or (options.only and name not in options.only):
            continue
        each = [{"train.seed": seed} for seed in range(options.seeds)]
        if of == "criteo":
            each = [{"data.tenth": tenth} for tenth in range(10)]
        with tempfile.TemporaryDirectory() as folder:
            data = ""
            if options.quick:
                if of != "frappe" or name not in ("field-lr", "deepfm"):
                    continue
                data, each, changes = table(folder), [{"train.seed": 0}], {**changes, "train.steps": 2}
            row = row_of([measured(recipe, data, changes, grid, one) for one in each])
        results.setdefault(of, {})[name] = {**row, "commit": machine_record()["commit"]}
        show(of, name, row)
        write_result("ctr", {"sets": results}, options, packages=("numpy", "torch", "lightgbm"))


if __name__ == "__main__":
    main()
