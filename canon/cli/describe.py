"""canon describe SYSTEM[:preset] | RUN | FOLDER | FILE [--figure FILE] [--devices N]"""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, Sets, changes_of, print_json, print_table, save_figure
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.config import Table
    from canon.inspect.scaling import Scaling
    from canon.inspect.summary import Description


def describe(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM|RUN|FOLDER|FILE",
            help="A system, with its preset; a run; or weights of other projects (canon convert --help).",
        ),
    ],
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    figure: Annotated[Path | None, typer.Option(help="Draw its stages too: a .png, .svg or .pdf file.")] = None,
    devices: Annotated[
        int | None, typer.Option(help="What training costs each of so many devices; --set then takes train.… too.")
    ] = None,
    rate: Annotated[float, typer.Option(help="TFLOP/s of a device, for --devices.")] = 400.0,
    bandwidth: Annotated[
        float, typer.Option(help="GB/s that a device sends, for --devices; 0: 300 up to 8 devices, 40 beyond.")
    ] = 0.0,
    json: Json = False,
) -> None:
    """Describe a system, or the network of a run or folder: paper, settings, layers and stages, shapes and costs.

    Examples:
    canon describe lenet
    canon describe mlp:base --set 'system.hidden=[64, 64]'
    canon describe runs/digits-mlp --figure network.png
    canon describe bert-base-uncased
    canon describe gpt2:xl --devices 8 --set train.batch=512 --set train.micro_batch=4
    """
    from canon.inspect import summary
    from canon.registry.of_user import is_there

    changes = changes_of(set_)
    if Path(name).exists() and not is_there(name):
        if changes:
            raise CanonError(f"{name} has settings of its own, which are fixed: leave out --set.")
        description = summary.describe_path(name)
    else:
        # What training costs depends on more than the system.
        asked = {key: value for key, value in changes.items() if devices is None or key.startswith("system.")}
        description = summary.describe(name, asked)
    costs = None if devices is None else _scaling(name, changes, devices, rate, bandwidth)
    if figure is not None:
        if description.network is None:
            raise CanonError(f"{description.name} learns without a network: there is nothing to draw.")
        from canon.inspect.layers_figure import layers_figure

        save_figure(lambda: layers_figure(description), figure)
    if json:
        more = {"scaling": costs.to_json()} if costs else {}
        print_json({**description.to_json(), **({"figure": str(figure)} if figure else {}), **more})
    else:
        _print(description)
        if costs:
            _print_scaling(costs)
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


def _scaling(name: str, changes: Table, devices: int, rate: float, bandwidth: float) -> Scaling:
    from canon import recipe
    from canon.inspect import scaling

    if Path(name).is_dir():
        from canon.training.run import Run

        return scaling.scaling(Run.open(name).recipe, devices, rate, bandwidth)
    given = changes.get("data.max_length", 0)
    return scaling.scaling(recipe.load(name, changes=changes), devices, rate, bandwidth, int(given))


def _print_scaling(costs: Scaling) -> None:
    example = costs.example
    of = f" of {example.tokens:,} tokens" if example.tokens else ""
    turns = f", {costs.accumulated} times {costs.micro_batch:,} on each" if costs.accumulated > 1 else ""
    print(
        f"\ntraining on {costs.devices:,} devices: {costs.batch:,} examples{of} a step{turns}, in {costs.precision}; "
        f"{costs.tflops:g} TFLOP/s and {costs.bandwidth:g} GB/s each, which are assumptions"
    )
    names = ("weights", "gradients", "optimizer", "gathered", "copies", "activations", "memory", "traffic")
    rows = [{"a device": name, **{c.parallel: _size(vars(c)[name]) for c in costs.costs}} for name in names]
    for name in ("computing", "sending", "step"):
        rows.append({"a device": name, **{c.parallel: f"{1000 * vars(c)[name]:,.1f} ms" for c in costs.costs}})
    rows.append({"a device": "computes", **{c.parallel: f"{c.share_computing:.0%}" for c in costs.costs}})
    unit, per = ("tokens/s", example.tokens) if example.tokens else ("examples/s", 1)
    rows.append({"a device": "all together", **{c.parallel: f"{c.rate * per:,.0f} {unit}" for c in costs.costs}})
    print_table(rows)


def _size(count: int) -> str:
    return f"{count / 1e9:,.2f} GB" if count >= 1e8 else f"{count / 1e6:,.2f} MB"


def _print_fact(name: str, text: str) -> None:
    width = max(60, min(120, shutil.get_terminal_size((120, 24)).columns))
    print(textwrap.fill(text, width, initial_indent=f"{name:<12} ", subsequent_indent=" " * 13))


def _shape(shape: tuple[int, ...] | None) -> str:
    return "×".join(map(str, shape[1:])) or "1" if shape else "–"


def _preset(name: str, changes: Any) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in changes.items())
    return f"{name} ({settings})" if settings else name
