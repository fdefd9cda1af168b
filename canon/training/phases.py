"""Phases: the optimiser of each, with its groups of parameters, its schedule and what it has to report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from typing import Any

from torch import Tensor, nn

from canon import optim
from canon.contracts import ParameterPace
from canon.errors import CanonError
from canon.nn.without_dynamo import leave_dynamo_out, plain_step
from canon.optim.schedules import multiplier
from canon.recipe import OptimizerChoice, Recipe
from canon.tasks.base import Training
from canon.training.sharding import as_tensors, like

Named = Iterable[tuple[str, nn.Parameter]]


class Phase:
    """One optimiser with the parameters it may change, and the tallies of its loss since the last log."""

    def __init__(
        self, name: str, choice: OptimizerChoice, named: Named, paces: dict[str, ParameterPace] | None = None
    ) -> None:
        """paces: of parameters that do not learn like the rest (canon.contracts.Paced)."""
        self.name = name
        self.choice = choice
        parameters = list(named)
        for group in choice.groups:
            if not any(fnmatch(parameter_name, group.match) for parameter_name, _ in parameters):
                raise CanonError(f'optimizer.groups: no parameter of the network matches "{group.match}".')
        groups = _groups(choice, parameters, paces or {})
        self.names: list[str] = [name for group in groups for name in group.pop("names")]
        self.parameters: list[nn.Parameter] = [parameter for group in groups for parameter in group["params"]]
        if not self.parameters:
            raise CanonError("optimizer.groups freezes every parameter, so nothing is left to train.")
        leave_dynamo_out()
        self.optimizer = optim.create(choice.settings, groups)
        self.step = plain_step(self.optimizer)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.skips_on_device = bool(self.optimizer.defaults.get("fused"))
        self.multiplier = math.nan
        self.reset()

    def reset(self) -> None:
        self.loss: Any = 0.0  # a float on the CPU; on a GPU a tensor, read only when it is logged
        self.bad: Any = 0.0
        self.count = 0
        self.norm: Tensor | None = None

    def set_rate(self, step: int, total_steps: int) -> None:
        now = multiplier(self.choice.schedule, step, total_steps)
        if now != self.multiplier:
            self.multiplier = now
            for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                group["lr"] = rate * now

    def tensors(self) -> dict[str, Tensor]:
        """The optimiser's state by phase, parameter and key; of shards, shards."""
        return {
            f"{self.name}/{name}/{key}": value
            for name, parameter in zip(self.names, self.parameters, strict=True)
            for key, value in self.optimizer.state[parameter].items()
            if value is not None
        }

    def restore(self, arrays: Mapping[str, Any]) -> None:
        tensors = as_tensors(arrays)
        stored = self.optimizer.state_dict()
        for index, (name, parameter) in enumerate(zip(self.names, self.parameters, strict=True)):
            prefix = f"{self.name}/{name}/"
            # In one order on every process, since all of them take part in what is done with a shard.
            keys = sorted(key for key in tensors if key.startswith(prefix))
            if keys:
                # One after the other: of shards, each is put together when it is asked for.
                stored["state"][index] = {key.removeprefix(prefix): _as(tensors[key], parameter) for key in keys}
        self.optimizer.load_state_dict(stored)
        self.multiplier = math.nan


def _as(value: Tensor, parameter: nn.Parameter) -> Tensor:
    """What belongs to each number of a parameter lies where that does."""
    return like(value, parameter) if value.shape == parameter.shape else value


def _groups(
    choice: OptimizerChoice, parameters: list[tuple[str, nn.Parameter]], paces: dict[str, ParameterPace]
) -> list[dict[str, Any]]:
    """The groups for torch's optimiser, each with the names of its parameters; frozen ones are in none."""
    groups: dict[tuple[int, ParameterPace], dict[str, Any]] = {}
    for name, parameter in parameters:
        index = _group_of(name, choice)
        group = choice.groups[index] if index >= 0 else None
        if group and group.lr == 0:
            continue
        pace = paces.get(name, ParameterPace())
        share, decays = pace.share, pace.decays
        settings = groups.setdefault((index, pace), {"params": [], "names": []})
        if pace.rows:
            settings["rows"] = True
        if share != 1 or (group and group.lr is not None):
            settings["lr"] = share * (group.lr if group and group.lr is not None else choice.settings.lr)
        if not decays:
            settings["weight_decay"] = 0.0
        if group and group.weight_decay is not None:
            settings["weight_decay"] = group.weight_decay
        settings["params"].append(parameter)
        settings["names"].append(name)
    # The whole rate, which is the one that is logged, first; torch numbers parameters group by group.
    return [groups[key] for key in sorted(groups, key=lambda key: -key[1].share)]


def _group_of(name: str, choice: OptimizerChoice) -> int:
    """The first of optimizer.groups that matches a parameter; -1 for none."""
    return next((i for i, group in enumerate(choice.groups) if fnmatch(name, group.match)), -1)


def freeze(network: nn.Module, task: Training, recipe: Recipe) -> list[nn.Module]:
    """Turns off gradients of what has the rate 0; returns the modules without a parameter that learns. Called before
    the network is wrapped, which counts the gradients to expect."""
    for phase in dict.fromkeys(task.phases):
        choice = recipe.optimizer_for(phase)
        for name, parameter in task.parameters(network, phase):
            index = _group_of(name, choice)
            if index >= 0 and choice.groups[index].lr == 0:
                parameter.requires_grad_(False)
    flags = [(module, [parameter.requires_grad for parameter in module.parameters()]) for module in network.modules()]
    return [module for module, learns in flags if learns and not any(learns)]


def give_turn(phase: Phase, phases: list[Phase]) -> None:
    """Gradients only for what the phase changes."""
    for other in phases:
        for parameter in other.parameters:
            parameter.requires_grad_(False)
    for parameter in phase.parameters:
        parameter.requires_grad_(True)
