"""The record of a system: all that the command line, the docs and the tests know of it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from canon.config import Origins, Table, parse
from canon.errors import unknown


@dataclass(frozen=True)
class Range:
    """Where `canon tune` looks for a setting: low to high, evenly by its logarithm; whole numbers if `low` is one."""

    low: float
    high: float


@dataclass(frozen=True)
class System:
    name: str
    title: str
    chapter: str
    paper: str
    module: str  # "canon.systems.linear.mlp:MLP"
    encodings: tuple[str, ...]  # canon.data.encodings: what it reads
    task: str  # canon.tasks: what is predicted, and by which metrics it is judged
    objective: str  # canon.objectives.table: what it is trained by, where a recipe names no other
    loop: Literal["gradient", "learner", "environment"] = "gradient"
    recipe: str = ""  # what `canon train NAME` runs
    title_zh: str = ""  # in Chinese, where it is not `title`
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # "objective": settings of the objective
    objective_settings: Mapping[str, Any] = field(default_factory=dict)  # in place of its objective's defaults
    interop: tuple[str, ...] = ()
    penalty: str = ""  # formula of what the network adds to the mean loss
    logs: Mapping[str, str] = field(default_factory=dict)  # numbers logged beside the loop's own, by name: formula
    parameters: str = "trained numbers of the network"  # what the count of parameters counts
    deviations: tuple[str, ...] = ()
    space: Mapping[str, Range | tuple[Any, ...]] = field(default_factory=dict)  # what `canon tune` may change

    @property
    def docs(self) -> str:
        return f"docs/systems/{self.name}.md"

    def load(self) -> tuple[type, type]:
        """The system's Config and class; this imports its module."""
        path, _, name = self.module.partition(":")
        module = importlib.import_module(path)
        return module.Config, getattr(module, name)

    def configure(self, preset: str, changes: Table, origins: Origins | None = None) -> Any:
        """The system's settings: defaults, then the preset's, then `changes`."""
        if preset and preset not in self.presets:
            raise unknown("system", f"{self.name}:{preset}", (f"{self.name}:{known}" for known in self.presets))
        config_class, _ = self.load()
        own = {key: value for key, value in self.presets.get(preset, {}).items() if key != "objective"}
        return parse(config_class, {**own, **changes}, "system", origins)
