"""Rows of CSV and TSV files as Python's csv reads them, and cells of JSON lines: slow, but with lines of mistakes."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from canon.data.formats.files import ending, whole_lines
from canon.data.formats.names import LABELS, SEVERAL
from canon.errors import CanonError, unknown

# In columns of numbers, in upper or lower case: nothing, what databases and spreadsheets write, what people write.
MISSING = frozenset(
    (
        *("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "nat", "null", "(null)", "\\n", "none", "nil"),
        *("#value!", "#ref!", "#div/0!", "#num!"),
        *("missing", "unknown", "undefined", "not available", "?", "-", "--", "---", "–", "—", ".", ".."),
    )
)
SEPARATOR = ";"  # of several labels that a list had
_SIGN = r"(?:[$€£¥₹₩]|(?:us|a|c|hk|nz)\$|%|‰|usd|eur|gbp|cny|rmb|jpy|chf)"


def _amount(groups: str, point: str) -> re.Pattern[str]:
    """A sign of money or per cent before or after a number, groups of three digits of which the first does not begin
    with 0, brackets for a debt."""
    spaces = r"'’ \u00a0\u202f"
    return re.compile(
        rf"(?P<debt>\()?\s*(?P<minus>[-−+])?\s*{_SIGN}?\s*(?P<inner>[-−+])?\s*"
        rf"(?P<whole>[1-9]\d{{0,2}}(?:(?P<group>[{groups}{spaces}])\d{{3}})(?:(?P=group)\d{{3}})*|\d*)"
        rf"(?:{point}(?P<rest>\d+))?\s*{_SIGN}?\s*\)?",
        re.I,
    )


_UNIT = re.compile(r"[-−+]?\d[\d.,]*\s*(?P<unit>[^\d\s.,;:()+\-−/][^\d\s]{0,9})")
_FEWEST_MEASURED = 20  # different cells of a column with a unit; fewer may be names, such as 2WD and 4WD
_AMOUNT, _WITH_COMMA = _amount(",", r"\."), _amount(".", ",")


def delimiter_of(path: Path, delimiter: str) -> str:
    """data.delimiter, in which \\t may be written for a tab; else by the file's ending."""
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) > 1 or delimiter in ("\n", "\r", '"', "\0"):
        raise CanonError(f"data.delimiter must be one character, not a quote or a line end, got {delimiter!r}.")
    return delimiter or ("\t" if ending(path) in (".tsv", ".tab") else ",")


def csv_rows(path: Path, encoding: str, delimiter: str, skip: int = 0) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each row, header included, blank lines left out; spaces separate in runs.
    skip: lines before the table."""
    lines = islice(whole_lines(path, encoding), skip, None)
    if delimiter == " ":
        numbered = enumerate(lines, start=skip + 1)
        yield from ((number, line.split()) for number, line in numbered if line.strip())
        return
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    csv.field_size_limit(sys.maxsize)
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    line = skip + 1
    try:
        for cells in rows:
            if cells:
                yield line, cells
            line = skip + rows.line_num + 1
    except csv.Error as mistake:
        raise CanonError(f"{path}, line {line}: {mistake} (a quote that is not closed?).") from None


def ragged(path: Path, line: int, cells: Sequence[str], names: Sequence[str]) -> CanonError:
    have, want = counted(len(cells), "cell"), counted(len(names), "column")
    quoted = len(cells) > len(names) and ending(path) not in (".tsv", ".tab")
    more = " A cell that holds the separator must be between double quotes." if quoted else ""
    return CanonError(f"{path}, line {line}: {have}, but there {'is' if len(names) == 1 else 'are'} {want}.{more}")


def header_of(path: Path, cells: list[str], delimiter: str) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    if len(names) == 1:
        for other in ";\t,|":
            if other != delimiter and other in names[0]:
                raise CanonError(
                    f'{path} has one column, "{names[0]}"; if {other!r} is between its columns, set data.delimiter.'
                )
    return names_of(cells)


def names_of(cells: Sequence[str]) -> tuple[str, ...]:
    """The names in a header line, each once; a column without one is called as pandas calls it."""
    names: dict[str, None] = {}
    for index, cell in enumerate(cells):
        name = plain = cell.strip() or f"unnamed: {index}"
        again = 0
        while name in names:
            again += 1
            name = f"{plain}.{again}"
        names[name] = None
    return tuple(names)


def naming_note(path: Path, cells: Sequence[str], names: Sequence[str]) -> str:
    """A note on columns whose name in the header line is missing, or another's; "" for none."""
    given = [name for cell, name in zip(cells, names, strict=True) if cell.strip() != name]
    return f"{path.name}: columns without a name of their own are called {listed(given)}." if given else ""


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])}, … ({len(names)} in all)"


