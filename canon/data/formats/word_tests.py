"""Tests of word vectors: pairs of words with a human judgement of their likeness, and analogies a : b = c : d.

A file of pairs has `word word number` a line, parted by tabs, commas or spaces; # begins a comment, and the first line
may be a header. A file of analogies (questions-words, CA8) has `: section` lines and four words a line under each.
The metrics that use them are in canon/metrics/vectors.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from pathlib import Path

import numpy as np

from canon.data import catalogue
from canon.data.formats.files import ending, read_text
from canon.data.formats.files import lines as file_lines
from canon.data.paths import missing_path
from canon.errors import CanonError

Question = tuple[str, str, str, str]
Pair = tuple[str, str, float]

SET = "word-vector-tests"
NAMES = tuple(file.split for file in catalogue.CATALOGUE[SET].files)
PEEK = 50  # lines looked at to tell a test from a text
_FORM = "a test of word vectors has two words and a number a line, or `: section` lines and four words a line"


@dataclass(frozen=True)
class Tests:
    """Tests by name, as a column: it goes with all rows of a split, however they are taken."""

    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    analogies: dict[str, dict[str, list[Question]]] = field(default_factory=dict)  # by section

    def __len__(self) -> int:
        """Pairs and questions in all."""
        questions = (len(part) for sections in self.analogies.values() for part in sections.values())
        return sum(map(len, self.pairs.values())) + sum(questions)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.pairs, *self.analogies)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(object)

    def take(self, indices: np.ndarray) -> Tests:
        return self


def read_tests(sources: Sequence[str]) -> Tests:
    """The tests that data.tests names: sets of the catalogue or files."""
    pairs: dict[str, list[Pair]] = {}
    analogies: dict[str, dict[str, list[Question]]] = {}
    for name, path in find_tests(sources).items():
        form = form_of(path)
        if form is Form.ANALOGIES:
            analogies[name] = read_analogies(path)
        elif form is Form.PAIRS:
            pairs[name] = read_pairs(path)
        else:
            raise CanonError(f"data.tests: {path} is no test; {_FORM}.")
    return Tests(pairs, analogies)


def find_tests(sources: Sequence[str]) -> dict[str, Path]:
    """The file of each test by the test's name."""
    found: dict[str, Path] = {}
    for source in sources:
        name, path = _locate(source)
        if name in found:
            raise CanonError(f'data.tests: two tests are named "{name}"; rename a file.')
        found[name] = path
    return found


def _locate(source: str) -> tuple[str, Path]:
    """The test's name and its file. A name has no slash, since it names a metric: CA8-semantic."""
    if source in NAMES:
        record = catalogue.find(SET)
        folder = catalogue.require(SET)
        file = next(file for file in record.files if file.split == source)
        path = catalogue.find_file(folder, file)
        assert path is not None
        catalogue.verify(path, file)
        return source.replace("/", "-"), path
    path = Path(source).expanduser()
    if not path.is_file():
        if path.is_dir():
            raise CanonError(f"data.tests: {path} is a folder; name its files.")
        missing = str(missing_path(path, named=False)).removesuffix(".")
        raise CanonError(f"data.tests: {missing[0].lower()}{missing[1:]} (named ones are {', '.join(NAMES)}).")
    stem = path.name
    while Path(stem).suffix:
        stem = Path(stem).stem
    return stem, path


class Form(Enum):
    PAIRS = auto()
    ANALOGIES = auto()


def form_of(path: Path) -> Form | None:
    """None if most of the file's first lines are neither; one that is wrong is for the reader."""
    if ending(path) == ".parquet":
        return None
    first = [line.strip() for line in islice(file_lines(path), PEEK)]
    first = [line for line in first if line and not line.startswith("#")]
    if len(first) > 1 and first[0].startswith(":") and len(first[1].split()) == 4:
        return Form.ANALOGIES
    return Form.PAIRS if 2 * sum(_pair(line) is not None for line in first) > len(first) else None


def read_analogies(path: Path) -> dict[str, list[Question]]:
    """A questions-words file: `: section` lines, then four words a line."""
    sections: dict[str, list[Question]] = {}
    current: list[Question] | None = None
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.startswith(":"):
            current = sections.setdefault(line[1:].strip(), [])
        elif line.strip():
            words = line.split()
            if len(words) != 4 or current is None:
                wrong = "no section line above it" if current is None else f"{len(words)} words instead of 4"
                raise CanonError(f"{path}, line {number}: the question has {wrong}.")
            current.append((words[0], words[1], words[2], words[3]))
    return sections


def read_pairs(path: Path, delimiter: str = "") -> list[Pair]:
    """A similarity file: word, word, number a line; where no delimiter is given, it and a header are looked for."""
    pairs: list[Pair] = []
    header = not delimiter  # whether the line may be one
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        pair = _pair(line, delimiter)
        if pair is None and not header:
            raise CanonError(f"{path}, line {number}: expected two words and a number, got {line.strip()!r}.")
        pairs += [pair] if pair is not None else []
        header = False
    if not pairs:
        raise CanonError(f"{path} has no pairs; expected two words and a number a line.")
    return pairs


def _pair(line: str, delimiter: str = "") -> Pair | None:
    parting = delimiter or next((mark for mark in "\t,;" if mark in line), None)
    fields = [cell.strip() for cell in line.split(parting)]
    try:
        first, second, judgement = fields
        value = float(judgement)
    except ValueError:
        return None
    return (first, second, value) if first and second and np.isfinite(value) else None
