"""Policy iteration and value iteration: the best policy from the table of transition probabilities, without acting.

Howard 1960, Dynamic programming and Markov processes; Bellman 1957, Dynamic programming.
  policy iteration: V = R_π + γ P_π V, then π(s) = argmax_a Q(s, a), until the policy repeats   `PolicyIteration.step`
  value iteration: V = max_a (R + γ P V), until the change is below tol (1 − γ)/γ               `ValueIteration.step`
A step is one iteration, or one sweep over all states.
Deviations: of actions whose values are equal but for rounding the first is taken; at γ = 1 policy iteration begins with
moves by which episodes can end soonest, since a policy that circles has no value, and value iteration stops at a change
below tol and of actions that are equally good takes one by which episodes can end soonest.
Shapes: S states, A actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Agent, Context, Environments
from canon.data.environments.abilities import Foresees, Measures, StateTable, Tabular
from canon.data.environments.dynamics import Dynamics
from canon.systems.control import exact
from canon.systems.settings import Positive


@settings
class Config:
    states: Positive = Field(default=16, description="the environment decides")
    actions: Positive = Field(default=4, description="the environment decides")
    gamma: Annotated[float, Field(gt=0, le=1)] = Field(default=0.99, description="γ, the discount")
    tol: Annotated[float, Field(gt=0)] = Field(
        default=1e-8, description="value iteration: how far V may be from V* in the end"
    )


class _Planner(Agent, Foresees, Measures, Tabular):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.gamma, self.unit = config.gamma, (1.0, "sweeps")
        self.value_S = np.zeros(config.states)
        self.action_S = np.zeros(config.states, np.int64)
        self.change = 0.0
        self.model: Dynamics | None = None

    @property
    def num_parameters(self) -> int:
        return self.value_S.size

    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        first = environments.copies[0]
        self.model = first.model
        exact.require_ends(first.model, self.gamma, first.name)

    def act(self, observations_N: np.ndarray) -> np.ndarray:
        return self.action_S[observations_N]

    def foresee(self, observations_N: np.ndarray) -> np.ndarray:
        return self.value_S[observations_N]

    def policy(self) -> np.ndarray:
        return exact.deterministic(self.action_S, self.config.actions)

    def measures(self, environment: Any) -> dict[str, float]:
        model = environment.model
        residual = float(np.abs(self.value_S - model.backup(self.value_S, self.gamma).max(axis=1)).max())
        return {"loss": residual, **exact.measured(environment, self.policy(), self.gamma)}

    def table(self) -> StateTable:
        return StateTable(self.value_S, self.policy(), np.zeros(self.config.states, np.int64))

    def logs(self) -> dict[str, float]:
        assert self.model is not None
        return {"change": self.change, "start_value": float(self.model.start @ self.value_S)}

    def tensors(self) -> Mapping[str, Mapping[str, Any]]:
        return {"model": {"value": self.value_S, "action": self.action_S}}

    def state(self) -> dict[str, Any]:
        return {"change": self.change}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.value_S = np.array(tensors["model"]["value"])
        self.action_S = np.array(tensors["model"]["action"])
        self.change = state["change"]


class PolicyIteration(_Planner):
    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        super().begin(environments, batch, steps)
        assert self.model is not None
        self.action_S = exact.first_policy(self.model, self.gamma)

    def step(self, number: int) -> bool:
        assert self.model is not None
        value_S, action_S = exact.improved(self.model, self.action_S, self.gamma)
        self.change = float(np.abs(value_S - self.value_S).max())
        repeats = bool((action_S == self.action_S).all())
        self.value_S, self.action_S = value_S, action_S
        return not repeats


class ValueIteration(_Planner):
    def step(self, number: int) -> bool:
        assert self.model is not None
        value_S = self.model.backup(self.value_S, self.gamma).max(axis=1)
        self.change = float(np.abs(value_S - self.value_S).max())
        self.value_S = value_S
        self.action_S = exact.greedy(self.model, value_S, self.gamma)
        enough = self.config.tol * ((1 - self.gamma) / self.gamma if self.gamma < 1 else 1)
        return self.change >= enough
