"""Tests of word vectors: pairs of words with a human judgement of their likeness, and analogies a : b = c : d.

A file of pairs has `word word number` a line, separated by tabs, commas or spaces; # begins a comment, and the first
line may be a header. A file of analogies (questions-words, CA8) has `: section` lines and four words a line under each.
The metrics that use them are in canon/metrics/vectors.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import ClassVar

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
PEEK = 50  # lines looked at to recognise a test
_FORM = "such a test has two words and a number a line, or `: section` lines and four words a line"


@dataclass(frozen=True)
class Tests:
    """Tests by name, as a column: it belongs to all rows of a split, however they are taken."""

    dtype: ClassVar[np.dtype] = np.dtype(object)

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

    def take(self, indices: np.ndarray) -> Tests:
        return self


def read_tests(sources: Sequence[str]) -> Tests:
    """The tests that data.tests names: sets of the catalogue or files."""
    pairs: dict[str, list[Pair]] = {}
    analogies: dict[str, dict[str, list[Question]]] = {}
    for name, path in find_tests(sources).items():
        form = form_of(path)
        if form is WordTestForm.ANALOGIES:
            analogies[name] = read_analogies(path)
        elif form is WordTestForm.PAIRS:
            pairs[name] = read_pairs(path)
        else:
            raise CanonError(f"data.tests: {path} is not a test of word vectors; {_FORM}.")
    return Tests(pairs, analogies)


def find_tests(sources: Sequence[str]) -> dict[str, Path]:
    """The file of each test by the test's name."""
    paths: dict[str, Path] = {}
    for source in sources:
        name, path = _locate(source)
        if name in paths:
            raise CanonError(f'data.tests: two tests are named "{name}"; rename a file.')
        paths[name] = path
    return paths


def _locate(source: str) -> tuple[str, Path]:
    """The test's name and its file. A name has no slash, since it names a metric: CA8-semantic."""
    if source in NAMES:
        file = next(file for file in catalogue.find(SET).files if file.split == source)
        path = catalogue.find_file(catalogue.require(SET), file)
        assert path is not None
        catalogue.verify(path, file)
        return source.replace("/", "-"), path
    path = Path(source).expanduser()
    if not path.is_file():
        if path.is_dir():
            raise CanonError(f"data.tests: {path} is a folder; name its files.")
        missing = str(missing_path(path, named=False)).removesuffix(".")
        raise CanonError(f"data.tests: {missing[0].lower()}{missing[1:]} (named ones are {', '.join(NAMES)}).")
    return path.name.removesuffix("".join(path.suffixes)), path


class WordTestForm(Enum):
    PAIRS = auto()
    ANALOGIES = auto()


def form_of(path: Path) -> WordTestForm | None:
    """None if most of the file's first lines are neither; the reader reports single lines that are wrong."""
    if ending(path) == ".parquet":
        return None
    first = [line.strip() for line in islice(file_lines(path), PEEK)]
    first = [line for line in first if line and not line.startswith("#")]
    if len(first) > 1 and first[0].startswith(":") and len(first[1].split()) == 4:
        return WordTestForm.ANALOGIES
    return WordTestForm.PAIRS if 2 * sum(_pair(line) is not None for line in first) > len(first) else None


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
    """A similarity file: word, word, number a line; without a delimiter, it and a header are recognised."""
    pairs: list[Pair] = []
    header = not delimiter  # whether the line may be one
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if (pair := _pair(line, delimiter)) is not None:
            pairs.append(pair)
        elif not header:
            raise CanonError(f"{path}, line {number}: expected two words and a number, got {line.strip()!r}.")
        header = False
    if not pairs:
        raise CanonError(f"{path} has no pairs; write two words and a number on each line.")
    return pairs


def _pair(line: str, delimiter: str = "") -> Pair | None:
    separator = delimiter or next((mark for mark in "\t,;" if mark in line), None)
    try:
        first, second, judgement = (cell.strip() for cell in line.split(separator))
        value = float(judgement)
    except ValueError:
        return None
    return (first, second, value) if first and second and np.isfinite(value) else None
