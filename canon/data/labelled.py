"""Texts with their labels, from fastText's lines or from a table's two columns, before they are cut into words.

A line of fastText is `__label__x __label__y text`: every word that begins with `__label__` is a label, wherever it
stands, and the rest is the text. In a table one column is the text and one the label; `data.label_separator` parts
several labels in a cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from canon.data import features
from canon.data.catalogue import CATALOGUE
from canon.data.config import DataConfig
from canon.data.formats.files import ending, lines
from canon.data.formats.images import visible
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import Table, canonical, parse_number
from canon.data.open import find_path, open_source
from canon.data.read import with_given_parts
from canon.data.schema import FileRecord
from canon.data.source import Part, Source, split_of
from canon.errors import CanonError

PREFIX = "__label__"
_PEEK = 20  # lines looked at for a label
SPACE = " \t\n\r\v\f\0"  # what parts words in fastText: nothing beyond ASCII
_LABEL = re.compile(rf"(?:(?<=[{SPACE}])|^){PREFIX}([^{SPACE}]*)")
_FIRST = re.compile(rf"{PREFIX}([^{SPACE}]*)(.*)", re.DOTALL)
_FORM = "each line is labels and text, as in __label__positive a fine film"


@dataclass(frozen=True)
class Labelled:
    """One text and its labels per example."""

    path: str
    texts: Sequence[str]
    labels: Sequence[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.texts)

    def names(self) -> list[str]:
        return sorted(set(chain.from_iterable(self.labels)))

    def counts(self, rows: Iterable[int]) -> dict[str, int]:
        """How many of the examples at `rows` have each label."""
        return Counter(chain.from_iterable(map(self.labels.__getitem__, rows)))


# Lines


def is_labelled(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a file is fastText's: a label is among its first lines."""
    return any(_LABEL.search(line) for line in islice(lines(path, encoding), _PEEK))


