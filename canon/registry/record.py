"""The record of a system: all that the command line, the docs and the tests know about it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from canon.config import Origins, Table, parse


@dataclass(frozen=True)
class Range:
    """Where `canon tune` looks for a setting: low to high, evenly by its logarithm; whole numbers if `low` is one."""

    low: float
    high: float


@dataclass(frozen=True)
class Interop:
    """Other people's formats (canon.interop.FORMATS), by name, or "vectors" for all that hold word vectors.

    Beside these, every network starts from a run, and from a file of tensors under its own names.
    """

    reads: tuple[str, ...] = ()  # what train.init starts from, and system.start of a prompt
    writes: tuple[str, ...] = ()  # what `canon convert` writes


@dataclass(frozen=True)
class System:
    """What is known about one system: its names and paper, module, tasks, presets, recipes and deviations."""

    name: str
    title: str
    chapter: str
    paper: str
    module: str  # "canon.systems.linear.mlp:MLP"
    encodings: tuple[str, ...]  # canon.data.encodings: what it reads
    task: str  # canon.tasks: what is predicted, and by which metrics it is judged
    objective: str  # canon.objectives.table: what it is trained by, unless a recipe names another
    objectives: tuple[str, ...] = ()  # others that a learner, which computes its loss itself, can lower
    takes_objective_settings: bool = False  # of a learner: whether it uses all settings of its objectives
    # Other tasks that it can do, with the objective of each; the data's target or a recipe's objective asks for one.
    others: Mapping[str, str] = field(default_factory=dict)
    loop: Literal["gradient", "learner", "environment"] = "gradient"
    torch: Literal["always", "on a GPU", "never"] = "always"  # when it needs torch, whose import takes seconds
    recipe: str = ""  # what `canon train NAME` runs: the system with the recipe's settings
    data_recipe: str = ""  # what `canon train NAME --data PATH` runs, where that is another
    backbone: bool = False  # whether it is built on a pre-trained network, which train.init names
    first_for: tuple[str, ...] = ()  # kinds of data (canon.data.kinds) that `canon train PATH` trains it on
    title_zh: str = ""  # in Chinese, if that differs from `title`
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # "objective": settings of the objective
    objective_settings: Mapping[str, Any] = field(default_factory=dict)  # in place of its objective's defaults
    interop: Interop = Interop()
    penalty: str = ""  # formula of what the network adds to the mean loss
    logs: Mapping[str, str] = field(default_factory=dict)  # numbers logged beside the loop's own, by name: formula
    parameters: str = "trained numbers of the network"  # what the count of parameters counts
    deviations: tuple[str, ...] = ()
    space: Mapping[str, Range | tuple[Any, ...]] = field(default_factory=dict)  # what `canon tune` may change

    @property
    def docs(self) -> str:
        """The page about it, from the root of the repository; of a system of the user, its file."""
        return f"docs/systems/{self.name}.md" if self.module.startswith("canon.") else self.name

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks that it can do, its own first."""
        return (self.task, *self.others)

    def doing(self, task: str) -> System:
        """The same system for another of its tasks."""
        if task == self.task:
            return self
        others = {self.task: self.objective, **self.others}
        return replace(self, task=task, objective=others.pop(task), others=others)

    def load(self) -> tuple[type, type]:
        """The system's Config and class; this imports its module."""
        path, _, name = self.module.partition(":")
        module = importlib.import_module(path)
        return module.Config, getattr(module, name)

    def configure(self, preset: str, changes: Table, origins: Origins | None = None) -> Any:
        """The system's settings: defaults, then the preset's, then `changes`."""
        config_class, _ = self.load()
        chosen = self.presets[preset] if preset else {}
        settings = {key: value for key, value in chosen.items() if key != "objective"}
        return parse(config_class, {**settings, **changes}, "system", origins)
