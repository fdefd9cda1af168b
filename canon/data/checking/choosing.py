"""Which system to train on data when a user names only the data: the first choice for its kind, and others that suit.

A kind's first choices are the systems whose record names it in `first_for`, in the order of the registry; the first
that can read the data is taken. Kinds are tried in the order of their table, so that texts with labels in a table are
texts, not a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from canon import registry
from canon.data.checking.suitability import Suitability, Targets, asked_of
from canon.data.kinds import KINDS, Kind, kind_of
from canon.data.targets import Nothing, Target
from canon.errors import CanonError

MOST_OTHERS = 3


class SystemChoice(NamedTuple):
    name: str
    sentence: str  # what the data is, what is trained, and what else suits


def choose_system(config: Any, targets_of: Callable[[str], Targets]) -> SystemChoice:
    """The system for `config.source`; `targets_of` says what a task (System.task) can predict."""
    return first_choice(config, Suitability(config, kind_of(config)), targets_of)


def first_choice(config: Any, suitability: Suitability, targets_of: Callable[[str], Targets]) -> SystemChoice:
    """The same where what suits the data has been judged already."""
    home = suitability.home

    def outcome(system: registry.System) -> tuple[Kind | None, Target | CanonError]:
        return suitability.outcome(system, asked_of(system, targets_of))

    reason: CanonError | None = None
    for kind in (kind for kind in KINDS if kind is home or (suitability.accepts(kind) and kind.is_chosen(config))):
        for system in (system for system in registry.SYSTEMS if kind.name in system.first_for):
            taken, target = outcome(system)
            if isinstance(target, CanonError):
                reason = target
            elif taken is kind:
                others = [other for other in registry.SYSTEMS if other is not system]
                others = [other for other in others if _suits(outcome(other), kind, target)]
                sentence = _sentence(config.source, kind, target, system, others)
                unpredicted = isinstance(target, Nothing) and reason  # why none of the labels is predicted
                return SystemChoice(system.name, f"{sentence} ({reason})" if unpredicted else sentence)
        if kind is home and kind.certain and reason:
            raise reason
    raise reason or CanonError(f"{config.source} is {home.singular}{home.untrained}.")


def _suits(outcome: tuple[Kind | None, Target | CanonError], kind: Kind, target: Target) -> bool:
    """Whether the same kind of data is read to predict the same sort of thing: classes, something else, or nothing."""
    kind_read, other = outcome
    if kind_read is not kind or not isinstance(other, Target):
        return False
    return bool(other.classes) == bool(target.classes) and isinstance(other, Nothing) == isinstance(target, Nothing)


def _sentence(source: str, kind: Kind, target: Target, system: registry.System, others: list[registry.System]) -> str:
    near = sorted(others, key=lambda other: other.chapter != system.chapter)
    what = f" ({len(target.classes):,} {target.of_classes})" if target.classes else ""
    also = f"; also: {', '.join(other.name for other in near[:MOST_OTHERS])}" if near else ""
    return f"{source} is {kind.singular}{what}: training {system.name}{also}."
