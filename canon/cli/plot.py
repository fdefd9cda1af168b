"""canon plot activations | optimizers | RUN… [--metric NAME] | V [--out FILE]"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from canon import figures
from canon.cli.options import Json, print_result, save_figure
from canon.errors import CanonError, unknown


def plot(
    what: Annotated[list[str], typer.Argument(help="activations, optimizers, runs, or a folder of vectors.")],
    metric: Annotated[
        str, typer.Option(help="Runs: what to draw; default the losses and the metric that chose the weights.")
    ] = "",
    by: Annotated[str, typer.Option(help="Vectors: pca, tsne or umap.")] = "pca",
    out: Annotated[Path | None, typer.Option(help="A .png, .svg or .pdf file; default NAME.png here.")] = None,
    json: Json = False,
) -> None:
    """Draw the activations, the optimisers at work, the curves of runs, or a map of a folder of vectors.

    Examples:
    canon plot activations
    canon plot runs/digits-mlp
    canon plot runs/a runs/b --metric valid/accuracy --out accuracy.svg
    canon plot vectors --by tsne --out map.svg
    """
    pictures = ("activations", "optimizers")
    if by != "pca" and not (Path(what[0]) / "vectors.npy").is_file():
        raise CanonError("--by is for a folder of vectors, as canon encode makes.")
    if what[0] in pictures:
        if len(what) > 1 or metric:
            raise CanonError(f"canon plot {what[0]} takes no other argument than --out.")
        draw, name = partial(_picture, what[0]), what[0]
    elif len(what) == 1 and (Path(what[0]) / "vectors.npy").is_file():
        if metric:
            raise CanonError("--metric is for runs; a folder of vectors has one picture.")
        draw, name = partial(_map, what[0], by), f"{Path(what[0]).resolve().name}-map"
    else:
        if len(what) == 1 and not Path(what[0]).exists():
            raise unknown("picture or run", what[0], pictures)
        draw, name = partial(_curves, what, metric), f"{Path(what[0]).resolve().name}-curves"
    path = out or Path(f"{name}.png")
    save_figure(draw, path)
    print_result(json, {"figure": str(path)}, path)


def _picture(name: str) -> figures.Figure:
    from canon.inspect import plots

    return plots.activations_figure() if name == "activations" else plots.optimizers_figure()


def _map(path: str, by: str) -> figures.Figure:
    from canon.use.search.folder import VectorFolder

    return VectorFolder.open(path).map(by)


def _curves(paths: list[str], metric: str) -> figures.Figure:
    from canon.report import curves
    from canon.tasks import table as tasks
    from canon.training.run import Run

    runs = {path: Run.open(path) for path in paths}
    rows = {path: run.metrics() for path, run in runs.items()}
    names = {path: curves.names(logged) for path, logged in rows.items()}
    for path in paths:
        if not rows[path]:
            raise CanonError(f"{path} has logged nothing yet.")
        if metric and metric not in names[path]:
            raise unknown(f"metric of {path}", metric, names[path])
    recipe = runs[paths[0]].recipe
    monitor = f"valid/{recipe.train.monitor or tasks.of(recipe.system).monitor}"
    wanted = [metric] if metric else [*curves.training_losses(rows[paths[0]]), monitor]
    common = [name for name in wanted if all(name in logged for logged in names.values())]
    if not common:
        raise CanonError(f"{' and '.join(paths)} have no curve in common: choose one with --metric.")
    return curves.metric_figure(rows, common)
