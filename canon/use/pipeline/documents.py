"""The documents of a pipeline: their rows in a file, and their columns, which rules and steps use, in memory.

rows.jsonl has a document on each line, offsets.npy the place of each line; columns.json the columns but the texts of
body and anchor.
Shapes: n documents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.formats.documents import FieldedDocuments
from canon.errors import CanonError, unknown
from canon.storage import read_json, write_text

_LONG = ("body", "anchor")


class StoredDocuments:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.columns: dict[str, list[Any]] = read_json(folder / "columns.json")
        self.offsets: np.ndarray = np.load(folder / "offsets.npy", mmap_mode="r")
        self._numbers: dict[str, np.ndarray] = {}

    @classmethod
    def write(cls, documents: FieldedDocuments, folder: Path) -> StoredDocuments:
        folder.mkdir(parents=True)
        sizes = []
        with (folder / "rows.jsonl").open("wb") as file:
            for place in range(len(documents)):
                sizes.append(file.write(json.dumps(documents.row(place), ensure_ascii=False).encode() + b"\n"))
        np.save(folder / "offsets.npy", np.cumsum([0, *sizes[:-1]]).astype(np.int64))
        fields = {name: column for name, column in documents.fields.items() if name not in _LONG and any(column)}
        columns = {"id": documents.ids, **fields, **documents.more}
        write_text(folder / "columns.json", json.dumps(columns, ensure_ascii=False))
        return cls(folder)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def ids(self) -> list[str]:
        return self.columns["id"]

    @cached_property
    def places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.ids)}

    def row(self, place: int) -> dict[str, Any]:
        """All of a document."""
        with (self.folder / "rows.jsonl").open("rb") as file:
            file.seek(int(self.offsets[place]))
            row: dict[str, Any] = json.loads(file.readline())
        return row

    def cells(self, place: int) -> Mapping[str, Any]:
        """A document's columns but its long texts."""
        return {name: column[place] for name, column in self.columns.items()}

    def column(self, name: str, where: str) -> list[Any]:
        if name not in self.columns:
            raise CanonError(f"{where}: {unknown('column', name, self.columns)}")
        return self.columns[name]

    def numbers(self, name: str, where: str) -> np.ndarray:
        """[n] of a column of numbers, NaN for an empty cell."""
        return self._kept(name, where, "a number", lambda cell: float(cell))

    def seconds(self, name: str, where: str) -> np.ndarray:
        """[n] since 1970 of a column of seconds or of dates, 2026-11-19 or with a time; NaN for an empty cell."""
        return self._kept(name, where, "seconds since 1970 or a date, as 2026-11-19", seconds_of)

    def _kept(self, name: str, where: str, wanted: str, read: Any) -> np.ndarray:
        key = f"{name} {wanted}"
        if key not in self._numbers:
            column = self.column(name, where)
            try:
                self._numbers[key] = np.array([np.nan if cell in (None, "") else read(cell) for cell in column])
            except (TypeError, ValueError):
                bad = next(place for place, cell in enumerate(column) if not _reads(read, cell))
                raise CanonError(
                    f"{where}: column {name} of document {self.ids[bad]} is {column[bad]!r}, which is not {wanted}."
                ) from None
        return self._numbers[key]


def seconds_of(cell: Any) -> float:
    """Of a number, or of a date as ISO 8601 writes it."""
    try:
        return float(cell)
    except ValueError:
        return float(np.datetime64(str(cell).strip().removesuffix("Z"), "s").astype(np.int64))


def _reads(read: Any, cell: Any) -> bool:
    try:
        return cell in (None, "") or read(cell) is not None
    except (TypeError, ValueError):
        return False
