"""Parallel text: sentences and what they become, in two files side by side or in two columns of a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from canon.config import settings
from canon.data import catalogue
from canon.data.catalogue import Dataset
from canon.data.checking.measure import distinct
from canon.data.checking.pair_counts import count_pairs
from canon.data.checking.report import CheckReport
from canon.data.columns import is_text, may_be_label
from canon.data.formats import pairs
from canon.data.formats.names import TEXT_LABELS, TRANSLATED
from canon.data.formats.tables import Table
from canon.data.kinds.base import Kind, holds_tables, peeked, records_of, table_parts
from canon.data.paths import find_path, named_set
from canon.data.settings import Columns, layout
from canon.data.source import Source, TableSource
from canon.errors import CanonError

FEWEST = 20  # different targets; fewer, which come five times each, are classes


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
        return f"{path.name} is a table, which can have a text and its translation"

    def is_chosen(self, config: Any) -> bool:
        """Not for a table whose columns are numbers or dates, unless they are named as source and target."""
        if named_set(config.source) is not None or not holds_tables(path := find_path(config.source), config):
            return True
        try:
            table = peeked(path, config)
            columns = pairs.choose_columns(path, table.names, require_texts(table, config))
        except CanonError:
            return False
        named = tuple(name.strip().lower() for name in columns) in TRANSLATED
        return named or all(is_text(table, name) for name in columns)

    def examine(self, config: Any, home: Source | None) -> Source:
        """Of a table, whether it has two texts; they are not read, which take room."""
        if not isinstance(home, TableSource):
            return super().examine(config, home)
        require_texts(home.parts["train"], config)
        return replace(home, kind=self)

    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        if path.is_dir() and (config.languages or pairs.pair_languages(path)):
            return self._from_two(path, config.languages, config.encoding)
        files, notes = table_parts(path, config)
        columns = require_texts(peeked(path, config), config)
        how = columns, config.encoding, config.delimiter
        parts = {split: pairs.read_pair_table(file, *how) for split, file in files.items()}
        return _source(path.name, parts, records_of(files), tuple(notes))

    def _from_two(self, folder: Path, languages: tuple[str, ...], encoding: str) -> Source:
        if len(languages) not in (0, 2):
            raise CanonError(f"data.languages must name two, from and to; got {len(languages)}.")
        notes: tuple[str, ...] = ()
        if not languages and len(there := pairs.pair_languages(folder)) == 2:
            languages = first, second = tuple(sorted(there, key=lambda name: (name != "en", name)))
            turned = f'data.languages = ["{second}", "{first}"]'
            notes = (f"{folder.name}: from {first} to {second}; {turned} turns it round.",)
        both = pairs.pair_files(folder, *languages)
        parts = {split: pairs.read_pair_files(*files, encoding) for split, files in both.items()}
        records = records_of({str(file): file for files in both.values() for file in files})
        return _source(folder.name, parts, records, notes)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> Source:
        languages = config.languages or record.languages
        source = self._from_two(catalogue.require(record.name), languages, config.encoding)
        return replace(source, tokenizers=record.tokenizers, origin={"languages": list(languages)})

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        count_pairs(report, config, source)


def require_texts(table: Table, config: Any) -> tuple[str, ...]:
    """The columns of source and target, where they are not simply the table's two. Refuses a table that has a label in
    place of a text, unless data.features asks for just these columns."""
    features = config.features or _two_texts(table)
    chosen = pairs.choose_columns(table.path, table.names, features)
    if features or tuple(name.strip().lower() for name in chosen) in TRANSLATED:
        return features
    for name in chosen:
        different = distinct(table.digests(name))
        named = table.header and name.strip().lower() in TEXT_LABELS  # else the name was guessed
        if named or (different < FEWEST and different * 5 <= len(table)):
            raise CanonError(
                f'{table.path}: the column "{name}" is a label, not a text; name two columns in data.features to learn '
                "one from the other."
            )
    return ()


def _two_texts(table: Table) -> tuple[str, ...]:
    """The two texts of a table beside which there is nothing but numbers of the rows or what is always the same."""
    texts = tuple(name for name in table.names if is_text(table, name))
    rest = [name for name in table.names if name not in texts]
    alone = rest and len(texts) == 2 and not any(may_be_label(table, name) for name in rest)
    return texts if alone else ()


def _source(name: str, parts: dict[str, pairs.Read], files: tuple, notes: tuple[str, ...] = ()) -> Source:
    more = tuple(note for _, part_notes in parts.values() for note in part_notes)
    return Source(name, {split: read for split, (read, _) in parts.items()}, files, (*notes, *more))


PARALLEL = ParallelKind()
