"""Queries with candidates: the documents of each query, their features, and grades that say how relevant they are.

Read from LETOR's and LightGBM's files (canon/data/formats/letor.py) and from tables with a column that names the query
of each document (qid, query_id …; data.query names another), in any order. A folder has the parts train, vali and test;
folders Fold1, Fold2 … with these; or S1 … S5, of which fold k trains on three, validates on the next and tests on the
one after (Qin and Liu 2013, LETOR 4.0). Several Parquet files of which none is named as a part is are one table. An
example is a query, so that no split cuts one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from canon.config import settings
from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.columns import PEEK, number_targets, texts_of
from canon.data.formats.cells import MISSING
from canon.data.formats.files import ending
from canon.data.formats.images import visible
from canon.data.formats.letor import QueryRows, grouped, is_beside, is_letor, joined, read_letor
from canon.data.formats.parquet import load_parquet
from canon.data.formats.tables import Table, is_table, read_table
from canon.data.kinds.base import Kind, holds_tables, once, peeked, records_of
from canon.data.kinds.parts import files_in, leading_file, parts_of
from canon.data.settings import Columns, Folds, Name, layout
from canon.data.source import Source, split_of
from canon.errors import CanonError

EXAMPLE = "2 qid:10 1:0.03 2:0.5"
_QUERY = ("qid", "query_id", "queryid", "srch_id", "search_id", "查询编号", "查询id")
_DOCUMENT = ("docid", "doc_id", "document", "document_id", "documentid", "doc", "文档", "文档编号", "文档id")
_GRADE = ("relevance", "grade", "rel", "label", "target", "y", "相关性", "相关度")
_FOLDER, _PIECE = re.compile(r"fold[-_ ]?(\d+)", re.IGNORECASE), re.compile(r"S([1-5])\.\w+(\.\w+)?")
HIGHEST_GRADE = 30  # that LightGBM ranks by
_PIECES = 5
_MISTAKEN = 0.05  # of a column of numbers: a larger share of other cells makes it a column of something else
_TRAINED = 3  # pieces that a fold trains on


@settings
class QuerySettings(Columns, Folds):
    query: Name = layout("", "column that names the query of a document; default: qid, query_id, srch_id or search_id")


@dataclass(frozen=True)
class QuerySource(Source):
    """Parts are `QueryRows`."""


class QueryKind(Kind):
    name = "queries"
    singular = "a set of queries with documents"
    plural = "queries with documents"
    plural_zh = "查询及其候选文档"
    settings = QuerySettings
    formats = ("letor",)
    certain = True

    def sniff(self, path: Path, config: Any) -> str:
        """By the file that a folder is recognised by; where none is named as a part is, any will do. A table is of
        this kind by the names of its columns, unless it has a text to be read."""
        if path.is_dir() and (folds := _folds(path)):
            return self.sniff(folds[min(folds)], config)
        if path.is_dir() and (shards := _shards(path)):
            return self.sniff(shards[0], config)
        files = files_in(path)
        named = any(map(split_of, files))
        leading = leading_file(path)
        held = any(is_letor(file, config.encoding) for file in files if file == leading or not named)
        if held:
            return f"{path.name} has lines such as {EXAMPLE}"
        try:
            if config.positive or not holds_tables(path, config):
                return ""
            if not config.query and texts_of(_first_rows(path, config), config.label):
                return ""
            return self.sniff_table(path, config)
        except CanonError:  # opening the table raises it again
            return ""

    def is_table(self, path: Path, config: Any) -> bool:
        return holds_tables(path, config)

    def sniff_table(self, path: Path, config: Any) -> str:
        if path.is_dir() and (shards := _shards(path)):
            return self.sniff_table(shards[0], config)
        if not holds_tables(path, config):
            return ""
        table = _first_rows(path, config)
        if config.query:
            return f'data.query names the column of queries, "{config.query}"'
        name = _named(table, _QUERY)
        if not name or not _grades(table, config):
            return ""
        return f'{path.name} has a column "{name}" of queries' if _numbers(table, config, name) else ""

    def read(self, path: Path, config: Any, like: Source | None = None) -> QuerySource:
        if path.is_dir() and (folds := _folds(path)):
            number = config.fold if config.fold is not None else min(folds)
            if number not in folds:
                listed = ", ".join(map(str, sorted(folds)))
                raise CanonError(f"{path} has no folder for data.fold = {number}; its folds: {listed}.")
            source = self.read(folds[number], replace(config, fold=None), like)
            note = f"{folds[number].name} is read; data.fold chooses another."
            return replace(source, notes=(note, *source.notes), origin={**source.origin, "fold": number})
        if path.is_dir() and len(pieces := _pieces(path)) == _PIECES:
            read = {number: _read(file, config) for number, file in pieces.items()}
            rows = [read[number][0] for number in sorted(pieces)]
            notes = once({pieces[number]: notes_of_file for number, (_, notes_of_file) in read.items()})
            files = {str(number): file for number, file in pieces.items()}
            return _fold(path.name, rows, config.fold or 1, files, notes)
        if path.is_dir() and (shards := _shards(path)):
            whole, notes = _read_shards(path, shards, config)
            files = {str(place): file for place, file in enumerate(shards)}
            return QuerySource(path.name, {"train": whole}, records_of(files), notes)
        parts = parts_of(path, lambda file: _is_read(file, config), "files of queries", config.fold, is_beside)
        opened = {split: _read(file, config) for split, file in parts.files.items()}
        notes = once({parts.files[split]: notes_of_file for split, (_, notes_of_file) in opened.items()})
        rows_of = {split: rows for split, (rows, _) in opened.items()}
        return QuerySource(path.name, rows_of, records_of(parts.files), (*parts.notes, *notes))

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> QuerySource:
        opened = {split: _read(file, config) for split, file in files.items()}
        parts = {split: rows for split, (rows, _) in opened.items()}
        if record.cuts:
            bounds = [0, *record.cuts, np.inf]
            train = parts["train"]
            lines_of = train.places[train.offsets[:-1]]
            piece = [
                train.take(np.flatnonzero((lines_of > low) & (lines_of <= high))) for low, high in pairwise(bounds)
            ]
            return _fold(record.name, [*piece, parts["valid"], parts["test"]], config.fold or 1, files, ())
        return QuerySource(record.name, parts, records_of(files))

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        report.kind = self.plural
        for name, rows in source.parts.items():
            report.splits[name] = len(rows)
            sizes = np.sort(rows.sizes)
            middle, least, most = int(sizes[len(sizes) // 2]), int(sizes[0]), int(sizes[-1])
            report.notes.append(
                f"{name}: {int(sizes.sum()):,} documents, {least} to {most} of a query (median {middle}), "
                f"{rows.values.shape[1]} features."
            )
            if rows.grades is not None:
                grades, counts = np.unique(rows.grades, return_counts=True)
                pairs = zip(grades.tolist(), counts.tolist(), strict=True)
                report.classes[name] = {f"grade {grade:g}": count for grade, count in pairs}
                if not rows.ordered.any() and name == "train":
                    report.warn(unordered(rows))
                if grades[-1] > HIGHEST_GRADE or (grades % 1).any():
                    strange = grades[-1] if grades[-1] > HIGHEST_GRADE else grades[grades % 1 > 0][0]
                    report.notes.append(
                        f"{name}: lambdamart takes whole grades from 0 to {HIGHEST_GRADE}, not {strange:g}; the other "
                        "rankers take it."
                    )


QUERIES = QueryKind()


def unordered(rows: QueryRows) -> str:
    return f"{rows.path}: no query has documents of different grades, so there is no order to learn."


def _first_rows(path: Path, config: Any) -> Table:
    """Of the table by which a path is recognised."""
    file = leading_file(path)
    if file is None or ending(file) != ".parquet":
        return peeked(path, config)
    pa, parquet = load_parquet(file)
    try:
        batch = next(parquet.ParquetFile(file).iter_batches(PEEK), None)
    except (pa.ArrowException, OSError):  # reading it says so
        batch = None
    table = pa.table({}) if batch is None else pa.Table.from_batches([batch])
    return Table(file, dict(zip(table.column_names, table.columns, strict=True)))


def _fold(
    name: str, pieces: Sequence[QueryRows], fold: int, files: dict[str, Path], notes: tuple[str, ...]
) -> QuerySource:
    """Fold k of five pieces: k, k + 1 and k + 2 to train on, the next to choose by, the one after to test."""
    if not 1 <= fold <= _PIECES:
        raise CanonError(f"{name} has no data.fold = {fold}; its folds: 1 to {_PIECES}.")
    turned = [pieces[(fold - 1 + place) % _PIECES] for place in range(_PIECES)]
    parts = {"train": joined(turned[:_TRAINED], name), "valid": turned[_TRAINED], "test": turned[_TRAINED + 1]}
    note = f"Fold {fold} of {_PIECES}; data.fold chooses another."
    return QuerySource(name, parts, records_of(files), (note, *notes), origin={"fold": fold})


def _folds(path: Path) -> dict[int, Path]:
    """The folders of folds."""
    folders = ((item, _FOLDER.fullmatch(item.name)) for item in visible(path) if item.is_dir())
    return {int(match[1]): item for item, match in folders if match}


def _pieces(path: Path) -> dict[int, Path]:
    """The files S1 … S5."""
    files = ((item, _PIECE.fullmatch(item.name)) for item in visible(path) if item.is_file())
    return {int(match[1]): item for item, match in files if match}


def _shards(path: Path) -> list[Path]:
    """The Parquet files of a folder, or of the folders in it, that hold one table: none is named as a part is."""
    items = visible(path)
    folders = items if all(item.is_dir() and not split_of(item) for item in items) else [path]
    files = [file for folder in folders for file in files_in(folder)]
    whole = len(files) > 1 and all(ending(file) == ".parquet" and not split_of(file) for file in files)
    return sorted(files) if whole else []


def _read_shards(path: Path, shards: Sequence[Path], config: Any) -> tuple[QueryRows, tuple[str, ...]]:
    """All of them as one, a query's documents brought together whichever file they are in."""
    read = {file: _rows_of(read_table(file, config), config) for file in shards}
    first, *others = (rows for rows, *_ in read.values())
    for rows in others:
        if rows.features != first.features:
            raise CanonError(f"{rows.path} has other columns of numbers than {first.path}; give all the same.")
    rows, together = joined([first, *others], str(path)), ""
    if len(set(rows.queries.tolist())) < len(rows):
        names = np.repeat(rows.queries, rows.sizes).tolist()
        rows, together = grouped(
            str(path), rows.values, rows.grades, names, rows.documents, rows.features, rows.places, "row"
        )
    notes = once({file: own for file, (_, own, _) in read.items()})
    apart = [note for note in (together, *(note for *_, note in read.values())) if note][:1]
    return rows, (f"{path.name}: {len(shards)} Parquet files are read as one.", *notes, *apart)


