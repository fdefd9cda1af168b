"""canon inspect filters RUN · features RUN IMAGE… · attention RUN TEXT · gradients RUN · importances RUN"""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from canon import figures
from canon.cli.options import AsText, Json, print_json, print_result, rendered, save_figure
from canon.storage import write_bytes, writing

RunDirectory = Annotated[str, typer.Argument(help="A run directory.")]
Out = Annotated[Path | None, typer.Option(help="A .png, .svg or .pdf file; default NAME-….png here, none with --json.")]


def filters(
    run: RunDirectory,
    layer: Annotated[str, typer.Option(help="A layer of canon describe RUN; default the first with weights.")] = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw the filters of a convolution, or the weights of a dense layer as images.

    Examples:
    canon inspect filters runs/digits-lenet --out filters.png
    """
    from canon.inspect.filters import filters as read_filters
    from canon.inspect.filters import filters_figure
    from canon.use.model import load

    _output(run, "filters", read_filters(load(run), layer), filters_figure, out, json)


def features(
    run: RunDirectory,
    images: Annotated[list[str], typer.Argument(help="Image files or folders of them.")],
    layer: Annotated[str, typer.Option(help="A layer of canon describe RUN; default the last that has maps.")] = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw a layer's activations for images; with --json, their mean over places as a vector for each image.

    Examples:
    canon inspect features runs/digits-lenet seven.png --layer features.2
    """
    from canon.inspect.features import features as activations_of
    from canon.inspect.features import features_figure
    from canon.use.model import load

    _output(run, "features", activations_of(load(run), images, layer), features_figure, out, json)


def attention(
    run: RunDirectory,
    text: Annotated[str, typer.Argument(help="The source, or the text that a language model reads.")],
    target: Annotated[str | None, typer.Option(help="The target text; default: what the network puts out.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .pdf file; default NAME-attention.png here.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="The file for the weights; - prints them; default NAME-attention.json here.")
    ] = None,
    as_text: AsText = False,
) -> None:
    """Draw where a network looks: heads by layers of a Transformer, the alignment of a recurrent one.

    Examples:
    canon inspect attention runs/pronounce attention --out attention.png
    """
    from canon.data.paths import text_of
    from canon.inspect.attention import attention as attention_of
    from canon.inspect.attention import attention_figure
    from canon.use.model import load

    weights = attention_of(load(run), text_of(text, as_text), target)
    name = f"{Path(run).resolve().name}-attention"
    figure, file = out or Path(f"{name}.png"), json or Path(f"{name}.json")
    record = {"run": run, "figure": str(figure), **weights.to_json()}
    picture = rendered(lambda: attention_figure(weights), figure)
    if str(file) == "-":
        write_bytes(figure, picture)
        print_json(record)
    else:
        with writing(figure, file) as (figure_part, file_part):
            figure_part.write_bytes(picture)
            file_part.write_text(json_format.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{figure}\n{file}")
    if warning := weights.labels().warning:
        print(warning, file=sys.stderr)


def gradients(
    run: RunDirectory,
    split: Annotated[str, typer.Option(help="Which split of the run's data: train, valid or test.")] = "train",
    length: Annotated[
        int, typer.Option(min=0, help="Recurrent language models: steps to go back; 0 is data.window.")
    ] = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw the norm of each parameter's gradient, and of a recurrent language model's back through time.

    Examples:
    canon inspect gradients runs/python-gru --length 100 --out flow.png
    """
    from canon.inspect.gradients import gradients as gradients_of
    from canon.inspect.gradients import gradients_figure
    from canon.use.model import load

    _output(run, "gradients", gradients_of(load(run), split, length), gradients_figure, out, json)


def importances(
    run: RunDirectory,
    measured: Annotated[
        bool, typer.Option("--measured", help="What is lost without each feature, in place of gains and weights.")
    ] = False,
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw how much each feature of a ranker counts: gains, weights, votes, or what the metric loses without it.

    Examples:
    canon inspect importances runs/lambdamart --json
    canon inspect importances runs/lambdamart --measured
    """
    from canon.inspect.importances import importances as importances_of
    from canon.inspect.importances import importances_figure
    from canon.use.model import load

    _output(run, "importances", importances_of(load(run), measure=measured), importances_figure, out, json)


def _output(
    run: str, what: str, result: Any, draw: Callable[[Any], figures.Figure], out: Path | None, json: bool
) -> None:
    """Writes the figure of the result, if one is wanted, and prints its path or the JSON."""
    path = out if out or json else Path(f"{Path(run).resolve().name}-{what}.png")
    if path:
        save_figure(lambda: draw(result), path)
    record = {"run": run, **({"figure": str(path)} if path else {}), **result.to_json()} if json else {}
    print_result(json, record, str(path))
