"""canon generate RUN [--count N] [--seed N] [--out FILE]"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, print_json

_EPILOG = """Examples:

canon generate runs/digits-dcgan --count 100 --out digits.png

canon generate runs/ring-gan --count 1000 --seed 1 --out ring.csv"""


def generate(
    run: Annotated[str, typer.Argument(help="The run directory of a generator.")],
    count: Annotated[int, typer.Option(min=1, help="How many samples.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Decides the noise.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="A .png for images, a .csv for a table; default samples.png or samples.csv here."),
    ] = None,
    json: Json = False,
) -> None:
    """Draw samples from a run's best generator."""
    from canon.use import generate as use
    from canon.use.model import load

    model = load(run)
    path = use.write_samples(model, use.generate(model, count, seed), out)
    if json:
        print_json({"samples": str(path), "count": count, "seed": seed})
    else:
        print(path)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(generate)
