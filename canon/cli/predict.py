"""canon predict RUN [FILE …]"""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer

from canon.cli.options import THRESHOLD, AsText, Json, print_json, set_threshold


def predict(
    run: Annotated[str, typer.Argument(help="A run directory.")],
    sources: Annotated[
        list[str], typer.Argument(help="Tables, images or folders of images, or texts, as the run was trained on.")
    ],
    top: Annotated[int | None, typer.Option(min=1, help="How many classes to give for each; default 1.")] = None,
    threshold: Annotated[float | None, typer.Option(help=THRESHOLD)] = None,
    as_text: AsText = False,
    json: Json = False,
) -> None:
    """Predict with a run's best weights; one line per example."""
    from canon.use.model import load

    model = load(run)
    if threshold is not None:
        set_threshold(model.task, threshold)
    rows = model.predict(sources, top or (1 if threshold is None else len(model.schema.classes)), as_text)
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
