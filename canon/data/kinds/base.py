"""What a kind of data is able to do: recognise a file or folder, open it, check it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from canon.data import catalogue
from canon.data.catalogue import Dataset
from canon.data.catalogue.builtin import read_builtin
from canon.data.checking.report import CheckReport
from canon.data.columns import LABELS, PEEK, is_wordy
from canon.data.corpus.text_blocks import Texts
from canon.data.formats.cells import parse_number
from canon.data.formats.files import ending
from canon.data.formats.images import visible
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.paths import find_path, named_set
from canon.data.schema import FileRecord
from canon.data.settings import Common
from canon.data.source import Source, split_of
from canon.errors import CanonError

TEXTS = ("sentence", "text", "review", "content", "comment", "tweet", "text_a", "title", "body")  # names of columns


class Kind(ABC):
    """One object for each kind stands in canon/data/kinds/__init__.py. `config` is a DataConfig, which has the settings
    of every kind; each method reads those that are its own."""

    name: ClassVar[str]
    singular: ClassVar[str]  # for sentences: "… is a table"
    plural: ClassVar[str]  # "… reads tables"
    plural_zh: ClassVar[str]
    settings: ClassVar[type[Common]]
    formats: ClassVar[tuple[str, ...]]  # of data.format

    @abstractmethod
    def sniff(self, path: Path, config: Any) -> str:
        """Why a file or folder is of this kind, for a person to read; "" if it is not."""

    def sniff_table(self, path: Path, config: Any) -> str:
        """The same of a path that is known to hold tables."""
        return ""

    def sniff_set(self, record: Dataset) -> str:
        """The same of a named table."""
        return ""

    def sniff_text(self, path: Path, config: Any) -> str:
        """The same of a path that is running text, or that no kind recognises."""
        return ""

    @abstractmethod
    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        """A file or folder; `like` is the training source that a valid or test file belongs to."""

    @abstractmethod
    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> Source:
        """A named set whose files are on this machine, by split."""

    def adapt(self, source: Source, config: Any) -> Source:
        """A built-in set, which may be a table, as this kind."""
        return source

    @abstractmethod
    def check(self, report: CheckReport, config: Any) -> Source | None:
        """Counts what is there, a mistake being a warning; returns the source where it could be opened."""

    def examine(self, config: Any, home: Source | None) -> Source:
        """The source as `open` gives it, for a verdict; `home` is the same data as its own kind, where that is open."""
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
            path = catalogue.find_file(folder, file)
            if path is not None:
                catalogue.verify(path, file)
                files[file.split] = path
        return replace(self.read_files(record, files, config), name=record.name, kind=self)


def holds_tables(path: Path) -> bool:
    files = [path] if path.is_file() else visible(path) if path.is_dir() else []
    return any(item.is_file() and ending(item) in TABLES for item in files)


def files_of(path: Path, endings: tuple[str, ...] = (), what: str = "files") -> tuple[dict[str, Path], list[str]]:
    """The file of each split of a file or folder, and notes; `endings` are those that count whatever their name."""
    if path.is_file():
        return {"train": path}, []
    files = [item for item in visible(path) if item.is_file()]
    known = [item for item in files if ending(item) in endings or (split_of(item) and not endings)]
    notes = []
    if any("mismatched" in item.name for item in known) and any("_matched" in item.name for item in known):
        left = [item.name for item in known if "mismatched" in item.name]
        known = [item for item in known if item.name not in left]
        notes.append(f"{', '.join(left)}: left out; evaluate it with canon evaluate RUN --data FILE.")
    if len(known) == 1:
        return {"train": known[0]}, notes
    by_split: dict[str, Path] = {}
    for item in known:
        split = split_of(item)
        if split in by_split:
            raise CanonError(
                f"{path}: {by_split[split].name} and {item.name} both seem to be the {split} part; keep one."
            )
        if split:
            by_split[split] = item
    if "train" not in by_split:
        raise CanonError(f"{path} has {len(known)} {what} and none is named train; give the file.")
    return by_split, notes


def records_of(files: dict[str, Path]) -> tuple[FileRecord, ...]:
    """Of every file once."""
    return tuple({record.name: record for record in map(FileRecord.of, files.values())}.values())


def first_rows(path: Path, config: Any, count: int) -> list[dict[str, Any]]:
    """The first rows of a table, or of the training part of a folder: cells by name."""
    file = files_of(path, TABLES, "tables")[0]["train"]
    return Texts((file,), tables=True, encoding=config.encoding, delimiter=config.delimiter).first_rows(count)


def text_column(path: Path, config: Any, names: Collection[str] = ()) -> str:
    """Why a table has a column of text, by its first rows; "" if none looks like text and none is asked for.

    Columns of these `names`, and of those in TEXTS, are text whatever they hold.
    """
    if config.features:
        return f"{path.name} has the columns {', '.join(config.features)}"
    try:
        rows = first_rows(path, config, PEEK)
    except CanonError as mistake:  # which opening it will say
        return str(mistake)
    for name in dict.fromkeys(name for row in rows for name in row):
        if name == config.label or name.strip().lower() in LABELS:
            continue
        cells = [cell for row in rows if isinstance(cell := row.get(name), str)]
        if name.strip().lower() in {*TEXTS, *names} or looks_like_text(cells):
            return f'{path.name} has text in the column "{name}"'
    return ""


def looks_like_text(cells: Sequence[str]) -> bool:
    """Whether most cells are not numbers, and they are mostly different or have several words."""
    filled = [cell for cell in cells if cell.strip()]
    words = [cell for cell in filled if parse_number(cell) is None]
    if not words or 2 * len(words) < len(filled):
        return False
    return len(set(words)) > max(len(words) / 2, 2) or is_wordy(words)
