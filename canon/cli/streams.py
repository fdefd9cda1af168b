"""What goes in and out of the verbs that use a run: files, texts and standard input; printed, or written by --out."""

from __future__ import annotations

import csv
import io
import json as json_format
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from canon.cli.options import table_lines
from canon.errors import CanonError, unknown
from canon.storage import writing

Out = Annotated[Path | None, typer.Option("--out", help="The file to write when all is done; default: print.")]
Format = Annotated[str, typer.Option(help="table, csv or jsonl; default: by the ending of --out, else table.")]

STANDARD_INPUT = "standard input"
_FORMATS = ("table", "csv", "jsonl", "json")
_HEAD = 4096  # bytes by which standard input is recognised


def with_piped(arguments: Sequence[str] | None, what: str) -> list[str]:
    """The arguments; without any, - where something is piped in. `what` could be given instead."""
    if arguments:
        return list(arguments)
    if sys.stdin.isatty():
        raise CanonError(f"Give {what}, or pipe it in.")
    return ["-"]


@contextmanager
def standard_input_as_file(ending: Callable[[bytes], str]) -> Iterator[Path]:
    """Standard input as a file, whose ending follows from its first bytes; mistakes in it are reported as of it."""
    head = sys.stdin.buffer.read(_HEAD)
    if not head.strip():
        raise CanonError(f"{STANDARD_INPUT.capitalize()} is empty.")
    with tempfile.TemporaryDirectory(prefix="canon-") as folder:
        path = Path(folder) / f"input{ending(head)}"
        with path.open("wb") as file:
            file.write(head)
            while chunk := sys.stdin.buffer.read(1 << 20):
                file.write(chunk)
        try:
            yield path
        except CanonError as mistake:
            raise CanonError(str(mistake).replace(str(path), STANDARD_INPUT)) from mistake


@contextmanager
def files_of(names: Sequence[str]) -> Iterator[list[str]]:
    """The names, with the file that holds standard input in place of -."""
    if "-" not in names:
        yield list(names)
        return
    from canon.data.encodings.texts import TEXTS

    with standard_input_as_file(TEXTS.piped_ending) as path:
        yield [str(path) if name == "-" else name for name in names]


def format_of(format: str, out: Path | None, json: bool) -> str:
    """The form of the output: as asked for, or by the file's ending."""
    if json and format:
        raise CanonError("--json is a format itself: leave out --format.")
    if format and format not in _FORMATS[:3]:
        raise unknown("format", format, _FORMATS[:3])
    ending = out.suffix.lower()[1:] if out is not None else ""
    return "json" if json else format or (ending if ending in _FORMATS else "table")


def write_rows(rows: list[dict[str, Any]], form: str, out: Path | None) -> None:
    """Predictions in one of the forms."""
    with output(out) as write:
        if form == "json":
            write(json_format.dumps(rows, ensure_ascii=False, indent=1))
        elif form == "jsonl":
            for row in rows:
                write(json_format.dumps(row, ensure_ascii=False))
        else:
            flat = _same_columns([_flat(row) for row in rows])
            for line in table_lines(flat) if form == "table" else _csv_lines(flat):
                write(line)


@contextmanager
def output(out: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes a line: printed at once; a file appears when all its lines are written."""
    if out is None:
        yield lambda line: print(line, flush=True)
        return
    with writing(out) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda line: print(line, file=file)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A record as cells: its choices one after the other (class, probability, class_2 …), else its own values."""
    cells: dict[str, Any] = {"source": row["source"]}
    rest = {name: value for name, value in row.items() if name != "source"}
    for rank, choice in enumerate(row.get("top", [rest]), start=1):
        for name, value in choice.items():
            for place, item in enumerate(value if isinstance(value, list) else [value], start=1):
                number = place if isinstance(value, list) else rank
                cells[name if number == 1 and not isinstance(value, list) else f"{name}_{number}"] = item
    return cells


def _same_columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _csv_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    line: IO[str] = io.StringIO()
    writer = csv.writer(line, lineterminator="")
    for cells in ([list(rows[0])] if rows else []) + [list(row.values()) for row in rows]:
        writer.writerow(cells)
        yield line.getvalue()  # type: ignore[attr-defined]
        line.seek(0)
        line.truncate()