def _is_read(file: Path, config: Any) -> bool:
    return is_letor(file, config.encoding) or (config.format == "auto" and is_table(file, config))


def _read(file: Path, config: Any) -> tuple[QueryRows, tuple[str, ...]]:
    if config.format in QUERIES.formats or is_letor(file, config.encoding) or not is_table(file, config):
        return read_letor(file, config.encoding)
    return rows_of_table(read_table(file, config), config)


def rows_of_table(table: Table, config: Any, features: Sequence[str] = ()) -> tuple[QueryRows, tuple[str, ...]]:
    """Queries of a table, and notes; `features` are those of a run that predicts, which needs no grades."""
    rows, notes, apart = _rows_of(table, config, features)
    return rows, (*notes, *filter(None, [apart]))


def _rows_of(table: Table, config: Any, features: Sequence[str] = ()) -> tuple[QueryRows, tuple[str, ...], str]:
    """The same, and apart from the other notes whether documents of a query are apart."""
    path = str(table.path)
    query = table.require(config.query, "data.query") if config.query else _named(table, _QUERY)
    if not query:
        raise CanonError(
            f"{path} has no column that names the query of a document (qid, query_id …); set data.query to one of "
            f"{', '.join(table.names)}."
        )
    label = "" if features and config.label and config.label not in table else _grades(table, config)
    if not label and not features:
        raise CanonError(f"{path} has no column of grades (relevance, grade, label …); set data.label to one.")
    names = list(features) or [table.require(name, "data.features") for name in config.features]
    notes = [*table.notes]
    if not names:
        names = _numbers(table, config, query)
        others = [name for name in table.names if name not in (*names, query, label, _named(table, _DOCUMENT))]
        notes += [f"{Path(path).name}: no numbers, so no features: {', '.join(others)}."] if others else []
    if missing := [name for name in names if name not in table]:
        raise CanonError(f'{path} has no column "{missing[0]}", which is a feature.')
    if not names:
        raise CanonError(f"{path} has no column of numbers that could be a feature of a document.")
    values = np.stack([number_features(table, name) for name in names], axis=1)
    document = _named(table, _DOCUMENT)
    documents = table.texts(document) if document else np.full(len(table), "", dtype=object)
    grades = _graded(table, label) if label and not (features and table.unlabelled(label).any()) else None
    where = np.arange(1, len(table) + 1)
    rows, apart = grouped(path, values, grades, table.texts(query).tolist(), documents, tuple(names), where, "row")
    return rows, tuple(notes), apart


