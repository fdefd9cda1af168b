"""What `check` found, as a record that JSON can hold and as lines to print. docs/data.md explains every number."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
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
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._warned = set(self.warnings)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> list[str]:
        """The report as lines of plain text; what is empty is left out."""
        shown = [f"{self.name}: {self.kind}"]
        shown.append("  examples    " + ", ".join(f"{count:,} {split}" for split, count in self.splits.items()))
        for split, counts in self.classes.items():
            listed = [f"{name} {count:,}" for name, count in list(counts.items())[:12]]
            shown.append(f"  {split:<11} {', '.join(listed)}{', …' if len(counts) > 12 else ''}")
        for column in self.columns[:MOST_LINES]:
            missing = f", {column['missing']:,} missing" if column["missing"] else ""
            shown.append(
                f'  column      "{column["name"]}": {column["kind"]}, {column["distinct"]:,} different{missing}'
            )
        shown += _rest(self.columns, "  column      ")
        if self.image_sizes:
            shown.append(
                "  sizes       " + ", ".join(f"{size} ({n:,})" for size, n in list(self.image_sizes.items())[:6])
            )
        if self.lines:
            shown.append("  lines       " + ", ".join(f"{count:,} {name}" for name, count in self.lines.items()))
        for unit, values in self.lengths.items():
            shown.append(f"  {unit:<11} " + ", ".join(f"{name} {value:,}" for name, value in values.items()))
        for split, counted in self.pairs.items():
            fits = "" if counted["alignment"] is None else f", alignment {counted['alignment']:.2f}"
            for side in ("source", "target"):
                words = ", ".join(f"{name} {value:,}" for name, value in counted[side]["words"].items())
                shown.append(f"  {split:<11} {side} words {words}")
            shown.append(f"  {split:<11} target / source characters {counted['ratio'].get('median', 0):.2f}{fits}")
        if self.corpus:
            shown.append("  corpus      " + ", ".join(f"{count:,} {name}" for name, count in self.corpus.items()))
        if self.passages:
            listed = [f"{value:,}" if isinstance(value, int) else f"{value:.2%}" for value in self.passages.values()]
            named = (f"{value} {name}" for name, value in zip(self.passages, listed, strict=True))
            shown.append("  documents   " + ", ".join(named))
        if self.vocabulary:
            rate = (
                "" if self.unknown_words is None else f"; {self.unknown_words:.2%} of the test words are not among them"
            )
            shown.append(f"  vocabulary  {self.vocabulary:,} words in train{rate}")
        if self.duplicates:
            shown.append(
                "  duplicates  " + ", ".join(f"{count:,} in {split}" for split, count in self.duplicates.items())
            )
        if self.overlap:
            listed = [f"{count:,} of {split} are in train" for split, count in self.overlap.items()]
            shown.append("  overlap     " + ", ".join(listed))
        shown.append("  suits       " + (", ".join(self.suits) or "no system"))
        shown += [f"  note        {note}" for note in self.notes]
        shown += [f"  warning     {warning}" for warning in self.warnings[:MOST_LINES]]
        return shown + _rest(self.warnings, "  warning     ")

    def warn(self, warning: str) -> None:
        if warning not in self._warned:
            self._warned.add(warning)
            self.warnings.append(warning)


def _rest(lines: list[Any], before: str) -> list[str]:
    left = len(lines) - MOST_LINES
    return [f"{before}… and {left:,} more; --json has them all"] if left > 0 else []
