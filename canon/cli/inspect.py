"""canon inspect filters RUN · features RUN IMAGE… · attention RUN TEXT · gradients RUN"""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import AsText, Json, print_json, rendered, save_figure
from canon.storage import write_bytes, writing

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
    features = looking.features(model, images, layer)
    _give(run, "features", lambda: looking.features_figure(features), features.to_json, out, json)


def attention(
    run: RunDirectory,
    text: Annotated[str, typer.Argument(help="The source, or the text that a language model reads.")],
    target: Annotated[str | None, typer.Option(help="What is said; default: what the network says itself.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .pdf file; default NAME-attention.png here.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="The file for the weights; - prints them; default NAME-attention.json here.")
    ] = None,
    as_text: AsText = False,
) -> None:
    """Draw where a network looks: heads by layers of a Transformer, the alignment of a recurrent one."""
    from canon.data.paths import text_of
    from canon.inspect import attention as looking
    from canon.use.model import load

    found = looking.attention(load(run), text_of(text, as_text), target)
    name = f"{Path(run).resolve().name}-attention"
    figure, weights = out or Path(f"{name}.png"), json or Path(f"{name}.json")
    told = {"run": run, "figure": str(figure), **found.to_json()}
    picture = rendered(lambda: looking.attention_figure(found), figure)
    if str(weights) == "-":
        write_bytes(figure, picture)
        print_json(told)
    else:
        with writing(figure, weights) as (figure_part, weights_part):
            figure_part.write_bytes(picture)
            weights_part.write_text(json_format.dumps(told, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{figure}\n{weights}")
    if warning := found.labels().warning:
        print(warning, file=sys.stderr)


def gradients(
    run: RunDirectory,
    split: Annotated[str, typer.Option(help="Of the run's data: train, valid or test.")] = "train",
    length: Annotated[
        int, typer.Option(min=0, help="Recurrent language models: steps to go back; 0 is data.window.")
    ] = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw the norm of each parameter's gradient, and of a recurrent language model's back through time."""
    from canon.inspect import gradients as looking
    from canon.use.model import load

    found = looking.gradients(load(run), split, length)
    _give(run, "gradients", lambda: looking.gradients_figure(found), found.to_json, out, json)


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
    group = typer.Typer(
        help="Look into a trained network: filters, features, attention, gradients.", rich_markup_mode=None
    )
    group.command(epilog="Example: canon inspect filters runs/digits-lenet --out filters.png")(filters)
    group.command(epilog="Example: canon inspect features runs/digits-lenet seven.png --layer features.2")(features)
    group.command(epilog="Example: canon inspect attention runs/pronounce attention --out attention.png")(attention)
    group.command(epilog="Example: canon inspect gradients runs/python-gru --length 100 --out flow.png")(gradients)
    app.add_typer(group, name="inspect")
