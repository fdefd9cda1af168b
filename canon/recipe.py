"""A recipe: data, network, objective, optimiser and budget of one experiment, from TOML to typed records.

Values come, each over the one before, from the settings' defaults, the system's preset, the recipe file, `--data` and
`--set`; where each came from is kept and written beside it in the run's recipe.toml.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields, replace
from math import ceil
from pathlib import Path
from typing import Any

import tomli_w

from canon import registry
from canon.config import SHORT, Origins, Table, assign, parse, read_toml
from canon.errors import CanonError, border, unknown
from canon.objectives import choosing as objectives
from canon.objectives.record import Choice
from canon.optim.schedules import Schedule
from canon.optim.settings import OPTIMIZERS
from canon.optim.settings import Settings as OptimizerSettings
from canon.registry.recipes import RECIPES
from canon.train_config import Group, TrainConfig

DEFAULT = "sequence/pronounce"
_EFFECTIVE = ": every effective value and where it came from."
_DEFAULT_OPTIMIZER = "adam"
_REPLACED = "replaced by "
# Of two settings for one thing the later choice replaces the earlier.
EITHER = {
    "train.steps": "train.epochs",
    "train.epochs": "train.steps",
    "train.batch": "train.tokens",
    "train.tokens": "train.batch",
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
    objective: Choice
    train: TrainConfig
    optimizer: OptimizerChoice
    optimizers: dict[str, OptimizerChoice]  # of phases that differ from `optimizer`
    expect: Table
    table: Table  # as parsed, before defaults
    origins: Origins = field(default_factory=dict)

    @property
    def system_name(self) -> str:
        return f"{self.system.name}:{self.preset}" if self.preset else self.system.name

    @property
    def needs(self) -> str:
        """The recipe whose run this one starts from; "" for none."""
        return recipe_of(self.train.init)

    @property
    def replaced(self) -> dict[str, str]:
        """Settings of the recipe in whose place another was given, and which."""
        return {key: origin for key, origin in self.origins.items() if origin.startswith(_REPLACED)}

    def optimizer_for(self, phase: str) -> OptimizerChoice:
        return self.optimizers.get(phase, self.optimizer)

    def fitted(self, sizes: Table) -> Recipe:
        """With the sizes that the data decides written into the system's settings; a contradiction is an error."""
        known = {f.name for f in fields(self.config)}
        changes = {key: value for key, value in sizes.items() if key in known}
        for key, value in changes.items():
            said = self.origins.get(f"system.{key}", "default")
            fixed = said not in ("default", "the data") and not said.startswith("preset ")
            if fixed and getattr(self.config, key) != value:
                asked = getattr(self.config, key)
                raise CanonError(f"system.{key} is {asked!r} (from {said}), but the data says {value!r}: leave it out.")
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
        if per_epoch and train.epochs:
            train = replace(train, steps=ceil(train.epochs * per_epoch), epochs=None)
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
        origins = self.origins | dict.fromkeys(keys, "worked out")
        return replace(self, train=replace(train, **changes), origins=origins)

    def with_monitor(self, name: str) -> Recipe:
        """Judged by another metric than its task's, because the data lacks what that one needs."""
        origins = self.origins | {"train.monitor": "the data"}
        return replace(self, train=replace(self.train, monitor=name), origins=origins)

    def total_steps(self, num_examples: int) -> int:
        return self.train.steps or ceil((self.train.epochs or 0) * num_examples / self.train.batch)

    def expected(self) -> Table:
        """What this recipe is known to reach, unless something that decides it was changed."""
        harmless = {"train.seed", "train.tensorboard", "train.keep", "train.checkpoint_every", "train.threads"}
        changed = [key for key, origin in self.origins.items() if origin in ("--set", "--data")]
        return {} if set(changed) - harmless else self.expect

    def _origin(self, key: str) -> str:
        """Of a table, what changed anything inside it last."""
        inside = [origin for name, origin in self.origins.items() if name.startswith(f"{key}.") and origin == "--set"]
        return inside[0] if inside else self.origins.get(key, "default")

    def to_toml(self) -> str:
        """Every effective value with where it came from; can be read back as a recipe."""
        choice = self.optimizer
        sections: dict[str, Table] = {
            "system": {"name": self.system_name, **_values(self.config)},
            "data": {key: value for key, value in _values(self.data).items() if key in _data_settings(self.system)},
            "objective": {"name": self.objective.name, **_values(self.objective.settings)},
            "train": _values(self.train),
            "optimizer": _optimizer_table(choice),
        }
        lines = [f"# {self.name}{_EFFECTIVE}"]
        for section, table in sections.items():
            lines.append(f"\n[{section}]")
            for key, value in table.items():
                several = isinstance(value, list | dict)  # on one line, so that its origin fits beside it
                text = f"{key} = {_inline(value)}" if several else tomli_w.dumps({key: value}).strip()
                lines.append(f"{text}  # {self._origin(f'{section}.{key}')}")
        for phase, other in self.optimizers.items():
            whole = {"groups": [], **_optimizer_table(other)}  # no groups is said too: not those of [optimizer]
            lines.append("\n" + tomli_w.dumps({"optimizers": {phase: whole}}).strip())
        if self.expect:
            lines.append("\n" + tomli_w.dumps({"expect": self.expect}).strip())
        return "\n".join(lines) + "\n"


