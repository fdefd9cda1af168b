"""Rows to encode, one at a time: lines of texts, rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from canon.data.corpus.text_blocks import TextStream
from canon.data.formats.files import lines
from canon.data.formats.tables import is_table
from canon.data.paths import find_path
from canon.errors import CanonError


class _Reading:
    """The settings that a file is recognised with, as a table or a text."""

    encoding, delimiter, format = "", "", "auto"


def rows_of(
    files: Sequence[str | Path], column: str, say: Callable[[str], None], usual: Sequence[str] = ("text",)
) -> Iterator[dict[str, Any]]:
    """{"text": …} of each line that is not empty, or of each row of a table, with its "id" where it has one.

    column: of the text in tables; "": the first of `usual` that is there, else the longest. Every file is opened before
    the first row is given, so that a mistake costs nothing."""
    return chain.from_iterable([_rows(find_path(name, named=False), column, say, usual) for name in files])


def _rows(path: Path, column: str, say: Callable[[str], None], usual: Sequence[str]) -> Iterator[dict[str, Any]]:
    if path.is_dir():
        raise CanonError(f"{path} is a folder; name the files to encode.")
    if not is_table(path, _Reading):
        if column:
            raise CanonError(f"{path} is a text file, which has no columns: leave --column out.")
        return ({"text": text} for line in lines(path, "") if (text := line.strip()))
    stream = TextStream((path,), tables=True, encoding="")
    chosen = stream.choose_column((column,) if column else _first(usual, stream), "", "--column")
    if not column:
        say(f'{path}: the text is the column "{chosen}" (--column).')
    return _cells(stream, path, chosen)


def _cells(stream: TextStream, path: Path, column: str) -> Iterator[dict[str, Any]]:
    for _, row in stream.numbered(path):
        cell = row.get(column)
        known = {"id": row["id"]} if row.get("id") not in (None, "") else {}
        yield {**known, "text": "" if cell is None else str(cell)}


def _first(usual: Sequence[str], stream: TextStream) -> tuple[str, ...]:
    """The first of these columns that is there."""
    head = stream.first_rows(1)
    return tuple(name for name in usual if head and name in head[0])[:1]