def number_features(table: Table, name: str) -> np.ndarray:
    """A column of numbers as float32 [N]."""
    values, bad = table.numbers(name)
    wrong = bad | ~np.isfinite(values)
    if wrong.any():
        row = int(wrong.argmax())
        is_text = table.text(name, row).strip().lower() not in MISSING
        what = f'must be a number, got "{table.text(name, row)[:40]}"' if is_text else "is missing"
        raise table.mistake(
            row, f'the feature "{name}" {what}; give every document a number, or choose others by data.features.'
        )
    return values.astype(np.float32)


def _graded(table: Table, label: str) -> np.ndarray:
    grades = number_targets(table, label)
    if (grades < 0).any():
        row = int((grades < 0).argmax())
        raise table.mistake(row, f'the label (column "{label}") must be a grade from 0 on, got "{grades[row]:g}".')
    return grades


def _named(table: Table, known: Sequence[str]) -> str:
    """The first of the known names that a column has; "" for none."""
    plain = {name.strip().lower().replace("-", "_"): name for name in reversed(table.names)}
    return next((plain[name] for name in known if name in plain), "")


def _grades(table: Table, config: Any) -> str:
    if config.label:
        return table.require(config.label, "data.label")
    return _named(table, _GRADE)


def _numbers(table: Table, config: Any, query: str) -> list[str]:
    """The columns of numbers beside the query, the grade and the document; a few other cells in one are mistakes, and
    reading it names the first."""
    other = {query, _grades(table, config), _named(table, _DOCUMENT)}
    return [name for name in table.names if name not in other and table.facts(name).bad <= _MISTAKEN * len(table)]
