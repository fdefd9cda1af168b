"""`check`: what is in a data set, what is wrong with it, and which systems it suits, before anything is trained.

The kind of the data counts what is there; where training would stop at a mistake, the counting goes on and the mistake
is a warning. A system suits if one of its encodings takes the data as one of its kinds, opened as `canon train` opens
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from canon import registry
from canon.data import encodings
from canon.data.checking.report import CheckReport
from canon.data.encodings import Ask, Encoding
from canon.data.formats.files import decoder
from canon.data.kinds import Kind, accepts, kind_of
from canon.data.source import Source
from canon.data.targets import Target
from canon.errors import CanonError

FEW = 10  # training examples; a class with fewer is reported


def check(config: Any, targets_of: Callable[[str], tuple[type[Target], ...]]) -> CheckReport:
    """The report on `config.source`; `targets_of` says what a task (System.task) can predict."""
    report = CheckReport(config.source)
    decoder(config.encoding)  # refuses one that there is not, before anything is read
    kind = kind_of(config)
    source = kind.check(report, config)
    _judge(report, config, kind, source, targets_of)
    _judge_counts(report)
    return report


def _judge(
    report: CheckReport,
    config: Any,
    kind: Kind,
    source: Source | None,
    targets_of: Callable[[str], tuple[type[Target], ...]],
) -> None:
    """The systems that the data suits; where there is none, why not."""
    opened: dict[Kind, Source | str] = {kind: source or f"{config.source} is {kind.singular}."}
    verdicts: dict[tuple[str, tuple[type[Target], ...]], str] = {}
    for system in registry.SYSTEMS:
        targets = targets_of(system.task)
        for name in system.encodings:
            if (name, targets) not in verdicts:
                verdicts[name, targets] = _verdict(encodings.find(name), config, kind, opened, targets)
        if any(verdicts[name, targets] == "" for name in system.encodings):
            report.suits.append(system.name)
    if not report.suits:
        own = [reason for (name, _), reason in verdicts.items() if kind in encodings.find(name).reads]
        for reason in dict.fromkeys(own[:2]):
            report.warn(reason)


def _verdict(
    encoding: Encoding,
    config: Any,
    home: Kind,
    opened: dict[Kind, Source | str],
    targets: tuple[type[Target], ...],
) -> str:
    """ "" if the data can be encoded so, else the sentence that says why not."""
    reasons = []
    for kind in encoding.kinds(Ask(targets)):
        if kind not in opened:
            opened[kind] = _opened(kind, config, home, opened[home])
        source = opened[kind]
        reasons.append(source if isinstance(source, str) else encoding.verdict(source, config, Ask(targets)))
    return "" if "" in reasons else reasons[-1]


def _opened(kind: Kind, config: Any, home: Kind, source: Source | str) -> Source | str:
    """The data as another kind than its own; or the sentence that says why it is not of that kind."""
    try:
        if not accepts(kind, config):
            return f"{config.source} is {home.singular}."
        return kind.examine(config, source if isinstance(source, Source) else None)
    except CanonError as mistake:
        return str(mistake)


def _judge_counts(report: CheckReport) -> None:
    for split, count in report.duplicates.items():
        if count > 0.01 * report.splits[split]:
            report.warn(f"{count:,} of {report.splits[split]:,} {split} examples repeat an earlier one.")
    for split, count in report.overlap.items():
        if count:
            report.warn(
                f"{count:,} of {report.splits[split]:,} {split} examples are also in train: scores will flatter.",
            )
    small = {name: count for name, count in report.classes.get("train", {}).items() if count < FEW}
    if small and len(small) < 20:
        report.warn("few training examples: " + ", ".join(f"{name} ({count})" for name, count in small.items()) + ".")
    if report.unknown_words is not None and report.unknown_words > 0.2:
        report.warn(f"{report.unknown_words:.0%} of the test part's words are not in train.")
    if len(report.image_sizes) > 1:
        report.warn(f"images have {len(report.image_sizes):,} different sizes; data.size makes them equal.")
