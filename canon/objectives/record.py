"""What the table knows of an objective, and a recipe's choice of one.

Records hold names of modules, not the modules: reading the table imports no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Objective:
    name: str
    title: str
    formula: str
    paper: str
    tasks: Mapping[str, type]  # the tasks that it fits, and its settings there
    columns: tuple[str, ...] = ("target",)  # of a batch that it needs, beside the input
    outputs: tuple[str, ...] = ("logits",)  # of a network that it needs
    module: str = ""  # "canon.objectives.margin:Hinge", built from the settings; "" where a learner computes it
    plain: str = ""  # "canon.objectives.plain:…": the same in NumPy, for learners that need no torch
    # Settings that decide parts of the network: a system that can be trained so has them too.
    shapes: tuple[str, ...] = ()
    decides: Mapping[str, Any] = field(default_factory=dict)  # settings of a learner that choosing it decides
    phases: Mapping[str, str] = field(default_factory=dict)  # formulas, where each phase of training has its own loss
    exclusive: bool = (
        False  # whether a network must be built for it: only systems whose default it is can be trained by it
    )

    def load(self) -> type:
        """What computes it; this imports its module."""
        return _loaded(self.module)


@dataclass(frozen=True)
class ObjectiveChoice:
    """An objective with its settings, as the section [objective] of a recipe has it."""

    record: Objective
    settings: Any

    @property
    def name(self) -> str:
        return self.record.name

    def create(self, *more: Any) -> Any:
        """What computes it; `more` is what a task of its kind knows: weights of classes."""
        return self.record.load()(self.settings, *more)

    def create_plain(self) -> Any:
        """What computes it without torch."""
        assert self.record.plain, f"{self.name} has no version in NumPy"
        return _loaded(self.record.plain)(self.settings)


def _loaded(place: str) -> type:
    path, _, name = place.partition(":")
    loaded: type = getattr(importlib.import_module(path), name)
    return loaded
