"""canon inspect filters RUN · canon inspect features RUN IMAGE…"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, print_json, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RunDirectory = Annotated[str, typer.Argument(help="A run directory.")]
Out = Annotated[Path | None, typer.Option(help="A .png, .svg or .pdf file; default NAME-….png here, none with --json.")]


def filters(
    run: RunDirectory,
    layer: Annotated[str, typer.Option(help="A layer of canon describe RUN; default the first with weights.")] = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw the filters of a convolution, or the weights of a dense layer as images."""
    from canon.inspect import filters as looking
    from canon.use.model import load

    found = looking.filters(load(run), layer)
    _give(run, "filters", lambda: looking.filters_figure(found), found.to_json, out, json)


def features(
    run: RunDirectory,
    images: Annotated[list[str], typer.Argument(help="Image files or folders of them.")],
    layer: Annotated[str, typer.Option(help="A layer of canon describe RUN; default the last that has maps.")] = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw what a layer answers to images; with --json, its mean over places as a vector for each image."""
    from canon.inspect import features as looking
    from canon.use.model import load

    model = load(run)
    found = looking.features(model, images, layer)
    _give(run, "features", lambda: looking.features_figure(found, model.schema.white), found.to_json, out, json)


def _give(
    run: str, what: str, draw: Callable[[], Figure], to_json: Callable[[], dict[str, Any]], out: Path | None, json: bool
) -> None:
    path = out if out or json else Path(f"{Path(run).resolve().name}-{what}.png")
    if path:
        save_figure(draw, path)
    if json:
        print_json({"run": run, **({"figure": str(path)} if path else {}), **to_json()})
    else:
        print(path)


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Look into a trained network: filters, features.", rich_markup_mode=None)
    group.command(epilog="Example: canon inspect filters runs/digits-lenet --out filters.png")(filters)
    group.command(epilog="Example: canon inspect features runs/digits-lenet seven.png --layer features.2")(features)
    app.add_typer(group, name="inspect")
