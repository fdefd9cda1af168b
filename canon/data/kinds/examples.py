"""Texts with what is to be predicted of them: what their kinds have in common.

A test part without labels, as GLUE has it, is left out, and the validation part is tested on in its place.
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
from canon.data.formats.rows import Rows, is_labelled
from canon.data.kinds.base import Kind, files_of, records_of
from canon.data.source import Source
from canon.data.targets import Target
from canon.errors import CanonError


@dataclass(frozen=True)
class ExampleSource(Source):
    """Parts are rows of one type (canon/data/formats/rows.py)."""

    label: str = ""  # of a table: the label's column, and those of the texts
    columns: tuple[str, ...] = ()
    numeric: bool = False  # whether the labels look like numbers to predict rather than classes
    monitor: str = ""  # the metric that the data set is judged by, where it has one of its own


class ExampleKind(Kind):
    targets: ClassVar[tuple[type[Target], ...]]  # what can be asked of its examples

    @abstractmethod
    def rows(self, path: Path, config: Any) -> tuple[Rows, tuple[str, ...]]:
        """The examples of a file, and notes."""

    def read(self, path: Path, config: Any, like: Source | None = None) -> ExampleSource:
        files, notes = files_of(path)
        return self._read(path.name, files, config, notes)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> ExampleSource:
        return self._read(record.name, files, config, [])

    def _read(self, name: str, files: dict[str, Path], config: Any, notes: list[str]) -> ExampleSource:
        parts: dict[str, Rows] = {}
        for split, file in files.items():
            parts[split], more = self.rows(file, config)
            notes += more
        notes.append(f"The task: {self.targets[0].what}.")
        return ExampleSource(name, parts, records_of(files), tuple(notes))

    def open(self, path: Path, config: Any) -> Source:
        return usable(super().open(path, config))

    def open_set(self, record: Dataset, config: Any) -> Source:
        return usable(super().open_set(record, config))

    def check(self, report: CheckReport, config: Any) -> Source:
        """Examples and lengths of each part as it lies, and what is asked."""
        source = self.source(config)
        report.kind = self.plural
        texts: list[str] = []
        for name, rows in source.parts.items():
            report.splits[name] = len(rows)
            texts += rows.texts()
            self.count(report, name, rows)
        report.lengths["words"] = quantiles(Counter(len(words(text)) for text in texts))
        report.notes += [note for note in source.notes if note not in report.notes]
        return source

    def count(self, report: CheckReport, name: str, rows: Any) -> None:
        """What is asked of the examples of a part."""


def usable(source: Source) -> Source:
    """The parts that have labels."""
    parts, notes = dict(source.parts), list(source.notes)
    if not is_labelled(parts["train"]):
        raise CanonError(f"{parts['train'].path} has no labels to learn from.")
    for name in ("valid", "test"):
        if name in parts and not is_labelled(parts[name]):
            path = Path(parts.pop(name).path).name
            if name == "test" and "valid" in parts:
                parts["test"] = parts.pop("valid")
                instead = f"{Path(parts['test'].path).name} is the test set"
            else:
                instead = "it is left out"
            notes.append(f"{path} has no labels: {instead}.")
    return replace(source, parts=parts, notes=tuple(notes))
