"""Texts with labels: a table with a column of text, or two, and one of labels; fastText's lines; or files by class.

The names of a table's columns decide, else what they hold (canon/data/columns.py). GLUE's files are read as they are:
CoLA's have no header line. data.label and data.features choose other columns. A folder may have a folder of texts for
each class, or a file of lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.catalogue import Dataset
from canon.data.checking.counts import count_labelled
from canon.data.checking.measure import words
from canon.data.checking.report import CheckReport
from canon.data.columns import TextColumns, choose_columns, choose_label, is_number, texts_of
from canon.data.formats.cells import listed
from canon.data.formats.fasttext_lines import is_labelled, read_lines
from canon.data.formats.files import ending
from canon.data.formats.names import COLA, HEADINGS, NUMBERS, PAIRS, SEVERAL
from canon.data.formats.rows import TextRows
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import Table, is_table, read_table
from canon.data.kinds.base import holds_tables, peeked, records_of, text_column
from canon.data.kinds.class_files import class_files, read_classes
from canon.data.kinds.examples import ExampleKind, ExampleSource, usable
from canon.data.kinds.parts import inner, leading_file
from canon.data.kinds.table import TABLE, read_tables
from canon.data.paths import find_path, named_set
from canon.data.settings import Columns, Folds
from canon.data.source import Source, TableSource
from canon.data.targets import Class, Labels, Number
from canon.errors import CanonError

MOST_CLASSES = 20  # whole numbers of more values are numbers, not classes
_LONGEST_LABEL = 40  # characters
_MOST_RELATIONS = 3  # of two texts: yes, no, neither; more classes are seldom relations
_MUCH = 0.1  # of the variance of the words in common, which classes of more relations explain
_SURELY = 4.0  # the ratio of variances (F) from which on classes differ; that of noise is 1
_UNREAD = "…"  # stands for a text where only labels are looked at


@settings
class LabelledSettings(Columns, Folds):
    shots: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        default=0, description="few-shot: so many examples of each class, and as many others to choose by; 0: all"
    )
    label_separator: str = Field(default="", description="separates several labels in a cell of a table, as in ;")


class LabelledKind(ExampleKind):
    name = "labelled"
    singular = "a set of texts with labels"
    plural = "texts with labels"
    plural_zh = "带标签的文本"
    settings = LabelledSettings
    formats = ("fasttext",)
    targets = (Class, Number, Labels)

    def sniff(self, path: Path, config: Any) -> str:
        if path.is_dir() and (files := class_files(path, known=True)):
            return f"{path.name} has a {files.what} for each class"
        file = leading_file(path)
        return f"{path.name} has lines that begin with __label__" if file and self.holds(file, config) else ""

    def sniff_table(self, path: Path, config: Any) -> str:
        return text_column(path, config)

    def sniff_text(self, path: Path, config: Any) -> str:
        """Where labels are asked for, each file of a folder may be a class."""
        files = class_files(path) if path.is_dir() else None
        return f"{path.name} has a {files.what} for each class" if files else ""

    def is_running(self, path: Path, config: Any) -> bool:
        return path.is_dir() and class_files(path) is not None

    def sniff_set(self, record: Dataset) -> str:
        return f"{record.name} has the text {', '.join(record.features)}" if record.features else ""

    def is_chosen(self, config: Any) -> bool:
        """Not where a table's own features do better without a pre-trained network: two texts of a row, which they
        compare unless one is the other's heading, and texts with a number."""
        if named_set(config.source) is not None or not holds_tables(path := find_path(config.source), config):
            return True
        table = peeked(path, config)
        texts = config.features or texts_of(table, config.label)
        label, _ = choose_label(table, config.label)
        if len(texts) != 1 and not _has_heading(texts):
            return len(texts) < 2 or not _are_compared(table, texts, label)
        return not is_number(table, label)

    def holds(self, path: Path, config: Any) -> bool:
        """Whether a file has fastText's lines."""
        if ending(path) in TABLES:
            return False
        try:
            return is_labelled(path, config.encoding)
        except CanonError:
            return False

    def rows(self, path: Path, config: Any) -> tuple[TextRows, tuple[str, ...]]:
        return read_lines(path, config.encoding), ()

    def read(self, path: Path, config: Any, like: Source | None = None) -> ExampleSource:
        if path.is_dir() and (files := class_files(path)):
            parts, record, notes = read_classes(inner(path), files, config.encoding)
            return ExampleSource(path.name, parts, (record,), notes)
        table = config.format in TABLE.formats or holds_tables(path, config)
        if config.format in self.formats or not table or self.holds(leading_file(path) or path, config):
            return super().read(path, config, like)
        known = (like.names, like.label) if isinstance(like, ExampleSource) else ()
        return self.of_tables(read_tables(path, config, *known), config, like)

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
        return usable(self.of_tables(home, config, texts=False))

    def of_tables(
        self, source: TableSource, config: Any, like: Source | None = None, texts: bool = True
    ) -> ExampleSource:
        train = source.parts["train"]
        if isinstance(like, ExampleSource) and like.columns:
            columns = TextColumns(like.columns, like.label)
        else:
            columns = choose_columns(train, config.label or source.label, config.features or source.features)
        if not columns.label:
            raise CanonError(f"{train.path} has no column besides its text that could be the label.")
        separator = config.label_separator or separator_of(train, columns.label)
        how = columns, separator, texts
        parts = {name: text_rows(table, *how) for name, table in source.parts.items()}
        names = ", ".join(f'"{name}"' for name in columns.texts)
        what = "The text is the column" if len(columns.texts) == 1 else "The texts are the columns"
        note = f'{what} {names}, the label is the column "{columns.label}"; data.features and data.label choose others.'
        notes = (*source.notes, note)
        if separator != config.label_separator:
            notes += (f'Several labels in a cell are separated by "{separator}" (data.label_separator).',)
        marks = _marks(train, columns)
        unread = [f'"{name}"' for name in train.names if name not in (columns.label, *columns.texts, *marks)]
        if unread and not (config.features or source.features or source.label):
            notes += (f"Not read: {listed(unread)}; a system for tables, such as mlp, reads all columns.",)
        if marks:
            notes += (
                f'"{columns.label}" is one of several columns of 0 and 1, and the only one that is learned; '
                f"data.label chooses another: {listed(marks)}.",
            )
        common = source.name, parts, source.files, notes, source.test, (), source.origin, self
        numeric, monitor = _are_numbers(train, columns.label), "matthews" if tuple(train.names) == COLA else ""
        chosen = {"label": columns.label, "columns": columns.texts, "names": train.names}
        return ExampleSource(*common, **chosen, numeric=numeric, monitor=monitor)

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        count_labelled(report, config, source)


