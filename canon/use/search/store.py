"""A folder of vectors: vectors.npy (mapped into memory, in the order of the input), rows.jsonl, meta.json.

It grows by chunks. A chunk is written and synced, then meta.json says how much is valid: killed at any moment, what is
beyond that is cut off and written again, so that the files are as if nothing had happened. offsets.npy has the place of
each row in rows.jsonl. Rows that were removed stay, marked in removed.json, until `compact` writes the folder again
beside it and renames it; what a kill leaves between the renames is finished by the next that opens the folder.
Shapes: n rows, W numbers of a stored vector.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from canon.errors import CanonError
from canon.storage import read_json, sync_file, write_text

_HEADER = 128  # bytes of an .npy file before its numbers, whatever the number of rows
_OFFSETS = np.dtype("<i8")
_FILES = ("vectors.npy", "rows.jsonl", "offsets.npy")
INDEX = "index"


def header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The header of an .npy file, version 1.0, always of the same length."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    length = _HEADER - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


class Store:
    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        self.path, self.meta = path, meta
        self._offsets: np.ndarray | None = None

    @classmethod
    def create(cls, path: Path, meta: dict[str, Any], dtype: str, width: int) -> Store:
        path.mkdir(parents=True, exist_ok=True)
        sizes = {"dtype": np.dtype(dtype).str, "width": width, "rows": 0, "rows_bytes": 0}
        store = cls(path, {"next_id": 0, **meta, **sizes})
        (path / "vectors.npy").write_bytes(header(np.dtype(dtype), (0, width)))
        (path / "offsets.npy").write_bytes(header(_OFFSETS, (0,)))
        (path / "rows.jsonl").write_bytes(b"")
        store.save()
        return store

    @classmethod
    def open(cls, path: str | Path) -> Store:
        folder = Path(path)
        finish_compacting(folder)
        if not (folder / "meta.json").is_file():
            if folder.exists():
                raise CanonError(
                    f"{folder} is not a folder of vectors: it has no meta.json; canon encode MODEL FILE --out V makes "
                    "one, where V is a new name."
                )
            raise CanonError(f"{folder} does not exist; canon encode MODEL FILE --out {folder} makes one.")
        meta = read_json(folder / "meta.json")
        if not isinstance(meta, dict) or not {"rows", "width", "dtype", "rows_bytes", "next_id"} <= set(meta):
            raise CanonError(f"{folder / 'meta.json'} does not describe a folder of vectors.")
        store = cls(folder, meta)
        for name, size in zip(_FILES, store._sizes(), strict=True):
            if not (folder / name).is_file() or (folder / name).stat().st_size < size:
                raise CanonError(f"{folder / name} is missing or cut off: encode again.")
        return store

    def _sizes(self) -> tuple[int, int, int]:
        """Valid bytes of each file."""
        n = len(self)
        row = self.dtype.itemsize * self.meta["width"]
        return _HEADER + n * row, self.meta["rows_bytes"], _HEADER + n * _OFFSETS.itemsize

    def __len__(self) -> int:
        return int(self.meta["rows"])

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.meta["dtype"])

    @property
    def vectors(self) -> np.ndarray:
        """[n, W], mapped into memory."""
        shape = (len(self), self.meta["width"])
        if not shape[0]:
            return np.empty(shape, self.dtype)
        return np.memmap(self.path / "vectors.npy", self.dtype, "r", _HEADER, shape)

    @property
    def offsets(self) -> np.ndarray:
        if self._offsets is None or len(self._offsets) != len(self):
            file = self.path / "offsets.npy"
            self._offsets = np.memmap(file, _OFFSETS, "r", _HEADER, (len(self),)) if len(self) else np.empty(0, "i8")
        return self._offsets

    def row(self, index: int) -> dict[str, Any]:
        with (self.path / "rows.jsonl").open("rb") as file:
            file.seek(int(self.offsets[index]))
            row: dict[str, Any] = json.loads(file.readline())
        return row

    def rows(self) -> Iterable[dict[str, Any]]:
        """All rows, in order."""
        with (self.path / "rows.jsonl").open("rb") as file:
            for _ in range(len(self)):
                yield json.loads(file.readline())

    @property
    def removed(self) -> np.ndarray:
        """Indices of the rows that are no longer there."""
        file = self.path / "removed.json"
        return np.array(read_json(file), dtype=np.int64) if file.is_file() else np.empty(0, dtype=np.int64)

    def begin(self) -> None:
        """Cuts off what a killed process has left beyond the valid part."""
        for name, size in zip(_FILES, self._sizes(), strict=True):
            os.truncate(self.path / name, size)

    def append(self, vectors: np.ndarray, rows: Sequence[dict[str, Any]]) -> None:
        """Appends a chunk, completely or not at all."""
        assert vectors.shape == (len(rows), self.meta["width"]) and vectors.dtype == self.dtype
        lines = [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows]
        sizes = np.array([len(line) for line in lines], dtype=_OFFSETS)
        offsets = self.meta["rows_bytes"] + np.cumsum(sizes) - sizes
        total = len(self) + len(rows)
        heads = header(self.dtype, (total, self.meta["width"])), b"", header(_OFFSETS, (total,))
        contents = np.ascontiguousarray(vectors).tobytes(), b"".join(lines), offsets.tobytes()
        for name, size, head, content in zip(_FILES, self._sizes(), heads, contents, strict=True):
            with (self.path / name).open("r+b") as file:
                file.seek(size)
                file.write(content)
                file.seek(0)
                file.write(head)
                file.flush()
                os.fsync(file.fileno())
        self.meta["rows"] = total
        self.meta["rows_bytes"] += int(sizes.sum())
        self.save()

    def repeated_ids(self) -> int:
        """How many rows have the id of an earlier one."""
        hashes_n = np.fromiter((hash(str(row["id"])) for row in self.rows()), np.int64, len(self))
        hashes_n = np.delete(hashes_n, self.removed)
        return len(hashes_n) - len(np.unique(hashes_n))

    def save(self) -> None:
        write_text(self.path / "meta.json", json.dumps(self.meta, ensure_ascii=False, indent=1) + "\n")

    def remove(self, ids: Sequence[str]) -> int:
        """Marks the rows of these ids; returns how many."""
        wanted = set(ids)
        rows_of: dict[str, list[int]] = {}
        before = set(self.removed.tolist())
        for index, row in enumerate(self.rows()):
            if str(row["id"]) in wanted and index not in before:
                rows_of.setdefault(str(row["id"]), []).append(index)
        if missing := [name for name in ids if name not in rows_of]:
            raise CanonError(f"{self.path} has no row with the id {missing[0]}.")
        more = sorted(before.union(*rows_of.values()))
        write_text(self.path / "removed.json", json.dumps(more) + "\n")
        return len(more) - len(before)

    def compact(self) -> int:
        """Writes the folder without the removed rows, in their order; returns how many went."""
        gone = self.removed
        if not len(gone):
            return 0
        kept = np.setdiff1d(np.arange(len(self)), gone)
        place, part, old = _compacting(self.path)
        _remove(part)
        meta = {key: value for key, value in self.meta.items() if key not in ("rows", "rows_bytes", "dtype", "width")}
        other = Store.create(part, meta, self.meta["dtype"], self.meta["width"])
        for file in self.path.glob("ranges.npy"):
            shutil.copy(file, part / file.name)
        for start in range(0, len(kept), 4096):
            some = kept[start : start + 4096]
            other.append(np.asarray(self.vectors[some]), [self.row(int(index)) for index in some])
        sync_file(part)
        _remove(old)
        place.rename(old)
        finish_compacting(self.path)
        self.meta = other.meta
        self._offsets = None
        return len(gone)


def _compacting(path: Path) -> tuple[Path, Path, Path]:
    """The folder itself, what it is written to again, and where it waits while that takes its place."""
    place = path.resolve()
    return place, place.with_name(f".{place.name}.compacting"), place.with_name(f".{place.name}.replaced")


def is_vacant(path: Path) -> bool:
    """Whether a folder of vectors may begin here: nothing is there, or what a process left that was killed before it
    had a meta.json."""
    if not path.is_dir():
        return not path.exists()
    return all(file.name in _FILES or file.name.startswith(".meta.json.") for file in path.iterdir())


def finish_compacting(path: Path) -> None:
    """Brings a folder whose old files were moved away, or not yet removed, to the end of `compact`."""
    place, part, old = _compacting(path)
    if not old.is_dir():
        return
    if not place.exists():
        (part if part.is_dir() else old).rename(place)  # it was whole before the old one went
    sync_file(place.parent)
    _remove(old)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
