"""Plain text to documents, streamed: blocks between blank lines, or single lines where a file has no blank ones.

Memory is bounded by the longest document (and a line over a megabyte comes in pieces, cut at spaces), not by the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from canon.data.formats.files import ending, lines
from canon.data.formats.foreign import is_readable
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import read_table
from canon.data.settings import Columns

ENDINGS = (".txt", ".text", ".md", ".rst", "")
PEEK = 2000  # lines looked at for a blank one
LONGEST_DOCUMENT = 1 << 22  # characters; a longer block is handed out in pieces


def has_blocks(path: Path, encoding: str = "utf-8") -> bool:
    """Whether blank lines separate the file's documents: one is among its first lines."""
    return any(not line.strip() for line in islice(lines(path, encoding), PEEK))


def documents(path: Path, encoding: str = "utf-8", column: str = "") -> Iterator[str]:
    """The documents of a text file, of the files of a folder in name order, or of a table's text column."""
    if path.is_dir():
        for file in text_files(path):
            yield from documents(file, encoding)
    elif ending(path) in TABLES:
        from canon.data.columns import choose_text

        table = read_table(path, Columns(encoding=encoding))
        yield from (text for text in table.texts(choose_text(table, (column,) if column else (), "")) if text.strip())
    elif has_blocks(path, encoding):
        yield from _blocks(lines(path, encoding))
    else:
        yield from (line for line in lines(path, encoding) if line.strip())


def _blocks(source: Iterator[str]) -> Iterator[str]:
    block: list[str] = []
    length = 0
    for line in source:
        if line.strip():
            block.append(line)
            length += len(line) + 1
        if block and (not line.strip() or length > LONGEST_DOCUMENT):
            yield "\n".join(block)
            block, length = [], 0
    if block:
        yield "\n".join(block)


def text_files(folder: Path) -> list[Path]:
    """Those with the ending of a text, else whatever can be read as one."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    named = [path for path in files if ending(path) in ENDINGS[:-1]]
    return named or [path for path in files if is_readable(path)]
