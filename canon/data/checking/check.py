"""`check`: what is in a data set, what is wrong with it, and which systems it suits, before anything is trained.

The kind of the data counts what is there; a mistake at which training would stop becomes a warning, and the counting
goes on. A system suits if one of its encodings can read the data as one of its kinds, opened as `canon train` opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from canon import registry
from canon.data import encodings
from canon.data.checking.report import CheckReport
from canon.data.encodings import Ask, Encoding
from canon.data.formats.files import decoder
from canon.data.kinds import Kind, accepts, kind_of
from canon.data.read import by_kind
from canon.data.source import Source
from canon.data.targets import Target
from canon.errors import CanonError

FEW = 10  # training examples; a class with fewer is reported

Targets = tuple[type[Target], ...]


def check(config: Any, targets_of: Callable[[str], Targets]) -> CheckReport:
    """The report on `config.source`; `targets_of` says what a task (System.task) can predict."""
    report = CheckReport(config.source)
    decoder(config.encoding)  # an unknown encoding is refused before anything is read
    home = kind_of(config)
    source = home.check(report, config)
    if source is not None:
        report.notes[:0] = [note for note in source.notes if note not in report.notes]
    suitability = Suitability(config, home, source or CanonError(f"{config.source} is {home.singular}."))
    reasons: dict[str, None] = {}
    for system in registry.SYSTEMS:
        kind, outcome = suitability.outcome(system, asked_of(system, targets_of))
        if kind is not None and kind is not home and not kind.offered:
            continue
        if isinstance(outcome, Target):
            report.suits.append(system.name)
            # What training would say of the data as another kind than its own.
            report.notes += [note for note in suitability.notes(kind) if note not in report.notes]
        elif kind is not None:
            reasons[str(outcome)] = None
    if not report.suits:
        for reason in list(reasons)[:2]:
            report.warn(reason)
    _judge_counts(report)
    return report


def asked_of(system: registry.System, targets_of: Callable[[str], Targets]) -> Targets:
    """What a system can predict, by all its tasks."""
    return tuple(target for task in system.tasks for target in targets_of(task))


class Suitability:
    """One source tried by the encodings that systems read, as the kinds that training would take it for."""

    def __init__(self, config: Any, home: Kind, source: Source | CanonError | None = None) -> None:
        """source: the data as its own kind, `home`, where it has been opened."""
        self._config, self._home = config, home
        self._opened: dict[Kind, Source | CanonError] = {} if source is None else {home: source}
        self._tried: dict[tuple[str, Targets], Target | CanonError] = {}

    def outcome(self, system: registry.System, targets: Targets) -> tuple[Kind | None, Target | CanonError]:
        """The kind that training would take the data for, None if the system reads no such kind; and what it would
        predict, or why it cannot."""
        ask = Ask(targets)
        encoding_of = by_kind([encodings.find(name) for name in system.encodings], ask)
        kind = next((kind for kind in encoding_of if kind is self._home or accepts(kind, self._config)), None)
        if kind is None:
            return None, CanonError(f"{self._config.source} is {self._home.singular}.")
        encoding = encoding_of[kind]
        if (encoding.name, targets) not in self._tried:
            self._tried[encoding.name, targets] = self._try(encoding, kind, ask)
        return kind, self._tried[encoding.name, targets]

    def notes(self, kind: Kind | None) -> Sequence[str]:
        """What was decided while the data was opened as this kind."""
        source = self._opened.get(kind) if kind is not None else None
        return source.notes if isinstance(source, Source) else ()

    def _try(self, encoding: Encoding, kind: Kind, ask: Ask) -> Target | CanonError:
        try:
            if kind not in self._opened:
                home = self._opened.get(self._home)
                self._opened[kind] = kind.examine(self._config, home if isinstance(home, Source) else None)
            if isinstance(source := self._opened[kind], CanonError):
                return source
            return encoding.try_fit(source, self._config, ask)
        except CanonError as mistake:
            self._opened.setdefault(kind, mistake)
            return mistake


def _judge_counts(report: CheckReport) -> None:
    for split, count in report.duplicates.items():
        if count > 0.01 * report.splits[split]:
            report.warn(f"{count:,} of {report.splits[split]:,} {split} examples repeat an earlier one.")
    for split, count in report.overlap.items():
        if count:
            total = report.splits[split]
            report.warn(f"{count:,} of {total:,} {split} examples are also in train, so scores will be too high.")
    small = {name: count for name, count in report.classes.get("train", {}).items() if count < FEW}
    if small and len(small) < 20:
        report.warn("few training examples: " + ", ".join(f"{name} ({count})" for name, count in small.items()) + ".")
    if report.unknown_words is not None and report.unknown_words > 0.2:
        report.warn(f"{report.unknown_words:.0%} of the test part's words are not in train.")
    if len(report.image_sizes) > 1:
        report.warn(f"images have {len(report.image_sizes):,} different sizes; data.size makes them equal.")
