"""How a text table is laid out, by its first lines: what separates its columns, and whether a line names them.

Lines before the table are skipped: remarks after #, and what a spreadsheet says is between the columns (sep=;).
The delimiter is data.delimiter, else the one of the file's ending (comma, or tab for .tsv and .tab), else the first of
tab ; | and comma that cuts all lines into as many cells. A file with another ending (.txt, .data, none) is a table if
every line has a tab, or another delimiter cuts all lines alike and a column has numbers or classes.

The first line is data, not names, where it has numbers above columns of numbers, a class that comes again in its
column, or a sentence. Columns without names are called by what they hold (text, or sentence1 and sentence2; label, the
last column or the first that has classes; source and target), others by their number from 1.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from canon.data.checking.measure import words
from canon.data.formats.cells import counted, delimiter_of, listed, names_of, parse_number
from canon.data.formats.dates import form_of
from canon.data.formats.files import ending, lines
from canon.data.formats.names import COLA, KNOWN, is_language
from canon.errors import CanonError

TABLES = (".csv", ".tsv", ".tab")
_OTHERS = (".parquet", ".jsonl", ".ndjson", ".json", ".md", ".rst")  # never text tables
_SAID = {"\t": "tabs", ";": '";"', "|": '"|"', ",": "commas", " ": "spaces"}
_BETWEEN = ",;\t|"
_PEEK, _MOST = 500, 1 << 20  # lines and characters looked at
_REMARKS = 100  # lines before a table, at most
_TITLES = 20  # the same of its titles
_ALIKE = 0.9  # share of lines with as many tabs as most have
_FEWEST = 3  # lines of a table whose ending does not say that it is one
_LONG_NAME = 60  # characters; a longer cell is not the name of a column
_NAME_WORDS = 5
_MOST_CLASSES = 20  # different whole numbers; more are numbers, not classes
_WORDY = 3  # words a cell, on average, from which on a column is text
_LONGER = 3  # times as long as its name is a column of sentences, at least
_SAYS = re.compile("sep=(.)", re.IGNORECASE)  # as Excel reads and writes it
_WORD = re.compile(r"[^\W\d][\w.#-]{1,30}")


class TableLayout(NamedTuple):
    delimiter: str
    names: tuple[str, ...]  # of the columns, by the first line or by what they hold
    bare: bool = False  # whether no line names the columns
    sure: bool = True  # whether the first lines decide that, not a convention
    skip: int = 0  # lines before the table: remarks after #, and what separates the columns

    def notes(self, path: Path, delimiter: str) -> tuple[str, ...]:
        """What was decided about a file, where data.delimiter is `delimiter`."""
        notes = []
        if self.skip:
            notes.append(f"{path.name}: {counted(self.skip, 'line')} before the table skipped.")
        if self.delimiter != delimiter_of(path, delimiter):
            notes.append(f"{path.name}: the columns are separated by {_SAID[self.delimiter]}.")
        if self.bare:
            notes.append(f"{path.name} has no header line; its columns are called {listed(self.names)}.")
        return tuple(notes)

    def named(self, like: Sequence[str]) -> TableLayout:
        """With the names that another part of the same data has: a line that shares none of them may be data."""
        if len(like) != len(self.names) or set(like) == set(self.names):
            return self
        doubtful = not self.sure and not set(like) & set(self.names)
        return self._replace(names=tuple(like), bare=True) if self.bare or doubtful else self


def layout_of(path: Path, encoding: str = "utf-8", delimiter: str = "", table: bool = False) -> TableLayout | None:
    """None where the file is not a text table. table: it is one, whatever its ending."""
    if ending(path) in _OTHERS:
        return None
    try:
        peeked = first_lines(path, encoding)
    except CanonError:  # reading the file raises it again
        peeked = ()
    return _layout(path, peeked, delimiter, table)


@lru_cache(maxsize=64)
def _layout(path: Path, peeked: tuple[str, ...], delimiter: str, table: bool) -> TableLayout | None:
    if peeked and (said := _SAYS.fullmatch(peeked[0].strip(' "'))):
        layout = _by_lines(path, peeked[1:], delimiter or said[1], True)
        return layout and layout._replace(skip=layout.skip + 1)
    titles = _titles(peeked, delimiter_of(path, delimiter)) if table or ending(path) in TABLES else 0
    layout = _by_lines(path, peeked[titles:], delimiter, table)
    return layout and layout._replace(skip=layout.skip + titles)


def _titles(peeked: Sequence[str], delimiter: str) -> int:
    """How many lines before a table have a cell at most, whatever separates cells, as titles in an export have."""
    alone = [not any(mark in line.strip(_BETWEEN) for mark in _BETWEEN) for line in peeked[:_TITLES]]
    start = alone.index(False) if False in alone else 0
    for separator in dict.fromkeys((delimiter, *_BETWEEN)) if any(map(str.strip, peeked[:start])) else ():
        widths = [len(row) for line in peeked[start:] for row in _rows([line], separator)]
        width, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
        if width >= _FEWEST and widths[0] == width and count >= _ALIKE * len(widths):
            return start
    return 0


def _by_lines(path: Path, peeked: Sequence[str], delimiter: str, table: bool) -> TableLayout | None:
    """By the lines after remarks; one that has as many cells as the table is no remark but names or data."""
    remarks = next((place for place, line in enumerate(peeked[:_REMARKS]) if not line.startswith("#")), 0)
    layout, skip = _laid_out(path, peeked[remarks:], delimiter, table), remarks
    while skip and layout and len(_rows(peeked[skip - 1 : skip], layout.delimiter)[0]) == len(layout.names):
        skip -= 1
    if skip < remarks:
        layout = _laid_out(path, peeked[skip:], delimiter, table) or layout
    return layout and layout._replace(skip=skip)


def _laid_out(path: Path, peeked: Sequence[str], delimiter: str, table: bool) -> TableLayout | None:
    known = bool(delimiter) or ending(path) in TABLES
    usual = delimiter_of(path, delimiter)
    if not any(line.strip() for line in peeked):
        return TableLayout(usual, ()) if known or table else None
    rows = _rows(peeked, usual)
    if delimiter or (known and rows and len(rows[0]) > 1 and not _is_tabbed(rows, peeked)):
        return _described(usual, rows)
    for other in _SAID:
        if _fits(others := _rows(peeked, other), other, known):
            return _described(other, others)
    return _described(usual, rows) if known or table else None


def _is_tabbed(rows: Sequence[Sequence[str]], peeked: Sequence[str]) -> bool:
    """Whether what the ending says cuts the lines unequally, while each has equally many tabs, one or more."""
    tabs = {line.count("\t") for line in peeked if line}
    return len(set(map(len, rows))) > 1 and len(tabs) == 1 and tabs != {0}


def first_lines(path: Path, encoding: str = "utf-8") -> tuple[str, ...]:
    """Of a file, to recognise it by."""
    facts = path.stat()
    return _first_lines(path, encoding, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=64)
def _first_lines(path: Path, encoding: str, *stamp: int) -> tuple[str, ...]:
    taken: list[str] = []
    length = 0
    for line in islice(lines(path, encoding), _PEEK):
        taken += line.split("\r")  # which ends lines too
        length += len(line)
        if length > _MOST and len(taken) > 2:
            break
    return tuple(taken)


def _rows(peeked: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of the first lines; a row that may go on after them is left out."""
    if delimiter == " ":
        return [line.split() for line in peeked if line.strip()]
    csv.field_size_limit(sys.maxsize)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    parsed = csv.reader((line + "\n" for line in peeked), delimiter=delimiter, quoting=quoting)
    try:
        rows = [row for row in parsed if row]
    except csv.Error:  # reading the file raises it again, with its line
        return []
    return rows[:-1] if len(rows) > 2 and len(peeked) > 2 and _is_cut(peeked) else rows


