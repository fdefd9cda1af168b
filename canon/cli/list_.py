"""canon list systems|recipes|datasets|objectives|optimizers"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from canon.cli.options import Json, print_json, print_table
from canon.errors import unknown


def _systems() -> list[dict[str, Any]]:
    from canon.registry import SYSTEMS

    return [
        {
            "system": system.name,
            "title": system.title,
            "chapter": system.chapter,
            "task": system.task,
            "reads": ", ".join(system.encodings),
            "presets": ", ".join(system.presets),
        }
        for system in SYSTEMS
    ]


def _recipes() -> list[dict[str, Any]]:
    from canon.registry.recipes import recipe_records

    return [
        {
            "recipe": record.name,
            "system": record.system,
            "data": record.data,
            "reaches": ", ".join(f"{key} {low:.4g}–{high:.4g}" for key, (low, high) in record.expected.items()),
        }
        for record in recipe_records()
    ]


def _datasets() -> list[dict[str, Any]]:
    from canon.data.catalogue import CATALOGUE, locate

    return [
        {"dataset": entry.name, "title": entry.title, "kind": entry.kind, "here": entry.builtin or bool(locate(name))}
        for name, entry in CATALOGUE.items()
    ]


def _optimizers() -> list[dict[str, Any]]:
    from canon.optim.settings import OPTIMIZERS

    return [{"optimizer": name, "lr": cls.lr, "paper": cls.paper} for name, cls in OPTIMIZERS.items()]


def _objectives() -> list[dict[str, Any]]:
    from dataclasses import fields

    from canon.objectives.table import OBJECTIVES

    return [
        {
            "objective": own.name,
            "title": own.title,
            "tasks": ", ".join(own.tasks),
            "settings": ", ".join(dict.fromkeys(f.name for of_task in own.tasks.values() for f in fields(of_task))),
            "formula": own.formula,
            "paper": own.paper,
        }
        for own in OBJECTIVES
    ]


_LISTS = {
    "systems": _systems,
    "recipes": _recipes,
    "datasets": _datasets,
    "objectives": _objectives,
    "optimizers": _optimizers,
}
_LONG = {"objectives": ("formula", "paper")}  # columns that only --json has: docs/losses.md prints them


def list_(
    what: Annotated[str, typer.Argument(help="systems, recipes, datasets, objectives or optimizers.")] = "systems",
    json: Json = False,
) -> None:
    """List what there is: systems, recipes, datasets, objectives, optimizers."""
    if what not in _LISTS:
        raise unknown("list", what, _LISTS)
    rows = _LISTS[what]()
    if json:
        print_json(rows)
    else:
        print_table([{key: row[key] for key in row if key not in _LONG.get(what, ())} for row in rows])


def register(app: typer.Typer) -> None:
    app.command("list", epilog="Example: canon list recipes")(list_)
