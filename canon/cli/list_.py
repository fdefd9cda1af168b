"""canon list systems|recipes|datasets|objectives|optimizers"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from canon.cli.options import Json, print_result
from canon.errors import CanonError, unknown

Rows = list[dict[str, Any]]


def _systems() -> Rows:
    from canon.registry import SYSTEMS

    return [
        {
            "system": system.name,
            "title": system.title,
            "chapter": system.chapter,
            "task": " or ".join(system.tasks),
            "reads": ", ".join(system.encodings),
            "presets": ", ".join(system.presets),
        }
        for system in SYSTEMS
    ]


def _recipes() -> Rows:
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


def _pipelines() -> Rows:
    from canon.registry.recipes import pipeline_tables

    return [
        {
            "pipeline": name,
            "stages": " → ".join(part for part in ("recall", "rank", "rerank") if part in table),
            "data": table["documents"]["source"],
            "reaches": ", ".join(f"{key} {low:.4g}–{high:.4g}" for key, (low, high) in table.get("expect", {}).items()),
        }
        for name, table in pipeline_tables().items()
    ]


def _datasets() -> Rows:
    from canon.data.catalogue import CATALOGUE, locate

    return [
        {"dataset": entry.name, "title": entry.title, "kind": entry.kind, "here": entry.builtin or bool(locate(name))}
        for name, entry in CATALOGUE.items()
    ]


def _optimizers() -> Rows:
    from canon.optim.settings import OPTIMIZERS

    return [{"optimizer": name, "lr": cls.lr, "paper": cls.paper} for name, cls in OPTIMIZERS.items()]


def _objectives() -> Rows:
    from dataclasses import fields

    from canon.objectives.table import OBJECTIVES

    return [
        {
            "objective": one.name,
            "title": one.title,
            "tasks": ", ".join(one.tasks),
            "settings": ", ".join(dict.fromkeys(f.name for of_task in one.tasks.values() for f in fields(of_task))),
            "formula": one.formula,
            "paper": one.paper,
        }
        for one in OBJECTIVES
    ]


_LISTS = {
    "systems": _systems,
    "recipes": _recipes,
    "pipelines": _pipelines,
    "datasets": _datasets,
    "objectives": _objectives,
    "optimizers": _optimizers,
}
_LONG = {"objectives": ("formula", "paper")}  # columns that only --json has: docs/losses.md prints them


def list_(
    what: Annotated[
        str, typer.Argument(help="systems, recipes, pipelines, datasets, objectives or optimizers.")
    ] = "systems",
    only: Annotated[str, typer.Argument(metavar="[WORD]", help="Show only the rows that have this word.")] = "",
    json: Json = False,
) -> None:
    """List systems, recipes, pipelines, datasets, objectives or optimizers; a second word shows only rows with it.

    Examples:
    canon list recipes
    canon list systems text
    """
    if what not in _LISTS:
        raise unknown("list", what, _LISTS)
    rows = _LISTS[what]()
    if only:
        rows = [row for row in rows if any(only.lower() in str(cell).lower() for cell in row.values())]
        if not rows:
            raise CanonError(f'None of the {what} has "{only}"; canon list {what} shows all.')
    print_result(json, rows, [{key: row[key] for key in row if key not in _LONG.get(what, ())} for row in rows])
