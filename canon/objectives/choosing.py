"""A recipe's choice of an objective: which ones fit a system, whose settings are whose."""

from __future__ import annotations

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
    """The objectives that a system can be trained by, its default first; a learner without a network has only that."""
    if system.loop == "learner":
        return (system.objective,)
    fit = (each.name for each in by_name().values() if system.task in each.tasks and each.module and not each.exclusive)
    return tuple(dict.fromkeys((system.objective, *fit)))


def doing(system: System, table: Table) -> System:
    """A system for that of its tasks which the objective of a recipe is for."""
    name = table.get("name", system.objective)
    fit = (task for task in system.tasks if name in fitting(system.doing(task)))
    return system.doing(next(fit, system.task))


def choose(system: System, preset: str, table: Table, origins: Origins) -> ObjectiveChoice:
    """The section [objective] of a recipe; the system's default where it names none."""
    rest = dict(table)
    name = rest.pop("name", system.objective)
    fit = fitting(system)
    if not isinstance(name, str) or name not in by_name():
        raise unknown("objective", str(name), fit)
    if name not in fit:
        raise CanonError(
            f'objective.name = "{name}" does not fit {system.name}, whose task is {system.task}; what fits: '
            f"{', '.join(fit)}."
        )
    if name == system.objective:
        in_preset = system.presets.get(preset, {}).get("objective", {})
        defaults = ((f"preset {preset}", in_preset), (f"system {system.name}", system.objective_settings))
        for origin, values in defaults:
            for key in values.keys() - rest.keys():
                rest[key] = values[key]
                origins.setdefault(f"objective.{key}", origin)
    settings = _settings(system, name)
    accepted = [f.name for f in fields(settings)]
    for key in rest.keys() - set(accepted):
        listed = f"it has: {', '.join(accepted)}" if accepted else "it has none"
        raise CanonError(f'The objective {name} of {system.name} has no setting "objective.{key}"; {listed}.')
    return ObjectiveChoice(by_name()[name], parse(settings, rest, "objective", origins))


def _settings(system: System, name: str) -> Any:
    """The settings of an objective; those of a learner without a network are its system's."""
    return NoSettings if system.loop == "learner" else by_name()[name].tasks[system.task]


def default(system: System, config: Any) -> ObjectiveChoice:
    """The default objective of a system, with the settings that its network was built for."""
    record = by_name()[system.objective]
    known = {f.name for f in fields(config)} if record.shapes else set()
    return choose(system, "", {key: getattr(config, key) for key in record.shapes if key in known}, {})


def shaped(chosen: Table, system: System, objective: ObjectiveChoice, origins: Origins) -> Table:
    """A system's settings with those that the objective decides; a setting that belongs to the objective is an
    error."""
    known = {f.name for f in fields(system.load()[0])}
    fit = fitting(system)
    of_objectives = {f.name for name in fit for f in fields(_settings(system, name))}
    for key in chosen.keys() - known:
        if key in of_objectives:
            raise CanonError(f"system.{key} is a setting of the objective: write objective.{key} instead.")
        if chosen[key] in fit:
            raise CanonError(f'system.{key} is the objective: write objective.name = "{chosen[key]}" instead.')
    chosen = dict(chosen)
    for key in objective.record.shapes:
        value, origin = getattr(objective.settings, key), origins.get(f"system.{key}", "default")
        if key in known:
            if key in chosen and origin != _THE_OBJECTIVE and as_tuples(chosen[key]) != value:
                raise CanonError(
                    f"system.{key} is {chosen[key]!r} (from {origin}), but the objective decides it: write "
                    f"objective.{key} instead."
                )
            chosen[key] = value
            origins[f"system.{key}"] = _THE_OBJECTIVE
        elif value:
            raise CanonError(f"objective.{key} is {value!r}, but {system.name} has no part for it: leave it out.")
    return chosen


def of_network(name: str, values: Table) -> Table:
    """The sections of a recipe for a network whose settings are known, as those of a file of weights are."""
    shapes = by_name()[registry.find(name)[0].objective].shapes
    return {"system": {"name": name, **values}, "objective": {key: values[key] for key in shapes if key in values}}


def name_in(table: Table) -> str:
    """The objective of a recipe's table, which may be its system's default."""
    system = table.get("system", {}).get("name", "")
    name = table.get("objective", {}).get("name", "")
    return name or (registry.find(system)[0].objective if isinstance(system, str) and system else "")
