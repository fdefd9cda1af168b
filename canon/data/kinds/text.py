"""Running text: files and folders of it, plain or compressed, or a column of tables; nothing is held in memory.

Parts are `TextStream` (canon/data/corpus/text_blocks.py), which the encodings read as documents or as blocks of words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from canon.data.catalogue import Dataset
from canon.data.checking.counts import count_text
from canon.data.checking.report import CheckReport
from canon.data.checking.text_counts import count_sentences, count_words
from canon.data.columns import choose_text, is_text
from canon.data.corpus.text_blocks import TextStream
from canon.data.formats import text
from canon.data.formats.files import ending
from canon.data.formats.foreign import is_readable
from canon.data.formats.layout import first_lines, layout_of
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import is_table
from canon.data.kinds.base import Kind, holds_tables, peeked, text_column
from canon.data.kinds.parts import files_in, ignored, is_about
from canon.data.schema import FileRecord
from canon.data.settings import Columns
from canon.data.source import Source, TableSource, TextSource, split_of
from canon.errors import CanonError

_TAGGED = re.compile(r"\S+[/_][A-Z$.,:`'()-]{1,8}[A-Z$*+-]{0,6}")  # the/DT
_SEEN, _MOSTLY = 50, 0.9  # lines, and the share of their words


class TextKind(Kind):
    name = "text"
    singular = "running text"
    plural = "running text"
    plural_zh = "连续文本"
    settings = Columns
    formats = ("text",)

    def sniff(self, path: Path, config: Any) -> str:
        if path.is_file():
            if ending(path) in text.ENDINGS and not path.name.endswith("ubyte"):
                return f"{path.name} is a text file by its ending"
            return f"{path.name} is a text file by its content" if is_readable(path) else ""
        return f"{path.name} has text files" if text.text_files(path) else ""

    def sniff_text(self, path: Path, config: Any) -> str:
        return self.sniff(path, config)

    def sniff_table(self, path: Path, config: Any) -> str:
        if reason := text_column(path, config):
            return reason
        table = peeked(path, config)
        column = next((name for name in table.names if is_text(table, name)), "")
        return f'{path.name} has text in the column "{column}"' if column else ""

    def sniff_set(self, record: Dataset) -> str:
        return f"{record.name} has the text {', '.join(record.features)}" if record.features else ""

    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        parts, notes = _parts(path, config)
        source = _source(path.name, parts, config)
        return replace(source, notes=(*notes, *source.notes))

    def with_part(self, source: Source, name: str, other: Source, file: str) -> Source:
        whole = other.parts.get(name) or _joined(other.parts.values())
        return super().with_part(source, name, replace(other, parts={name: whole}), file)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> Source:
        wanted = replace(config, features=config.features or record.features[:1], label=config.label or record.label)
        source = _source(record.name, {split: [path] for split, path in files.items()}, wanted, record.columns)
        return replace(source, tokenizers=record.tokenizers)

    def adapt(self, source: Source, config: Any) -> Source:
        """Documents in memory, or a column of a table in memory."""
        if isinstance(source, TableSource):
            label = config.label or source.label
            column = choose_text(source.parts["train"], config.features or source.features[:1], label)
            documents = {name: table.texts(column).tolist() for name, table in source.parts.items()}
            notes = (*source.notes, f'The text is the column "{column}".')
            source = Source(source.name, documents, source.files, notes, source.test, origin=source.origin)
        parts = {
            # All parts have the same files; the record of its name makes each part's identity different.
            name: TextStream(documents=documents, name=source.name, records=(*source.files, FileRecord(name, 0, name)))
            for name, documents in source.parts.items()
        }
        how = source.test, source.tokenizers, source.origin
        return TextSource(source.name, parts, source.files, source.notes, *how)

    def examine(self, config: Any, home: Source | None) -> Source:
        """Whether a table has a column of text; the text is not read."""
        if not isinstance(home, TableSource):
            return super().examine(config, home)
        return replace(home, kind=self)

    def check(self, report: CheckReport, config: Any) -> Source | None:
        source = self.source(config)
        assert isinstance(source, TextSource)
        count_text(report, config, source)
        if not report.warnings:  # it can be read
            source = replace(source, frequent=count_words(report, config, source))
            count_sentences(report, config, source)
        return source if report.splits else None


def _joined(parts: Any) -> TextStream:
    first, *more = parts
    return replace(first, files=tuple(chain(first.files, *(part.files for part in more))), records=())


def _parts(path: Path, config: Any) -> tuple[dict[str, list[Path]], list[str]]:
    """The files of each split, by their names in a folder, else all as one; and notes."""
    if path.is_file():
        return {"train": [path]}, []
    every = [item for item in sorted(path.rglob("*")) if item.is_file()]
    every = [item for item in every if not any(part.startswith(".") for part in item.relative_to(path).parts)]
    tables = [] if config.format in TEXT.formats else [item for item in every if ending(item) in TABLES]
    if not tables and config.format not in TEXT.formats and holds_tables(path, config):
        tables = [item for item in files_in(path) if is_table(item, config)]
    files = tables or text.text_files(path)
    files = [item for item in files if not is_about(item)] or files
    if not files:
        raise CanonError(
            f"{path} has no text files ({', '.join((*text.ENDINGS[:-1], *TABLES))}, also with .gz, .xz or .bz2)."
        )
    by_split: dict[str, list[Path]] = {}
    for file in files:
        by_split.setdefault(_split(file.relative_to(path)), []).append(file)
    notes = ignored(path, [item for item in every if item not in files])
    return (by_split if "train" in by_split and "" not in by_split else {"train": files}), notes


def _split(relative: Path) -> str:
    """By the name of the file, or of a folder that it is in."""
    return next(filter(None, (split_of(Path(part)) for part in reversed(relative.parts))), "")


def _source(name: str, files: dict[str, list[Path]], config: Any, names: Sequence[str] = ()) -> Source:
    tables = config.format not in TEXT.formats and all(is_table(path, config) for path in chain(*files.values()))
    parts: dict[str, TextStream] = {}
    records: dict[str, FileRecord] = {}
    notes: tuple[str, ...] = ()
    column = ""
    for split, paths in files.items():
        records |= {str(path): FileRecord.of(path) for path in paths}
        part = TextStream(
            tuple(paths),
            tables=tables,
            names=tuple(names),
            encoding=config.encoding,
            delimiter=config.delimiter,
            name=str(paths[0]) if len(paths) == 1 else name,
            records=tuple(records[str(path)] for path in paths),
        )
        if tables and not column:
            column = part.choose_column(config.features, config.label)
            notes = (*_layout_notes(paths[0], config, names), f'The text is the column "{column}".')
        parts[split] = replace(part, column=column)
    notes = notes if tables else _tagged_notes(files["train"][0], config.encoding)
    return TextSource(name, parts, tuple(records.values()), notes)


def _tagged_notes(path: Path, encoding: str) -> tuple[str, ...]:
    """A note on a file of words that have tags, as the Brown corpus has them."""
    try:
        words = " ".join(first_lines(path, encoding)[:_SEEN]).split()
    except CanonError:  # reading the file raises it again
        return ()
    if not words or sum(map(bool, map(_TAGGED.fullmatch, words))) < _MOSTLY * len(words):
        return ()
    return (
        f"{path.name} has tags beside its words ({words[0]}): a word and its tag on each line, a tab between them and "
        "a blank line after each sentence, are read as sentences with tags.",
    )


def _layout_notes(path: Path, config: Any, names: Sequence[str]) -> tuple[str, ...]:
    layout = None if names else layout_of(path, config.encoding, config.delimiter, table=True)
    return () if layout is None else layout.notes(path, config.delimiter)


TEXT = TextKind()