def holds_lines(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a file, or the training part of a folder, is fastText's lines; no sentence where it cannot be read."""
    files = [path] if path.is_file() else [item for item in visible(path) if item.is_file()]
    if any(ending(file) in TABLES for file in files):
        return False
    first = files if path.is_file() else [file for file in files if split_of(file) == "train"]
    try:
        return len(first) == 1 and is_labelled(first[0], encoding)
    except CanonError:
        return False


def without_labels(line: str) -> str:
    return _parse(line)[1]


def _parse(line: str) -> tuple[tuple[str, ...], str]:
    """The labels of a line, each once, and its text."""
    first = _FIRST.match(line)
    if first and PREFIX not in first[2]:  # one label, and it stands first: most lines
        return (first[1],), first[2]
    return tuple(dict.fromkeys(_LABEL.findall(line))), _LABEL.sub("", line).strip(SPACE)


def read_lines(path: Path, encoding: str = "utf-8") -> Labelled:
    texts, labels = [], []
    known: dict[tuple[str, ...], tuple[str, ...]] = {}  # one object for equal labels
    for number, line in enumerate(lines(path, encoding), start=1):
        if not line.strip():
            continue
        own, text = _parse(line)
        if not own:
            raise CanonError(f"{path}, line {number}: there is no label; {_FORM}.")
        if "" in own:
            raise CanonError(f"{path}, line {number}: {PREFIX} is followed by no name; {_FORM}.")
        texts.append(text)
        labels.append(known.setdefault(own, own))
    if not texts:
        raise CanonError(f"{path} is empty.")
    return Labelled(str(path), texts, labels)


def _line_files(path: Path, encoding: str) -> dict[str, Path]:
    """The files of fastText's lines that `path` is or holds, by split; {} where it is tables."""
    if path.is_file():
        if ending(path) in TABLES:
            return {}
        if not is_labelled(path, encoding):
            raise CanonError(f"{path} has no labels; {_FORM}, or give a table with a column of text and a label.")
        return {"train": path}
    files = [item for item in visible(path) if item.is_file()]
    if any(ending(item) in TABLES for item in files):
        return {}
    by_split: dict[str, Path] = {}
    for file in files:
        split = split_of(file)
        if split in by_split:
            raise CanonError(f"{path}: {by_split[split].name} and {file.name} both seem to be the {split} part.")
        if split:
            by_split[split] = file
    if "train" not in by_split:
        raise CanonError(f"{path} has no file whose name says train; give the file.")
    return by_split


def open_documents(config: DataConfig) -> Source:
    """The source of kind "document" (parts are `Labelled`), or of kind "features" (parts are tables)."""
    if config.source in CATALOGUE or config.format == "table":
        return with_given_parts(open_source(config), config)
    path = find_path(config.source)
    files = _line_files(path, config.encoding)
    if not files:
        return with_given_parts(open_source(config), config)
    origin = {}
    for name, given in (("valid", config.valid), ("test", config.test)):
        if isinstance(given, str) and given:
            other = find_path(given, named=False)
            files[name], origin[name] = _line_files(other, config.encoding).get("train", other), other.name
    parts = {split: Part(read_lines(file, config.encoding)) for split, file in files.items()}
    records = {record.name: record for record in map(FileRecord.of, files.values())}
    return Source(path.name, "document", parts, files=tuple(records.values()), origin=origin)


# Tables


def choose_columns(table: Table, label: str, texts: Sequence[str]) -> tuple[str, str, str]:
    """The label's and the text's column, and a note where the label was guessed; `label` and `texts` are wishes."""
    named = {name.lower() for name in table.names}
    if not label and not any(name in named for name in features.LABEL_NAMES):
        if len(table.names) < 2:
            raise CanonError(f'{table.path} has one column, "{table.names[0]}"; a label is needed beside the text.')
        text = features.choose_text(table, texts, "")
        label = next(name for name in reversed(table.names) if name != text)
        return label, text, f'The label is the column "{label}"; data.label chooses another.'
    label, note = features.choose_label(table, label)
    return label, features.choose_text(table, texts, label), note


def from_table(table: Table, label: str, text: str, separator: str, texts: bool = True) -> Labelled:
    """texts: whether they are read, which takes room."""
    for name, what in ((label, "label"), (text, "text")):
        if name not in table:
            raise CanonError(f'{table.path} has no column "{name}", which is the {what}.')
    cells, codes = table.factor(label)
    several = [_parted(cell, separator) for cell in cells]
    labels = [several[code] for code in codes.tolist()]
    for row, own in enumerate(labels):
        if not own:
            raise table.mistake(row, f'the label (column "{label}") is empty.')
    found = Labelled(str(table.path), table.texts(text).tolist() if texts else [""] * len(table), labels)
    return _plain_numbers(found)


def refuse_too_many(found: Labelled, label: str) -> None:
    """A column of texts or of numbers, taken for labels by mistake, has a label of its own in most rows."""
    names = found.names()
    if len(names) > 20 and len(names) * 2 > len(found):
        raise CanonError(
            f'{found.path}: the label "{label}" has {len(names):,} different values in {len(found):,} rows, too many '
            "for labels; choose another column with data.label, or part several with data.label_separator."
        )


def _parted(cell: str, separator: str) -> tuple[str, ...]:
    pieces = cell.split(separator) if separator else [cell]
    return tuple(dict.fromkeys(piece.strip() for piece in pieces if piece.strip()))


def _plain_numbers(found: Labelled) -> Labelled:
    """Labels that are all numbers have one name each: 1, 1.0 and 01 are all "1"."""
    names = found.names()
    numbers = [parse_number(name) for name in names]
    if not all(number is not None and np.isfinite(number) for number in numbers):
        return found
    plain = {name: canonical(name) for name in names}
    if all(name == other for name, other in plain.items()):
        return found
    return replace(found, labels=[tuple(dict.fromkeys(plain[name] for name in row)) for row in found.labels])
