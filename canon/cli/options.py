"""What several verbs share: options, checks of their values, and printing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from math import isfinite
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated, Any

import typer

from canon import figures
from canon.config import parse_assignment
from canon.errors import CanonError
from canon.storage import write_bytes

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsText = Annotated[bool, typer.Option("--text", help="Take the argument as text, even if it looks like a path.")]
Sets = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in --set train.steps=100.")
]
DataPath = Annotated[str, typer.Option(help="Your own data: a file, a folder or a named set.")]
Threshold = Annotated[
    float | None, typer.Option(help="The least probability of a document's labels, or of the second of two classes.")
]


def recipe_names(incomplete: str) -> list[str]:
    """Recipes, systems and files that begin so, for the shell's completion."""
    from canon import registry
    from canon.recipe import names

    known = [
        *names(),
        *(system.name for system in registry.SYSTEMS),
        *(str(path) for path in Path(incomplete).parent.glob("*")),
    ]
    return [name for name in known if name.startswith(incomplete)]


def set_threshold(task: Any, threshold: float | None, top: int | None = None) -> None:
    """Sets which of the labels that a task ranks it predicts."""
    from canon.tasks.base import Decides, ListsLabels

    decides = isinstance(task, Decides) and task.decides and top is None
    if not isinstance(task, ListsLabels) and not decides:
        raise CanonError(
            "--top and --threshold are for systems that give labels to documents (canon list systems), --threshold "
            "also for runs of two classes."
        )
    if threshold is not None and not 0 <= threshold <= 1:
        raise CanonError(f"--threshold must be a probability, 0 to 1, got {threshold:g}.")
    task.threshold = threshold
    if isinstance(task, ListsLabels):
        task.top = top


def checked(verb: Any) -> Any:
    """The verb, which now refuses values that no verb accepts: nan, inf, numbers beyond 64 bits, empty arguments."""
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


@contextmanager
def stoppable(sentence: str = "") -> Iterator[None]:
    """Where a signal stops training inside: prints the sentence, or the trainer's, and exits with the signal's code."""
    from canon.training.trainer import Interrupted

    try:
        yield
    except Interrupted as stop:
        print(sentence or stop, file=sys.stderr)
        sys.exit(stop.exit_code)


def changes_of(assignments: list[str]) -> dict[str, Any]:
    return dict(parse_assignment(text) for text in assignments)


def rendered(draw: Callable[[], figures.Figure], path: Path) -> bytes:
    """A figure in the format that the path's ending names; without matplotlib, a CanonError."""
    from canon.report.page import NO_FIGURES, can_draw

    if not can_draw():
        raise CanonError(NO_FIGURES)
    return figures.render(draw(), path)


def save_figure(draw: Callable[[], figures.Figure], path: Path) -> None:
    write_bytes(path, rendered(draw, path))


def print_result(json: bool, record: Any, shown: list[dict[str, Any]] | str | Path) -> None:
    """The record as JSON, or what a person reads: a table of rows, or a line."""
    if json:
        print_json(record)
    elif isinstance(shown, list):
        print_table(shown)
    else:
        print(shown)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


def print_table(rows: list[dict[str, Any]]) -> None:
    """Prints a table; columns that do not fit a terminal stand below the others of their row."""
    width = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    names = list(rows[0]) if rows else []
    kept = next((n for n in range(len(names), 1, -1) if _width(rows, names[:n]) <= width), 1)
    lines = list(table_lines([{name: row[name] for name in names[:kept]} for row in rows]))
    below = [names[kept:], *([_cell(row[name]) for name in names[kept:]] for row in rows)]
    for line, cells in zip(lines, below, strict=False):
        print(line if len(line) <= width else line[: width - 1] + "…")
        for more in wrap("  ".join(filter(None, cells)), width - 4) if cells else ():
            print(f"    {more}")


def _width(rows: list[dict[str, Any]], names: list[str]) -> int:
    return max(map(len, table_lines([{name: row.get(name) for name in names} for row in rows])))


def table_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
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
        yield "  ".join(aligned).rstrip()


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
