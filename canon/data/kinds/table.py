"""Tables: a file of rows and named columns, or a folder with one file for each split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.catalogue import Dataset
from canon.data.checking.counts import count_table
from canon.data.checking.report import CheckReport
from canon.data.columns import choose_label
from canon.data.formats.files import ending
from canon.data.formats.tables import ENDINGS, Table, read_table
from canon.data.kinds.base import Kind, holds_tables, labelled_parts, open_tables, records_of, table_parts
from canon.data.kinds.parts import class_names, leading_file
from canon.data.settings import Columns
from canon.data.source import Source, TableSource
from canon.errors import CanonError


class TableKind(Kind):
    name = "table"
    singular = "a table"
    plural = "tables"
    plural_zh = "表格"
    settings = Columns
    formats = ("table",)

    def sniff(self, path: Path, config: Any) -> str:
        if not holds_tables(path, config):
            return ""
        file = leading_file(path)
        by_ending = file is not None and ending(file) in ENDINGS
        return f"{path.name} is a table by its {'ending' if by_ending else 'first lines'}"

    def read(self, path: Path, config: Any, like: Source | None = None) -> TableSource:
        train = None if like is None else like.parts["train"]
        label = "" if train is None else _label(train, config)
        return read_tables(path, config, () if train is None else train.names, label)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> TableSource:
        parts = {split: read_table(path, config, record.columns) for split, path in files.items()}
        return TableSource(record.name, parts, records_of(files), label=record.label, features=record.features)

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        assert isinstance(source, TableSource)
        count_table(report, config, source)


def read_tables(path: Path, config: Any, names: Sequence[str] = (), label: str = "") -> TableSource:
    """The tables of a file or folder as they are to be used; `names` and `label` are those of data it belongs to."""
    parts = table_parts(path, config)
    tables, notes = open_tables(parts.files, config, names)
    source = TableSource(path.name, tables, records_of(parts.files), (*parts.notes, *notes))
    if not (label or config.label or names):
        source = _with_lacking(source)
    label = label or source.label or _label(tables["train"], config)
    if not label:
        return source
    return _without_unlabelled(_with_class_names(_labelled_rows(source, label), label, config), label)


def _with_lacking(source: TableSource) -> TableSource:
    """Where the test part lacks one column, as in a contest, that column is the label."""
    if "test" not in source.parts:
        return source
    lacking = [name for name in source.parts["train"].names if name not in source.parts["test"].names]
    if len(lacking) != 1:
        return source
    name = Path(source.parts["test"].path).name
    note = f'The label is the column "{lacking[0]}", which {name} lacks; data.label chooses another.'
    return replace(source, label=lacking[0], notes=(*source.notes, note))


def _labelled_rows(source: TableSource, label: str) -> TableSource:
    """Without the rows of a part that have no label, where others have one."""
    parts, notes = dict(source.parts), list(source.notes)
    for name, table in source.parts.items():
        empty = table.unlabelled(label) if label in table else np.zeros(len(table), dtype=bool)
        if empty.any() and not empty.all():
            parts[name] = table.take(np.flatnonzero(~empty))
            first = table.line(int(empty.argmax()))
            counted = f"{np.count_nonzero(empty):,} of {len(table):,} rows have no label and are left out"
            notes.append(f"{Path(table.path).name}: {counted} (the first: {first}).")
    return replace(source, parts=parts, notes=tuple(notes))


def _label(table: Table, config: Any) -> str:
    """The column to predict; "" if data.label is wrong, which an encoding that needs it says."""
    try:
        return choose_label(table, config.label)[0]
    except CanonError:
        return ""


def _with_class_names(source: TableSource, label: str, config: Any) -> TableSource:
    """With the names that a file beside the data gives to the numbers of its classes."""
    train = source.parts["train"]
    values = train.factor(label)[0] if label in train else []
    names, note = class_names(Path(train.path).parent, config.encoding, values) if values else ({}, "")
    if not names:
        return source
    parts = {name: table.renamed(label, names) if label in table else table for name, table in source.parts.items()}
    return replace(source, parts=parts, notes=(*source.notes, note))


def _without_unlabelled(source: TableSource, label: str) -> TableSource:
    """Without parts that lack the label, as the test part of a contest does."""
    parts, notes = labelled_parts(source.parts, lambda table: label in table and not table.unlabelled(label).all())
    return replace(source, parts=parts, notes=(*source.notes, *notes))


TABLE = TableKind()
