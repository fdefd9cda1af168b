"""canon train [RECIPE] [--data PATH] [--out DIR] [--resume] [--set key=value …]"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from canon.cli.options import DataPath, Json, Sets, changes_of, print_result, print_table, recipe_names, stoppable


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe, a TOML file, a system, your own data, or a run to resume.", autocompletion=recipe_names
        ),
    ] = "",
    data: DataPath = "",
    out: Annotated[Path | None, typer.Option(help="The run directory; default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that exists.")] = False,
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but the result.")] = False,
    json: Json = False,
) -> None:
    """Train a system by a recipe; given only data, the system that suits it first; without an argument, the default.

    Examples:
    canon train
    canon train reviews.csv
    canon train linear/digits-mlp --set train.epochs=5
    canon train mlp --data reviews.csv --set data.label=stars --out runs/reviews
    canon train pipeline/pydocs
    canon train mine.py --data reviews.csv
    canon train runs/reviews --resume
    """
    from canon.api import train_run
    from canon.use.pipeline.settings import is_pipeline

    if is_pipeline(recipe):
        with stoppable():
            _build(recipe, data, out, resume, changes_of(set_), quiet, json)
        return
    with stoppable():
        run = train_run(recipe, data=data, out=out, resume=resume, changes=changes_of(set_), quiet=quiet)
    if run is not None:  # None in a helper process of torchrun
        print_result(json, {"run": str(run.path), **(run.result or {})}, f"{run.path}/report.html")


def _build(
    recipe: str, data: str, out: Path | None, resume: bool, changes: dict[str, Any], quiet: bool, json: bool
) -> None:
    """Builds a pipeline, whose recipe has several stages."""
    from canon.report.pipeline import write_pipeline_report
    from canon.use.pipeline.build import build, lines_of

    if data:
        changes["documents.source"] = data
    path, result = build(recipe, out, resume, changes, quiet)
    page = write_pipeline_report(path)
    if not json and (stages := lines_of(result)):
        print_table(stages)
    print_result(json, {"run": str(path), **result}, page)
