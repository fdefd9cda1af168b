"""Text tables as pyarrow reads them: quickly, block by block, in whatever encoding they are."""

from __future__ import annotations

import io
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from canon.data.formats.files import CHUNK, utf8

_PATIENCE = 60  # seconds


class Utf8Stream(io.RawIOBase):
    """Pieces of UTF-8 with \\n for every line's end, to be read by pyarrow."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._held = iter(pieces), b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As many bytes as are asked for, fewer only at the end: pyarrow takes a short block for a whole one."""
        held, length = [self._held], len(self._held)
        while (length < size or size < 0) and (piece := next(self._pieces, None)) is not None:
            while piece.endswith(b"\r") and (more := next(self._pieces, None)) is not None:
                piece += more
            held.append(piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece)
            length += len(held[-1])
        whole = b"".join(held)
        size = size if size >= 0 else length
        self._held = whole[size:]
        return whole[:size]


def arrow_blocks(pieces: Iterable[bytes], begin: Callable[..., Iterable[Any]]) -> Iterator[Any]:
    """The blocks of a reader of pyarrow, which `begin` makes of a file (functools.partial of open_csv and the like).

    pyarrow reads ahead in a thread of its own. This ends only when that thread has let go of the file, however reading
    ended: a thread that asks for Python while the interpreter shuts down ends the process with an abort.
    """
    import pyarrow as pa

    stream = Utf8Stream(pieces)
    held, opened = weakref.ref(stream), [pa.PythonFile(stream, mode="r")]
    del stream
    try:
        yield from begin(opened.pop())
    finally:
        until = time.monotonic() + _PATIENCE
        while held() is not None and time.monotonic() < until:
            time.sleep(0.001)


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
    quoted, quotes = delimiter != "\t", 0

    def pieces() -> Iterator[bytes]:
        nonlocal quotes
        for piece in utf8(path, encoding):
            quotes += piece.count(b'"')
            yield piece

    begin = partial(
        arrow.open_csv,
        read_options=arrow.ReadOptions(
            column_names=header, skip_rows=skip, block_size=max(CHUNK, len(header) << 13), use_threads=False
        ),  # a block has some rows
        parse_options=arrow.ParseOptions(
            delimiter=delimiter, quote_char='"' if quoted else False, newlines_in_values=quoted
        ),
        convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(header, pa.string())),
    )
    try:
        # Each block is copied into one piece of memory, which leaves fewer holes than one for every column.
        parts = [pa.ipc.read_record_batch(block.serialize(), block.schema) for block in arrow_blocks(pieces(), begin)]
        table = pa.Table.from_batches(parts, pa.schema([(name, pa.string()) for name in header]))
    except (pa.ArrowException, ValueError):
        return None
    if quoted and quotes % 2:  # pyarrow closes an open quote without an error
        return None
    return dict(zip(header, table.columns, strict=True))
