"""A recipe: data, network, objective, optimiser and budget of one experiment, from TOML to typed records.

Values come, each over the one before, from the settings' defaults, the system's preset, the recipe file, `--data` and
`--set`; where each came from is kept and written beside it in the run's recipe.toml.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import ceil
from pathlib import Path
from typing import Any

import tomli_w

from canon import registry
from canon.config import SHORT, Origins, Table, assign, parse, read_toml
from canon.contracts import Suggests
from canon.errors import CanonError, border, unknown
from canon.objectives import choosing as objectives
from canon.objectives.record import ObjectiveChoice
from canon.optim.schedules import Schedule
from canon.optim.settings import OPTIMIZERS, OptimizerSettings
from canon.recipe_text import EFFECTIVE, effective_settings, inline, values_of
from canon.registry.ideas import no_system
from canon.registry.recipes import RECIPES, recipe_files
from canon.train_config import Group, TrainConfig

DEFAULT = "sequence/pronounce"
_DEFAULT_OPTIMIZER = "adam"
_EPOCHS = 20  # of a system without a recipe
_REPLACED = "replaced by "
WORKED_OUT = "worked out"  # the origin of what follows from the data and the other settings
# Of settings for one thing the later choice replaces the earlier.
EITHER = {
    "train.steps": ("train.epochs", "train.least_steps"),
    "train.epochs": ("train.steps", "train.least_steps"),
    "train.batch": ("train.tokens",),
    "train.tokens": ("train.batch",),
}


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
    data: Any  # canon.data.config.DataConfig
    objective: ObjectiveChoice
    train: TrainConfig
    optimizer: OptimizerChoice
    optimizers: dict[str, OptimizerChoice]  # of phases that differ from `optimizer`
    expect: Table
    table: Table  # as parsed, before defaults
    origins: Origins = field(default_factory=dict)
    choice: str = ""  # a sentence on why this system is trained, where a user named only the data

    @property
    def system_name(self) -> str:
        return f"{self.system.name}:{self.preset}" if self.preset else self.system.name

    @property
    def needs(self) -> str:
        """The recipe whose run this one starts from; "" for none."""
        return recipe_of(self.train.init)

    @property
    def replaced(self) -> dict[str, str]:
        """Settings of the recipe that another setting replaced, and which."""
        return {key: origin for key, origin in self.origins.items() if origin.startswith(_REPLACED)}

    def optimizer_for(self, phase: str) -> OptimizerChoice:
        return self.optimizers.get(phase, self.optimizer)

    def fitted(self, sizes: Table) -> Recipe:
        """With the sizes that the data decides written into the system's settings; a contradiction is an error."""
        known = {f.name for f in fields(self.config)}
        changes = {key: value for key, value in sizes.items() if key in known}
        for key, value in changes.items():
            origin, asked = self.origins.get(f"system.{key}", "default"), getattr(self.config, key)
            fixed = origin not in ("default", "the data") and not origin.startswith("preset ")
            if fixed and asked != value:
                raise CanonError(
                    f"system.{key} is {asked!r} (from {origin}), but the data has {value!r}: leave it out."
                )
        origins = self.origins | {f"system.{key}": "the data" for key in changes}
        return replace(self, config=replace(self.config, **changes), origins=origins)

    def resolved(self, num_examples: int, per_epoch: int = 0) -> Recipe:
        """With every automatic interval worked out for a training set of this size.

        `per_epoch`: the steps of an epoch where they are not examples / batch (batches by tokens, streams); epochs
        then become steps.
        """
        train = self.train
        batch = min(train.batch or num_examples, num_examples)
        if train.tokens:
            batch = max(round(num_examples / per_epoch), 1)
        if train.epochs and (per_epoch or train.least_steps):
            passes = ceil(train.epochs * (per_epoch or num_examples / batch))
            train = replace(train, steps=max(passes, train.least_steps), epochs=None)
        total = train.steps or ceil((train.epochs or 0) * num_examples / batch)
        evaluate = train.evaluate_every or max(10, total // 20)
        changes: Table = {
            "batch": batch,
            "log_every": train.log_every or max(10, total // 100),
            "evaluate_every": evaluate,
            "checkpoint_every": train.checkpoint_every or evaluate,
        }
        changed = {
            key for key in ("steps", *changes) if getattr(replace(train, **changes), key) != getattr(self.train, key)
        }
        keys = {f"train.{key}" for key in changed} - self.replaced.keys()
        origins = self.origins | dict.fromkeys(keys, WORKED_OUT)
        return replace(self, train=replace(train, **changes), origins=origins)

    def with_monitor(self, name: str) -> Recipe:
        """With another metric to choose the best checkpoint by, because the data lacks what the task's metric needs."""
        origins = self.origins | {"train.monitor": "the data"}
        return replace(self, train=replace(self.train, monitor=name), origins=origins)

    def doing(self, task: str) -> Recipe:
        """For another task of its system, which the data asks for."""
        if task == self.system.task:
            return self
        system, origins = self.system.doing(task), self.origins | {"objective.name": "the data"}
        objective = objectives.choose(system, self.preset, self.table.get("objective", {}), origins)
        return replace(self, system=system, objective=objective, origins=origins)

    def total_steps(self, num_examples: int) -> int:
        return self.train.steps or ceil((self.train.epochs or 0) * num_examples / self.train.batch)

    def expected(self) -> Table:
        """The scores that this recipe is known to reach; empty if a setting that decides them was changed."""
        harmless = {"train.seed", "train.tensorboard", "train.keep", "train.checkpoint_every", "train.threads"}
        changed = [key for key, origin in self.origins.items() if origin in ("--set", "--data")]
        return {} if set(changed) - harmless else self.expect

    def _origin(self, key: str) -> str:
        """Where a setting comes from; a table of which any part was set comes from there."""
        inside = [origin for name, origin in self.origins.items() if name.startswith(f"{key}.") and origin == "--set"]
        return inside[0] if inside else self.origins.get(key, "default")

    def to_toml(self) -> str:
        """Every effective value with where it came from; can be read back as a recipe."""
        choice = self.optimizer
        sections: dict[str, Table] = {
            "system": {"name": self.system_name, **values_of(self.config)},
            "data": {key: value for key, value in values_of(self.data).items() if key in _data_settings(self.system)},
            "objective": {"name": self.objective.name, **values_of(self.objective.settings)},
            "train": values_of(self.train),
            "optimizer": _optimizer_table(choice),
        }
        lines = [f"# {self.name}{EFFECTIVE}"]
        for section, table in sections.items():
            lines.append(f"\n[{section}]")
            for key, value in table.items():
                several = isinstance(value, list | dict)  # on one line, so that its origin fits beside it
                text = f"{key} = {inline(value)}" if several else tomli_w.dumps({key: value}).strip()
                lines.append(f"{text}  # {self._origin(f'{section}.{key}')}")
        for phase, other in self.optimizers.items():
            whole = {"groups": [], **_optimizer_table(other)}  # an empty list too, or those of [optimizer] would hold
            lines.append("\n" + tomli_w.dumps({"optimizers": {phase: whole}}).strip())
        if self.expect:
            lines.append("\n" + tomli_w.dumps({"expect": self.expect}).strip())
        return "\n".join(lines) + "\n"


def names() -> list[str]:
    """All recipes that come with canon, as chapter/name."""
    return sorted(recipe_files())


def recipe_of(run: str) -> str:
    """The recipe whose own run directory `run` is, runs/NAME; "" for none."""
    return next((name for name in names() if run and Path(run) == Path("runs") / name.split("/")[1]), "")


def load(name: str = "", data: str = "", changes: Table | None = None) -> Recipe:
    """The recipe called `name`: one of canon's, a TOML file, or a system's own default recipe."""
    table, title, noted = _find(name or DEFAULT, bool(data))
    by_system = bool(name) and not _matching(name) and registry.is_system(name)
    with border(title, "is not a recipe"):
        return _changed(table, title, noted, data, by_system, changes or {})


def _goes_along(key: str, value: Any, by_system: bool) -> bool:
    """Whether a setting of [data] goes with a recipe to other data: all do but those on the layout of its files. Where
    a user has named a system, its recipe is only an example, and what suits any data goes along."""
    from canon.data.config import DataConfig, is_layout

    if by_system:
        return key in ("valid", "test", "seed", "missing", "encoding", "limit")
    known = key in DataConfig.__pydantic_fields__  # another is an error of its own
    return not (known and is_layout(key)) and not (key in ("valid", "test") and isinstance(value, str))


def _changed(table: Table, title: str, noted: Origins, data: str, by_system: bool, changes: Table) -> Recipe:
    """A recipe's table with other data and with changes."""
    for short in SHORT.keys() & table.keys():
        assign(table, SHORT[short], table.pop(short))
    origins: Origins = {}
    _note(origins, table, f"recipe {title}")
    origins |= noted
    _check_sections(table)
    if data:
        table["data"] = {
            key: value for key, value in table.get("data", {}).items() if _goes_along(key, value, by_system)
        }
        origins = _kept(origins, table, "data") | {"data.source": "--data"}
        table["data"]["source"] = data
    # A name decides which other settings there are, so names come first.
    for key, value in sorted(changes.items(), key=lambda change: _NAMES.get(change[0], len(_NAMES))):
        if "." not in key:
            raise CanonError(f"--set takes section.key=value, as in --set train.steps=100; got {key}.")
        for other in EITHER.get(key, ()):
            if other not in changes and table.get("train", {}).pop(other.removeprefix("train."), None) is not None:
                origins[other] = f"{_REPLACED}{key}"
        if key == "system.name" and value != table.get("system", {}).get("name"):
            # Another system or preset has its own settings, and its own objective.
            table["system"] = {}
            table.pop("objective", None)
            origins = _kept(origins, table, "system", "objective")
        if key == "objective.name" and value != objectives.name_in(table):
            table["objective"] = {}
            origins = _kept(origins, table, "objective")
        if key == "optimizer.name" and value != table.get("optimizer", {}).get("name"):
            table["optimizer"] = _common(table.get("optimizer", {}))
            origins = _kept(origins, table, "optimizer")
        assign(table, key, value)
        origins = {k: v for k, v in origins.items() if not k.startswith(f"{key}.")} | {key: "--set"}
    return build(table, title, origins)


_SECTIONS = ("system", "data", "objective", "train", "optimizer", "optimizers", "expect")
_NAMES = {"system.name": 0, "objective.name": 1, "optimizer.name": 2}  # in this order


def build(table: Table, title: str, origins: Origins) -> Recipe:
    """The typed recipe of a parsed table."""
    _check_sections(table)
    chosen = dict(table.get("system", {}))
    name = chosen.pop("name", None)
    if not isinstance(name, str):
        raise CanonError(f'{title}: system.name is missing; it names one of `canon list systems`, as in "mlp:tiny".')
    system, preset = registry.find(name)
    for key in system.presets.get(preset, {}):
        origins.setdefault(f"system.{key}", f"preset {preset}")
    system = objectives.doing(system, table.get("objective", {}))
    objective = objectives.choose(system, preset, table.get("objective", {}), origins)
    chosen = objectives.shaped(chosen, system, objective, origins)
    train = parse(TrainConfig, table.get("train", {}), "train", origins)
    if train.steps and train.epochs:
        raise CanonError("train.steps and train.epochs are both given; give one of them.")
    if not train.steps and not train.epochs and not issubclass(system.load()[1], Suggests):
        raise CanonError("Neither train.steps nor train.epochs is given; add --set train.epochs=10.")
    optimizer, expect = table.get("optimizer", {}), table.get("expect", {})
    _check_expect(expect)
    return Recipe(
        name=title,
        system=system,
        preset=preset,
        config=system.configure(preset, chosen, origins),
        data=_data(table.get("data", {}), system, origins),
        objective=objective,
        train=train,
        optimizer=_optimizer(optimizer, "optimizer", origins),
        optimizers={
            phase: _optimizer(_merged(optimizer, changes, phase), f"optimizers.{phase}", origins)
            for phase, changes in table.get("optimizers", {}).items()
        },
        expect=expect,
        table=table,
        origins=origins,
    )


def _data_settings(system: registry.System) -> set[str]:
    """The names of the settings of [data] that a system can use."""
    from canon.data import encodings
    from canon.data.config import settings_of

    return settings_of(encodings.find(name) for name in system.encodings)


def _data(table: Table, system: registry.System, origins: Origins) -> Any:
    """The section [data]. A setting of data that the system does not read is an error that says whose setting it is,
    unless the recipe gave it for another system than was chosen, or it is the default of another version."""
    from canon.data.config import DataConfig, owners

    parse(DataConfig, table, "data", origins)  # an unknown name or a wrong value comes first
    foreign = table.keys() - _data_settings(system)
    for key in foreign:
        origin = origins.pop(f"data.{key}", "")
        if origin != "default" and not (origin.startswith("recipe ") and origins.get("system.name") == "--set"):
            raise CanonError(
                f"data.{key} is a setting of {owners(key)}, which {system.name} does not read; leave it out."
            )
    return parse(DataConfig, {key: table[key] for key in table if key not in foreign}, "data", origins)


def _check_sections(table: Table) -> None:
    for section, value in table.items():
        if section not in _SECTIONS:
            raise unknown("section", section, _SECTIONS)
        if not isinstance(value, dict):
            raise CanonError(f"{section} must be a table of settings, as in [{section}], got {value!r}.")


def _optimizer(table: Table, section: str, origins: Origins) -> OptimizerChoice:
    rest = dict(table)
    name = rest.pop("name", _DEFAULT_OPTIMIZER)
    if not isinstance(name, str) or name not in OPTIMIZERS:
        raise unknown("optimizer", str(name), OPTIMIZERS)
    schedule, groups = rest.pop("schedule", {}), rest.pop("groups", [])
    if isinstance(schedule, str):
        schedule = {"name": schedule}
    if not isinstance(groups, list | tuple):
        raise CanonError(f'{section}.groups must be a list of tables, as in [{{match = "output.*"}}], got {groups!r}.')
    return OptimizerChoice(
        name=name,
        settings=parse(OPTIMIZERS[name], rest, section, origins),
        schedule=parse(Schedule, schedule, f"{section}.schedule", origins),
        groups=tuple(parse(Group, group, f"{section}.groups", origins) for group in groups),
    )


def _common(optimizer: Table) -> Table:
    """What another optimiser takes over: only the plan of the rates is common to all."""
    return {key: value for key, value in optimizer.items() if key in ("schedule", "groups")}


def _merged(optimizer: Table, changes: Any, phase: str) -> Table:
    """The optimiser of a phase: the common one with its own changes."""
    if not isinstance(changes, dict):
        raise CanonError(f"optimizers.{phase} must be a table of settings, got {changes!r}.")
    name = optimizer.get("name", _DEFAULT_OPTIMIZER)
    other = changes.get("name", name) != name
    return {**(_common(optimizer) if other else optimizer), **changes}


def _check_expect(expect: Table) -> None:
    """`"test/accuracy" = [low, high]`; the curve: `"train/loss" = [[step, low, high], …]`."""
    curve = expect.get("curve", {})
    points = curve.values() if isinstance(curve, dict) else [None]
    bounds = [value for key, value in expect.items() if key != "curve"]
    if not all(_numbers(value, 2) for value in bounds):
        raise CanonError('expect takes pairs of numbers, as in "test/accuracy" = [0.95, 0.97].')
    if not all(isinstance(rows, list) and all(_numbers(row, 3) for row in rows) for rows in points):
        raise CanonError('expect.curve takes lists of [step, low, high], as in "train/loss" = [[100, 0.4, 0.5]].')


def _numbers(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(type(item) in (int, float) for item in value)


def is_known(name: str) -> bool:
    """Whether `load` takes this for a recipe or a system."""
    return name.endswith(".toml") or bool(_matching(name)) or registry.is_system(name)


def _matching(name: str) -> list[str]:
    """The recipes that come with canon and have this name, whole or without the chapter."""
    return [known for known in names() if name in (known, known.split("/")[1])]


def _find(name: str, other_data: bool = False) -> tuple[Table, str, Origins]:
    """The recipe's table, its name and, of a run's own recipe, the origins noted there.

    other_data: whether the data is not the recipe's own."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise CanonError(f"There is no recipe file {name}.")
        table = read_toml(path)
        title, sections = effective_settings(path.read_text(encoding="utf-8"))
        noted = {f"{part}.{key}": origin for part, rows in sections.items() for key, _, origin in rows if origin}
        return table, title or path.stem, noted
    matching = _matching(name)
    # A recipe may be called as its system is, which has another one for the user's own data.
    has_data_recipe = other_data and registry.is_system(name) and registry.find(name)[0].data_recipe
    if len(matching) == 1 and not has_data_recipe:
        return read_toml(RECIPES / f"{matching[0]}.toml"), matching[0], {}
    if len(matching) > 1:
        raise CanonError(f'"{name}" can mean {" or ".join(matching)}; give the whole name.')
    if registry.is_system(name):
        system, preset = registry.find(name)
        title = (other_data and system.data_recipe) or system.recipe
        if not title:  # a system in a user's file
            return {"system": {"name": name}, "train": {"epochs": _EPOCHS}}, Path(system.name).stem, {}
        table = read_toml(RECIPES / f"{title}.toml")
        if preset and name != table["system"]["name"]:
            table["system"] = {"name": name}
            table.pop("objective", None)
            table.pop("expect", None)
        return table, title, {}
    systems = (system.name for system in registry.SYSTEMS)
    raise no_system("recipe or system", name, [*names(), *(one.split("/")[1] for one in names()), *systems])


def _note(origins: Origins, table: Table, origin: str, prefix: str = "") -> None:
    for key, value in table.items():
        origins[prefix + key] = origin
        if isinstance(value, dict):
            _note(origins, value, origin, f"{prefix}{key}.")


def _kept(origins: Origins, table: Table, *sections: str) -> Origins:
    """Without the settings that these sections no longer have."""

    def is_gone(section: str, key: str = "", *_inside: str) -> bool:
        return section in sections and bool(key) and key not in table.get(section, {})

    return {key: origin for key, origin in origins.items() if not is_gone(*key.split("."))}


def _optimizer_table(choice: OptimizerChoice) -> Table:
    groups = {"groups": [values_of(group) for group in choice.groups]} if choice.groups else {}
    return {"name": choice.name, **values_of(choice.settings), "schedule": values_of(choice.schedule), **groups}
