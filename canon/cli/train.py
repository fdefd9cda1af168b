"""canon train [RECIPE] [--data PATH] [--out DIR] [--resume] [--set key=value …]"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, Sets, changes_of, print_json

_EPILOG = """Examples:

canon train

canon train linear/digits-mlp --set train.epochs=5

canon train mlp --data reviews.csv --set data.label=stars --out runs/reviews

canon train runs/reviews --resume"""


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe, a TOML file, a system, or a run to resume.")] = "",
    data: Annotated[str, typer.Option(help="Your own data: a file, a folder or a named set.")] = "",
    out: Annotated[Path | None, typer.Option(help="The run directory; default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that exists.")] = False,
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but the result.")] = False,
    json: Json = False,
) -> None:
    """Train a system by a recipe; with no argument, the default one."""
    from canon.api import train_run
    from canon.training.trainer import Interrupted

    try:
        run = train_run(recipe, data=data, out=out, resume=resume, changes=changes_of(set_), quiet=quiet)
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        sys.exit(stop.exit_code)
    if run is None:  # a helper process of torchrun
        return
    if json:
        print_json({"run": str(run.path), **(run.result or {})})
    else:
        print(f"{run.path}/report.html")


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(train)
