"""Texts with labels of any sort: what their kinds have in common.

A test part without labels, as in GLUE, is left out, and the validation part becomes the test part.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from canon.data.catalogue import Dataset
from canon.data.checking.measure import quantiles, words
from canon.data.checking.report import CheckReport
from canon.data.formats.rows import Rows, groups_of, is_labelled
from canon.data.kinds.base import Kind, labelled_parts, once, records_of
from canon.data.kinds.parts import parts_of
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import Target
from canon.errors import CanonError


@dataclass(frozen=True)
class ExampleSource(Source):
    """Parts are rows of one type (canon/data/formats/rows.py)."""

    label: str = ""  # of a table: the label's column, and those of the texts
    columns: tuple[str, ...] = ()
    numeric: bool = False  # whether the labels look like numbers to predict rather than classes
    names: tuple[str, ...] = ()  # of all columns
    monitor: str = ""  # the metric that the data set is judged by, if it has a special one


class ExampleKind(Kind):
    targets: ClassVar[tuple[type[Target], ...]]  # what its examples may be labelled with

    @abstractmethod
    def holds(self, path: Path, config: Any) -> bool:
        """Whether a file is one of this kind."""

    @abstractmethod
    def rows(self, path: Path, config: Any) -> tuple[Rows, tuple[str, ...]]:
        """The examples of a file, and notes."""

    def read(self, path: Path, config: Any, like: Source | None = None) -> ExampleSource:
        parts = parts_of(path, lambda file: self.holds(file, config))
        return self._read(path.name, parts.files, config, parts.notes)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> ExampleSource:
        return self._read(record.name, files, config, [])

    def _read(self, name: str, files: dict[str, Path], config: Any, notes: list[str]) -> ExampleSource:
        read = {split: self.rows(file, config) for split, file in files.items()}
        parts: dict[str, Rows] = {split: rows for split, (rows, _) in read.items()}
        notes += once({files[split]: more for split, (_, more) in read.items()})
        if len(self.targets) == 1:
            notes.append(f"The task: {self.targets[0].what}.")
        return ExampleSource(name, parts, records_of(files), tuple(notes))

    def open(self, path: Path, config: Any) -> Source:
        return usable(super().open(path, config))

    def open_set(self, record: Dataset, config: Any) -> Source:
        return usable(super().open_set(record, config))

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        """Examples and lengths of each split."""
        report.kind = self.plural
        texts: list[str] = []
        for name, rows in self._divided(report, config, source).items():
            report.splits[name] = len(rows)
            texts += rows.texts()
            self.count_part(report, name, rows)
        report.lengths["words"] = quantiles(Counter(len(words(text)) for text in texts))

    def _divided(self, report: CheckReport, config: Any, source: Source) -> dict[str, Rows]:
        """The rows of each split; parts as they are where training could not split them."""
        try:
            chosen, _ = choose(source, config, groups=groups_of(source.parts["train"]))
        except CanonError as mistake:
            report.warn(str(mistake))
            return source.parts
        return {name: source.parts[part].take(taken) for name, (part, taken) in chosen.items()}

    def count_part(self, report: CheckReport, name: str, rows: Any) -> None:
        """Counts the labels of a part."""


def usable(source: Source) -> Source:
    """The parts that have labels."""
    train = source.parts["train"]
    if not is_labelled(train):
        raise CanonError(f"{train.path} has no labels to learn from.")
    parts, notes = labelled_parts(source.parts, is_labelled)
    return replace(source, parts=parts, notes=(*source.notes, *notes))
