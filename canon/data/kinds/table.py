"""Tables: a file of rows and named columns, or a folder with one file for each split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canon.data.catalogue import Dataset
from canon.data.checking.counts import count_table
from canon.data.checking.report import CheckReport
from canon.data.formats.tables import ENDINGS, read_table
from canon.data.kinds.base import Kind, files_of, holds_tables, records_of
from canon.data.settings import Columns
from canon.data.source import Source, TableSource


class TableKind(Kind):
    name = "table"
    singular = "a table"
    plural = "tables"
    plural_zh = "表格"
    settings = Columns
    formats = ("table",)

    def sniff(self, path: Path, config: Any) -> str:
        return f"{path.name} is a table by its ending" if holds_tables(path) else ""

    def read(self, path: Path, config: Any, like: Source | None = None) -> TableSource:
        files, notes = files_of(path, ENDINGS, "tables")
        parts = {split: read_table(file, config) for split, file in files.items()}
        return TableSource(path.name, parts, records_of(files), tuple(notes))

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> TableSource:
        parts = {split: read_table(path, config, record.columns) for split, path in files.items()}
        return TableSource(record.name, parts, records_of(files), label=record.label, features=record.features)

    def check(self, report: CheckReport, config: Any) -> Source:
        source = self.source(config)
        assert isinstance(source, TableSource)
        count_table(report, config, source)
        return source


TABLE = TableKind()
