"""canon predict RUN [FILE …]"""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer

from canon.cli.options import Json, print_json


def predict(
    run: Annotated[str, typer.Argument(help="A run directory.")],
    sources: Annotated[
        list[str], typer.Argument(help="Tables, images or folders of images, as the run was trained on.")
    ],
    top: Annotated[int, typer.Option(min=1, help="How many classes to give for each.")] = 1,
    json: Json = False,
) -> None:
    """Predict with a run's best weights; one line per example."""
    from canon.use.model import load

    rows = load(run).predict(sources, top=top)
    if json:
        print_json(rows)
        return
    writer = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    for row in rows:
        name = row.pop("source")
        told = [value for choice in row.get("top", [row]) for value in choice.values()]
        numbers = [item for value in told for item in (value if isinstance(value, list) else [value])]
        writer.writerow([name, *(f"{item:.4f}" if isinstance(item, float) else item for item in numbers)])


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: canon predict runs/digits-mlp digits.csv --top 3")(predict)
