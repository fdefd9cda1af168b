"""The one explicit table of systems: command-line choices, help, docs tables and the test battery come from it.

Records hold names of modules, not the modules: reading the table imports no torch. A system's module has a `Config`
(settings) and the class named in the record: a torch module for the gradient loop, built as `cls(config)`, or, built as
`cls(config, context)`, a `Learner` that learns in its own way or an `Agent` that acts in an environment
(canon.contracts). Each chapter's records are in a file of their own.
"""

from __future__ import annotations

from canon.errors import unknown
from canon.registry import (
    clicks,
    control,
    embeddings,
    linear,
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

__all__ = ["SYSTEMS", "Interop", "Range", "System", "find"]

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


def find(name: str) -> tuple[System, str]:
    """The system and preset that "resnet:34" names."""
    base, colon, preset = name.partition(":")
    by_name = {system.name: system for system in SYSTEMS}
    if base not in by_name:
        raise no_system("system", base, by_name)
    system = by_name[base]
    if colon and preset not in system.presets:
        raise unknown("system", name, (f"{base}:{known}" for known in system.presets))
    return system, preset
