"""Table files (CSV, TSV, JSON lines, Parquet; the text ones also compressed) to columns of cells.

pyarrow reads CSV quickly, block by block; whenever it refuses a file, Python's csv reads it again, slowly, to name the
line that is wrong. It reads tables of few rows and many columns, too, whose columns cost pyarrow more than their cells.
A cell stays text until it is asked for as a number, since a label "01" is a name. Tab-separated files know no quotes
(as IANA's text/tab-separated-values says); in all others a cell may be quoted and hold line ends.
A large table is held once, as text: what is made of a column is made block by block, and again when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from canon.data.checking import measure
from canon.data.formats import json_lines, parquet
from canon.data.formats.arrow_csv import arrow_columns
from canon.data.formats.cells import (
    MISSING,
    csv_rows,
    has_decimal_comma,
    has_labels,
    header_of,
    json_cell,
    json_mistake,
    labels_cell,
    naming_note,
    parse_amount,
    parse_number,
    ragged,
    unit_of,
    unknown_in,
)
from canon.data.formats.feature_lines import holds_numbers, read_columns
from canon.data.formats.files import ending, whole_lines
from canon.data.formats.layout import TABLES, layout_of
from canon.data.settings import Columns
from canon.errors import CanonError

JSON_ENDINGS = json_lines.ENDINGS
ENDINGS = (*TABLES, ".parquet", *JSON_ENDINGS)
SMALL = 1 << 22  # cells of a table whose columns are kept once they were made numbers
FEW = 1 << 14  # cells that Python parses sooner than pyarrow.compute is imported
BLOCK = 1 << 16  # cells that are looked at at a time
MANY_COLUMNS, FEW_ROWS = 1000, 200  # a table of more columns and fewer rows is read by Python
_PEEK = 1000  # cells looked at for their length
# What Arrow reads as a number, and what Python may read as one (or take for missing).
_PLAIN = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
_MISSING = "|".join(re.escape(text) for text in sorted(MISSING))
_ODD = rf"^(?i:{_MISSING}|[-+]?(nan|inf|infinity)|[-+.\p{{Nd}}][-+.e\p{{Nd}}]*)$"


class NumberFacts(NamedTuple):
    """How many cells of a column are not numbers, are missing or infinite, and the first row of each."""

    bad: int
    missing: int
    infinite: int
    first_bad: int
    first_missing: int
    first_infinite: int

    @classmethod
    def of(cls, values: np.ndarray, bad: np.ndarray) -> NumberFacts:
        masks = bad, np.isnan(values) & ~bad, np.isinf(values)
        return cls(*(int(np.count_nonzero(mask)) for mask in masks), *(int(mask.argmax()) for mask in masks))


class Table:
    """Columns of cells by name. `rows` are counted from 0; `line(row)` says where in the file that is."""

    def __init__(
        self,
        path: Path | str,
        cells: dict[str, Any],
        config: Columns | None = None,
        header: bool = True,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.path, self.names, self.notes = path, tuple(cells), notes  # notes: what was decided while reading
        self._cells, self._config, self.header = cells, config, header  # header: whether a line names the columns
        self._numbers: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._digests: dict[str, np.ndarray] = {}
        self._facts: dict[str, NumberFacts] = {}
        self._lengths: dict[str, float] = {}
        self._lines: dict[int, int] = {}
        self.commas: dict[str, bool] = {}  # columns of amounts, and whether a comma is their decimal point
        self.units: dict[str, str] = {}  # what is after the numbers of these columns, often ""
        self._small = len(self) * len(self.names) <= SMALL
        self._few = len(self) * len(self.names) <= FEW
        self._rows: np.ndarray | None = None  # of the file, where this table has some of its rows

    def __len__(self) -> int:
        return len(next(iter(self._cells.values()), ()))

    def __contains__(self, name: str) -> bool:
        return name in self._cells

    # Text

    def texts(self, name: str) -> np.ndarray:
        """The column as texts [N], "" where nothing is."""
        cells = self._cells[name]
        if isinstance(cells, np.ndarray):
            return cells if cells.dtype == object else np.array([canonical(value) for value in cells.tolist()], object)
        return self._arrow_texts(name).to_numpy(zero_copy_only=False)

    def blocks(self, name: str) -> Iterator[tuple[list[str], np.ndarray]]:
        """The column as texts, block by block: the different texts of a block, and which of them each cell is."""
        cells = self._cells[name]
        if not isinstance(cells, np.ndarray):
            for chunk in self._arrow_texts(name).chunks:
                for start in range(0, len(chunk), BLOCK):
                    block = chunk[start : start + BLOCK].dictionary_encode()
                    yield block.dictionary.to_pylist(), block.indices.to_numpy()
            return
        texts = self.texts(name)
        for start in range(0, len(texts), BLOCK):
            places: dict[str, int] = {}
            codes = [places.setdefault(text, len(places)) for text in texts[start : start + BLOCK].tolist()]
            yield list(places), np.array(codes, dtype=np.int32)

    def stream(self, name: str, rows: np.ndarray) -> Iterator[str]:
        """The texts at some rows, which rise."""
        cells, start = self._cells[name], 0
        whole = self._few or isinstance(cells, np.ndarray)
        for chunk in [self.texts(name)] if whole else self._arrow_texts(name).chunks:
            low, high = np.searchsorted(rows, (start, start + len(chunk)))
            for first in range(low, high, BLOCK):
                yield from chunk.take(rows[first : min(first + BLOCK, high)] - start).tolist()
            start += len(chunk)

    def factor(self, name: str) -> tuple[list[str], np.ndarray]:
        """The different texts of a column, and which of them each cell is, int64 [N]."""
        places: dict[str, int] = {}
        parts = [np.empty(0, dtype=np.int64)]
        for texts, codes in self.blocks(name):
            parts.append(np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int64)[codes])
        return list(places), np.concatenate(parts)

    def text(self, name: str, row: int) -> str:
        """One cell."""
        return next(self.stream(name, np.array([row])))

    def mean_length(self, name: str) -> float:
        """Characters of a cell, by the first ones."""
        if name not in self._lengths:
            some = self.stream(name, np.arange(min(_PEEK, len(self))))
            self._lengths[name] = float(np.mean([len(text) for text in some]))
        return self._lengths[name]

    def digests(self, name: str) -> np.ndarray:
        """A digest of each cell's text, uint64 [N] (measure.py)."""
        if name not in self._digests:
            parts, hashed = [np.empty(0, dtype=np.uint64)], 0
            for texts, codes in self.blocks(name):
                parts.append(measure.digests(texts)[codes])
                hashed += len(texts)
            if not self._small and 4 * hashed < len(self):  # quickly made again
                return np.concatenate(parts)
            self._digests[name] = np.concatenate(parts)
        return self._digests[name]

    def count_blank(self, name: str) -> int:
        """How many cells hold nothing but white space."""
        blank = ((np.array([not text.strip() for text in texts]), codes) for texts, codes in self.blocks(name))
        return sum(int(np.count_nonzero(is_blank[codes])) for is_blank, codes in blank)

    def _arrow_texts(self, name: str) -> Any:
        import pyarrow as pa

        cells = self._cells[name]
        try:
            texts = cells if pa.types.is_string(cells.type) else cells.cast(pa.string())
        except pa.ArrowException:
            raise CanonError(f'{self.path}: column "{name}" has type {cells.type}; use numbers or text.') from None
        return texts.fill_null("") if texts.null_count else texts

    # Numbers

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The column as float64 [N], NaN where a cell is missing, and a mask of the cells that are not numbers."""
        if name not in self._numbers:
            cells = self._cells[name]
            if not isinstance(cells, np.ndarray) and self._few:
                values, bad = _plain_numbers(self.texts(name).tolist())
            elif not isinstance(cells, np.ndarray):
                parts = [(np.empty(0), np.empty(0, dtype=bool)), *map(_arrow_numbers, self._arrow_texts(name).chunks)]
                values, bad = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            elif cells.dtype == object:
                values, bad = _plain_numbers(cells.tolist())
            else:
                values, bad = cells.astype(np.float64), np.zeros(len(cells), dtype=bool)
            parsed = self._with_amounts(name, values, bad) if bad.any() or self.commas.get(name) else (values, bad)
            self._facts[name] = NumberFacts.of(*parsed)
            if not self._small:
                return parsed
            self._numbers[name] = parsed
        return self._numbers[name]

    def _with_amounts(self, name: str, values: np.ndarray, bad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and amounts, where half of the first cells that are no plain numbers are amounts. With a decimal
        comma, a plain number may be an amount too ("1.234")."""
        first = list(self.stream(name, np.flatnonzero(bad)[:_PEEK]))
        unit = self.units[name] if name in self.units else unit_of(first)
        first = [text.strip().removesuffix(unit) for text in first]
        comma = self.commas[name] if name in self.commas else has_decimal_comma(first)
        comma = self._has_decimal_comma() if comma is None else comma
        if 2 * sum(parse_amount(text, comma) is not None for text in first) < len(first):
            return values, bad
        self.commas[name], self.units[name] = comma, unit
        rows = np.arange(len(values)) if comma else np.flatnonzero(bad)
        amounts = [parse_amount(text.strip().removesuffix(unit), comma) for text in self.stream(name, rows)]
        rows = rows[[amount is not None for amount in amounts]]
        values, bad = values.copy(), bad.copy()
        values[rows], bad[rows] = [amount for amount in amounts if amount is not None], False
        return values, bad

    def _has_decimal_comma(self) -> bool:
        """Whether some column can only be numbers with a decimal comma, by its first cells."""
        some = np.arange(min(_PEEK, len(self)))
        return any(self.commas.values()) or any(has_decimal_comma(self.stream(name, some)) for name in self.names)

    def facts(self, name: str) -> NumberFacts:
        """What the column is as numbers."""
        if name not in self._facts:
            self.numbers(name)
        return self._facts[name]

    def line(self, row: int) -> str:
        """Where row `row` is: "line 48" of a text file, "row 47" (from 1) of any other. Reads the file again."""
        row = row if self._rows is None else int(self._rows[row])
        path = Path(self.path)
        if self._config is None or ending(path) == ".parquet" or json_lines.is_whole(path, self._config.encoding):
            return f"row {row + 1}"
        if row not in self._lines:
            self._lines[row] = next(islice(self._numbered(path, self._config), row, None))
        return f"line {self._lines[row]}"

    def _numbered(self, path: Path, config: Columns) -> Iterator[int]:
        if ending(path) in JSON_ENDINGS:
            lines = enumerate(whole_lines(path, config.encoding), start=1)
            return (number for number, line in lines if line.strip())
        layout = layout_of(path, config.encoding, config.delimiter, table=True)
        rows = csv_rows(path, config.encoding, config.delimiter, layout.skip if layout else 0)
        return (number for number, _ in islice(rows, int(self.header), None))

    def mistake(self, row: int, text: str) -> CanonError:
        return CanonError(f"{self.path}, {self.line(row)}: {text}")

    def require(self, name: str, setting: str) -> str:
        """The column of a name, or of a number from 1."""
        if name in self:
            return name
        if name.isdecimal() and 0 < int(name) <= len(self.names):
            return self.names[int(name) - 1]
        raise unknown_in(setting, "column", name, self.names, self.path)

    def take(self, rows: np.ndarray) -> Table:
        """Some of the rows, which know their lines in the file."""
        chosen = (cells[rows] if isinstance(cells, np.ndarray) else cells.take(rows) for cells in self._cells.values())
        cells = dict(zip(self.names, chosen, strict=True))
        table = Table(self.path, cells, self._config, self.header, self.notes)
        table._rows = rows if self._rows is None else self._rows[rows]
        return table

    def unlabelled(self, name: str) -> np.ndarray:
        """Which cells of a label's column hold nothing, or in a column of numbers what stands for a missing one [N].
        Among two classes or more a dash is none, as where annotators disagreed, unless a plus is one too."""
        if not self.facts(name).bad:
            return np.isnan(self.numbers(name)[0])
        texts, codes = self.factor(name)
        classes = {text.strip() for text in texts} - {"", "-"}
        nothing = ("", "-") if len(classes) > 1 and "+" not in classes else ("",)
        return np.array([text.strip() in nothing for text in texts], dtype=bool)[codes]

    def renamed(self, column: str, names: Mapping[str, str]) -> Table:
        """With other names for the values of a column."""
        texts, codes = self.factor(column)
        values = np.array([names.get(canonical(text), text) for text in texts], dtype=object)[codes]
        table = Table(self.path, {**self._cells, column: values}, self._config, self.header, self.notes)
        table._rows = self._rows
        return table


