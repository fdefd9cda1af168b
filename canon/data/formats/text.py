"""Plain text to documents, streamed: blocks between blank lines, or single lines where a file has no blank ones.

Memory is bounded by the longest document (and a line over a megabyte comes in pieces, cut at spaces), not by the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from canon.data.config import DataConfig
from canon.data.formats.files import ending, lines
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import read_table
from canon.data.progress import bar
from canon.data.schema import FileRecord
from canon.data.source import Part, Source, split_of
from canon.errors import CanonError

ENDINGS = (".txt", ".text", ".md", ".rst", "")
PEEK = 2000  # lines looked at to tell blocks from lines
LONGEST_DOCUMENT = 1 << 22  # characters; a longer block is handed out in pieces


def has_blocks(path: Path, encoding: str = "utf-8") -> bool:
    """Whether blank lines part the file's documents: one is among its first lines."""
    return any(not line.strip() for line in islice(lines(path, encoding), PEEK))


def documents(path: Path, encoding: str = "utf-8", column: str = "") -> Iterator[str]:
    """The documents of a text file, of the files of a folder in name order, or of a table's text column."""
    if path.is_dir():
        for file in text_files(path):
            yield from documents(file, encoding)
    elif ending(path) in TABLES:
        from canon.data.features import choose_text

        table = read_table(path, DataConfig(encoding=encoding))
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
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and ending(path) in ENDINGS[:-1]]
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def text_parts(path: Path) -> dict[str, list[Path]]:
    """The files of each split: train.txt, valid.txt and test.txt of a folder, or all of it as one part."""
    if path.is_file():
        return {"train": [path]}
    files = text_files(path)
    if not files:
        raise CanonError(f"{path} has no text files.")
    by_split: dict[str, list[Path]] = {}
    for file in files:
        by_split.setdefault(split_of(file.relative_to(path)), []).append(file)
    return by_split if "train" in by_split and "" not in by_split else {"train": files}


def load(paths: Sequence[Path], encoding: str = "utf-8") -> list[str]:
    """All documents of some files, in memory."""
    found: list[str] = []
    with bar("reading text", 0) as progress:
        for path in paths:
            for document in documents(path, encoding):
                found.append(document)
                progress.advance()
    return found


def read_text_source(path: Path, config: DataConfig) -> Source:
    files = text_parts(path)
    parts = {split: Part(load(paths, config.encoding)) for split, paths in files.items()}
    for split, part in parts.items():
        if not len(part):
            raise CanonError(f"{files[split][0]} is empty.")
    records = tuple(FileRecord.of(file) for paths in files.values() for file in paths)
    return Source(path.name, "text", parts, files=records)
