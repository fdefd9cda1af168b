"""A system, or a run's network, on one screen: what it reads and learns, its settings, its layers and their cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from canon import recipe as recipes
from canon import registry, tasks
from canon.config import Table, read_toml
from canon.data.framing import Specials
from canon.data.schema import Schema
from canon.errors import CanonError
from canon.inspect.stages import Stage, on_meta
from canon.nn.counting import Summary
from canon.registry import System
from canon.training.run import Run


@dataclass(frozen=True)
class Description:
    system: System
    name: str  # with its preset, or the run
    metrics: list[str]
    expected: Table  # of the default recipe, by split/metric
    settings: list[Table]  # name, value, description
    input_shape: tuple[int, ...]
    network: Summary | None  # None: it learns without a network
    stages: list[Stage]  # the network's layers, grouped
    scores: Table  # of a run, by split

    def to_json(self) -> Table:
        system = self.system
        layers = [{**row._asdict(), "output_shape": _batchless(row.output_shape)} for row in self._rows()]
        stages = [
            {
                "name": stage.name,
                "kind": stage.kind,
                "output_shape": _batchless(stage.output_shape),
                "layers": [row.name for row in stage.rows],
                "parameters": stage.parameters,
                "multiply_adds": stage.multiply_adds,
            }
            for stage in self.stages
        ]
        return {
            "name": self.name,
            "system": system.name,
            "title": system.title,
            "chapter": system.chapter,
            "paper": system.paper,
            "reads": list(system.inputs),
            "task": system.task,
            "objective": system.objective,
            "metrics": self.metrics,
            "presets": {name: dict(changes) for name, changes in system.presets.items()},
            "deviations": list(system.deviations),
            "recipe": system.recipe,
            "expected": self.expected,
            "settings": self.settings,
            "input_shape": list(self.input_shape),
            "layers": layers,
            "stages": stages,
            "parameters": self.network.parameters if self.network else None,
            "multiply_adds": self.network.multiply_adds if self.network else None,
            "scores": self.scores,
        }

    def _rows(self) -> list[Any]:
        return self.network.rows if self.network else []


def describe(name: str, changes: Mapping[str, Any] | None = None) -> Description:
    """The system that "mlp:tiny" names, with `changes` ("system.hidden": [64]) to its settings."""
    system, preset = registry.find(name)
    table = {}
    for key, value in (changes or {}).items():
        section, _, field = key.partition(".")
        if section != "system" or not field:
            raise CanonError(f"canon describe takes only system settings, as in --set system.dropout=0.1; got {key}.")
        table[field] = value
    config = system.configure(preset, table, dict.fromkeys(changes or {}, "--set"))
    table = read_toml(recipes.RECIPES / f"{system.recipe}.toml") if system.recipe else {}
    return _description(system, name, config, table.get("expect", {}), {})


def describe_run(path: str | Path) -> Description:
    """The network of a run, with the sizes that its data gave it."""
    run = Run.open(path)
    scores = (run.result or {}).get("scores", {})
    return _description(run.recipe.system, str(path), run.recipe.config, run.recipe.expected(), scores)


def _description(system: System, name: str, config: Any, expect: Table, scores: Table) -> Description:
    expected = {key: bounds for key, bounds in expect.items() if key != "curve"}
    known = config.__pydantic_fields__
    settings = [
        {"setting": f.name, "value": _plain(getattr(config, f.name)), "description": known[f.name].description or ""}
        for f in fields(config)
    ]
    task = task_of(system, config)
    stages: list[Stage] = []
    network = None
    if system.loop == "gradient":
        stages, network = on_meta(system.load()[1], config, *task.example())
    input_shape = tuple(task.example()[0].shape[1:])
    return Description(system, name, list(task.names()), expected, settings, input_shape, network, stages, scores)


def task_of(system: System, config: Any) -> tasks.Task:
    """The task on data of the sizes that the settings have."""
    target = tasks.TASKS[system.task].target
    classes = tuple(map(str, range(getattr(config, "num_classes", 0))))
    roles = (
        {"text": "vocab_size"} if target in ("next", "tokens") else {"source": "source_vocab", "target": "target_vocab"}
    )
    sizes = {role: getattr(config, field, 0) for role, field in roles.items()}
    tokenizers: Any = {role: _Vocabulary(size) for role, size in sizes.items() if size}
    schema = Schema(system.inputs[0], getattr(config, "shape", ()), target, classes, tokenizers=tokenizers)  # type: ignore[arg-type]
    return tasks.create(system, config, schema)


class _Vocabulary(NamedTuple):
    """As much of a tokeniser as a description needs."""

    size: int
    kind: str = "bpe"
    specials: Specials = Specials()


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _batchless(shape: tuple[int, ...] | None) -> list[int] | None:
    return None if shape is None else list(shape[1:])
