"""Methods of ranking on the five folds of MQ2008: `python benchmarks/mq2008.py ranking/lambdarank ranking/ranknet …`.

A row a recipe, as the table of docs/ranking.md has it: mean and standard deviation over folds of the test part, at the
weights that the validation part chose (train.monitor of the recipe). `--set objective.name=pair-hinge` and the like
change all recipes. Also the validation MAP, by which settings are chosen, and the seconds of training of all folds.
`--quick` takes the tests' small queries, an epoch and no folds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import SMALL, arguments

from canon.config import parse_assignment
from canon.training.trainer import train

FOLDS = range(1, 6)
SHOWN = ("map", *(f"{name}@{k}" for name in ("ndcg", "letor_ndcg") for k in (1, 3, 5, 10)))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("recipes", nargs="*", default=["ranking/linear"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--name", default="", help="what the row is called")
    given = parser.parse_args()
    changes: dict[str, Any] = dict(map(parse_assignment, given.set))
    data = ""
    folds: list[dict[str, Any]] = [{"data.fold": fold} for fold in FOLDS]
    if given.quick:
        data, folds, changes = str(SMALL / "queries.letor"), [{}, {}], {**changes, "train.epochs": 1}
    print(f"| recipe | {' | '.join(SHOWN)} | valid map | seconds |\n|{' --- |' * (len(SHOWN) + 3)}", flush=True)
    for recipe in given.recipes:
        results = []
        for fold in folds:
            with tempfile.TemporaryDirectory() as folder:
                run = train(recipe, data, Path(folder) / "run", changes={**changes, **fold}, quiet=True)
                assert run.result is not None
                results.append(run.result)
        cells = []
        for name in SHOWN:
            values = [result["scores"]["test"][name] for result in results]
            spread = f" ± {np.std(values, ddof=1):.3f}" if name in ("map", "ndcg@10") else ""
            cells.append(f"{np.mean(values):.4f}{spread}")
        valid = np.mean([result["scores"]["valid"]["map"] for result in results])
        seconds = sum(result["cost"]["seconds"] for result in results)
        print(f"| {given.name or recipe} | {' | '.join(cells)} | {valid:.4f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