def _plain_numbers(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    parsed = [parse_number(text) for text in texts]
    bad = np.array([value is None for value in parsed], dtype=bool)
    return np.array([np.nan if value is None else value for value in parsed], dtype=np.float64), bad


def _arrow_numbers(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """`_plain_numbers` of Arrow's array; the few cells that Arrow reads otherwise than Python are left to Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False), np.zeros(len(texts), dtype=bool)
    except pa.ArrowInvalid:  # not all of them are numbers
        pass
    texts = pc.utf8_trim_whitespace(texts)
    plain = pc.match_substring_regex(texts, _PLAIN)
    try:
        numbers = pc.cast(pc.if_else(plain, texts, pa.scalar(None, pa.string())), pa.float64())
    except pa.ArrowInvalid:
        return _plain_numbers(texts.to_pylist())
    values, bad = numbers.to_numpy(zero_copy_only=False).copy(), ~plain.to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(bad & pc.match_substring_regex(texts, _ODD).to_numpy(zero_copy_only=False))
    values[odd], bad[odd] = _plain_numbers(texts.take(pa.array(odd)).to_pylist())
    return values, bad


def canonical(value: float | str) -> str:
    """One name for one number: 1, 1.0 and 01 are all "1"."""
    if isinstance(value, str):
        number = parse_number(value)
        return value if number is None or not np.isfinite(number) else canonical(number)
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def is_table(path: Path, config: Any) -> bool:
    """Whether a file is a table, by its ending or by its first lines."""
    if ending(path) in ENDINGS:
        return True
    layout = layout_of(path, config.encoding, config.delimiter)
    return (layout is not None and len(layout.names) > 1) or has_feature_lines(path, config)


def has_feature_lines(path: Path, config: Any) -> bool:
    """Whether a file has the columns of a table as numbered features: 1 1:0.5 2:0.25."""
    try:
        return config.format in ("auto", "table") and holds_numbers(path, config.encoding)
    except CanonError:  # not text
        return False


def read_table(path: Path, config: Columns, names: Sequence[str] = (), like: Sequence[str] = ()) -> Table:
    """The table in a file; `names` are its columns where it has no header line, and `like` those of other data of the
    same sort, for a file that has no header line and as many columns."""
    kind = ending(path)
    if kind == ".parquet":
        return _read_parquet(path, config)
    if kind not in ENDINGS and has_feature_lines(path, config):
        note = f"{path.name} has numbered features; those that a line lacks are 0."
        return Table(path, dict(read_columns(path, config.encoding, like)), notes=(note,))
    if kind in JSON_ENDINGS:
        return _read_jsonl(path, config)
    return _read_csv(path, config, tuple(names), like)


# CSV and TSV


def _read_csv(path: Path, config: Columns, names: tuple[str, ...], like: Sequence[str]) -> Table:
    layout = layout_of(path, config.encoding, config.delimiter, table=True)
    assert layout is not None
    layout, delimiter = layout.named(like), layout.delimiter
    notes = () if names else layout.notes(path, config.delimiter)
    names = names or (layout.names if layout.bare else ())
    config = replace(config, delimiter=delimiter)
    rows = csv_rows(path, config.encoding, delimiter, layout.skip)
    first = next(rows, None)
    if first is None:
        raise CanonError(f"{path} is empty.")
    line, cells = first
    header = names or header_of(path, cells, delimiter)
    notes = notes if names else tuple(filter(None, (*notes, naming_note(path, cells, header))))
    body = chain([first], rows) if names else rows
    skip = layout.skip if names else line + sum(cell.count("\n") for cell in cells)
    peeked = list(islice(body, FEW_ROWS)) if len(header) > MANY_COLUMNS else []
    columns = None
    if not 0 < len(peeked) < FEW_ROWS:
        columns = arrow_columns(path, config.encoding, delimiter, header, skip)
    columns = columns or _slow_columns(path, chain(peeked, body), header)
    table = Table(path, columns, config, not names, notes)
    if not len(table):
        raise CanonError(f"{path} has a header but no rows.")
    return table


def _slow_columns(path: Path, rows: Iterator[tuple[int, list[str]]], header: tuple[str, ...]) -> dict[str, Any]:
    columns: list[list[str]] = [[] for _ in header]
    for line, cells in rows:
        if len(cells) != len(header):
            raise ragged(path, line, cells, header)
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    return {name: np.array(column, dtype=object) for name, column in zip(header, columns, strict=True)}


def _read_jsonl(path: Path, config: Columns) -> Table:
    """Fields of objects inside objects are columns, as in meta.lang; lists are left out unless they are labels."""
    columns: dict[str, list[str]] = {}
    lists: dict[str, CanonError] = {}
    count = 0
    for number, row in json_lines.flattened(path, config.encoding):
        for name, value in row.items():
            value = labels_cell(value) if has_labels(name, config.label) else value
            if isinstance(value, list):
                lists.setdefault(name, json_mistake(path, number, name, value))
                continue
            column = columns.setdefault(name, [])
            column.extend([""] * (count - len(column)))  # rows before this one that did not have the name
            column.append(json_cell(path, number, name, value))
        count += 1
    if not count:
        raise CanonError(f"{path} is empty.")
    if not columns and not lists:
        raise CanonError(f"{path} has no columns: every object is empty.")
    for name, mistake in lists.items():
        if name in (*columns, config.label, *config.features) or not columns:
            raise mistake
    notes = tuple(f'{path.name}: the column "{name}" has lists and is left out.' for name in lists)
    arrays = {name: np.array(column + [""] * (count - len(column)), dtype=object) for name, column in columns.items()}
    return Table(path, arrays, config, notes=notes)


def _read_parquet(path: Path, config: Columns) -> Table:
    cells, notes = parquet.columns(path, (config.label, *config.features))
    return Table(path, cells, config, notes=notes)
