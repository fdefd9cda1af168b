"""canon compare RECIPE… [--seeds N] [--data PATH] [--budget UNIT=AMOUNT] [--set key=value …] [--out DIR]"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, Sets, changes_of, print_json, print_table
from canon.errors import CanonError

_EPILOG = """Examples:

canon compare digits-mlp digits-softmax --seeds 5

canon compare mlp lenet --data photos/ --budget epochs=10

canon compare cancer-logistic cancer-adaboost --budget examples=40000

canon compare runs/a runs/b"""


def compare(
    recipes: Annotated[list[str], typer.Argument(help="Recipes, TOML files or systems; or finished run directories.")],
    seeds: Annotated[int | None, typer.Option(help="How many seeds, from 0 up; default 3.")] = None,
    data: Annotated[str, typer.Option(help="Data for all of them: a file, a folder or a named set.")] = "",
    budget: Annotated[
        str, typer.Option(metavar="UNIT=AMOUNT", help="For all of them: examples=N, steps=N, epochs=E or seconds=S.")
    ] = "",
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    out: Annotated[Path | None, typer.Option(help="Where the runs go; default runs/compare-NAMES.")] = None,
    json: Json = False,
) -> None:
    """Compare recipes on the same data, split, budget and seeds, with intervals and paired tests."""
    from canon.compare import compare as comparison
    from canon.compare.protocol import parse_budget
    from canon.training.trainer import Interrupted

    are_runs = [Path(name).is_dir() and (Path(name) / "recipe.toml").is_file() for name in recipes]
    try:
        if all(are_runs):
            if seeds is not None or data or budget or set_:
                raise CanonError("Runs are compared as they are: leave out --seeds, --data, --budget and --set.")
            found = comparison.compare_runs(recipes, out)
        elif any(are_runs):
            raise CanonError("Give recipes or run directories to compare, not both.")
        else:
            count = 3 if seeds is None else seeds
            limit = parse_budget(budget) if budget else None
            found = comparison.compare(recipes, count, data, limit, changes_of(set_), out)
    except Interrupted as stop:
        print("Stopped; everything is saved. Give the same command again to go on.", file=sys.stderr)
        sys.exit(stop.exit_code)
    if json:
        print_json(found.to_json())
        return
    for name in found.metrics:
        print_table(found.rows(name))
        print()
    print_table(found.costs())
    print("\n" + "\n".join([*found.verdicts(), *found.notes, f"{found.folder}/report.html"]))


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(compare)