def open_table(path: Path, config: Any, columns: Sequence[str] = ()) -> Table | None:
    """The table in a file to predict from; None where it has lines of text. `columns` are those of its texts, which it
    may have alone and without a header line."""
    if ending(path) in TABLES:
        return read_table(path, config, like=columns)
    table = read_table(path, config, like=columns) if columns and is_table(path, config) else None
    return table if table is not None and set(columns) <= set(table.names) else None


def _has_heading(texts: Sequence[str]) -> bool:
    """Whether two texts of a row are a heading and its text, rather than two to compare."""
    names = tuple(name.strip().lower() for name in texts)
    return len(names) == 2 and names not in PAIRS and not set(HEADINGS).isdisjoint(names)


def _are_compared(table: Table, texts: Sequence[str], label: str) -> bool:
    """Whether the label of a row says how its two texts go together, rather than what both are about: the columns have
    names that say so, or the share of words that the texts have in common differs between the classes."""
    said = table.header and tuple(name.strip().lower() for name in texts) in PAIRS
    if said or is_number(table, label):
        return True
    classes, codes = table.factor(label)
    pairs = zip(*(table.texts(name).tolist() for name in texts), strict=True)
    sets = [[set(words(text.lower())) for text in pair] for pair in pairs]
    shared = np.array([len(one & other) / max(1, min(len(one), len(other))) for one, other in sets])
    counts = np.bincount(codes)
    between = (counts * (np.bincount(codes, shared) / counts - shared.mean()) ** 2).sum()
    within = ((shared - shared.mean()) ** 2).sum() - between
    freedom = len(classes) - 1, len(shared) - len(classes)
    if min(freedom) < 1 or between + within <= 0:
        return between + within > 0
    if len(classes) > _MOST_RELATIONS:
        return bool(between > _MUCH * (between + within))
    return bool(between / freedom[0] > _SURELY * within / freedom[1])


def _are_numbers(table: Table, label: str) -> bool:
    """Whether labels have fractions, or more values than classes have, or a name that says so."""
    values, bad = table.numbers(label)
    known = values[np.isfinite(values)]
    if bad.any() or not len(known):
        return False
    fractions, several = bool((known != np.rint(known)).any()), len(np.unique(known)) > MOST_CLASSES
    return fractions or several or label.strip().lower() in NUMBERS


def _marks(table: Table, columns: TextColumns) -> list[str]:
    """The columns that hold nothing but 0 and 1, as the label does: each says of a text whether it has one property."""

    def is_mark(name: str) -> bool:
        values, bad = table.numbers(name)
        return not bad.any() and set(np.unique(values)) <= {0.0, 1.0}

    if not is_mark(columns.label):
        return []
    return [name for name in table.names if name not in (columns.label, *columns.texts) and is_mark(name)]


def separator_of(table: Table, label: str) -> str:
    """What separates several labels in the cells of a column; "" where each has one. The parts of
    different cells must come twice on average; a comma counts under a name for several."""
    cells = [cell for cell in table.factor(label)[0] if cell.strip()] if label in table else []
    for separator in (";", "|", ",") if label.strip().lower() in SEVERAL else (";", "|"):
        split = [[part.strip() for part in cell.split(separator)] for cell in cells]
        parts = [part for row in split for part in row]
        several, different = sum(len(row) > 1 for row in split), len(set(parts))
        short = all(len(part) <= _LONGEST_LABEL for part in parts)
        if 3 * several > len(cells) and 1 < 2 * different <= len(parts) and short:
            return separator
    return ""


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
        pieces = [cell.split(separator) if separator else [cell] for cell in cells]
        separated = [tuple(dict.fromkeys(filter(None, map(str.strip, row)))) for row in pieces]
        labels = [separated[code] for code in codes.tolist()]
    return TextRows(str(table.path), table.line, first, second[0] if second else None, labels, _soft(table))


def _soft(table: Table) -> list[dict[str, float]] | None:
    """Columns p(CLASS) of a table, which `canon distill` writes; None where there are none."""
    names = {name[2:-1]: table.numbers(name)[0] for name in table.names if name.startswith("p(") and name[-1] == ")"}
    if not names:
        return None
    grid = np.stack(list(names.values()), axis=1)
    if not (np.isfinite(grid).all() and (grid >= 0).all() and np.allclose(grid.sum(1), 1, atol=1e-3)):
        row = int((~(np.isfinite(grid).all(1) & (grid >= 0).all(1) & np.isclose(grid.sum(1), 1, atol=1e-3))).argmax())
        raise table.mistake(row, "the columns p(…) must be probabilities that sum to 1.")
    return [dict(zip(names, row, strict=True)) for row in grid.tolist()]


LABELLED = LabelledKind()
