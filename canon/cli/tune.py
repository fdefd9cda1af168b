"""canon tune RECIPE [--data PATH] [--seconds S] [--try key=low..high …] [--set key=value …] [--out DIR]"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, Sets, changes_of, print_json, print_table

_EPILOG = """Examples:

canon tune fasttext-classifier --data reviews.csv --seconds 300

canon tune words/modules-classifier --seconds 60 --try system.dim=10,50,100

canon tune digits-mlp --seconds 120 --try optimizer.lr=0.0001..0.1 --try system.dropout=0.0,0.2,0.5"""


def tune(
    recipe: Annotated[str, typer.Argument(help="A recipe, a TOML file or a system.")],
    data: Annotated[str, typer.Option(help="Your own data: a file, a folder or a named set.")] = "",
    seconds: Annotated[float, typer.Option(help="How long to search; the best is then trained to its end.")] = 300.0,
    trials: Annotated[int, typer.Option(min=0, help="At most so many trials; 0: as many as the time allows.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is tried.")] = 0,
    try_: Annotated[
        list[str],
        typer.Option("--try", metavar="KEY=VALUES", help="What to try, as in system.lr=0.01..1 or system.dim=10,50."),
    ] = [],  # noqa: B006  typer reads it and never changes it
    set_: Sets = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Where the runs go; default runs/tune-NAME.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the weights of all trials, not of the best alone.")
    ] = False,
    json: Json = False,
) -> None:
    """Search for better settings by the validation set, within a time; the test set waits for the best."""
    from canon.compare import tune as tuning
    from canon.training.trainer import Interrupted

    space = dict(tuning.parse_space(text) for text in try_)
    try:
        found = tuning.tune(recipe, data, seconds, trials, seed, space, changes_of(set_), out, keep)
    except Interrupted as stop:
        print("Stopped; the best so far is kept. Give the same command again to go on.", file=sys.stderr)
        sys.exit(stop.exit_code)
    if json:
        print_json(found.to_json())
        return
    print_table(found.rows())
    best = found.best
    if best is not None:
        print(f"\nBest: trial {best.number}, of {len(found.trials)}.\n{found.folder}/best/report.html")


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(tune)
