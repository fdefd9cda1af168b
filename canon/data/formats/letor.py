"""Queries and their documents as svmlight has them: `2 qid:10 1:0.03 2:0.5 # docid = GX1`, a document a line.

A label (a grade, 0 or more), the query, numbered features (those that are left out are 0) and a comment, of which the
document's name is kept: what follows `docid =` as in LETOR, else all of it. Documents of a query need not be together.
LightGBM's files have no qid: FILE.query or FILE.group has the number of documents of each query, one a line. Of its
FILE.weight and FILE.position, a number or name of each document, only the length is checked; a note says so.
canon/kernels/cpu/letor.py reads lines as long as they are as they should be; whatever it does not know is read here
again, which says what is wrong and where.
Shapes: n queries, N documents, F features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from canon.data.batching.sequences import offsets_of, places_of
from canon.data.formats.files import COMPRESSIONS, lines, utf8
from canon.data.formats.layout import first_lines
from canon.errors import CanonError
from canon.kernels import enabled

SIDES = (".query", ".group")
_UNUSED = (".weight", ".position")
_LOOKED = 50  # lines
_SPARSE = re.compile(r"[-+]?[\d.]+(?P<query>\s+qid:\S+)?(\s+\d+:[-+.\deE]+)+\s*(#.*)?")
_DOCUMENT = re.compile(rb"doc(?:ument)?_?id\s*[=:]\s*(\S+)", re.IGNORECASE)
_MOST_NUMBERS = 1 << 33  # of the matrix of all documents' features
_PART = 1 << 24  # bytes of a file read at once
_LARGE = 1 << 20  # bytes from which on the compiled reader pays


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Documents query by query: those of query i are the rows offsets[i] … offsets[i + 1] − 1."""

    path: str
    values: np.ndarray  # float32 [N, F]
    grades: np.ndarray | None  # float32 [N]
    offsets: np.ndarray  # int64 [n + 1]
    queries: np.ndarray  # object [n]: names
    documents: np.ndarray  # object [N]: names; "" where there is none
    features: tuple[str, ...]
    places: np.ndarray  # int64 [N]: the line or row of each document
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def ordered(self) -> np.ndarray:
        """[n] whether a query has documents of different grades."""
        assert self.grades is not None
        starts = self.offsets[:-1]
        return np.asarray(np.maximum.reduceat(self.grades, starts) > np.minimum.reduceat(self.grades, starts))

    def where(self, document: int) -> str:
        return f"{self.unit} {self.places[document]}"

    def take(self, queries: np.ndarray) -> QueryRows:
        rows, sizes = places_of(self.offsets, queries)
        return replace(
            self,
            values=self.values[rows],
            grades=None if self.grades is None else self.grades[rows],
            offsets=offsets_of(sizes),
            queries=self.queries[queries],
            documents=self.documents[rows],
            places=self.places[rows],
        )


def joined(parts: Sequence[QueryRows], path: str) -> QueryRows:
    """The queries of several parts, in their order."""
    assert parts, "there is nothing to join"
    return replace(
        parts[0],
        path=path,
        values=np.concatenate([part.values for part in parts]),
        grades=np.concatenate([part.grades for part in parts if part.grades is not None]) if _graded(parts) else None,
        offsets=offsets_of(np.concatenate([part.sizes for part in parts])),
        queries=np.concatenate([part.queries for part in parts]),
        documents=np.concatenate([part.documents for part in parts]),
        places=np.concatenate([part.places for part in parts]),
    )


def _graded(parts: Sequence[QueryRows]) -> bool:
    return all(part.grades is not None for part in parts)


def grouped(
    path: str,
    values: np.ndarray,
    grades: np.ndarray | None,
    names: Sequence[str],
    documents: np.ndarray,
    features: tuple[str, ...],
    places: np.ndarray,
    unit: str,
) -> tuple[QueryRows, str]:
    """Documents in any order brought together by query, queries in the order they begin; and a note if they were
    apart. names: the query of each document."""
    codes_by_name: dict[str, int] = {}
    codes = np.array([codes_by_name.setdefault(name, len(codes_by_name)) for name in names], dtype=np.int64)
    sizes = np.bincount(codes, minlength=len(codes_by_name))
    note = ""
    if (np.diff(codes) < 0).any():
        back = int(np.flatnonzero(np.diff(codes) < 0)[0]) + 1
        note = (
            f"{Path(path).name}: documents of a query are apart (query {names[back]} goes on in {unit} "
            f"{places[back]}); they were brought together."
        )
        order = np.argsort(codes, kind="stable")
        values, documents, places = values[order], documents[order], places[order]
        grades = None if grades is None else grades[order]
    queries = np.array(list(codes_by_name), dtype=object)
    return QueryRows(path, values, grades, offsets_of(sizes), queries, documents, features, places, unit), note


def side_file(path: Path) -> Path | None:
    """The file with the sizes of the queries that lies beside LightGBM's."""
    return _beside(path, *SIDES)


