"""canon evaluate RUN"""

from __future__ import annotations

from typing import Annotated

import typer

from canon.cli.options import Json, print_json, print_table


def evaluate(
    run: Annotated[str, typer.Argument(help="A run directory.")],
    data: Annotated[str, typer.Option(help="Other labelled data than the run's own.")] = "",
    split: Annotated[str, typer.Option(help="Which split of the run's own data: train, valid or test.")] = "test",
    json: Json = False,
) -> None:
    """Score a run's best weights on its test set, or on other labelled data."""
    from canon.use.model import load

    scores = load(run).evaluate(data or None, split=split)
    if json:
        print_json(scores)
    else:
        print_table([{"metric": name, "value": value} for name, value in scores.items()])


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: canon evaluate runs/digits-mlp --json")(evaluate)