def effective_settings(text: str) -> tuple[str, dict[str, list[tuple[str, str, str]]]]:
    """What `to_toml` wrote: the recipe's name, and by section (key, value, origin); "" for a recipe of other making."""
    lines = text.splitlines()
    if not lines or not lines[0].endswith(_EFFECTIVE):
        return "", {}
    part = ""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for line in lines[1:]:
        if line.startswith("["):
            part = line.strip("[]")
        elif " = " in line and not part.startswith("expect"):
            setting, mark, origin = line.rpartition("  # ")
            key, _, value = (setting if mark else line).partition(" = ")
            found.setdefault(part, []).append((key, value, origin if mark else ""))
    return lines[0].removeprefix("# ").removesuffix(_EFFECTIVE), found


def names() -> list[str]:
    """All recipes that come with canon, as chapter/name."""
    return sorted(str(path.relative_to(RECIPES).with_suffix("")) for path in RECIPES.glob("*/*.toml"))


def recipe_of(run: str) -> str:
    """The recipe whose own run directory `run` is, runs/NAME; "" for none."""
    return next((name for name in names() if run and Path(run) == Path("runs") / name.split("/")[1]), "")


def load(name: str = "", data: str = "", changes: Table | None = None) -> Recipe:
    """The recipe called `name`: one of canon's, a TOML file, or a system's own default recipe."""
    table, title, noted = _find(name or DEFAULT)
    with border(title, "is not a recipe"):
        return _changed(table, title, noted, data, changes or {})


