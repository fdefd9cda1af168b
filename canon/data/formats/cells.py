"""Rows of CSV and TSV files as Python reads them, and cells of JSON lines: slow, and with the line of every mistake."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from canon.data.formats.files import ending, whole_lines
from canon.errors import CanonError

MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none"))  # in columns of numbers, any case


def delimiter_of(path: Path, delimiter: str) -> str:
    if len(delimiter) > 1 or delimiter in ("\n", "\r", '"', "\0"):
        raise CanonError(f"data.delimiter must be one character, no quote or line's end, got {delimiter!r}.")
    return delimiter or ("\t" if ending(path) in (".tsv", ".tab") else ",")


def csv_rows(path: Path, encoding: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each row, header included, blank lines left out."""
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    csv.field_size_limit(sys.maxsize)
    rows = csv.reader(whole_lines(path, encoding), delimiter=delimiter, quoting=quoting, strict=True)
    line = 1
    try:
        for cells in rows:
            if cells:
                yield line, cells
            line = rows.line_num + 1
    except csv.Error as mistake:
        raise CanonError(f"{path}, line {line}: {mistake} (a quote that is not closed?).") from None


def ragged(path: Path, line: int, cells: Sequence[str], names: Sequence[str]) -> CanonError:
    have, want = _count(len(cells), "cell"), _count(len(names), "column")
    return CanonError(f"{path}, line {line}: {have}, but there are {want}.")


def header_of(path: Path, line: int, cells: list[str], delimiter: str) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    if len(names) == 1:
        for other in ";\t,|":
            if other != delimiter and other in names[0]:
                raise CanonError(f'{path} has one column, "{names[0]}"; if {other!r} parts them, set data.delimiter.')
    known: dict[str, int] = {}
    for index, name in enumerate(names):
        if not name:
            hint = "(pandas writes one unless told index=False)" if index == 0 else ""
            raise CanonError(
                f"{path}, line {line}: column {index + 1} has no name; name it or remove it {hint}".strip() + "."
            )
        first = known.setdefault(name, index) + 1
        if first <= index:
            raise CanonError(f'{path}, line {line}: columns {first} and {index + 1} are both named "{name}".')
    numbers = [value for value in map(parse_number, names) if value is not None and np.isfinite(value)]
    # A row of numbers is data, unless they count up (years, or the 0, 1, 2 … of a data frame).
    if len(numbers) * 2 >= len(names) and any(b - a != 1 for a, b in pairwise(numbers)):
        raise CanonError(
            f'{path}, line {line}: "{names[0]}" is not a column\'s name; the first line must name the columns.'
        )
    return names


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def json_cell(path: Path, line: int, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list | dict):
        held = "a list" if isinstance(value, list) else "an object"
        raise CanonError(f'{path}, line {line}: "{name}" holds {held}; a cell is text, a number, true, false or null.')
    return json.dumps(value)


def parse_number(text: str) -> float | None:
    """The number a cell holds, NaN if it is missing, None if it is something else."""
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return np.nan if text.strip().lower() in MISSING else None
