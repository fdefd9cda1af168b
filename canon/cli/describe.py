"""canon describe SYSTEM[:preset] | RUN | FOLDER [--figure FILE]"""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, Sets, changes_of, print_json, print_table, save_figure
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.inspect.summary import Description


def describe(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM|RUN|FOLDER",
            help="A system, with its preset; a run directory; or a folder in Hugging Face's or ELMo's format.",
        ),
    ],
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    figure: Annotated[Path | None, typer.Option(help="Draw its stages too: a .png, .svg or .pdf file.")] = None,
    json: Json = False,
) -> None:
    """Describe a system, or the network of a run or folder: paper, settings, layers and stages, shapes and costs.

    Examples:
    canon describe lenet
    canon describe mlp:base --set 'system.hidden=[64, 64]'
    canon describe runs/digits-mlp --figure network.png
    canon describe bert-base-uncased
    """
    from canon.inspect import summary

    if Path(name).is_dir():
        if set_:
            raise CanonError(f"{name} is a directory, whose settings are fixed: leave out --set.")
        description = summary.describe_directory(name)
    else:
        description = summary.describe(name, changes_of(set_))
    if figure is not None:
        if description.network is None:
            raise CanonError(f"{description.name} learns without a network: there is nothing to draw.")
        from canon.inspect.layers_figure import layers_figure

        save_figure(lambda: layers_figure(description), figure)
    if json:
        print_json({**description.to_json(), **({"figure": str(figure)} if figure else {})})
    else:
        _print(description)
        if figure:
            print(f"\n{figure}")


def _print(description: Description) -> None:
    from canon.inspect.stages import without_repeats

    system, network = description.system, description.network
    print(f"{system.title} ({description.name})\n{system.paper}\n")
    facts = {
        "reads": " or ".join(system.encodings),
        "task": f"{system.task}: {', '.join(description.metrics)}",
        "objective": system.objective,
        "presets": "; ".join(_preset(preset, changes) for preset, changes in system.presets.items()),
        "recipe": f"canon train {system.recipe}" if system.recipe else "",
        "reaches": ", ".join(f"{key} {low:.4g}–{high:.4g}" for key, (low, high) in description.expected.items()),
        "docs": system.docs,
    }
    for split, scores in description.scores.items():
        values = {key: "–" if value is None else f"{value:.4f}" for key, value in scores.items()}
        facts[f"{split} scores"] = ", ".join(f"{key} {value}" for key, value in values.items())
    if folder := description.folder:
        tokenizer = folder.tokenizer
        facts["weights"] = folder.weights
        facts["tokenizer"] = f"{tokenizer['kind']}, {tokenizer['size']:,} tokens" if tokenizer else "none"
        facts["left out"] = ", ".join(folder.left_out)
        facts["new"] = ", ".join(folder.made_new)
    for name, text in facts.items():
        if text:
            _print_fact(name, text)
    for i, text in enumerate(system.deviations):
        _print_fact("" if i else "deviations", text)
    print()
    print_table([{key: str(value) for key, value in row.items()} for row in description.settings])
    if network is None:
        print("\nIt learns without a network: there are no layers to list.")
        return
    print("\nlayers; equal blocks in a row are listed once, with the sum of all")
    layers = [layer for stage in description.stages for layer in without_repeats(stage)]
    print_table(
        [
            {"layer": name or "(whole)", "kind": row.kind, "output": _shape(row.output_shape)}
            | {"parameters": times * row.parameters, "multiply-adds": times * row.multiply_adds}
            for name, times, row in layers
            if row.kind != "Identity"
        ]
    )
    print("\nstages")
    columns = ("stage", "of", "output", "parameters", "multiply-adds")
    stages = [
        (stage.name, stage.kind, _shape(stage.output_shape), stage.parameters, stage.multiply_adds)
        for stage in description.stages
    ]
    total = ("total", "", "", network.parameters, network.multiply_adds)
    print_table([dict(zip(columns, row, strict=True)) for row in (*stages, total)])


def _print_fact(name: str, text: str) -> None:
    width = max(60, min(120, shutil.get_terminal_size((120, 24)).columns))
    print(textwrap.fill(text, width, initial_indent=f"{name:<12} ", subsequent_indent=" " * 13))


def _shape(shape: tuple[int, ...] | None) -> str:
    return "×".join(map(str, shape[1:])) or "1" if shape else "–"


def _preset(name: str, changes: Any) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in changes.items())
    return f"{name} ({settings})" if settings else name