def unknown_in(setting: str, what: str, name: str, known: Iterable[str], path: Path | str = "") -> CanonError:
    """The error for a setting that gives a name which is not known, of the file at `path` where that is given."""
    sentence = str(unknown(what, name, known))
    sentence = sentence.replace(f'"{name}"', f'"{name}" in {path}', 1) if path else sentence
    return CanonError(f"{setting}: {sentence[0].lower()}{sentence[1:]}")


def json_cell(path: Path | str, line: int, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list | dict):
        raise json_mistake(path, line, name, value)
    return json.dumps(value)


def has_labels(name: str, label: str = "") -> bool:
    """Whether the lists of a column are labels: it is the one asked for, or its name says so."""
    return name == label or name.strip().lower() in (*LABELS, *SEVERAL)


def labels_cell(value: Any) -> Any:
    """A list of labels as one cell, as in "a;b"; any other value as it is."""
    if not (isinstance(value, list) and all(isinstance(part, str | int) for part in value)):
        return value
    parts = [str(part) for part in value]
    return value if any(SEPARATOR in part for part in parts) else SEPARATOR.join(parts)


def json_mistake(path: Path | str, line: int, name: str, value: list | dict) -> CanonError:
    what = "a list" if isinstance(value, list) else "an object"
    turns = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    write = "; write a dialogue as one text" if turns else ""
    return CanonError(f'{path}, line {line}: "{name}" is {what}; a cell is text, a number, true, false or null{write}.')


def parse_number(text: str) -> float | None:
    """The number a cell holds, NaN if it is missing, None if it is something else."""
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return np.nan if text.strip().lower() in MISSING else None


def parse_amount(text: str, comma: bool = False) -> float | None:
    """The number of an amount ("$1,234.50", "12 %", "1 234", "(30)"), None if it is something else.

    comma: whether a comma is the decimal point; then points may separate groups of three digits.
    """
    match = (_WITH_COMMA if comma else _AMOUNT).fullmatch(text.strip())
    if match is None or not (match["whole"] or match["rest"]):
        return None
    number = float(f"{re.sub(r'[^0-9]', '', match['whole'])}.{match['rest'] or 0}")
    is_negative = match["debt"] or (match["minus"] or match["inner"] or "+") in "-−"
    return -number if is_negative else number


def unit_of(texts: Sequence[str]) -> str:
    """The unit after nearly all numbers of a column ("1248 CC", "89.5平米"); "" where there is none."""
    measured = [text.strip() for text in texts if parse_amount(text) is None and parse_amount(text, True) is None]
    units = Counter(match["unit"] for text in measured if (match := _UNIT.fullmatch(text)))
    unit, count = units.most_common(1)[0] if units else ("", 0)
    return unit if 10 * count >= 9 * len(texts) and len(set(measured)) >= _FEWEST_MEASURED else ""


def has_decimal_comma(texts: Iterable[str]) -> bool | None:
    """Whether amounts are written with a decimal comma: all can be, and one cannot be anything else; None where all
    can be either ("1,234")."""
    with_comma = [text for text in texts if "," in text]
    if not with_comma or any(parse_amount(text, comma=True) is None for text in with_comma):
        return False
    return None if all(parse_amount(text) is not None for text in with_comma) else True
