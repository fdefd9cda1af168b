"""canon tune RECIPE [--data PATH] [--seconds S] [--try key=low..high …] [--set key=value …] [--out DIR]"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import DataPath, Json, Sets, changes_of, print_result, stoppable


def tune(
    recipe: Annotated[str, typer.Argument(help="A recipe, a TOML file or a system.")],
    data: DataPath = "",
    seconds: Annotated[float, typer.Option(help="How long to search; the best is then trained to its end.")] = 300.0,
    trials: Annotated[int, typer.Option(min=0, help="At most N trials; 0: as many as the time allows.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Decides which settings are tried.")] = 0,
    try_: Annotated[
        list[str],
        typer.Option("--try", metavar="KEY=VALUES", help="Values to try, as in system.lr=0.01..1 or system.dim=10,50."),
    ] = [],  # noqa: B006  typer reads it and never changes it
    set_: Sets = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="The folder for the runs; default runs/tune-NAME.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the weights of all trials, not only the best.")] = False,
    json: Json = False,
) -> None:
    """Search for better settings by the validation set, within a time; only the best is scored on the test set.

    Examples:
    canon tune fasttext-classifier --data reviews.csv --seconds 300
    canon tune words/modules-classifier --seconds 60 --try system.dim=10,50,100
    canon tune digits-mlp --seconds 120 --try optimizer.lr=0.0001..0.1 --try system.dropout=0.0,0.2,0.5
    """
    from canon.compare.tune import parse_space
    from canon.compare.tune import tune as search

    space = dict(parse_space(text) for text in try_)
    with stoppable("Stopped; the best so far is kept. Give the same command again to continue."):
        tuning = search(recipe, data, seconds, trials, seed, space, changes_of(set_), out, keep)
    print_result(json, tuning.to_json(), tuning.rows())
    if not json and (best := tuning.best) is not None:
        print(f"\nBest: trial {best.number}, of {len(tuning.trials)}.\n{tuning.folder}/best/report.html")