def is_beside(path: Path) -> bool:
    """Whether a file belongs to another, by its ending and the other's name."""
    stem = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    of = stem.with_suffix("")
    return stem.suffix in (*SIDES, *_UNUSED) and any(Path(f"{of}{packed}").is_file() for packed in ("", *COMPRESSIONS))


def _beside(path: Path, *endings: str) -> Path | None:
    stem = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    beside = (Path(f"{stem}{side}{packed}") for side in endings for packed in ("", *COMPRESSIONS))
    return next((file for file in beside if file.is_file()), None)


def is_letor(path: Path, encoding: str = "") -> bool:
    """Whether a file has documents of queries, by most of its first lines and the file beside it: a wrong line is a
    mistake to be named, and no reason to take the file for something else."""
    try:
        peeked = [line.strip() for line in first_lines(path, encoding)[:_LOOKED]]
    except CanonError:  # not text
        return False
    filled = [line for line in peeked if line and not line.startswith("#")]
    matches = [match for line in filled if (match := _SPARSE.fullmatch(line))]
    asked = sum(bool(match["query"]) for match in matches)
    return 2 * (len(matches) if side_file(path) is not None else asked) > len(filled)


def read_letor(path: Path, encoding: str = "") -> tuple[QueryRows, tuple[str, ...]]:
    """A file of documents, and notes."""
    parts = [_read_part(text, path, first) for first, text in _parts(path, encoding)]
    if not sum(len(part.labels) for part in parts):
        raise CanonError(f"{path} has no documents; a line is 2 qid:10 1:0.03 2:0.5.")
    columns = np.concatenate([part.columns for part in parts])
    numbers = np.concatenate([part.numbers for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    places = np.concatenate([part.places for part in parts])
    first, width = _width(columns, len(counts), path)
    values = np.zeros((len(counts), width), dtype=np.float32)
    values[np.repeat(np.arange(len(counts)), counts), columns - first] = numbers
    names = [name for part in parts for name in part.queries]
    documents = np.array([name for part in parts for name in part.documents], dtype=object)
    grades = np.concatenate([part.labels for part in parts])
    features = tuple(str(number) for number in range(first, first + width))
    side, notes = side_file(path), []
    if side is not None and not any(names):
        names = _by_sizes(side, len(counts))
        notes.append(f"{side.name} says how many documents each query has.")
    for row, name in enumerate(names):
        if not name:
            raise CanonError(f"{path}, line {places[row]}: no qid; a line is 2 qid:10 1:0.03 2:0.5.")
    for ending in _UNUSED:
        if (unused := _beside(path, ending)) is not None:
            given = sum(1 for line in lines(unused) if line.strip())
            if given != len(counts):
                raise CanonError(f"{unused} has {given:,} lines, but the data has {len(counts):,} documents.")
            notes.append(f"{unused.name} is not used: every document counts alike, wherever it was shown.")
    rows, note = grouped(str(path), values, grades, names, documents, features, places, "line")
    return rows, (*notes, *filter(None, [note]))


class _Part(NamedTuple):
    """Some lines of a file; the features of all documents lie end to end."""

    labels: np.ndarray  # float32 [N]
    queries: list[str]
    counts: np.ndarray  # int64 [N]: features that each document names
    columns: np.ndarray  # int64
    numbers: np.ndarray  # float32
    documents: list[str]
    places: np.ndarray  # int64 [N]


def _parts(path: Path, encoding: str) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a file, some megabytes at a time, and the number of the first."""
    held: list[bytes] = []
    first, size = 1, 0
    for chunk in utf8(path, encoding):
        held.append(chunk)
        size += len(chunk)
        if size > _PART and (cut := chunk.rfind(b"\n")) >= 0:
            held[-1] = chunk[: cut + 1]
            yield first, b"".join(held)
            first += sum(piece.count(b"\n") for piece in held)
            held, size = [chunk[cut + 1 :]], len(chunk) - cut - 1
    yield first, b"".join(held)


def _read_part(text: bytes, path: Path, first: int) -> _Part:
    compiled = _compiled(text, first) if len(text) > _LARGE and find_spec("numba") and enabled() else None
    return _plain(text, path, first) if compiled is None else compiled


def _compiled(text: bytes, first: int) -> _Part | None:
    """The same by compiled loops; None where a line is not as it should be."""
    from canon.kernels.cpu.letor import read_lines

    most = text.count(b"\n") + 1
    labels, numbers = np.empty(most, dtype=np.float32), np.empty(text.count(b":"), dtype=np.float32)
    queries, comments = (np.empty((most, 2), dtype=np.int64) for _ in range(2))
    counts, places = (np.empty(most, dtype=np.int64) for _ in range(2))
    columns = np.empty(len(numbers), dtype=np.int64)
    raw = np.frombuffer(text, dtype=np.uint8)
    documents, features = read_lines(raw, labels, queries, counts, columns, numbers, comments, places)
    if documents < 0 or not np.isfinite(numbers[:features]).all():
        return None
    names = [text[start:stop].decode("utf-8", "replace") for start, stop in _ends(queries[:documents])]
    ids = [document_name(text, start, stop) if start < stop else "" for start, stop in _ends(comments[:documents])]
    return _Part(
        labels[:documents],
        names,
        counts[:documents],
        columns[:features],
        numbers[:features],
        ids,
        places[:documents] + (first - 1),
    )


def _plain(text: bytes, path: Path, first: int) -> _Part:
    labels, queries, counts, documents, places = [], [], [], [], []
    columns: list[int] = []
    numbers: list[float] = []
    for number, line in enumerate(text.split(b"\n"), start=first):
        head, _, comment = line.partition(b"#")
        cells = head.split()
        if not cells:
            continue
        labels.append(_grade(cells[0], path, number))
        start = 1
        named = len(cells) > 1 and cells[1].startswith(b"qid:")
        queries.append(cells[1][4:].decode("utf-8", "replace") if named else "")
        start += named
        pairs = [cell.split(b":") for cell in cells[start:]]
        try:
            indices = [int(index) for index, _ in pairs]
            numbers += [float(value) for _, value in pairs]
        except ValueError:
            _bad_feature(cells[start:], path, number)
        if len(set(indices)) < len(indices) or (indices and min(indices) < 0):
            _bad_feature(cells[start:], path, number)
        columns += indices
        counts.append(len(indices))
        documents.append(document_name(comment, 0, len(comment)) if comment else "")
        places.append(number)
    values = np.array(numbers, dtype=np.float64)
    if not np.isfinite(values).all():
        document = int(np.searchsorted(np.cumsum(counts), np.flatnonzero(~np.isfinite(values))[0], side="right"))
        raise CanonError(f"{path}, line {places[document]}: a feature is not a finite number; correct or leave it out.")
    return _Part(
        np.array(labels, dtype=np.float32),
        queries,
        np.array(counts, dtype=np.int64),
        np.array(columns, dtype=np.int64),
        values.astype(np.float32),
        documents,
        np.array(places, dtype=np.int64),
    )


def _ends(places_N2: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where each piece of a text begins and ends."""
    return zip(places_N2[:, 0].tolist(), places_N2[:, 1].tolist(), strict=True)


def document_name(text: bytes, start: int, stop: int) -> str:
    """Of a comment, from where to where in a text."""
    name = _DOCUMENT.search(text, start, stop)
    return (name[1] if name else text[start:stop].strip()).decode("utf-8", "replace")


def _grade(cell: bytes, path: Path, line: int) -> float:
    try:
        grade = float(cell)
    except ValueError:
        grade = float("nan")
    if not isfinite(grade) or grade < 0:
        shown = cell.decode("utf-8", "replace")[:40]
        raise CanonError(f'{path}, line {line}: the label "{shown}" is not a grade, which is a number from 0 on.')
    return grade


def _bad_feature(cells: list[bytes], path: Path, line: int) -> NoReturn:
    """The error on the first cell that is not number:value, or whose number comes again."""
    seen: set[int] = set()
    for cell in cells:
        index, colon, value = cell.partition(b":")
        shown = cell.decode("utf-8", "replace")[:40]
        try:
            whole = int(index)
            float(value)
        except ValueError:
            whole = -1
        if not colon or whole < 0:
            raise CanonError(f'{path}, line {line}: "{shown}" is not a feature; write number:value, as in 2:0.5.')
        if whole in seen:
            raise CanonError(f"{path}, line {line}: feature {whole} comes twice; give one value.")
        seen.add(whole)
    raise AssertionError(f"{path}, line {line} has no bad feature")


def _width(columns: np.ndarray, documents: int, path: Path) -> tuple[int, int]:
    """The number of the first feature, 0 or 1, and how many there are."""
    if not len(columns):
        raise CanonError(f"{path}: no document has a feature; a line is 2 qid:10 1:0.03 2:0.5.")
    first = min(int(columns.min()), 1)
    width = int(columns.max()) + 1 - first
    if width * documents > _MOST_NUMBERS:
        raise CanonError(
            f"{path}: {documents:,} documents with features up to number {width:,} are more than a ranker of dense "
            "features reads; number the features from 1 without gaps."
        )
    return first, width


def _by_sizes(side: Path, documents: int) -> list[str]:
    """A name for the query of each document, by the file with the sizes of the queries."""
    sizes: list[int] = []
    for number, line in enumerate(lines(side), start=1):
        if not line.strip():
            continue
        if not line.strip().isdigit() or int(line) < 1:
            raise CanonError(f'{side}, line {number}: "{line.strip()[:40]}" is not a number of documents.')
        sizes.append(int(line))
    if sum(sizes) != documents:
        ids = " (it seems to have the query of each document, not their number)" if len(sizes) == documents else ""
        raise CanonError(
            f"{side}: its {len(sizes):,} queries have {sum(sizes):,} documents in all, but the data has "
            f"{documents:,}{ids}; a line is how many documents the next query has."
        )
    return [str(number) for number, size in enumerate(sizes, start=1) for _ in range(size)]
