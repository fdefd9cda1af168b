"""Rows of a table as they are written, one dict each: numbers and lists of JSON and Parquet stay what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from canon.data.corpus.text_blocks import TextStream
from canon.data.formats import parquet
from canon.data.formats.files import ending
from canon.data.paths import find_path
from canon.errors import CanonError


def row_dicts(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where a row is ("docs.csv, line 48"), and its cells by name."""
    file = find_path(path, named=False)
    if ending(file) == ".parquet":
        yield from ((f"{file}, row {number}", row) for number, row in enumerate(parquet.rows(file), start=1))
        return
    for line, row in TextStream((file,), tables=True).numbered(file):
        yield f"{file}, line {line}", row


def column_of(names: Iterable[str], wanted: Iterable[str], what: str, where: str | Path) -> str:
    """The first of the wanted columns that is there, in any writing: DocID, doc_id and doc-id are docid."""
    known = {_plain(name): name for name in names}
    listed = list(wanted)
    for name in listed:
        if _plain(name) in known:
            return known[_plain(name)]
    raise CanonError(
        f"{where} has no column for {what}: call it {listed[0]} (or {', '.join(listed[1:])}); it has "
        f"{', '.join(known.values()) or 'none'}."
    )


def given(row: Mapping[str, Any], wanted: Iterable[str]) -> Any:
    """The cell of the first of these columns that is there and not empty; else None."""
    known = {_plain(name): value for name, value in row.items()}
    return next((known[_plain(name)] for name in wanted if known.get(_plain(name)) not in (None, "")), None)


def _plain(name: str) -> str:
    return re.sub(r"[-_ ]", "", name).lower()
