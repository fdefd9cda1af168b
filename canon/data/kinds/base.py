"""What a kind of data can do: recognise a file or folder, open it, check it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from canon.data import catalogue
from canon.data.catalogue import Dataset
from canon.data.catalogue.builtin import read_builtin
from canon.data.checking.report import CheckReport
from canon.data.columns import PEEK, texts_of
from canon.data.corpus.text_blocks import TextStream
from canon.data.formats.cells import has_labels, labels_cell
from canon.data.formats.files import encoding_of, ending
from canon.data.formats.json_lines import flat
from canon.data.formats.layout import layout_of
from canon.data.formats.row_dicts import row_dicts
from canon.data.formats.tables import Table, has_feature_lines, is_table, read_table
from canon.data.kinds.parts import Parts, leading_file, parts_of
from canon.data.paths import find_path, named_set
from canon.data.schema import FileRecord
from canon.data.settings import Common
from canon.data.source import Source
from canon.errors import CanonError

_LOOKED = 20  # files of a source whose encoding is looked at


class Kind(ABC):
    """canon/data/kinds/__init__.py lists one object for each kind. `config` is a DataConfig, which has the settings of
    every kind; each kind reads its own."""

    name: ClassVar[str]
    singular: ClassVar[str]  # for sentences: "… is a table"
    plural: ClassVar[str]  # "… reads tables"
    plural_zh: ClassVar[str]
    settings: ClassVar[type[Common]]
    formats: ClassVar[tuple[str, ...]]  # of data.format
    offered: ClassVar[bool] = True  # whether `check` offers its systems for data of another kind
    certain: ClassVar[bool] = False  # whether data of this kind is nothing else, even where a mistake in it is found
    named_by: ClassVar[str] = ""  # which settings say that a file is of this kind, as the end of a sentence
    untrained: ClassVar[str] = ", which no system of canon is trained on"  # where that is so

    @abstractmethod
    def sniff(self, path: Path, config: Any) -> str:
        """Why a file or folder is of this kind, as a sentence; "" if it is not."""

    def sniff_name(self, source: str, config: Any) -> str:
        """The same for a source that is neither a named set nor a path."""
        return ""

    def sniff_table(self, path: Path, config: Any) -> str:
        """The same for a path that holds tables."""
        return ""

    def sniff_set(self, record: Dataset) -> str:
        """The same for a named table."""
        return ""

    def sniff_text(self, path: Path, config: Any) -> str:
        """The same for a path that is running text, or that no kind recognises."""
        return ""

    def sniff_kind(self, name: str, home: Kind) -> str:
        """The same for data of another kind, neither a table nor a path of text; `name` is what it is called."""
        return ""

    def is_chosen(self, config: Any) -> bool:
        """Whether its systems may be chosen for data of another kind, where the user names no system."""
        return True

    def is_running(self, path: Path, config: Any) -> bool:
        """Whether a path of this kind is running text as well."""
        return False

    def is_table(self, path: Path, config: Any) -> bool:
        """Whether a path of this kind is a table as well."""
        return False

    @abstractmethod
    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        """A file or folder; `like` is the training source that a valid or test file belongs to."""

    @abstractmethod
    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> Source:
        """A named set whose files are on this machine, by split."""

    def adapt(self, source: Source, config: Any) -> Source:
        """A built-in set, which may be a table, as this kind."""
        return source

    def check(self, report: CheckReport, config: Any) -> Source | None:
        """Counts the examples; a mistake becomes a warning. Returns the source, None if it could not be opened."""
        source = self.source(config)
        self.count(report, config, source)
        return source

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        """Fills the report on a source of this kind: here, only the examples of each part."""
        report.kind, report.splits = self.plural, {name: source.size(name) for name in source.parts}

    def examine(self, config: Any, home: Source | None) -> Source:
        """The source as this kind, to check whether an encoding can read it; `home` is the same data as its own kind,
        None if that could not be opened."""
        return self.source(config)

    def source(self, config: Any) -> Source:
        """What `config.source` names, as this kind, which accepts it."""
        if (record := named_set(config.source)) is not None:
            return self.open_set(record, config)
        source = self.open(find_path(config.source), config)
        if config.source not in catalogue.CATALOGUE:
            return source
        note = f"{config.source} is the file or folder of that name here, not the named set."
        return replace(source, notes=(note, *source.notes))

    def open(self, path: Path, config: Any) -> Source:
        """A file or folder, with the files of data.valid and data.test in place of its own parts."""
        source = self.read(path, config)
        if not config.encoding:
            source = replace(source, notes=(*source.notes, *encoding_notes(source.files)))
        for name, given in (("valid", config.valid), ("test", config.test)):
            if isinstance(given, str) and given:
                other = self.read(find_path(given, named=False), replace(config, valid=0.0, test=0.0), source)
                source = self.with_part(source, name, other, Path(given).name)
        return replace(source, kind=self)

    def with_part(self, source: Source, name: str, other: Source, file: str) -> Source:
        part = other.parts.get(name) or other.parts["train"]
        files = {record.name: record for record in (*source.files, *other.files)}
        origin = {**source.origin, name: file}
        return replace(source, parts={**source.parts, name: part}, files=tuple(files.values()), origin=origin)

    def open_set(self, record: Dataset, config: Any) -> Source:
        """A named set."""
        if record.builtin:
            return replace(self.adapt(read_builtin(record.name), config), kind=self)
        folder = catalogue.require(record.name)
        files: dict[str, Path] = {}
        for file in record.files:
            split, _, fold = file.split.partition("_")
            path = catalogue.find_file(folder, file)
            if path is not None and fold in ("", str(config.fold or 0)):
                catalogue.verify(path, file)
                files[split] = path
        if config.fold and not record.cuts and not any(file.split.endswith(f"_{config.fold}") for file in record.files):
            raise CanonError(f"{record.name} has no files of data.fold = {config.fold}: leave it out.")
        return replace(self.read_files(record, files, config), name=record.name, kind=self)


def records_of(files: dict[str, Path]) -> tuple[FileRecord, ...]:
    """Of every file once."""
    return tuple({record.name: record for record in map(FileRecord.of, files.values())}.values())


def encoding_notes(files: Sequence[FileRecord]) -> list[str]:
    """Notes on the first files of a source that are not UTF-8, with the encoding they are read in."""
    read_as: dict[str, list[str]] = {}
    for path in (Path(file.name) for file in files[:_LOOKED]):
        read_as.setdefault(encoding_of(path), []).append(path.name)
    others = {name: paths for name, paths in read_as.items() if name != "utf-8"}
    return [f"{', '.join(paths)}: not UTF-8, read as {name} (data.encoding)." for name, paths in others.items()]


def open_tables(
    files: dict[str, Path], config: Any, like: Sequence[str] = ()
) -> tuple[dict[str, Table], tuple[str, ...]]:
    """The table of each split, and notes. `like` are the columns of data that these files belong to.

    Where only some files have a header line, the others have the same columns if there are as many.
    """
    tables: dict[str, Table] = {}
    for path in files.values():
        layout = layout_of(path, config.encoding, config.delimiter, table=True)
        if layout is not None and layout.sure and not layout.bare:
            like = like or layout.names
    for split, path in files.items():
        tables[split] = read_table(path, config, like=like)
        like = like or tables[split].names
    return tables, once({files[split]: table.notes for split, table in tables.items()})


def once(notes: dict[Path, tuple[str, ...]]) -> tuple[str, ...]:
    """The notes on several files, each different one once."""
    kept: dict[str, str] = {}
    for file, notes_of_file in notes.items():
        for note in notes_of_file:
            kept.setdefault(note.replace(file.name, ""), note)
    return tuple(kept.values())


def labelled_parts(parts: dict[str, Any], is_labelled: Callable[[Any], bool]) -> tuple[dict[str, Any], list[str]]:
    """The parts that have labels, and notes: a test part without them is left out, and valid is tested on."""
    kept, notes = dict(parts), []
    for name in ("valid", "test"):
        if name in kept and not is_labelled(kept[name]):
            path = Path(kept.pop(name).path).name
            if name == "test" and "valid" in kept:
                kept["test"] = kept.pop("valid")
                instead = f"{Path(kept['test'].path).name} is the test set"
            else:
                instead = "it is left out"
            notes.append(f"{path} has no labels: {instead}.")
    return kept, notes


def table_parts(path: Path, config: Any) -> Parts:
    """The file of each split of a table."""
    return parts_of(path, lambda file: is_table(file, config), "tables", config.fold)


def holds_tables(path: Path, config: Any) -> bool:
    """Whether a file, or the file that a folder is recognised by, is a table."""
    file = leading_file(path)
    return file is not None and is_table(file, config)


def text_column(path: Path, config: Any) -> str:
    """Why a table has a column of text, by its first rows; "" if none looks like text and data.features names none."""
    if config.features:
        return f"{path.name} has the columns {', '.join(config.features)}"
    try:
        texts = texts_of(peeked(path, config), config.label)
    except CanonError as mistake:  # opening the table raises it again
        return str(mistake)
    return f'{path.name} has text in the column "{texts[0]}"' if texts else ""


def peeked(path: Path, config: Any) -> Table:
    """The first rows of a table, or of the training part of a folder."""
    file = table_parts(path, config).files["train"]
    if has_feature_lines(file, config):
        return read_table(file, config)
    facts = file.stat()
    return _peeked(file, config.encoding, config.delimiter, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=4)
def _peeked(file: Path, encoding: str, delimiter: str, *stamp: int) -> Table:
    if ending(file) == ".parquet":  # read whole: a stream of text would leave out the columns of numbers
        rows = [dict(flat(row)) for _, row in islice(row_dicts(file), PEEK)]
    else:
        rows = TextStream((file,), tables=True, encoding=encoding, delimiter=delimiter).first_rows(PEEK)
    rows = [{name: labels_cell(cell) if has_labels(name) else cell for name, cell in row.items()} for row in rows]
    rows = [{name: cell for name, cell in row.items() if not isinstance(cell, list)} for row in rows]
    names = dict.fromkeys(name for row in rows for name in row)
    cells = {name: ["" if (cell := row.get(name)) is None else str(cell) for row in rows] for name in names}
    layout = layout_of(file, encoding, delimiter, table=True)
    columns = {name: np.array(column, dtype=object) for name, column in cells.items()}
    return Table(file, columns, header=layout is None or not layout.bare)
