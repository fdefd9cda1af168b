"""A recipe's choice of an objective: which ones fit a system, whose settings are whose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from canon import registry
from canon.config import Origins, Table, as_tuples, parse
from canon.errors import CanonError, unknown
from canon.objectives.record import ObjectiveChoice
from canon.objectives.settings import NoSettings
from canon.objectives.table import by_name
from canon.registry import System

_THE_OBJECTIVE = "the objective"  # where a setting of a system came from


def fitting(system: System) -> tuple[str, ...]:
    """The objectives that a system can be trained by, its default first; a learner without a network has its own."""
    if system.loop != "gradient":
        return (system.objective, *system.objectives)
    fit = (each.name for each in by_name().values() if system.task in each.tasks and each.module and not each.exclusive)
    return tuple(dict.fromkeys((system.objective, *fit)))


def _named(system: System, values: Mapping[str, Any]) -> str:
    """The objective that settings of a system stand for; its default where they name none."""
    known = ((name, by_name()[name].decides) for name in fitting(system))
    return next((name for name, decides in known if decides and decides.items() <= values.items()), system.objective)


def doing(system: System, table: Table) -> System:
    """A system for that of its tasks which the objective of a recipe is for."""
    name = table.get("name", system.objective)
    fit = (task for task in system.tasks if name in fitting(system.doing(task)))
    return system.doing(next(fit, system.task))


def choose(system: System, preset: str, table: Table, origins: Origins) -> ObjectiveChoice:
    """The section [objective] of a recipe; the system's default where it names none."""
    rest, settings_of_preset = dict(table), system.presets.get(preset, {})
    usual, fit = _named(system, settings_of_preset), fitting(system)
    name = rest.pop("name", usual)
    if "name" not in table and usual != system.objective:
        origins.setdefault("objective.name", f"preset {preset}")
    if not isinstance(name, str) or name not in by_name():
        raise unknown("objective", str(name), fit)
    if name not in fit:
        raise CanonError(
            f'objective.name = "{name}" does not fit {system.name}, whose task is {system.task}; what fits: '
            f"{', '.join(fit)}."
        )
    if name == usual:
        in_preset = settings_of_preset.get("objective", {})
        for origin, values in ((f"preset {preset}", in_preset), (f"system {system.name}", system.objective_settings)):
            for key in values.keys() - rest.keys():
                rest[key] = values[key]
                origins.setdefault(f"objective.{key}", origin)
    settings = settings_for(system, name)
    accepted = [f.name for f in fields(settings)]
    for key in rest.keys() - set(accepted):
        listed = f"it has: {', '.join(accepted)}" if accepted else "it has none"
        raise CanonError(f'The objective {name} of {system.name} has no setting "objective.{key}"; {listed}.')
    return ObjectiveChoice(by_name()[name], parse(settings, rest, "objective", origins))


def settings_for(system: System, name: str) -> Any:
    """The settings of an objective; a learner without a network has those that are settings of its own too, or all of
    them where its record says so."""
    record = by_name()[name]
    if system.loop == "learner" and not record.shapes and not system.takes_objective_settings:
        return NoSettings
    if system.task not in record.tasks:
        raise CanonError(
            f'{system.name} has the task "{system.task}", which the objective {name} does not fit; it fits: '
            f"{', '.join(record.tasks)}."
        )
    return record.tasks[system.task]


def default(system: System, config: Any) -> ObjectiveChoice:
    """The objective that a network or learner with these settings was built for."""
    return choose(system, "", _section(system, {f.name: getattr(config, f.name) for f in fields(config)}), {})


def _section(system: System, values: Table) -> Table:
    """The section [objective] of a recipe for a system with these settings."""
    name = _named(system, values)
    return {"name": name, **{key: values[key] for key in by_name()[name].shapes if key in values}}


def shaped(chosen: Table, system: System, objective: ObjectiveChoice, origins: Origins) -> Table:
    """A system's settings with those that the objective decides; a setting that belongs to the objective is an
    error."""
    known = {f.name for f in fields(system.load()[0])}
    fit = fitting(system)
    of_objectives = {f.name for name in fit for f in fields(settings_for(system, name))}
    for key in chosen.keys() - known:
        if key in of_objectives:
            raise CanonError(f"system.{key} is a setting of the objective: write objective.{key} instead.")
        if chosen[key] in fit:
            raise CanonError(f'system.{key} is the objective: write objective.name = "{chosen[key]}" instead.')
    chosen = dict(chosen)
    record = objective.record
    for key, value in {**record.decides, **{key: getattr(objective.settings, key) for key in record.shapes}}.items():
        origin = origins.get(f"system.{key}", "default")
        if key in known:
            if key in chosen and origin != _THE_OBJECTIVE and as_tuples(chosen[key]) != value:
                setting = f'objective.name = "{chosen[key]}"' if key in record.decides else f"objective.{key}"
                raise CanonError(
                    f"system.{key} is {chosen[key]!r} (from {origin}), but the objective decides it: write {setting} "
                    "instead."
                )
            chosen[key] = value
            origins[f"system.{key}"] = _THE_OBJECTIVE
        elif value:
            raise CanonError(f"objective.{key} is {value!r}, but {system.name} has no part for it: leave it out.")
    return chosen


def of_network(name: str, values: Table) -> Table:
    """The sections of a recipe for a network whose settings are known, as those of a file of weights are."""
    return {"system": {"name": name, **values}, "objective": _section(registry.find(name)[0], values)}


def name_in(table: Table) -> str:
    """The objective of a recipe's table, which may be its system's default."""
    name, chosen = table.get("objective", {}).get("name", ""), table.get("system", {}).get("name", "")
    if name or not chosen or not isinstance(chosen, str):
        return str(name)
    system, preset = registry.find(chosen)
    return _named(system, system.presets.get(preset, {}))
