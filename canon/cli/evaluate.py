"""canon evaluate RUN"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from canon.cli.options import THRESHOLD, Json, print_json, print_table, set_threshold
from canon.errors import CanonError


def evaluate(
    run: Annotated[str, typer.Argument(help="A run directory.")],
    data: Annotated[str, typer.Option(help="Other labelled data than the run's own.")] = "",
    split: Annotated[str, typer.Option(help="Which split of the run's own data: train, valid or test.")] = "test",
    top: Annotated[int | None, typer.Option(min=1, help="Labels of a document: predict the so many likeliest.")] = None,
    threshold: Annotated[float | None, typer.Option(help=THRESHOLD)] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Show a line for each label, too.")] = False,
    json: Json = False,
) -> None:
    """Score a run's best weights on its test set, or on other labelled data."""
    from canon.use.model import load

    model = load(run)
    if top is not None or threshold is not None:
        set_threshold(model.task, threshold, top)
    scores = model.evaluate(data or None, split=split)
    table = getattr(model.task, "table", [])  # of tasks that judge each label by itself
    if labels and not table:
        raise CanonError(f"--labels is for systems that give labels to documents; {run} is not of one.")
    for remark in model.task.remarks if table else ():
        print(remark, file=sys.stderr)
    if json:
        print_json({**scores, "labels": table} if table else scores)
        return
    print_table([{"metric": name, "value": value} for name, value in scores.items()])
    if labels:
        print()
        print_table(table)


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: canon evaluate runs/digits-mlp --json")(evaluate)
