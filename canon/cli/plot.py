"""canon plot activations | optimizers | RUN… [--metric NAME] [--out FILE]"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canon.cli.options import Json, print_json, save_figure
from canon.errors import CanonError, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EPILOG = """Examples:

canon plot activations

canon plot runs/digits-mlp

canon plot runs/a runs/b --metric valid/accuracy --out accuracy.svg"""


def plot(
    what: Annotated[list[str], typer.Argument(help="activations, optimizers, or one or several run directories.")],
    metric: Annotated[str, typer.Option(help="Of runs: what to draw; default losses and what chose the weights.")] = "",
    out: Annotated[Path | None, typer.Option(help="A .png, .svg or .pdf file; default NAME.png here.")] = None,
    json: Json = False,
) -> None:
    """Draw the activations, the optimisers at work, or the curves of runs."""
    pictures = ("activations", "optimizers")
    if what[0] in pictures:
        if len(what) > 1 or metric:
            raise CanonError(f"canon plot {what[0]} takes nothing more than --out.")
        draw, name = partial(_picture, what[0]), what[0]
    else:
        if len(what) == 1 and not Path(what[0]).exists():
            raise unknown("picture or run", what[0], pictures)
        draw, name = partial(_curves, what, metric), f"{Path(what[0]).resolve().name}-curves"
    path = out or Path(f"{name}.png")
    save_figure(draw, path)
    if json:
        print_json({"figure": str(path)})
    else:
        print(path)


def _picture(name: str) -> Figure:
    from canon.inspect import plots

    return plots.activations_figure() if name == "activations" else plots.optimizers_figure()


def _curves(paths: list[str], metric: str) -> Figure:
    from canon.report import curves
    from canon.tasks.table import TASKS
    from canon.training.run import Run

    runs = {path: Run.open(path) for path in paths}
    rows = {path: run.metrics() for path, run in runs.items()}
    for path, found in rows.items():
        if not found:
            raise CanonError(f"{path} has logged nothing yet.")
        if metric and metric not in curves.names(found):
            raise unknown(f"metric of {path}", metric, curves.names(found))
    if metric:
        return curves.metric_figure(rows, [metric])
    recipe = next(iter(runs.values())).recipe
    monitor = f"valid/{recipe.train.monitor or TASKS[recipe.system.task].monitor}"
    first = next(iter(rows.values()))
    common = [set(curves.names(found)) for found in rows.values()]
    wanted = [name for name in (*curves.training_losses(first), monitor) if all(name in names for names in common)]
    if not wanted:
        raise CanonError(f"{' and '.join(paths)} have no curve in common: choose one with --metric.")
    return curves.metric_figure(rows, wanted)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(plot)
