"""A recipe: data, network, objective, optimiser and budget of one experiment, from TOML to typed records.

Values come, each over the one before, from the settings' defaults, the system's preset, the recipe file, `--data` and
`--set`; where each came from is kept and written beside it in the run's recipe.toml.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field

from canon import registry
from canon.config import Origins, Table, assign, parse, read_toml, settings
from canon.data.config import DataConfig
from canon.errors import CanonError, unknown
from canon.optim.schedules import Schedule
from canon.optim.settings import OPTIMIZERS
from canon.optim.settings import Settings as OptimizerSettings

RECIPES = Path(__file__).parent / "recipes"
DEFAULT = "linear/digits-mlp"

Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]


@settings
class TrainConfig:
    steps: Positive | None = Field(default=None, description="optimiser steps; or give epochs")
    epochs: Annotated[float, Field(gt=0)] | None = Field(default=None, description="passes over the training set")
    seconds: Annotated[float, Field(gt=0)] | None = Field(default=None, description="stop after so much training time")
    batch: Natural = Field(default=64, description="examples per optimiser step over all devices; 0: all of them")
    micro_batch: Natural = Field(default=0, description="most examples a device takes at once; 0: its whole share")
    seed: Natural = Field(default=0, description="decides first weights, order and noise")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(default="auto", description="where to train")
    threads: Natural = Field(default=0, description="CPU threads; 0: torch's choice")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="of the arithmetic; auto: bfloat16 on CUDA, else float32"
    )
    compile: Literal["auto", "on", "off"] = Field(default="auto", description="auto: on CUDA from 1000 steps up")
    deterministic: bool = Field(default=False, description="only deterministic kernels (CUDA)")
    clip: Annotated[float, Field(gt=0)] | None = Field(default=None, description="largest norm of all gradients")
    clip_value: Annotated[float, Field(gt=0)] | None = Field(default=None, description="largest value of a gradient")
    nonfinite: Literal["stop", "skip"] = Field(default="stop", description="what a non-finite loss or gradient does")
    parallel: Literal["ddp", "fsdp"] = Field(default="ddp", description="under torchrun: copies, or shards (FSDP2)")
    log_every: Natural = Field(default=0, description="steps between lines of metrics.jsonl; 0: a hundredth of all, but 10 at least")
    evaluate_every: Natural = Field(default=0, description="steps between evaluations; 0: a twentieth of all")
    checkpoint_every: Natural = Field(default=0, description="steps between checkpoints; 0: as evaluate_every")
    keep: Positive = Field(default=2, description="newest checkpoints kept, beside the best")
    monitor: str = Field(default="", description="validation metric that decides best; default: the task's")
    patience: Natural = Field(default=0, description="stop after so many evaluations without a better one; 0: never")
    tensorboard: bool = Field(default=False, description="write tensorboard/ too")


@settings
class Group:
    match: str = Field(description="a pattern of parameter names, as in output.*")
    lr: Annotated[float, Field(ge=0)] | None = Field(default=None, description="rate of these; 0 freezes them")
    weight_decay: Annotated[float, Field(ge=0)] | None = Field(default=None, description="of these")


@dataclass(frozen=True)
class OptimizerChoice:
    name: str
    settings: OptimizerSettings
    schedule: Schedule
    groups: tuple[Group, ...]  # the first that matches a parameter counts


@dataclass(frozen=True)
class Recipe:
    name: str
    system: registry.System
    preset: str
    config: Any  # the system's own settings
    data: DataConfig
    train: TrainConfig
    optimizer: OptimizerChoice
    optimizers: dict[str, OptimizerChoice]  # of phases that differ from `optimizer`
    expect: Table
    table: Table  # as parsed, before defaults
    origins: Origins = field(default_factory=dict)

    @property
    def system_name(self) -> str:
        return f"{self.system.name}:{self.preset}" if self.preset else self.system.name

    def optimizer_for(self, phase: str) -> OptimizerChoice:
        return self.optimizers.get(phase, self.optimizer)

    def fitted(self, sizes: Table) -> Recipe:
        """With the sizes that the data decides written into the system's settings; a contradiction is an error."""
        known = {f.name for f in fields(self.config)}
        changes = {key: value for key, value in sizes.items() if key in known}
        for key, value in changes.items():
            said = self.origins.get(f"system.{key}", "default")
            if said not in ("default", "the data") and getattr(self.config, key) != value:
                asked = getattr(self.config, key)
                raise CanonError(f"system.{key} is {asked!r} (from {said}), but the data says {value!r}: leave it out.")
        origins = self.origins | {f"system.{key}": "the data" for key in changes}
        return replace(self, config=replace(self.config, **changes), origins=origins)

    def resolved(self, num_examples: int) -> Recipe:
        """With every automatic interval worked out for a training set of this size."""
        train = self.train
        batch = min(train.batch or num_examples, num_examples)
        total = train.steps or ceil((train.epochs or 0) * num_examples / batch)
        evaluate = train.evaluate_every or max(1, total // 20)
        changes = {
            "batch": batch,
            "log_every": train.log_every or max(10, total // 100),
            "evaluate_every": evaluate,
            "checkpoint_every": train.checkpoint_every or evaluate,
        }
        changed = {key: value for key, value in changes.items() if getattr(train, key) != value}
        origins = self.origins | {f"train.{key}": "worked out" for key in changed}
        return replace(self, train=replace(train, **changes), origins=origins)

    def total_steps(self, num_examples: int) -> int:
        return self.train.steps or ceil((self.train.epochs or 0) * num_examples / self.train.batch)

    def expected(self) -> Table:
        """What this recipe is known to reach, unless something that decides it was changed."""
        harmless = {"train.seed", "train.tensorboard", "train.keep", "train.checkpoint_every", "train.threads"}
        changed = [key for key, origin in self.origins.items() if origin in ("--set", "--data", "keyword")]
        return {} if set(changed) - harmless else self.expect

    def to_toml(self) -> str:
        """Every effective value with where it came from; can be read back as a recipe."""
        choice = self.optimizer
        sections: dict[str, Table] = {
            "system": {"name": self.system_name, **_values(self.config)},
            "data": _values(self.data),
            "train": _values(self.train),
            "optimizer": _optimizer_table(choice),
        }
        lines = [f"# {self.name}: every effective value and where it came from."]
        for section, table in sections.items():
            lines.append(f"\n[{section}]")
            for key, value in table.items():
                text = tomli_w.dumps({key: value}).strip().replace("\n    ", " ").replace(",\n]", "]").replace("[ ", "[")
                if "\n" in text:  # a table inside: as an inline one
                    text = f"{key} = {_inline(value)}"
                lines.append(f"{text}  # {self.origins.get(f'{section}.{key}', 'default')}")
        for phase, other in self.optimizers.items():
            lines.append(f"\n[optimizers.{phase}]\n{tomli_w.dumps(_optimizer_table(other)).strip()}")
        if self.expect:
            lines.append("\n" + tomli_w.dumps({"expect": self.expect}).strip())
        return "\n".join(lines) + "\n"


def names() -> list[str]:
    """All recipes that come with canon, as chapter/name."""
    return sorted(str(path.relative_to(RECIPES).with_suffix("")) for path in RECIPES.glob("*/*.toml"))


def load(name: str = "", data: str = "", changes: Table | None = None) -> Recipe:
    """The recipe called `name`: one of canon's, a TOML file, or a system's own default recipe."""
    table, title = _find(name or DEFAULT)
    origins: Origins = {}
    _note(origins, table, f"recipe {title}")
    if data:
        table["data"] = {key: value for key, value in table.get("data", {}).items() if key in _PORTABLE}
        origins = {key: value for key, value in origins.items() if not key.startswith("data.")}
        assign(table, "data.source", data)
        origins["data.source"] = "--data"
    for key, value in (changes or {}).items():
        if "." not in key:
            raise CanonError(f"--set takes section.key=value, as in --set train.steps=100; got {key}.")
        budget = {"train.steps": "epochs", "train.epochs": "steps"}.get(key)
        if budget and f"train.{budget}" not in (changes or {}):
            table.get("train", {}).pop(budget, None)
            origins.pop(f"train.{budget}", None)
        if key == "optimizer.name" and value != table.get("optimizer", {}).get("name"):
            # Another optimiser has other settings; only the rate's plan is common to all.
            table["optimizer"] = {k: v for k, v in table.get("optimizer", {}).items() if k in ("schedule", "groups")}
        assign(table, key, value)
        origins[key] = "--set"
    return build(table, title, origins)


_PORTABLE = ("valid", "test", "seed", "missing", "encoding", "limit")  # data settings that suit any other source
_SECTIONS = ("system", "data", "train", "optimizer", "optimizers", "expect")


def build(table: Table, title: str, origins: Origins) -> Recipe:
    """The typed recipe of a parsed table."""
    for section, value in table.items():
        if section not in _SECTIONS:
            raise unknown("section", section, _SECTIONS)
        if not isinstance(value, dict):
            raise CanonError(f"{section} must be a table of settings, as in [{section}], got {value!r}.")
    chosen = dict(table.get("system", {}))
    name = chosen.pop("name", None)
    if not isinstance(name, str):
        raise CanonError(f'{title}: system.name is missing; it names one of `canon list systems`, as in "mlp:tiny".')
    system, preset = registry.find(name)
    for key in system.presets.get(preset, {}):
        origins.setdefault(f"system.{key}", f"preset {preset}")
    train = parse(TrainConfig, table.get("train", {}), "train", origins)
    if train.steps and train.epochs:
        raise CanonError("train.steps and train.epochs are both given; give one of them.")
    if not train.steps and not train.epochs:
        raise CanonError("Neither train.steps nor train.epochs is given; add --set train.epochs=10.")
    optimizer = table.get("optimizer", {})
    return Recipe(
        name=title,
        system=system,
        preset=preset,
        config=system.configure(preset, chosen, origins),
        data=parse(DataConfig, table.get("data", {}), "data", origins),
        train=train,
        optimizer=_optimizer(optimizer, "optimizer", origins),
        optimizers={
            phase: _optimizer({**optimizer, **changes}, f"optimizers.{phase}", origins)
            for phase, changes in table.get("optimizers", {}).items()
        },
        expect=table.get("expect", {}),
        table=table,
        origins=origins,
    )


def _optimizer(table: Table, section: str, origins: Origins) -> OptimizerChoice:
    rest = dict(table)
    name = rest.pop("name", "adam")
    if name not in OPTIMIZERS:
        raise unknown("optimizer", str(name), OPTIMIZERS)
    schedule, groups = rest.pop("schedule", {}), rest.pop("groups", [])
    if isinstance(schedule, str):
        schedule = {"name": schedule}
    return OptimizerChoice(
        name=name,
        settings=parse(OPTIMIZERS[name], rest, section, origins),
        schedule=parse(Schedule, schedule, f"{section}.schedule", origins),
        groups=tuple(parse(Group, group, f"{section}.groups", origins) for group in groups),
    )


def _find(name: str) -> tuple[Table, str]:
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise CanonError(f"There is no recipe file {name}.")
        return read_toml(path), path.stem
    known = names()
    matching = [known_name for known_name in known if name in (known_name, known_name.split("/")[1])]
    if len(matching) == 1:
        return read_toml(RECIPES / f"{matching[0]}.toml"), matching[0]
    if len(matching) > 1:
        raise CanonError(f'"{name}" may be {" or ".join(matching)}; give the whole name.')
    systems = [system.name for system in registry.SYSTEMS]
    if name.partition(":")[0] in systems:
        system, _ = registry.find(name)
        table = read_toml(RECIPES / f"{system.recipe}.toml")
        if name != table["system"]["name"]:
            table["system"] = {"name": name}
            table.pop("expect", None)
        return table, system.recipe
    raise unknown("recipe or system", name, [*known, *(n.split("/")[1] for n in known), *systems])


def _note(origins: Origins, table: Table, origin: str, prefix: str = "") -> None:
    for key, value in table.items():
        origins[prefix + key] = origin
        if isinstance(value, dict):
            _note(origins, value, origin, f"{prefix}{key}.")


def _values(record: Any) -> Table:
    """A settings record as a TOML table; TOML has no null, so what is None is left out."""
    rows = {f.name: getattr(record, f.name) for f in fields(record)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in rows.items() if value is not None}


def _optimizer_table(choice: OptimizerChoice) -> Table:
    groups = {"groups": [_values(group) for group in choice.groups]} if choice.groups else {}
    return {"name": choice.name, **_values(choice.settings), "schedule": _values(choice.schedule), **groups}


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
