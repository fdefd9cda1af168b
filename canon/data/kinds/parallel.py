"""Parallel text: sentences and what they become, in two files side by side or in two columns of a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from canon.config import settings
from canon.data import catalogue
from canon.data.catalogue import Dataset
from canon.data.checking.pair_counts import count_pairs
from canon.data.checking.report import CheckReport
from canon.data.columns import is_text
from canon.data.formats import pairs
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.kinds.base import Kind, files_of, records_of
from canon.data.settings import Columns, layout
from canon.data.source import Source, TableSource
from canon.errors import CanonError


@settings
class ParallelSettings(Columns):
    languages: tuple[str, ...] = layout((), "endings of two parallel files: from, to (en, de)")


class ParallelKind(Kind):
    """Parts are `Pairs`."""

    name = "pairs"
    singular = "a set of pairs of texts"
    plural = "pairs of texts"
    plural_zh = "成对文本"
    settings = ParallelSettings
    formats = ("pairs",)

    def sniff(self, path: Path, config: Any) -> str:
        languages = pairs.pair_languages(path) if path.is_dir() else ()
        return f"{path.name} has files in {', '.join(languages)} side by side" if languages else ""

    def sniff_table(self, path: Path, config: Any) -> str:
        return f"{path.name} is a table, which can have a text and what it becomes"

    def sniff_text(self, path: Path, config: Any) -> str:
        tabs = path.is_file() and pairs.has_tabs(path, config.encoding)
        return f"{path.name} has a tab in each of its first lines" if tabs else ""

    def examine(self, config: Any, home: Source | None) -> Source:
        """Of a table, whether it is two columns of text; the texts are not read, which take room."""
        if home is None:
            return super().examine(config, home)
        if isinstance(home, TableSource):
            train = home.parts["train"]
            if len(train.names) != 2 or not all(is_text(train, name) for name in train.names):
                raise CanonError(f"{home.name} is not two columns of text.")
        return replace(home, kind=self)

    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        if path.is_dir() and (config.languages or pairs.pair_languages(path)):
            return self._from_two(path, config.languages, config.encoding)
        files, notes = files_of(path, TABLES, "tables")
        parts = {split: pairs.read_pair_table(file, config.features, config.encoding) for split, file in files.items()}
        return _source(path.name, parts, records_of(files), tuple(notes))

    def _from_two(self, folder: Path, languages: tuple[str, ...], encoding: str) -> Source:
        if len(languages) not in (0, 2):
            raise CanonError(f"data.languages must name two, from and to; got {len(languages)}.")
        both = pairs.pair_files(folder, *languages)
        parts = {split: pairs.read_pair_files(*files, encoding) for split, files in both.items()}
        records = records_of({str(file): file for files in both.values() for file in files})
        return _source(folder.name, parts, records)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> Source:
        languages = config.languages or record.languages
        source = self._from_two(catalogue.require(record.name), languages, config.encoding)
        return replace(source, tokenizers=record.tokenizers, origin={"languages": list(languages)})

    def check(self, report: CheckReport, config: Any) -> Source:
        """Two files that do not fit together are a mistake that nothing can be counted after."""
        source = self.source(config)
        count_pairs(report, config, source)
        return source


def _source(name: str, parts: dict[str, pairs.Read], files: tuple, notes: tuple[str, ...] = ()) -> Source:
    more = tuple(note for _, own in parts.values() for note in own)
    return Source(name, {split: read for split, (read, _) in parts.items()}, files, (*notes, *more))


PARALLEL = ParallelKind()
