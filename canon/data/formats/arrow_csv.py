"""Text tables as pyarrow reads them: quickly, block by block, in whatever encoding they are."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from canon.data.formats.files import CHUNK, utf8


class Utf8Stream(io.RawIOBase):
    """The file as UTF-8 with \\n for every line's end, to be read by pyarrow; counts its quotes on the way."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._pieces, self._held, self.quotes = utf8(path, encoding), b"", 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As many bytes as are asked for, fewer only at the end: pyarrow takes a short block for a whole one."""
        held, length = [self._held], len(self._held)
        while (length < size or size < 0) and (piece := next(self._pieces, None)) is not None:
            while piece.endswith(b"\r") and (more := next(self._pieces, None)) is not None:
                piece += more
            self.quotes += piece.count(b'"')
            held.append(piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece)
            length += len(held[-1])
        whole = b"".join(held)
        size = size if size >= 0 else length
        self._held = whole[size:]
        return whole[:size]


def arrow_columns(
    path: Path, encoding: str, delimiter: str, header: tuple[str, ...], skip: int
) -> dict[str, Any] | None:
    """The columns as pyarrow reads them, or None if it is not installed or refuses the file."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow
    except ImportError:
        return None
    if delimiter == " ":  # runs of them
        return None
    quoted, source = delimiter != "\t", Utf8Stream(path, encoding)
    block = max(CHUNK, len(header) << 13)  # some rows
    try:
        blocks = arrow.open_csv(
            pa.PythonFile(source, mode="r"),
            arrow.ReadOptions(column_names=header, skip_rows=skip, block_size=block, use_threads=False),
            arrow.ParseOptions(delimiter=delimiter, quote_char='"' if quoted else False, newlines_in_values=quoted),
            arrow.ConvertOptions(column_types=dict.fromkeys(header, pa.string())),
        )
        # Each block is copied into one piece of memory, which leaves fewer holes than one for every column.
        parts = [pa.ipc.read_record_batch(block.serialize(), block.schema) for block in blocks]
        table = pa.Table.from_batches(parts, blocks.schema)
    except (pa.ArrowException, ValueError):
        return None
    if quoted and source.quotes % 2:  # pyarrow closes an open quote without an error
        return None
    return dict(zip(header, table.columns, strict=True))
