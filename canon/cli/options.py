"""Options that several verbs share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from inspect import signature
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.config import parse_assignment
from canon.errors import CanonError
from canon.storage import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsText = Annotated[bool, typer.Option("--text", help="What is given is a text, even if it looks like a path.")]
Sets = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in --set train.steps=100.")
]


THRESHOLD = "Labels of a document: give only those of at least this probability."


def set_threshold(task: Any, threshold: float | None, top: int | None = None) -> None:
    """What a task predicts of the labels it ranks; a sentence where it ranks none."""
    from canon.tasks.labels import LabelTask

    if not isinstance(task, LabelTask):
        raise CanonError("--top and --threshold are for systems that give labels to documents (canon list systems).")
    if threshold is not None and not 0 <= threshold <= 1:
        raise CanonError(f"--threshold must be a probability, 0 to 1, got {threshold:g}.")
    task.threshold, task.top = threshold, top


def checked(verb: Any) -> Any:
    """A verb that refuses what no verb means: nan, inf, numbers that no machine counts to, empty arguments."""
    required = [name for name, one in signature(verb).parameters.items() if one.default is one.empty]

    @wraps(verb)
    def call(**options: Any) -> None:
        for name, value in options.items():
            if name in required and (value == "" or (isinstance(value, list) and "" in value)):
                raise CanonError(f"{name.upper()} is empty; see --help for what it names.")
            flag = f"--{name.strip('_').replace('_', '-')}"
            if isinstance(value, float) and not isfinite(value):
                raise CanonError(f"{flag} must be a finite number, got {value}.")
            if isinstance(value, int) and abs(value) > sys.maxsize:
                raise CanonError(f"{flag} must be at most {sys.maxsize} in size, got {value:.3g}.")
        verb(**options)

    return call


def changes_of(assignments: list[str]) -> dict[str, Any]:
    return dict(parse_assignment(text) for text in assignments)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


def save_figure(draw: Callable[[], Figure], path: Path) -> None:
    """Draws and writes a figure."""
    write_bytes(path, rendered(draw, path))


def rendered(draw: Callable[[], Figure], path: Path) -> bytes:
    """A figure in the format that the path's ending names; a sentence where nothing can be drawn."""
    from canon.figures import render
    from canon.report.page import NO_FIGURES, can_draw

    if not can_draw():
        raise CanonError(NO_FIGURES)
    return render(draw(), path)


def print_table(rows: list[dict[str, Any]]) -> None:
    """Plain columns, as wide as they need to be; numbers to the right."""
    if not rows:
        return
    names = list(rows[0])
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    numeric = [all(not isinstance(row.get(name), str) for row in rows) for name in names]
    for line in [names, *cells]:
        aligned = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(aligned).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"
    return str(value)
