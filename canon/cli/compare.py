"""canon compare RECIPE… [--seeds N] [--data PATH] [--budget UNIT=AMOUNT] [--set key=value …] [--out DIR]"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, Sets, changes_of, print_json, print_table, stoppable
from canon.errors import CanonError


def compare(
    recipes: Annotated[list[str], typer.Argument(help="Recipes, TOML files or systems; or finished run directories.")],
    seeds: Annotated[int | None, typer.Option(help="How many seeds, counted from 0; default 3.")] = None,
    data: Annotated[str, typer.Option(help="Data for all of them: a file, a folder or a named set.")] = "",
    budget: Annotated[
        str, typer.Option(metavar="UNIT=AMOUNT", help="For all of them: examples=N, steps=N, epochs=E or seconds=S.")
    ] = "",
    vary: Annotated[
        str, typer.Option(metavar="KEY", help="data.seed or data.fold: other examples with every seed, mean over sets.")
    ] = "",
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    out: Annotated[Path | None, typer.Option(help="The folder for the runs; default runs/compare-NAMES.")] = None,
    json: Json = False,
) -> None:
    """Compare recipes on the same data, split, budget and seeds, with intervals and paired tests.

    Examples:
    canon compare digits-mlp digits-softmax --seeds 5
    canon compare mlp lenet --data photos/ --budget epochs=10
    canon compare cancer-logistic cancer-adaboost --budget examples=40000
    canon compare mlp softmax-regression --data houses.csv --vary data.seed --seeds 5
    canon compare runs/a runs/b
    """
    from canon.compare.compare import compare as compare_recipes
    from canon.compare.compare import compare_runs
    from canon.compare.protocol import parse_budget
    from canon.compare.result import cost_rows, metric_rows

    are_runs = [(Path(name) / "recipe.toml").is_file() for name in recipes]
    if any(are_runs) and not all(are_runs):
        raise CanonError("Give recipes or run directories to compare, not both.")
    if any(are_runs) and (seeds is not None or data or budget or vary or set_):
        raise CanonError("Runs are compared as they are: leave out --seeds, --data, --budget, --vary and --set.")
    with stoppable("Stopped; everything is saved. Give the same command again to continue."):
        if any(are_runs):
            comparison = compare_runs(recipes, out)
        else:
            limit = parse_budget(budget) if budget else None
            count = 3 if seeds is None else seeds
            comparison = compare_recipes(recipes, count, data, limit, changes_of(set_), out, vary=vary)
    facts = comparison.to_json()
    if json:
        print_json(facts)
        return
    for name in comparison.metrics:
        print_table(metric_rows(facts, name))
        print()
    print_table(cost_rows(facts))
    print("\n" + "\n".join([*comparison.verdicts(), *comparison.notes, f"{comparison.folder}/report.html"]))