def _changed(table: Table, title: str, noted: Origins, data: str, changes: Table) -> Recipe:
    """A recipe's table with other data and with changes."""
    for short in SHORT.keys() & table.keys():
        assign(table, SHORT[short], table.pop(short))
    origins: Origins = {}
    _note(origins, table, f"recipe {title}")
    origins |= noted
    _check_sections(table)
    if data:
        table["data"] = {key: value for key, value in table.get("data", {}).items() if key in _PORTABLE}
        kept = {f"data.{key}" for key in table["data"]}
        origins = {key: value for key, value in origins.items() if not key.startswith("data.") or key in kept}
        assign(table, "data.source", data)
        origins["data.source"] = "--data"
    # A name decides which other settings there are, so names come first.
    for key, value in sorted(changes.items(), key=lambda change: _NAMES.get(change[0], len(_NAMES))):
        if "." not in key:
            raise CanonError(f"--set takes section.key=value, as in --set train.steps=100; got {key}.")
        other = EITHER.get(key, "")
        if other not in changes and table.get("train", {}).pop(other.removeprefix("train."), None) is not None:
            origins[other] = f"{_REPLACED}{key}"
        if key == "system.name" and value != table.get("system", {}).get("name"):
            # Another system or preset has its own settings, and its own objective.
            table["system"] = {}
            table.pop("objective", None)
            origins = {k: v for k, v in origins.items() if not k.startswith(("system.", "objective."))}
        if key == "objective.name" and value != objectives.name_in(table):
            table["objective"] = {}
            origins = {k: v for k, v in origins.items() if not k.startswith("objective.")}
        if key == "optimizer.name" and value != table.get("optimizer", {}).get("name"):
            # Another optimiser has other settings; only the rate's plan is common to all.
            table["optimizer"] = _common(table.get("optimizer", {}))
            kept = {f"optimizer.{k}" for k in table["optimizer"]}
            origins = {k: v for k, v in origins.items() if k in kept or not re.fullmatch(r"optimizer\.\w+", k)}
        assign(table, key, value)
        origins = {k: v for k, v in origins.items() if not k.startswith(f"{key}.")} | {key: "--set"}
    return build(table, title, origins)


_PORTABLE = ("valid", "test", "seed", "missing", "encoding", "limit")  # data settings that suit any other source
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
    objective = objectives.choose(system, preset, table.get("objective", {}), origins)
    chosen = objectives.shaped(chosen, system, objective, origins)
    train = parse(TrainConfig, table.get("train", {}), "train", origins)
    if train.steps and train.epochs:
        raise CanonError("train.steps and train.epochs are both given; give one of them.")
    if not train.steps and not train.epochs:
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
    """The section [data]; a setting that belongs to other data than the system reads is an error that says to which.
    What a recipe had for another system than was chosen is left out, and so are another version's defaults."""
    from canon.data.config import DataConfig, owners

    usable = _data_settings(system)
    config = parse(DataConfig, table, "data", origins)
    for key in table.keys() - usable:
        origin = origins.get(f"data.{key}", "")
        if origin == "default" or (origin.startswith("recipe ") and origins.get("system.name") == "--set"):
            table = {name: value for name, value in table.items() if name != key}
            origins.pop(f"data.{key}", None)
            continue
        raise CanonError(
            f"data.{key} is a setting of {' and of '.join(owners(key))}, which {system.name} does not read."
        )
    return config if not table else parse(DataConfig, table, "data", origins)


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
    """What another optimiser takes over: it has settings of its own; only the plan of the rates is common to all."""
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


def _find(name: str) -> tuple[Table, str, Origins]:
    """The recipe's table, its name and, of a run's own recipe, the origins noted there."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise CanonError(f"There is no recipe file {name}.")
        table = read_toml(path)
        title, sections = effective_settings(path.read_text(encoding="utf-8"))
        noted = {f"{part}.{key}": origin for part, rows in sections.items() for key, _, origin in rows if origin}
        return table, title or path.stem, noted
    known = names()
    matching = [known_name for known_name in known if name in (known_name, known_name.split("/")[1])]
    if len(matching) == 1:
        return read_toml(RECIPES / f"{matching[0]}.toml"), matching[0], {}
    if len(matching) > 1:
        raise CanonError(f'"{name}" may be {" or ".join(matching)}; give the whole name.')
    systems = [system.name for system in registry.SYSTEMS]
    if name.partition(":")[0] in systems:
        system, _ = registry.find(name)
        table = read_toml(RECIPES / f"{system.recipe}.toml")
        if name != table["system"]["name"]:
            table["system"] = {"name": name}
            table.pop("objective", None)
            table.pop("expect", None)
        return table, system.recipe, {}
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
        return "{ " + ", ".join(f"{_key(key)} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    """As TOML writes it: in quotes where it is not one word."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
