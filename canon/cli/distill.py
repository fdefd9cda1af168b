"""canon distill RUN… --texts FILE --out FILE"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from canon.cli.options import Json, print_json


def distill(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", help="Runs that predict the same classes of texts.")],
    texts: Annotated[str, typer.Option(help="A file of texts; labels in it are not read.")],
    out: Annotated[Path, typer.Option(help="The .jsonl file to write: the texts, and p(CLASS) of each class.")],
    temperature: Annotated[float, typer.Option(help="T: scores are divided by it.")] = 2.0,
    weights: Annotated[
        Literal["uniform", "accuracy"], typer.Option(help="Of the runs: 1, or the accuracy of each before training.")
    ] = "uniform",
    json: Json = False,
) -> None:
    """Label texts by several runs together, for another network to learn their probabilities.

    Examples:
    canon distill runs/first runs/second --texts unlabeled.json --out soft.jsonl
    canon distill runs/first runs/second --texts unlabeled.json --out soft.jsonl --weights accuracy
    """
    from canon.use.distill import distill as label

    done = label(runs, texts, out, temperature, weights)
    if json:
        print_json(done)
        return
    counted = ", ".join(f"{name} {count:,}" for name, count in done["labels"].items())
    print(f"{done['texts']:,} texts labelled, by their likeliest class: {counted}")
    print(done["out"])
