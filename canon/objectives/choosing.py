"""A recipe's choice of an objective: which ones fit a system, whose settings are whose."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from canon import registry
from canon.config import Origins, Table, as_tuples, parse
from canon.errors import CanonError, unknown
from canon.objectives.record import Choice
from canon.objectives.settings import NoSettings
from canon.objectives.table import by_name
from canon.registry import System

_THE_OBJECTIVE = "the objective"  # where a setting of a system came from


def fitting(system: System) -> tuple[str, ...]:
    """The objectives that a system can be trained by; what learns without a network has its own."""
    if system.loop == "learner":
        return (system.objective,)
    fit = (own for own in by_name().values() if system.task in own.tasks and own.module and not own.exclusive)
    return tuple(dict.fromkeys((system.objective, *(own.name for own in fit))))


def choose(system: System, preset: str, table: Table, origins: Origins) -> Choice:
    """The section [objective] of a recipe: the system's own objective where it names none."""
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
        for origin, own in ((f"preset {preset}", in_preset), (f"system {system.name}", system.objective_settings)):
            for key in own.keys() - rest.keys():
                rest[key] = own[key]
                origins.setdefault(f"objective.{key}", origin)
    settings = _settings(system, name)
    accepted = [f.name for f in fields(settings)]
    for key in rest.keys() - set(accepted):
        listed = f"it has: {', '.join(accepted)}" if accepted else "it has none"
        raise CanonError(f'The objective {name} of {system.name} has no setting "objective.{key}"; {listed}.')
    return Choice(by_name()[name], parse(settings, rest, "objective", origins))


def _settings(system: System, name: str) -> Any:
    """The settings of an objective; what learns without a network has its own, in its system."""
    return NoSettings if system.loop == "learner" else by_name()[name].tasks[system.task]


def default(system: System, config: Any) -> Choice:
    """The objective of a system by itself, as its network was made for it."""
    record = by_name()[system.objective]
    known = {f.name for f in fields(config)} if record.shapes else set()
    return choose(system, "", {key: getattr(config, key) for key in record.shapes if key in known}, {})


def shaped(chosen: Table, system: System, objective: Choice, origins: Origins) -> Table:
    """A system's settings with those that the objective decides; one of the objective's own is an error."""
    known = {f.name for f in fields(system.load()[0])}
    fit = fitting(system)
    of_objectives = {f.name for name in fit for f in fields(_settings(system, name))}
    for key in chosen.keys() - known:
        if key in of_objectives:
            raise CanonError(f"system.{key} is a setting of the objective: write objective.{key} in its place.")
        if chosen[key] in fit:
            raise CanonError(f'system.{key} is the objective: write objective.name = "{chosen[key]}" in its place.')
    chosen = dict(chosen)
    for key in objective.record.shapes:
        value, said = getattr(objective.settings, key), origins.get(f"system.{key}", "default")
        if key in known:
            if key in chosen and said != _THE_OBJECTIVE and as_tuples(chosen[key]) != value:
                given = f"system.{key} is {chosen[key]!r} (from {said})"
                raise CanonError(f"{given}, but the objective decides it: write objective.{key} in its place.")
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
    """The objective of a recipe's table, which may be its system's own."""
    system = table.get("system", {}).get("name", "")
    own = table.get("objective", {}).get("name", "")
    return own or (registry.find(system)[0].objective if isinstance(system, str) and system else "")