def _is_cut(peeked: Sequence[str]) -> bool:
    return len(peeked) >= _PEEK - _REMARKS or sum(map(len, peeked)) > _MOST


def _fits(rows: Sequence[Sequence[str]], delimiter: str, table: bool) -> bool:
    """Whether a delimiter that the ending does not say is between the columns."""
    if not rows:
        return False
    widths = Counter(map(len, rows))
    width, alike = widths.most_common(1)[0]
    if width < 2:
        return False
    if delimiter == "\t" and not table:
        return len(rows) > 1 and min(widths) > 1 and alike >= _ALIKE * len(rows)
    if len(widths) > 1 or len(rows) < (1 if table else _FEWEST):
        return False
    columns = [_Column(cells) for cells in zip(*rows[1:], strict=True)] if len(rows) > 1 else []
    if delimiter == " ":  # words of a text are separated so, too
        numeric = sum(column.numeric for column in columns)
        return len(rows) >= _FEWEST and (2 * numeric >= width if width > 2 else numeric == width)
    return table or any(column.numeric or (column.repeats and not column.wordy) for column in columns)


class _Column:
    """What the cells of a column are, by some of them."""

    def __init__(self, cells: Sequence[str]) -> None:
        self.cells = [cell.strip() for cell in cells]
        self.filled = [cell for cell in self.cells if cell]
        self.numbers = [parse_number(cell) for cell in self.filled]
        self.different = len(set(self.filled))
        known = [value for value in self.numbers if value is not None and np.isfinite(value)]
        self.numeric = bool(known) and None not in self.numbers
        self.whole = self.numeric and all(value.is_integer() for value in known)
        self.repeats = len(self.filled) > 2 and 2 * self.different <= len(self.filled)

    @property
    def length(self) -> float:
        """Characters of a cell."""
        return sum(map(len, self.filled)) / max(len(self.filled), 1)

    @property
    def is_text(self) -> bool:
        """Several words a cell, or mostly different cells, but no dates."""
        if self.numeric or not any(letter.isalpha() for cell in self.filled for letter in cell):
            return False
        if form_of(self.filled):
            return False
        return self.wordy or self.different > max(len(self.filled) / 2, 2) or self.different == len(self.filled)

    @property
    def wordy(self) -> bool:
        return sum(len(words(cell)) for cell in self.filled) >= _WORDY * max(len(self.filled), 1)

    @property
    def is_classes(self) -> bool:
        if self.numeric:
            return self.whole and self.repeats and self.different <= _MOST_CLASSES
        return not self.is_text and not self.wordy and 1 < self.different < len(self.filled)


