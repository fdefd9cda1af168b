"""The report of `check`: a record that JSON can hold, and lines to print. docs/data.md explains every number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_LINES = 200  # columns and warnings that are printed; JSON has them all


@dataclass
class CheckReport:
    name: str
    kind: str = ""  # table, images, text, pairs
    splits: dict[str, int] = field(default_factory=dict)  # examples: rows, images, documents, pairs
    classes: dict[str, dict[str, int]] = field(default_factory=dict)  # of each split
    columns: list[dict[str, Any]] = field(default_factory=list)  # tables: name, kind, missing, distinct
    duplicates: dict[str, int] = field(default_factory=dict)  # examples of a split equal to an earlier one of it
    overlap: dict[str, int] = field(default_factory=dict)  # valid and test inputs that are also in train
    conflicts: int = 0  # training inputs that come with more than one label
    image_sizes: dict[str, int] = field(default_factory=dict)  # "28 x 28 x 1": how many
    lines: dict[str, int] = field(default_factory=dict)  # text: all, empty, repeated
    lengths: dict[str, dict[str, int]] = field(default_factory=dict)  # characters, words: quantiles
    pairs: dict[str, dict[str, Any]] = field(default_factory=dict)  # of each split: lengths, ratio, alignment
    corpus: dict[str, int] = field(default_factory=dict)  # words, different, seen so many times, in the longest line
    # For pre-training: sentences, the share of documents that have several, of tokens that a given tokenizer lacks
    passages: dict[str, float] = field(default_factory=dict)
    vocabulary: int = 0  # distinct words of the training part
    unknown_words: float | None = None  # share of the test part's words that the training part does not have
    suits: list[str] = field(default_factory=list)
    first: str = ""  # the system that `canon train DATA` trains
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._warned = set(self.warnings)  # wide tables have very many
        self.decided: list[str] = []  # notes on how systems read the data that read it as its own kind

    def render(self) -> list[str]:
        """The report as lines of plain text; what is empty is left out."""
        rows: list[tuple[str, list[str]]] = [("examples", _counts(self.splits))]
        for split, counts in self.classes.items():
            listed = [f"{name} {count:,}" for name, count in list(counts.items())[:12]]
            rows.append((split, [*listed, "…"] if len(counts) > 12 else listed))
        for column in self.columns[:MOST_LINES]:
            missing = [f"{column['missing']:,} missing"] if column["missing"] else []
            about = f'"{column["name"]}": {column["kind"]}'
            rows.append(("column", [about, f"{column['distinct']:,} different", *missing]))
        rows.append(("column", _rest(self.columns)))
        rows.append(("sizes", [f"{size} ({count:,})" for size, count in list(self.image_sizes.items())[:6]]))
        rows.append(("lines", _counts(self.lines)))
        for unit, values in self.lengths.items():
            rows.append((unit, [f"{name} {value:,}" for name, value in values.items()]))
        for split, counted in self.pairs.items():
            fits = [] if counted["alignment"] is None else [f"alignment {counted['alignment']:.2f}"]
            for side in ("source", "target"):
                words = ", ".join(f"{name} {value:,}" for name, value in counted[side]["words"].items())
                rows.append((split, [f"{side} words {words}"]))
            rows.append((split, [f"target / source characters {counted['ratio'].get('median', 0):.2f}", *fits]))
        rows.append(("corpus", _counts(self.corpus)))
        rows.append(("documents", _counts(self.passages)))
        if self.vocabulary:
            share = "" if self.unknown_words is None else f"; train lacks {self.unknown_words:.2%} of the test words"
            rows.append(("vocabulary", [f"{self.vocabulary:,} words in train{share}"]))
        rows.append(("duplicates", [f"{count:,} in {split}" for split, count in self.duplicates.items()]))
        rows.append(("overlap", [f"{count:,} of {split} are in train" for split, count in self.overlap.items()]))
        rows.append(("suits", self.suits or ["no system"]))
        rows.append(("first", [f"{self.first}, which canon train {self.name} trains"] if self.first else []))
        rows += [("note", [note]) for note in self.notes]
        rows += [("warning", [warning]) for warning in self.warnings[:MOST_LINES]]
        rows.append(("warning", _rest(self.warnings)))
        shown = [f"  {label:<11} {', '.join(items)}" for label, items in rows if items]
        return [f"{self.name}: {self.kind}", *shown]

    def warn(self, warning: str) -> None:
        if warning not in self._warned:
            self._warned.add(warning)
            self.warnings.append(warning)


def _counts(counts: Mapping[str, float]) -> list[str]:
    """Whole numbers as they are, shares in per cent."""
    return [f"{count:,} {name}" if isinstance(count, int) else f"{count:.2%} {name}" for name, count in counts.items()]


def _rest(lines: list[Any]) -> list[str]:
    left = len(lines) - MOST_LINES
    return [f"… and {left:,} more; --json has them all"] if left > 0 else []
