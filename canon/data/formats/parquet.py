"""Parquet files: columns, rows as dicts, and the names of classes that data hubs keep in the file.

Fields of structs are columns, as in translation.en. Columns of lists are left out of a table with a note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from canon.data.formats.cells import has_labels, labels_cell
from canon.data.formats.files import read_bytes
from canon.errors import CanonError, reason

BATCH = 1 << 14  # rows


def load_parquet(path: Path) -> tuple[Any, Any]:
    """pyarrow, and its module for the file at `path`."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise CanonError(f"{path}: reading Parquet needs pyarrow; pip install 'deepcanon[tables]'.") from None
    return pa, parquet


def columns(path: Path, asked: Sequence[str] = ()) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The columns by name, as pyarrow has them or with the names of their classes, and notes; `asked` must be there."""
    pa, parquet = load_parquet(path)
    raw = read_bytes(path)
    try:
        table = parquet.read_table(pa.BufferReader(raw))
        table.validate(full=True)  # text that is not UTF-8, offsets beyond the end
    except (pa.ArrowException, OSError, ValueError) as mistake:
        raise _not_whole(path, mistake) from None
    classes = class_names(table.schema)
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    names = table.column_names
    if len(set(names)) < len(names):
        name = next(name for place, name in enumerate(names) if name in names[:place])
        raise CanonError(f'{path}: two columns are named "{name}".')
    if not table.num_rows:
        raise CanonError(f"{path} has {'columns but no rows' if names else 'no columns'}.")
    for place, name in enumerate(names):
        if pa.types.is_list(table.schema.field(name).type) and has_labels(name, next(iter(asked), "")):
            named = classes.pop(name, [])
            joined = [labels_cell(_names_of(value, named) if named else value) for value in table[name].to_pylist()]
            if all(isinstance(cell, str | None) for cell in joined):
                table = table.set_column(place, name, pa.array(joined, pa.string()))
    lists = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if len(lists) == len(names) or set(lists) & set(asked):
        name = next((name for name in lists if name in asked), lists[0])
        raise CanonError(f'{path}: column "{name}" has type {table.schema.field(name).type}; use numbers or text.')
    notes = tuple(f'{path.name}: the column "{name}" has lists and is left out.' for name in lists)
    cells = {name: _named(column, classes.get(name)) for name, column in zip(names, table.columns, strict=True)}
    return {name: column for name, column in cells.items() if name not in lists}, notes


def _named(column: Any, names: list[str] | None) -> Any:
    """A column of class numbers as the names of the classes; -1 is none."""
    if names is None:
        return column
    import pyarrow as pa

    codes = column.to_pylist()
    return pa.chunked_array([pa.array([names[code] if code is not None and code >= 0 else None for code in codes])])


def class_names(schema: Any) -> dict[str, list[str]]:
    """The names of the classes in columns of numbers, or of lists of numbers, as Hugging Face's datasets keep them."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        inner = {name: feature.get("feature", feature) for name, feature in features.items()}
        return {name: feature["names"] for name, feature in inner.items() if feature.get("_type") == "ClassLabel"}
    except (KeyError, ValueError, TypeError, AttributeError):  # no such notes, or of another program
        return {}


def rows(path: Path, batch: int = BATCH) -> Iterator[dict[str, Any]]:
    """Each row as a dict; lists and structs stay what they are, and class numbers become names. batch: rows that
    are read at a time."""
    pa, parquet = load_parquet(path)
    try:
        file = parquet.ParquetFile(path)
        classes = class_names(file.schema_arrow)
        for some in file.iter_batches(batch):
            for row in some.to_pylist():
                yield {**row, **{name: _names_of(row[name], names) for name, names in classes.items() if name in row}}
    except (pa.ArrowException, OSError, ValueError) as mistake:
        raise _not_whole(path, mistake) from None


def _not_whole(path: Path, mistake: Exception) -> CanonError:
    return CanonError(f"{path} is not a whole Parquet file ({reason(mistake)}).")


def _names_of(codes: Any, names: list[str]) -> Any:
    if isinstance(codes, list):
        return [_names_of(code, names) for code in codes]
    return names[codes] if codes is not None and codes >= 0 else None
