"""Running text: files and folders of it, plain or compressed, or a column of tables; nothing is held in memory.

Parts are `Texts` (canon/data/corpus/text_blocks.py), which the encodings read as documents or as blocks of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from canon.data.catalogue import Dataset
from canon.data.checking.counts import count_text
from canon.data.checking.report import CheckReport
from canon.data.checking.sentence_counts import count_sentences
from canon.data.checking.word_counts import count_words
from canon.data.columns import choose_text
from canon.data.corpus.text_blocks import Texts
from canon.data.formats import text
from canon.data.formats.files import ending
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.kinds.base import Kind, text_column
from canon.data.schema import FileRecord
from canon.data.settings import Columns
from canon.data.source import Source, TableSource, TextSource, split_of
from canon.errors import CanonError


class TextKind(Kind):
    name = "text"
    singular = "running text"
    plural = "running text"
    plural_zh = "连续文本"
    settings = Columns
    formats = ("text",)

    def sniff(self, path: Path, config: Any) -> str:
        if path.is_file():
            known = ending(path) in text.ENDINGS and not path.name.endswith("ubyte")
            return f"{path.name} is a text file by its ending" if known else ""
        return f"{path.name} has text files" if text.text_files(path) else ""

    def sniff_table(self, path: Path, config: Any) -> str:
        return text_column(path, config)

    def sniff_set(self, record: Dataset) -> str:
        return f"{record.name} has the text {', '.join(record.features)}" if record.features else ""

    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        return _source(path.name, _parts(path, config), config)

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
            # The name of a part tells it from the others, which have the same files.
            name: Texts(documents=documents, name=source.name, records=(*source.files, FileRecord(name, 0, name)))
            for name, documents in source.parts.items()
        }
        how = source.test, source.tokenizers, source.origin
        return TextSource(source.name, parts, source.files, source.notes, *how)

    def examine(self, config: Any, home: Source | None) -> Source:
        """Of a table, whether it has text, which is not read."""
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


def _joined(parts: Any) -> Texts:
    first, *more = parts
    return replace(first, files=tuple(chain(first.files, *(part.files for part in more))), records=())


def _parts(path: Path, config: Any) -> dict[str, list[Path]]:
    """The files of each split: by their names in a folder, else all as one."""
    if path.is_file():
        return {"train": [path]}
    tables = [file for file in sorted(path.rglob("*")) if file.is_file() and ending(file) in TABLES]
    tables = [file for file in tables if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    files = tables if tables and config.format not in TEXT.formats else text.text_files(path)
    if not files:
        raise CanonError(
            f"{path} has no text files ({', '.join((*text.ENDINGS[:-1], *TABLES))}, also with .gz, .xz or .bz2)."
        )
    by_split: dict[str, list[Path]] = {}
    for file in files:
        by_split.setdefault(split_of(file.relative_to(path)), []).append(file)
    return by_split if "train" in by_split and "" not in by_split else {"train": files}


def _source(name: str, files: dict[str, list[Path]], config: Any, names: Sequence[str] = ()) -> Source:
    tables = config.format not in TEXT.formats and all(ending(path) in TABLES for path in chain(*files.values()))
    parts: dict[str, Texts] = {}
    records: dict[str, FileRecord] = {}
    notes: tuple[str, ...] = ()
    column = ""
    for split, paths in files.items():
        records |= {str(path): FileRecord.of(path) for path in paths}
        part = Texts(
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
            notes = (f'The text is the column "{column}".',)
        parts[split] = replace(part, column=column)
    return TextSource(name, parts, tuple(records.values()), notes)


TEXT = TextKind()
