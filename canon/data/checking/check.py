"""`check`: what is in a data set, what is wrong with it, and which systems it suits, before anything is trained.

The kind of the data counts what is there; a mistake at which training would stop becomes a warning, and the counting
goes on. A system suits if one of its encodings can read the data as one of its kinds, opened as `canon train` opens it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from canon import registry
from canon.data.checking.choosing import first_choice
from canon.data.checking.report import CheckReport
from canon.data.checking.suitability import Suitability, Targets, asked_of
from canon.data.formats.files import decoder
from canon.data.kinds import Kind, kind_of
from canon.data.targets import Target
from canon.errors import CanonError

FEW = 10  # training examples; a class with fewer is reported


def check(config: Any, targets_of: Callable[[str], Targets]) -> CheckReport:
    """The report on `config.source`; `targets_of` says what a task (System.task) can predict."""
    report = CheckReport(config.source)
    decoder(config.encoding)  # an unknown encoding is refused before anything is read
    home = kind_of(config)
    source = home.check(report, config)
    suitability = Suitability(config, home, source or CanonError(f"{config.source} is {home.singular}."))
    reasons: dict[str, None] = {}
    for system in registry.SYSTEMS:
        kind, outcome = suitability.outcome(system, asked_of(system, targets_of))
        if kind is not None and kind is not home and not (kind.offered and home.offered):
            continue
        if isinstance(outcome, Target):
            report.suits.append(system.name)
        elif kind is not None:
            reasons[str(outcome)] = None
    read_as: Kind | None = home
    if report.suits:
        read_as = _name_first_choice(report, config, suitability, targets_of)
    else:
        for reason in list(reasons)[:2]:
            report.warn(reason)
    decided = (*suitability.notes(read_as), *(report.decided if read_as is home else ()))
    report.notes = list(dict.fromkeys((*decided, *report.notes)))
    _judge_counts(report)
    return report


def _name_first_choice(
    report: CheckReport, config: Any, suitability: Suitability, targets_of: Callable[[str], Targets]
) -> Kind | None:
    """Names the system that training the data alone trains; returns the kind that it takes the data for."""
    try:
        report.first = first_choice(config, suitability, targets_of).name
    except CanonError as mistake:  # only systems that are nobody's first choice can read it
        report.warn(str(mistake))
        return suitability.home
    system, _ = registry.find(report.first)
    return suitability.outcome(system, asked_of(system, targets_of))[0]


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
