"""Lines of a label and numbered features: libFM and svmlight (`1 4:1 13:0.5`), and libffm with a field before each
(`1 0:4:1 3:13:0.5`).

A chunk of the file is checked by one regular expression and read by numpy's parser; where a chunk is wrong, the line
that is wrong is looked for. A line may end in a comment after #; empty lines are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from canon.data.formats.files import utf8, whole_lines
from canon.data.formats.layout import first_lines
from canon.errors import CanonError

_MOST_COLUMNS = 2000  # of a table of numbered features
LOOKED = 50  # lines by which a file is recognised
_NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PLAIN = re.compile(rb"(?:[ \t]*+(?:%b(?:[ \t]++\d+:%b)*+[ \t]*+)?\r?\n)*+" % (_NUMBER, _NUMBER))
_FIELDS = re.compile(rb"(?:[ \t]*+(?:%b(?:[ \t]++\d+:\d+:%b)*+[ \t]*+)?\r?\n)*+" % (_NUMBER, _NUMBER))
_COMMENT = re.compile(rb"#[^\n]*")
_BLANK = re.compile(rb"^[ \t\r]*\n", re.MULTILINE)
_LINE = re.compile(r"[-+]?[\d.]+([eE][-+]?\d+)?(?P<field>\s+\d+:\d+:[-+.\deE]+)?(\s+\d+:(\d+:)?[-+.\deE]+)*\s*(#.*)?")
_SPACES = bytes.maketrans(b":\t\r", b"   ")
_LARGEST = 2**53  # a feature's number is exact in float64 up to here


@dataclass(frozen=True)
class FeatureLines:
    """Rows of one file. Row r has the features [offsets[r], offsets[r + 1])."""

    path: Path
    encoding: str
    labels: np.ndarray  # float64 [N]
    features: np.ndarray  # int64, end to end
    values: np.ndarray  # float32, end to end
    offsets: np.ndarray  # int64 [N + 1]
    fields: np.ndarray | None = None  # int64, end to end: of libffm

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @cached_property
    def row_of(self) -> np.ndarray:
        """The row of each feature."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def by_place(self) -> np.ndarray | None:
        """The features as a table [N, fields] where place p of every row is field p: rows are equally long, all values
        are 1, and no feature is in two places. Else None."""
        lengths = self.lengths
        if not len(lengths) or lengths.min() != lengths.max() or not lengths[0] or (self.values != 1).any():
            return None
        table = self.features.reshape(len(self), -1)
        order = np.argsort(self.features, kind="stable")
        places = (np.arange(len(self.features)) % table.shape[1])[order]
        same = np.diff(self.features[order]) == 0
        return None if (np.diff(places)[same] != 0).any() else table

    def line(self, row: int) -> str:
        filled = (
            n for n, line in enumerate(whole_lines(self.path, self.encoding), 1) if line.partition("#")[0].strip()
        )
        return f"line {next(islice(filled, row, None))}"

    def mistake(self, row: int, text: str) -> CanonError:
        return CanonError(f"{self.path}, {self.line(row)}: {text}")


def holds_lines(path: Path, encoding: str) -> bool:
    """Whether the first lines of a file are labels with numbered features: most of them have a feature, or all are such
    lines and one has. A wrong line among them is a mistake to be named."""
    filled = [line.strip() for line in first_lines(path, encoding)[:LOOKED] if line.strip()]
    fitting = [line for line in filled if _LINE.fullmatch(line)]
    featured = sum(":" in line for line in fitting)
    return 2 * featured > len(filled) or (featured > 0 and len(fitting) == len(filled))


def holds_numbers(path: Path, encoding: str) -> bool:
    """Whether numbered features are the columns of a table, as LIBSVM's data sets are, rather than fields of which each
    line has some: their numbers are small, and most values are not 1."""
    if not holds_lines(path, encoding):
        return False
    pairs = [
        word.split(":") for line in first_lines(path, encoding)[:LOOKED] for word in line.partition("#")[0].split()
    ]
    known = [pair for pair in pairs if len(pair) == 2 and pair[0].isdecimal()]
    plain = len(known) + sum(len(pair) == 1 for pair in pairs) == len(pairs)
    ones = sum(value in ("1", "1.0", "0") for _, value in known)
    return plain and bool(known) and 2 * ones < len(known) and max(int(number) for number, _ in known) <= _MOST_COLUMNS


