"""canon describe SYSTEM[:preset] | RUN | FOLDER [--figure FILE]"""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, Sets, changes_of, print_json, print_table
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.inspect.stages import Repeated, Stage
    from canon.inspect.summary import Description

_EPILOG = """Examples:

canon describe lenet

canon describe mlp:base --set 'system.hidden=[64, 64]'

canon describe runs/digits-mlp --figure network.png

canon describe bert-base-uncased"""


def describe(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM|RUN|FOLDER",
            help="A system, with its preset; a run directory; or a folder of Hugging Face's or of ELMo's files.",
        ),
    ],
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    figure: Annotated[Path | None, typer.Option(help="Draw its stages too: a .png, .svg or .pdf file.")] = None,
    json: Json = False,
) -> None:
    """Describe a system, or the network of a run or folder: paper, settings, layers and stages, shapes and costs."""
    from canon.inspect import summary

    if Path(name).is_dir():
        if set_:
            raise CanonError(f"{name} is a directory, whose settings are what they are: leave out --set.")
        found = summary.describe_directory(name)
    else:
        found = summary.describe(name, changes_of(set_))
    if figure is not None:
        if found.network is None:
            raise CanonError(f"{found.name} learns without a network: there is nothing to draw.")
        from canon.cli.options import save_figure
        from canon.inspect.layers_figure import layers_figure

        save_figure(lambda: layers_figure(found), figure)
    if json:
        print_json({**found.to_json(), **({"figure": str(figure)} if figure else {})})
    else:
        _print(found)
        if figure:
            print(f"\n{figure}")


def _print(found: Description) -> None:
    from canon.inspect.stages import without_repeats

    system = found.system
    print(f"{system.title} ({found.name})\n{system.paper}\n")
    presets = (_told(preset, changes) for preset, changes in system.presets.items())
    expected = (f"{key} {low:.4g}–{high:.4g}" for key, (low, high) in found.expected.items())
    facts = {
        "reads": " or ".join(system.encodings),
        "task": f"{system.task}: {', '.join(found.metrics)}",
        "objective": system.objective,
        "presets": "; ".join(presets),
        "recipe": f"canon train {system.recipe}" if system.recipe else "",
        "reaches": ", ".join(expected),
        "docs": system.docs,
    }
    for split, scores in found.scores.items():
        shown = {key: "–" if value is None else f"{value:.4f}" for key, value in scores.items()}
        facts[f"{split} scores"] = ", ".join(f"{key} {value}" for key, value in shown.items())
    if folder := found.folder:
        own = folder.tokenizer
        facts["weights"] = folder.weights
        facts["tokenizer"] = f"{own['kind']}, {own['size']:,} tokens" if own else "none"
        facts["left out"] = ", ".join(folder.left_out)
        facts["made anew"] = ", ".join(folder.anew)
    for name, text in facts.items():
        if text:
            _print_fact(name, text)
    for i, text in enumerate(system.deviations):
        _print_fact("" if i else "deviations", text)
    print()
    print_table([{key: str(value) for key, value in row.items()} for row in found.settings])
    if found.network is None:
        print("\nIt learns without a network: there are no layers to list.")
        return
    print("\nlayers; equal blocks in a row are told once, with the sum of all")
    layers = [repeated for stage in found.stages for repeated in without_repeats(stage)]
    print_table([_layer(repeated) for repeated in layers if repeated.row.kind != "Identity"])
    print("\nstages")
    total = {"stage": "total", "of": "", "output": "", **_costs(found.network.parameters, found.network.multiply_adds)}
    print_table([*map(_stage, found.stages), total])


def _print_fact(name: str, text: str) -> None:
    width = max(60, min(120, shutil.get_terminal_size((120, 24)).columns))
    print(textwrap.fill(text, width, initial_indent=f"{name:<12} ", subsequent_indent=" " * 13))


def _layer(repeated: Repeated) -> dict[str, Any]:
    name, times, row = repeated
    costs = _costs(times * row.parameters, times * row.multiply_adds)
    return {"layer": name or "(whole)", "kind": row.kind, "output": _shape(row.output_shape), **costs}


def _stage(stage: Stage) -> dict[str, Any]:
    costs = _costs(stage.parameters, stage.multiply_adds)
    return {"stage": stage.name, "of": stage.kind, "output": _shape(stage.output_shape), **costs}


def _costs(parameters: int, multiply_adds: int) -> dict[str, Any]:
    return {"parameters": parameters, "multiply-adds": multiply_adds}


def _shape(shape: tuple[int, ...] | None) -> str:
    return "×".join(map(str, shape[1:])) or "1" if shape else "–"


def _told(preset: str, changes: Any) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in changes.items())
    return f"{preset} ({settings})" if settings else preset


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(describe)
