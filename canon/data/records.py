"""Rows that a program hands over in place of a file: dicts, a data frame, an Arrow table, an array.

`sources_of` turns whatever `predict` was given into names of files, texts and `Records`, and `array_of` into an array;
encodings read those. Data frames are known by Arrow's stream or by the data frame protocol, so that no library of them
is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np

from canon.data.formats.cells import json_cell
from canon.data.formats.tables import Table
from canon.errors import CanonError, border


@runtime_checkable
class ArrowStream(Protocol):
    """A table of pyarrow, a data frame of pandas (2.2 or later) or polars, …"""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


@runtime_checkable
class Interchange(Protocol):
    """A data frame of a library that has the older protocol only."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any: ...


class Records:
    """Columns by name, each a list or Arrow's array. Rows are counted from 1 in names and messages."""

    path = "The input"

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = dict(columns)
        self.names = tuple(self.columns)

    @classmethod
    def of_dicts(cls, rows: Sequence[Mapping[Any, Any]]) -> Records:
        names = dict.fromkeys(name for row in rows for name in row)
        if not names:
            raise CanonError("The input has no columns: every dict is empty.")
        return cls({str(name): [_plain(row.get(name)) for row in rows] for name in names})

    @classmethod
    def of_frame(cls, frame: Any) -> Records:
        try:
            import pyarrow as pa
            from pyarrow import interchange
        except ImportError:
            raise CanonError("Data frames are read by pyarrow: pip install 'deepcanon[tables]'.") from None
        with border("The data frame"):
            table = pa.table(frame) if isinstance(frame, ArrowStream) else interchange.from_dataframe(frame)
        return cls(dict(zip(map(str, table.column_names), table.columns, strict=True)))

    @classmethod
    def of_array(cls, array: np.ndarray, names: Sequence[str]) -> Records:
        """The columns of an array [N, columns], which have no names themselves."""
        columns = np.atleast_2d(array).T
        return cls({name: [_plain(cell) for cell in column] for name, column in zip(names, columns, strict=True)})

    def __len__(self) -> int:
        return len(self.columns[self.names[0]])

    def where(self, row: int) -> str:
        return f"row {row + 1}"

    def labels(self) -> list[str]:
        """A name for each row."""
        return [self.where(row) for row in range(len(self))]

    def table(self) -> Table:
        """The rows as the table of a file: a cell is text, a number, true, false or nothing."""
        cells: dict[str, Any] = {}
        for name, column in self.columns.items():
            if isinstance(column, list):
                texts = [json_cell(self.path, row + 1, name, cell) for row, cell in enumerate(column)]
                column = np.array(texts, dtype=object)
            cells[name] = column
        return Table(self.path, cells)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row, without what it does not have."""
        columns = [column if isinstance(column, list) else column.to_pylist() for column in self.columns.values()]
        for cells in zip(*columns, strict=True):
            yield {name: cell for name, cell in zip(self.names, cells, strict=True) if cell is not None}

    def texts(self, wanted: Sequence[str]) -> list[str]:
        """The one column of text: the first of these names, else the only column there is."""
        plain = {name.strip().lower(): name for name in reversed(self.names)}
        name = next((plain[name] for name in wanted if name in plain), self.names[0] if len(self.names) == 1 else "")
        if not name:
            listed = " or ".join(f'"{name}"' for name in wanted)
            raise CanonError(f"{self.path} has the columns {', '.join(self.names)}; the text is read from {listed}.")
        return self.table().texts(name).tolist()


Given = str | Records


def array_of(inputs: Any) -> np.ndarray | None:
    """The array of numbers or cells that `predict` was given, or a list of such; None where it is something else."""
    if isinstance(inputs, list | tuple) and inputs and isinstance(inputs[0], list | tuple | np.ndarray):
        with border("The list of arrays", "cannot be one array"):
            array = np.asarray(inputs)
            inputs = array if array.dtype.kind != "U" else np.asarray(inputs, dtype=object)  # numbers beside texts
    if not isinstance(inputs, np.ndarray) or inputs.dtype.kind == "U":
        return None
    return None if inputs.ndim == 1 and inputs.dtype.kind == "O" else inputs  # a list of texts or of dicts


def sources_of(inputs: Any, accepted: str) -> list[Given]:
    """What `predict` was given: names of files, texts and rows; else an error that begins with `accepted`."""
    if isinstance(inputs, str | PathLike):
        return [str(inputs)]
    if isinstance(inputs, Records):
        return [inputs]
    if isinstance(inputs, Mapping):
        return [Records.of_dicts([inputs])]
    if isinstance(inputs, ArrowStream | Interchange):
        return [Records.of_frame(inputs)]
    parts = list(inputs) if isinstance(inputs, Iterable) and not isinstance(inputs, bytes) else [inputs]
    if not parts:
        raise CanonError(f"{accepted}; got an empty list.")
    sources: list[Given] = []
    for are_rows, group in groupby(parts, lambda part: isinstance(part, Mapping)):
        several = list(group)
        if are_rows:
            sources.append(Records.of_dicts(several))
            continue
        for part in several:
            if isinstance(part, Records):
                sources.append(part)
            elif isinstance(part, ArrowStream | Interchange):
                sources.append(Records.of_frame(part))
            elif isinstance(part, str | PathLike):
                sources.append(str(part))
            else:
                raise CanonError(f"{accepted}; got {_named(part)}.")
    return sources


def _plain(value: Any) -> Any:
    """Python's own value for a number of numpy's; None for one that is not there."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value


def _named(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"