def read_columns(path: Path, encoding: str, names: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The label and a column for each number, 0 where a line lacks it; `names` are those of other data of the sort."""
    lines = read_lines(path, encoding)
    width = int(lines.features.max()) + 1
    dense = np.zeros((len(lines), width))
    dense[lines.row_of, lines.features] = lines.values
    first = int((lines.features > 0).all())  # numbers begin at 0 or 1
    columns = {"label": lines.labels, **{str(number): dense[:, number] for number in range(first, width)}}
    return {name: columns.get(name, np.zeros(len(lines))) for name in names or columns}


def read_lines(path: Path, encoding: str) -> FeatureLines:
    labels, features, values, fields, lengths = [], [], [], [], []
    parts: int | None = None  # of a feature: 2, or 3 with its field
    number = 1
    for chunk in _chunks(path, encoding):
        clean = _COMMENT.sub(b"", chunk) if b"#" in chunk else chunk
        if parts is None and (first := re.search(rb"\d+:\d+(:)?", clean)):
            parts = 3 if first[1] else 2
        if not (_FIELDS if parts == 3 else _PLAIN).fullmatch(clean):
            raise _mistake(path, clean, number, parts == 3)
        number += clean.count(b"\n")
        clean = _BLANK.sub(b"", clean)
        numbers = np.fromstring(clean.translate(_SPACES), dtype=np.float64, sep=" ")
        ends = np.flatnonzero(np.frombuffer(clean, np.uint8) == 10)
        colons = np.searchsorted(np.flatnonzero(np.frombuffer(clean, np.uint8) == 58), ends)
        counts = np.diff(colons, prepend=0) // ((parts or 2) - 1)
        starts = np.concatenate([[0], np.cumsum(1 + (parts or 2) * counts)])[:-1]
        labels.append(numbers[starts])
        rest = np.delete(numbers, starts).reshape(-1, parts or 2)
        features.append(rest[:, -2].astype(np.int64))
        with np.errstate(over="ignore"):  # what is too large is refused below
            values.append(rest[:, -1].astype(np.float32))
        if parts == 3:
            fields.append(rest[:, 0].astype(np.int64))
        lengths.append(counts)
    if not labels or not sum(map(len, labels)):
        raise CanonError(f"{path} is empty.")
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    every = np.concatenate(features)
    lines = FeatureLines(
        path, encoding, np.concatenate(labels), every, np.concatenate(values), offsets,
        np.concatenate(fields) if fields else None,
    )  # fmt: skip
    if not len(every):
        raise CanonError(f"{path}: no line has a feature; a line is label number:value …, as in 1 4:1 13:0.5.")
    if every.max() >= _LARGEST or not np.isfinite(lines.values).all():
        wrong = (every >= _LARGEST) | ~np.isfinite(lines.values)
        raise lines.mistake(int(lines.row_of[wrong.argmax()]), "a number is too large.")
    return lines


def _chunks(path: Path, encoding: str) -> Iterator[bytes]:
    """The file in whole lines, each chunk ending in a line end."""
    held = b""
    for chunk in utf8(path, encoding):
        whole, end, rest = (held + chunk).rpartition(b"\n")
        if end:
            yield whole + end
        held = rest
    if held.strip():
        yield held + b"\n"


def _mistake(path: Path, clean: bytes, number: int, with_fields: bool) -> CanonError:
    """The error for the first line of a chunk that is wrong; `number` is that of the chunk's first line."""
    pattern, example = (_FIELDS, "1 0:4:1 3:13:0.5") if with_fields else (_PLAIN, "1 4:1 13:0.5")
    lines = clean.split(b"\n")
    place = next(place for place, line in enumerate(lines) if not pattern.fullmatch(line + b"\n"))
    words = lines[place].decode("utf-8", "replace").split()
    part = rf"\d+:{'[0-9]+:' if with_fields else ''}{_NUMBER.decode()}"
    wrong = next((word for word in words[1:] if not re.fullmatch(part, word)), words[0])
    form = "field:number:value" if with_fields else "number:value"
    what = f'"{wrong[:40]}" is not {form}' if wrong is not words[0] else f'the label "{wrong[:40]}" is not a number'
    return CanonError(f"{path}, line {number + place}: {what}; a line is label {form} …, as in {example}.")
