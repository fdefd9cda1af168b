"""Text that is read from start to end, again and again, and never held: blocks of UTF-8 for the kernels of a corpus.

A text is files (plain or compressed, a sentence a line), a column of tables (each cell its own lines) or documents in
memory. Blocks end where a word does, so none is cut, and memory does not grow with a file, a line or a word.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.columns import choose_text
from canon.data.formats import json_lines
from canon.data.formats.cells import csv_rows, header_of, json_cell, ragged
from canon.data.formats.files import COMPRESSIONS, decoded, ending, read_bytes, utf8
from canon.data.formats.layout import layout_of
from canon.data.formats.parquet import load_parquet
from canon.data.formats.tables import Table
from canon.data.schema import FileRecord
from canon.data.text.vocabularies import to_utf8
from canon.errors import CanonError, reason

BLOCK = 1 << 23  # bytes
PEEK = 1000  # rows looked at to choose the column of text
ROWS = 4096  # of a Parquet file that are read at a time
OVERLONG = 2048  # bytes that are kept of a word that fills a block: enough to see that it is too long for a word
BLANKS = b" \n\t\r\v\f"
FIRST_BLANK = re.compile(rb"[ \t-\r]")
APART = re.compile("[\u3400-\u4dbf\u4e00-\u9fff](?=[\u3400-\u4dbf\u4e00-\u9fff])")  # two Chinese characters


@dataclass(frozen=True)
class TextStream:
    """Where the text is, and how it is read."""

    files: tuple[Path, ...] = ()
    documents: Sequence[str] = ()
    tables: bool = False  # whether the files are tables
    column: str = ""  # of them
    names: tuple[str, ...] = ()  # their columns, where they have no header line
    encoding: str = "utf-8"
    delimiter: str = ""
    name: str = "the text"
    records: tuple[FileRecord, ...] = ()  # where they were made already

    def identity(self) -> dict[str, Any]:
        """All that the words depend on."""
        read = {"tables": self.tables, "column": self.column, "names": self.names, "delimiter": self.delimiter}
        digests = [record.sha256 for record in self.records or map(FileRecord.of, self.files)]
        if self.documents and not self.records:
            digests = [hashlib.sha256("\0".join(self.documents).encode("utf-8", "replace")).hexdigest()]
        return {"sha256": digests, "encoding": self.encoding, **read}

    @property
    def size(self) -> int:
        """Bytes to read; 0 where they are not known before they were read."""
        packed = self.tables or any(path.suffix.lower() in COMPRESSIONS for path in self.files)
        return 0 if packed else sum(path.stat().st_size for path in self.files)

    def pieces(self) -> Iterator[bytes]:
        """The text as UTF-8 in pieces of any size; a file, a cell and a document end with a line's end."""
        for document in self.documents:
            yield document.replace("\0", " ").encode("utf-8", "replace") + b"\n"
        for path in self.files:
            if self.tables:
                yield from (to_utf8(cell, path) + b"\n" for cell in self.cells(path))
            else:
                yield from utf8(path, self.encoding)
                yield b"\n"

    def blocks(self, size: int = 0, spaced: bool = True) -> Iterator[np.ndarray]:
        """Arrays uint8 of `size` bytes or a little less (BLOCK; more only at the end), cut at white space.

        Where a block has none, `spaced` text has a word that is too long for one, whose beginning alone is kept; other
        text (Chinese) is cut between two characters.
        """
        size = size or BLOCK
        held, skipping = bytearray(), False
        for piece in self.pieces():
            for start in range(0, len(piece), size):
                part = memoryview(piece)[start : start + size]
                if skipping:  # the rest of a word that was cut short
                    blank = FIRST_BLANK.search(part)
                    if blank is None:
                        continue
                    part, skipping = part[blank.start() :], False
                cut = _last_blank(part) if len(held) + len(part) >= size else 0
                if cut:
                    held += part[:cut]
                    yield np.frombuffer(held, dtype=np.uint8)
                    held = bytearray(part[cut:])
                    continue
                held += part
                if len(held) < size:
                    continue
                cut = _last_blank(held) or (0 if spaced else _between_characters(held))
                if cut:
                    yield np.frombuffer(held[:cut], dtype=np.uint8)
                    del held[:cut]
                elif len(held) > 2 * OVERLONG:
                    del held[_character(held, OVERLONG) :]
                    skipping = True
        if held:
            yield np.frombuffer(held, dtype=np.uint8)

    def explain(self) -> None:
        """Raises the error for the first byte that is not text."""
        for path in () if self.tables else self.files:
            for _ in decoded(path, self.encoding, zeros=False):
                pass

    # Tables

    def choose_column(self, wanted: Sequence[str], label: str, setting: str = "data.features") -> str:
        """The column of text: the one asked for by `setting`, else the one with the longest texts in the first rows."""
        path = self.files[0]
        rows = self.first_rows(PEEK)
        names = dict.fromkeys(name for row in rows for name in row)
        if not names:
            raise CanonError(f"{path} has no rows; give a table with a column of text.")
        cells = {name: [cell if isinstance(cell := row.get(name), str) else "" for row in rows] for name in names}
        return choose_text(
            Table(path, {name: np.array(c, dtype=object) for name, c in cells.items()}), wanted, label, setting
        )

    def first_rows(self, count: int) -> list[dict[str, Any]]:
        """Cells by name."""
        return [row for _, row in islice(self._rows(self.files[0]), count)]

    def numbered(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """All cells of a table by name, with the number of their line or row."""
        return self._rows(path)

    def cells(self, path: Path) -> Iterator[str]:
        missing = True
        for place, row in self._rows(path, (self.column,)):
            if self.column in row:
                missing = False
                cell = row[self.column]
                text = cell if isinstance(cell, str) else json_cell(path, place, self.column, cell)
                yield text.replace("\0", " ")
        if missing:
            raise CanonError(f'{path} has no column "{self.column}", which holds the text of the other files.')

    def _rows(self, path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line or row number, cells by name), all of them or some columns."""
        if ending(path) == ".parquet":
            return _parquet_rows(path, columns)
        nested = ending(path) in json_lines.ENDINGS
        return json_lines.flattened(path, self.encoding) if nested else self._csv_rows(path)

    def _csv_rows(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        layout = layout_of(path, self.encoding, self.delimiter, table=True)
        assert layout is not None
        names = self.names or (layout.names if layout.bare else ())
        for line, cells in csv_rows(path, self.encoding, layout.delimiter, layout.skip):
            if not names:
                names = header_of(path, cells, layout.delimiter)
                continue
            if len(cells) != len(names):
                raise ragged(path, line, cells, names)
            yield line, dict(zip(names, cells, strict=True))


def _parquet_rows(path: Path, columns: Sequence[str] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """By groups of rows. Columns that hold no text are left out, unless one is asked for."""
    pa, parquet = load_parquet(path)
    try:
        packed = path.suffix.lower() in COMPRESSIONS
        file = parquet.ParquetFile(pa.BufferReader(read_bytes(path)) if packed else path)
        texts = [field.name for field in file.schema_arrow if "string" in str(field.type) and not field.type.num_fields]
        asked = texts if columns is None else [name for name in columns if name in file.schema_arrow.names]
        row = 0
        for batch in file.iter_batches(ROWS, columns=asked):
            for cells in batch.to_pylist():
                row += 1
                yield row, cells
    except FileNotFoundError:
        raise CanonError(f"There is no file {path}.") from None
    except (pa.ArrowInvalid, OSError) as mistake:
        raise CanonError(f"{path} is not a whole Parquet file ({reason(mistake)}); write it again.") from None


# Bytes


def _last_blank(text: bytearray | memoryview) -> int:
    """Where the last white space ends; 0 if there is none."""
    near = bytes(text[-4096:])
    if place := max(near.rfind(blank) for blank in BLANKS) + 1:
        return len(text) - len(near) + place
    return max(bytes(text).rfind(blank) for blank in BLANKS) + 1


def _between_characters(text: bytearray) -> int:
    """The last place where two Chinese characters meet; 0 if there is none near the end."""
    end = _character(text, len(text) - 1)
    begin = _character(text, max(end - 4096, 0))
    near = text[begin:end].decode("utf-8", "replace")
    *_, last = 0, *(match.end() for match in APART.finditer(near))
    return begin + len(near[:last].encode()) if last else 0


def _character(text: bytearray, place: int) -> int:
    """Where the character begins that has the byte at `place`."""
    while 0 < place < len(text) and text[place] & 0xC0 == 0x80:
        place -= 1
    return place
