"""canon describe SYSTEM[:preset] | RUN"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, Sets, changes_of, print_json, print_table
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.inspect.summary import Description

_EPILOG = """Examples:

canon describe lenet

canon describe mlp:base --set 'system.hidden=[64, 64]'

canon describe runs/digits-mlp"""


def describe(
    name: Annotated[str, typer.Argument(metavar="SYSTEM|RUN", help="A system, with its preset; or a run directory.")],
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    json: Json = False,
) -> None:
    """Describe a system or a run's network: paper, settings, layers with shapes, parameters and multiply-adds."""
    from canon.inspect import summary

    if Path(name).is_dir():
        if set_:
            raise CanonError(f"{name} is a run, whose settings are what they are: leave out --set.")
        found = summary.describe_run(name)
    else:
        found = summary.describe(name, changes_of(set_))
    if json:
        print_json(found.to_json())
    else:
        _print(found)


def _print(found: Description) -> None:
    system = found.system
    print(f"{system.title} ({found.name})\n{system.paper}\n")
    presets = (_told(preset, changes) for preset, changes in system.presets.items())
    expected = (f"{key} {low:.4g}–{high:.4g}" for key, (low, high) in found.expected.items())
    facts = {
        "reads": " or ".join(system.inputs),
        "task": f"{system.task}: {', '.join(found.metrics)}",
        "objective": system.objective,
        "presets": "; ".join(presets),
        "recipe": f"canon train {system.recipe}" if system.recipe else "",
        "reaches": ", ".join(expected),
        "docs": system.docs,
    }
    for split, scores in found.scores.items():
        facts[f"{split} scores"] = ", ".join(f"{key} {value:.4f}" for key, value in scores.items())
    for name, text in facts.items():
        if text:
            print(f"{name:<12} {text}")
    for i, text in enumerate(system.deviations):
        print(f"{'' if i else 'deviations':<12} {text}")
    print()
    print_table([{key: str(value) for key, value in row.items()} for row in found.settings])
    if found.network is None:
        print("\nIt learns without a network: there are no layers to list.")
        return
    rows: list[dict[str, Any]] = [
        {
            "layer": row.name or "(whole)",
            "kind": row.kind,
            "output": "×".join(map(str, row.output_shape[1:])) if row.output_shape else "–",
            "parameters": row.parameters,
            "multiply-adds": row.multiply_adds,
        }
        for row in found.network.rows
    ]
    total: dict[str, Any] = {"layer": "total", "kind": "", "output": ""}
    total |= {"parameters": found.network.parameters, "multiply-adds": found.network.multiply_adds}
    print()
    print_table([*rows, total])


def _told(preset: str, changes: Any) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in changes.items())
    return f"{preset} ({settings})" if settings else preset


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(describe)