def _described(delimiter: str, rows: list[list[str]]) -> TableLayout:
    if not rows:
        return TableLayout(delimiter, ())
    first = [cell.strip() for cell in rows[0]]
    body = [row for row in rows[1:] if len(row) == len(first)]
    columns = [_Column(cells) for cells in zip(*body, strict=True)] if body else []
    header, sure = _has_header(first, columns, delimiter)
    if header:
        return TableLayout(delimiter, names_of(first), sure=sure)
    every = [row for row in rows if len(row) == len(first)]
    return TableLayout(delimiter, _called([_Column(cells) for cells in zip(*every, strict=True)], every), True, sure)


def _has_header(first: Sequence[str], columns: Sequence[_Column], delimiter: str) -> tuple[bool, bool]:
    """Whether the first line names the columns, and whether that is certain."""
    numbers = [parse_number(cell) for cell in first if cell]
    known = [value for value in numbers if value is not None and np.isfinite(value)]
    # Numbers that count up are names: years, or the 0, 1, 2 … of a data frame.
    counting = len(known) > 1 and all(b - a == 1 for a, b in pairwise(known))
    plain = [cell.lower() for cell in first]
    languages = len(set(plain)) > 1 and all(map(is_language, plain))
    alone = len(first) == 1 and len(words(first[0])) < _WORDY
    meant = languages or alone or 2 * sum(cell in KNOWN for cell in plain) >= len(plain)
    two_texts = delimiter == "\t" and len(first) == 2  # which more often have no names than some
    if not columns:
        return meant or not (two_texts or (known and 2 * len(known) >= len(first) and not counting)), meant
    both = list(zip(first, columns, strict=True))
    again = any(cell in column.filled for cell, column in both if column.repeats and not column.numeric)
    if again:
        return False, True
    filled = [cell for cell, column in both if column.numeric and cell]
    votes = sum(1 if parse_number(cell) is None else 0 if counting else -1 for cell in filled)
    if votes:
        return votes > 0, True
    if meant:
        return True, True
    named = any(first) and all(map(_may_be_name, filter(None, first)))  # pandas leaves the first out
    classes = [column for column in columns if column.repeats and not column.numeric]
    if classes and (named or len(classes) > 1):
        return True, True  # none of the classes comes again
    if len(columns) == 1 and columns[0].wordy:
        return False, True  # a sentence above sentences
    if not named or (counting and any(column.numeric for column in columns)):
        return counting, True
    # Words above sentences are names.
    above = (_WORD.fullmatch(cell) and column.length >= _LONGER * len(cell) for cell, column in both)
    lone = not any(all(map(_WORD.fullmatch, row)) for row in zip(*(column.cells for column in columns), strict=True))
    if lone and all(above):
        return True, True
    return not two_texts, False


def _may_be_name(cell: str) -> bool:
    short = 0 < len(cell) <= _LONG_NAME and len(words(cell)) <= _NAME_WORDS
    return short and not cell.endswith((".", "!", "?", "。", "！", "？"))


def _called(columns: Sequence[_Column], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Names for the columns of a table that has none."""
    if len(columns) == 4 and all(row[1] in ("0", "1") and len(row[2]) < 4 for row in rows) and columns[3].is_text:
        return COLA
    names = [str(number) for number in range(1, len(columns) + 1)]
    # Among many columns, cells of one word that are all different are ids rather than texts.
    many = len(columns) > 3
    texts = [place for place, column in enumerate(columns) if column.is_text and (column.wordy or not many)]
    rest = [place for place in range(len(columns)) if place not in texts]
    label = next((place for place in (len(columns) - 1, 0) if place in rest and columns[place].is_classes), None)
    last = columns[rest[-1]] if rest and (not texts or len(rest) == 1) else None
    if label is None and last is not None and last.different > 1 and not last.wordy:
        label = rest[-1]
    if label is not None and len(columns) > 1:
        names[label] = "label"
    if label is None and texts[:2] == [0, 1]:
        names[:2] = "source", "target"
    elif len(texts) in (1, 2):
        for place, name in zip(texts, ("text",) if len(texts) == 1 else ("sentence1", "sentence2"), strict=True):
            names[place] = name
    return tuple(names)
