"""The one explicit table of systems: command-line choices, help, docs tables and the test battery come from it.

Records hold names of modules, not the modules: reading the table imports no torch. A system's module has a `Config`
(settings) and the class named in the record: a torch module for the gradient loop, built as `cls(config)`, or, built as
`cls(config, context)`, a `Learner` that learns in its own way or an `Agent` that acts in an environment
(canon.contracts). Each chapter's records are in a file of their own; a user's system is in a file of the user's, which
its name names (canon.registry.of_user).
"""

from __future__ import annotations

from canon.errors import unknown
from canon.registry import (
    clicks,
    control,
    embeddings,
    linear,
    of_user,
    pretrained,
    prompts,
    ranking,
    ranking_learners,
    recommendation,
    sequence,
    vision,
    words,
)
from canon.registry.ideas import no_system
from canon.registry.record import Interop, Range, System

__all__ = ["SYSTEMS", "Interop", "Range", "System", "find", "is_system"]

SYSTEMS: tuple[System, ...] = (
    *linear.SYSTEMS,
    *vision.SYSTEMS,
    *sequence.SYSTEMS,
    *words.SYSTEMS,
    *pretrained.SYSTEMS,
    *prompts.SYSTEMS,
    *embeddings.SYSTEMS,
    *ranking.SYSTEMS,
    *ranking_learners.SYSTEMS,
    *recommendation.SYSTEMS,
    *clicks.SYSTEMS,
    *control.SYSTEMS,
)


def is_system(name: str) -> bool:
    """Whether `name`, with or without a preset, is that of a system."""
    return name.partition(":")[0] in {system.name for system in SYSTEMS} or of_user.is_there(name)


def find(name: str) -> tuple[System, str]:
    """The system and preset that "resnet:34" names, or "mine.py:tiny"."""
    base, _, preset = name.partition(":")
    if place := of_user.place_of(name):
        base, preset, system = str(place.path), place.preset, of_user.system_in(place.path)
    else:
        by_name = {system.name: system for system in SYSTEMS}
        if base not in by_name:
            raise no_system("system", base, by_name)
        system = by_name[base]
    if name != base and preset not in system.presets:
        raise unknown("system", name, (f"{base}:{known}" for known in system.presets))
    return system, preset
