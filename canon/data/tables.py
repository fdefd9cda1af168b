"""Table files (CSV, TSV, JSON lines, Parquet; the text ones also compressed) to columns of cells.

pyarrow reads CSV quickly; whenever it refuses a file, Python's csv reads it again, slowly, to name the line that is
wrong. A cell stays text until it is asked for as a number, since a label "01" is a name. Tab-separated files know no
quotes (as IANA's text/tab-separated-values says); in all others a cell may be quoted and hold line ends.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from canon.data.config import DataConfig
from canon.data.files import ending, read_bytes, read_text
from canon.errors import CanonError, unknown

JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
ENDINGS = (".csv", ".tsv", ".tab", ".parquet", *JSON_ENDINGS)
MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none")  # in columns of numbers, any case


class Table:
    """Columns of cells by name. `rows` are counted from 0; `line(row)` says where in the file that is."""

    def __init__(
        self, path: Path | str, cells: dict[str, Any], config: DataConfig | None = None, header: bool = True
    ) -> None:
        self.path, self.names = path, tuple(cells)
        self.num_rows = len(next(iter(cells.values()))) if cells else 0
        self._cells, self._config, self._header = cells, config, header
        self._numbers: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __len__(self) -> int:
        return self.num_rows

    def texts(self, name: str) -> np.ndarray:
        """The column as texts [N], "" where nothing is."""
        cells = self._cells[name]
        if isinstance(cells, np.ndarray):
            return cells if cells.dtype == object else np.array([canonical(value) for value in cells.tolist()], object)
        return self._arrow_texts(name).to_numpy(zero_copy_only=False)

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The column as float64 [N], NaN where a cell is missing, and a mask of the cells that are not numbers."""
        if name not in self._numbers:
            self._numbers[name] = self._parse_numbers(name)
        return self._numbers[name]

    def _parse_numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        cells = self._cells[name]
        if isinstance(cells, np.ndarray) and cells.dtype != object:
            return cells.astype(np.float64), np.zeros(len(cells), dtype=bool)
        if not isinstance(cells, np.ndarray):
            import pyarrow as pa
            import pyarrow.compute as pc

            texts = pc.utf8_trim_whitespace(self._arrow_texts(name))
            empty = pc.is_in(pc.utf8_lower(texts), value_set=pa.array(MISSING))
            try:
                values = pc.cast(pc.if_else(empty, pa.scalar(None, pa.string()), texts), pa.float64())
                return values.to_numpy(zero_copy_only=False), np.zeros(len(self), dtype=bool)
            except pa.ArrowInvalid:  # not all of them are numbers (or are written as only Python reads them)
                pass
        parsed = [parse_number(text) for text in self.texts(name)]
        bad = np.array([value is None for value in parsed], dtype=bool)
        return np.array([np.nan if value is None else value for value in parsed], dtype=np.float64), bad

    def _arrow_texts(self, name: str) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = self._cells[name]
        try:
            texts = cells if pa.types.is_string(cells.type) else pc.cast(cells, pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise CanonError(f'{self.path}: column "{name}" holds {cells.type}, not numbers or text.') from None
        return pc.fill_null(texts, "").combine_chunks()

    def line(self, row: int) -> str:
        """Where row `row` is: "line 48" of a text file, "row 47" (from 1) of any other. Reads the file again."""
        if self._config is None or ending(Path(self.path)) == ".parquet":
            return f"row {row + 1}"
        text = read_text(Path(self.path), self._config.encoding)
        if ending(Path(self.path)) in JSON_ENDINGS:
            return f"line {next(islice(_jsonl_lines(text), row, None))[0]}"
        rows = _csv_rows(Path(self.path), text, _delimiter(Path(self.path), self._config))
        return f"line {next(islice(rows, row + self._header, None))[0]}"

    def mistake(self, row: int, text: str) -> CanonError:
        return CanonError(f"{self.path}, {self.line(row)}: {text}")

    def require(self, name: str, setting: str) -> str:
        if name not in self.names:
            sentence = str(unknown("column", name, self.names)).replace(f'"{name}"', f'"{name}" in {self.path}', 1)
            raise CanonError(f"{setting}: {sentence[0].lower()}{sentence[1:]}")
        return name


def parse_number(text: str) -> float | None:
    """The number a cell holds, NaN if it is missing, None if it is something else."""
    stripped = text.strip()
    if stripped.lower() in MISSING:
        return np.nan
    try:
        return float(stripped) if "_" not in stripped else None
    except ValueError:
        return None


def canonical(value: float | str) -> str:
    """One name for one number: 1, 1.0 and 01 are all "1"."""
    if isinstance(value, str):
        number = parse_number(value)
        return value if number is None or not np.isfinite(number) else canonical(number)
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def read_table(path: Path, config: DataConfig, names: Sequence[str] = ()) -> Table:
    """The table in a file; `names` are its columns where it has no header line."""
    kind = ending(path)
    if kind == ".parquet":
        return _read_parquet(path, config)
    if kind in JSON_ENDINGS:
        return _read_jsonl(path, config)
    return _read_csv(path, config, tuple(names))


# CSV and TSV


def _delimiter(path: Path, config: DataConfig) -> str:
    if len(config.delimiter) > 1:
        raise CanonError(f"data.delimiter must be one character, got {config.delimiter!r}.")
    return config.delimiter or ("\t" if ending(path) in (".tsv", ".tab") else ",")


def _csv_rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each row, header included, blank lines left out."""
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    csv.field_size_limit(sys.maxsize)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=True)
    line = 1
    try:
        for cells in rows:
            if cells:
                yield line, cells
            line = rows.line_num + 1
    except csv.Error as mistake:
        raise CanonError(f"{path}, line {line}: {mistake} (a quote that is not closed?).") from None


def _read_csv(path: Path, config: DataConfig, names: tuple[str, ...]) -> Table:
    text, delimiter = read_text(path, config.encoding), _delimiter(path, config)
    first = next(_csv_rows(path, text, delimiter), None)
    if first is None:
        raise CanonError(f"{path} is empty.")
    line, cells = first
    header = names or _header(path, line, cells, delimiter)
    skip = 0 if names else line + sum(cell.count("\n") for cell in cells)
    columns = _arrow_columns(text, delimiter, header, skip) or _slow_columns(path, text, delimiter, header, not names)
    table = Table(path, columns, config, header=not names)
    if not len(table):
        raise CanonError(f"{path} has a header but no rows.")
    return table


def _header(path: Path, line: int, cells: list[str], delimiter: str) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    if len(names) == 1:
        for other in ";\t,|":
            if other != delimiter and other in names[0]:
                raise CanonError(f'{path} has one column, "{names[0]}"; if {other!r} parts them, set data.delimiter.')
    for index, name in enumerate(names):
        if not name:
            hint = "(pandas writes one unless told index=False)" if index == 0 else ""
            raise CanonError(
                f"{path}, line {line}: column {index + 1} has no name; name it or remove it {hint}".strip() + "."
            )
        if name in names[:index]:
            first = names.index(name) + 1
            raise CanonError(f'{path}, line {line}: columns {first} and {index + 1} are both named "{name}".')
    numbers = [value for value in map(parse_number, names) if value is not None and np.isfinite(value)]
    # A row of numbers is data, unless they count up (years, or the 0, 1, 2 … of a data frame).
    if len(numbers) * 2 >= len(names) and any(b - a != 1 for a, b in pairwise(numbers)):
        raise CanonError(
            f'{path}, line {line}: "{names[0]}" is not a column\'s name; the first line must name the columns.'
        )
    return names


def _arrow_columns(text: str, delimiter: str, header: tuple[str, ...], skip: int) -> dict[str, Any] | None:
    """The columns as pyarrow reads them, or None if it is not there or refuses the file."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow
    except ImportError:
        return None
    quoted = delimiter != "\t"
    if quoted and text.count('"') % 2:  # pyarrow closes an open quote without a word
        return None
    try:
        table = arrow.read_csv(
            pa.BufferReader(text.encode()),
            arrow.ReadOptions(column_names=header, skip_rows=skip),
            arrow.ParseOptions(delimiter=delimiter, quote_char='"' if quoted else False, newlines_in_values=quoted),
            arrow.ConvertOptions(column_types=dict.fromkeys(header, pa.string())),
        )
    except pa.ArrowInvalid:
        return None
    return dict(zip(header, table.columns, strict=True))


def _slow_columns(path: Path, text: str, delimiter: str, header: tuple[str, ...], skip: bool) -> dict[str, Any]:
    columns: list[list[str]] = [[] for _ in header]
    for line, cells in islice(_csv_rows(path, text, delimiter), int(skip), None):
        if len(cells) != len(header):
            have, want = _count(len(cells), "cell"), _count(len(header), "column")
            raise CanonError(f"{path}, line {line}: {have}, but there are {want}.")
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    return {name: np.array(column, dtype=object) for name, column in zip(header, columns, strict=True)}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


# JSON lines and Parquet


def _jsonl_lines(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _read_jsonl(path: Path, config: DataConfig) -> Table:
    columns: dict[str, list[str]] = {}
    count = 0
    for number, line in _jsonl_lines(read_text(path, config.encoding)):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as mistake:
            raise CanonError(
                f"{path}, line {number}: not JSON ({mistake.msg} at character {mistake.pos + 1})."
            ) from None
        if not isinstance(row, dict):
            raise CanonError(f'{path}, line {number}: each line must be an object, as {{"text": "…", "label": "…"}}.')
        for name, value in row.items():
            column = columns.setdefault(name, [])
            column.extend([""] * (count - len(column)))  # rows before this one that did not have the name
            column.append(_json_cell(path, number, name, value))
        count += 1
    if not count:
        raise CanonError(f"{path} is empty.")
    arrays = {name: np.array(column + [""] * (count - len(column)), dtype=object) for name, column in columns.items()}
    return Table(path, arrays, config)


def _json_cell(path: Path, line: int, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list | dict):
        held = "a list" if isinstance(value, list) else "an object"
        raise CanonError(f'{path}, line {line}: "{name}" holds {held}; a cell is text, a number, true, false or null.')
    return json.dumps(value)


def _read_parquet(path: Path, config: DataConfig) -> Table:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise CanonError(f"{path}: reading Parquet needs pyarrow; pip install 'deepcanon[tables]'.") from None
    try:
        table = parquet.read_table(pa.BufferReader(read_bytes(path)))
    except (pa.ArrowInvalid, OSError) as mistake:
        raise CanonError(f"{path} is not a whole Parquet file ({str(mistake).splitlines()[0].rstrip('.')}).") from None
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise CanonError(f'{path}: two columns are named "{name}".')
    if not table.num_rows:
        raise CanonError(f"{path} has columns but no rows.")
    return Table(path, dict(zip(table.column_names, table.columns, strict=True)), config)
