"""Texts with labels: a table with a column of text, or two, and one of labels; or fastText's lines.

The columns of a table are found by their names: two texts (sentence1 and sentence2, and the names that GLUE and others
have for them), else one text, that of the longest column. GLUE's files are read as they are: CoLA's have no header
line. data.label and data.features say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.catalogue import Dataset
from canon.data.checking.counts import count_labelled
from canon.data.checking.report import CheckReport
from canon.data.columns import choose_features, choose_text
from canon.data.formats.fasttext_lines import is_labelled, read_lines
from canon.data.formats.files import ending, lines
from canon.data.formats.images import visible
from canon.data.formats.rows import TextRows
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import Table, read_table
from canon.data.kinds.base import TEXTS, files_of, holds_tables, records_of, text_column
from canon.data.kinds.examples import ExampleKind, ExampleSource, usable
from canon.data.kinds.table import TABLE
from canon.data.settings import Columns
from canon.data.source import Source, TableSource, split_of
from canon.data.targets import Class, Labels, Number
from canon.errors import CanonError

PAIRS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("#1 string", "#2 string"),
    ("sentence_a", "sentence_b"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("query", "passage"),
    ("query", "document"),
    ("query", "title"),
)
LABELS = (
    *("label", "gold_label", "target", "class", "y", "score", "similarity", "quality", "is_duplicate", "stars"),
    *("rating", "sentiment", "category", "relatedness_score", "entailment_judgment"),
)
NUMBERS = ("score", "similarity", "relatedness_score")  # numbers by their name, whole ones too
_PAIRED = {name for pair in PAIRS for name in pair}
COLA = ("source", "label", "mark", "sentence")  # of a file without a header line
MOST_CLASSES = 20  # whole numbers of more values are numbers, not classes
_PEEK = 500  # rows looked at for a header line
_UNREAD = "…"  # stands for a text where only labels are looked at
_COUNTED = ("index", "id", "genre", "source")  # columns that are neither text nor label


@settings
class LabelledSettings(Columns):
    label_separator: str = Field(default="", description="separates several labels in a cell of a table, as in ;")


class TextColumns(NamedTuple):
    """The columns of a table that are read."""

    texts: tuple[str, ...]  # of one text, or of two
    label: str = ""  # "" where there is none, as in a test part


class LabelledKind(ExampleKind):
    name = "labelled"
    singular = "a set of texts with labels"
    plural = "texts with labels"
    plural_zh = "带标签的文本"
    settings = LabelledSettings
    formats = ("fasttext",)
    targets = (Class, Number, Labels)

    def sniff(self, path: Path, config: Any) -> str:
        if holds_tables(path):
            return ""
        files = [path] if path.is_file() else [item for item in visible(path) if split_of(item) == "train"]
        try:
            labelled = len(files) == 1 and files[0].is_file() and is_labelled(files[0], config.encoding)
        except CanonError:
            labelled = False
        return f"{path.name} has lines that begin with __label__" if labelled else ""

    def sniff_table(self, path: Path, config: Any) -> str:
        if _bare(files_of(path, TABLES, "tables")[0]["train"], config):
            return f"{path.name} has texts and labels, and no header line"
        return text_column(path, config, _PAIRED)

    def sniff_set(self, record: Dataset) -> str:
        return f"{record.name} has the text {', '.join(record.features)}" if record.features else ""

    def rows(self, path: Path, config: Any) -> tuple[TextRows, tuple[str, ...]]:
        return read_lines(path, config.encoding), ()

    def read(self, path: Path, config: Any, like: Source | None = None) -> ExampleSource:
        if config.format not in TABLE.formats and not holds_tables(path):
            files, notes = files_of(path)
            parts = {split: read_lines(file, config.encoding) for split, file in files.items()}
            return ExampleSource(path.name, parts, records_of(files), tuple(notes))
        files, notes = files_of(path, TABLES, "tables")
        tables = {split: open_table(file, config) for split, file in files.items()}
        return self.of_tables(TableSource(path.name, tables, records_of(files), tuple(notes)), config, like)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> ExampleSource:
        parts = {split: read_table(path, config, record.columns) for split, path in files.items()}
        source = TableSource(record.name, parts, records_of(files), label=record.label, features=record.features)
        return self.of_tables(source, config)

    def adapt(self, source: Source, config: Any) -> Source:
        return self.of_tables(source, config) if isinstance(source, TableSource) else source

    def examine(self, config: Any, home: Source | None) -> Source:
        """Of a table without its texts, which take room."""
        if not isinstance(home, TableSource):
            return super().examine(config, home)
        return usable(replace(self.of_tables(home, config, texts=False), kind=self))

    def of_tables(
        self, source: TableSource, config: Any, like: Source | None = None, texts: bool = True
    ) -> ExampleSource:
        train = source.parts["train"]
        columns = choose_columns(train, config.label or source.label, config.features or source.features)
        if isinstance(like, ExampleSource) and like.columns:
            columns = TextColumns(like.columns, like.label)
        if not columns.label:
            raise CanonError(f"{train.path} has no column beside its text to be the label.")
        how = columns, config.label_separator, texts
        parts = {name: text_rows(table, *how) for name, table in source.parts.items()}
        names = ", ".join(f'"{name}"' for name in columns.texts)
        what = "The text is the column" if len(columns.texts) == 1 else "The texts are the columns"
        note = f'{what} {names}, the label is the column "{columns.label}"; data.features and data.label choose others.'
        return ExampleSource(
            source.name,
            parts,
            source.files,
            (*source.notes, note),
            source.test,
            origin=source.origin,
            label=columns.label,
            columns=columns.texts,
            numeric=_are_numbers(train, columns.label),
            monitor="matthews" if tuple(train.names) == COLA else "",
        )

    def check(self, report: CheckReport, config: Any) -> Source:
        source = self.source(config)
        count_labelled(report, config, source)
        return source


def open_table(path: Path, config: Any) -> Table:
    """The table in a file, which may lack a header line."""
    return read_table(path, config, _bare(path, config))


def _bare(path: Path, config: Any) -> tuple[str, ...]:
    """Names for the columns of a tab-separated file without a header line; () where it has one."""
    if ending(path) not in (".tsv", ".tab") or config.delimiter:
        return ()
    rows = [line.split("\t") for line in islice(lines(path, config.encoding), _PEEK) if line.strip()]
    if not rows:
        return ()
    first = rows[0]
    known = {*LABELS, *TEXTS, *_PAIRED, "index", "id", "label", "text_b"}
    if any(cell.strip().lower() in known for cell in first):
        return ()
    if len(first) == 4 and all(len(row) == 4 and row[1] in ("0", "1") and len(row[2]) < 4 for row in rows):
        return COLA
    if len(first) == 2 and len(rows) > 2:
        cells = list(zip(*(row for row in rows if len(row) == 2), strict=True))
        label = 0 if len(set(cells[0])) < len(set(cells[1])) else 1
        if first[label] in cells[label][1:]:  # a label comes again, a column's name does not
            return ("label", "text") if label == 0 else ("text", "label")
    return ()


def choose_columns(table: Table, label: str = "", wanted: Sequence[str] = ()) -> TextColumns:
    """The texts and the label of a table; `label` and `wanted` (columns of text) are wishes."""
    plain = {name.strip().lower(): name for name in reversed(table.names)}
    texts = _text_columns(table, plain, label, wanted)
    return TextColumns(texts, _label_column(table, plain, label, texts))


def _label_column(table: Table, plain: dict[str, str], label: str, texts: tuple[str, ...]) -> str:
    if label:
        return table.require(label, "data.label")
    for name in LABELS:
        if name in plain and plain[name] not in texts:
            return plain[name]
    rest = [name for name in table.names if name not in texts and name.strip().lower() not in _COUNTED]
    return rest[-1] if rest else ""


def _text_columns(table: Table, plain: dict[str, str], label: str, wanted: Sequence[str]) -> tuple[str, ...]:
    if len(wanted) > 2:
        raise CanonError(f"data.features must name one column of text, or two; got {len(wanted)}.")
    if wanted:
        return choose_features(table, wanted, label)
    for first, second in PAIRS:
        if first in plain and second in plain and label not in (plain[first], plain[second]):
            return plain[first], plain[second]
    for name in TEXTS:
        if name in plain and plain[name] != label:
            return (plain[name],)
    if len(table.names) == 1:
        return (table.names[0],)
    taken = label or next((plain[name] for name in LABELS if name in plain), "")
    return (choose_text(table, (), taken),)


def _are_numbers(table: Table, label: str) -> bool:
    """Whether labels have fractions, or more values than classes have, or a name that says so."""
    values, bad = table.numbers(label)
    known = values[np.isfinite(values)]
    if bad.any() or not len(known):
        return False
    fractions, several = bool((known != np.rint(known)).any()), len(np.unique(known)) > MOST_CLASSES
    return fractions or several or label.strip().lower() in NUMBERS


def text_rows(table: Table, columns: TextColumns, separator: str = "", texts: bool = True) -> TextRows:
    """The examples of a part; its labels are None where it lacks their column. texts: whether they are read."""
    for name in columns.texts:
        if name not in table.names:
            which = "a" if len(columns.texts) > 1 else "the"
            raise CanonError(f'{table.path} has no column "{name}", which is {which} text.')
    first, *second = (table.texts(name).tolist() if texts else [_UNREAD] * len(table) for name in columns.texts)
    labels = None
    if columns.label in table.names:
        cells, codes = table.factor(columns.label)
        separated = [_separated(cell, separator) for cell in cells]
        labels = [separated[code] for code in codes.tolist()]
    return TextRows(str(table.path), table.line, first, second[0] if second else None, labels)


def _separated(cell: str, separator: str) -> tuple[str, ...]:
    pieces = cell.split(separator) if separator else [cell]
    return tuple(dict.fromkeys(piece.strip() for piece in pieces if piece.strip()))


LABELLED = LabelledKind()
