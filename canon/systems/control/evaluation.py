"""Off-policy evaluation: the value of a policy π from episodes in which another one, b, acted.

Precup, Sutton and Singh 2000, Eligibility traces for off-policy policy evaluation; Sutton and Barto 2018, section 5.5.
With ρ_{0:t} = Π_{k ≤ t} π(a_k | s_k)/b(a_k | s_k), summed in logarithms, and ρ of the whole episode:   `estimates`
  ordinary: mean of ρ G                     weighted: Σ ρ G / Σ ρ
  per-decision: mean of Σ_t γ^t ρ_{0:t} r_t
  weighted per-decision: Σ_t γ^t Σ_i ρ_{i,0:t} r_{i,t} / Σ_i ρ_{i,0:t}; an episode that is over keeps its ρ
  effective sample: (Σ ρ)²/Σ ρ²; interval: quantiles of `weighted` over episodes drawn with replacement
A step of training plays `train.batch` more episodes with b.
Deviations: the return of an episode that the limit of steps cuts off is that of the steps until then.
Shapes: E episodes, B their steps, S states, A actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Agent, Context, Environments
from canon.data.environments.abilities import Measures, SamplesActions, StateTable, Tabular
from canon.errors import CanonError
from canon.systems.control import exact
from canon.systems.control.episodes import episodes, of_each, places, play
from canon.systems.settings import Positive

_BOOTSTRAPS = 1000


@settings
class Config:
    states: Positive = Field(default=5, description="the environment decides")
    actions: Positive = Field(default=2, description="the environment decides")
    gamma: Annotated[float, Field(gt=0, le=1)] = Field(default=1.0, description="γ, the discount")
    policy: str | tuple[float, ...] = Field(
        default="uniform",
        description="π: uniform, optimal (of the table P), or the probability of each action in every state",
    )
    behaviour: str | tuple[float, ...] = Field(default="uniform", description="b, the policy that acts, given likewise")
    copies: Annotated[int, Field(gt=0, le=4096)] = Field(default=10, description="environments side by side")


class Logged:
    """Steps of episodes and their importance ratios."""

    def __init__(self, log_ratio_B: np.ndarray, rewards_B: np.ndarray, lengths_E: np.ndarray, gamma: float) -> None:
        """log_ratio: −∞ where π never takes the action."""
        stops_E = lengths_E.cumsum()
        never_B = np.isneginf(log_ratio_B)

        def within(values_B: np.ndarray) -> np.ndarray:
            """Sums from the beginning of each episode on."""
            sums_B = values_B.cumsum()
            before_E = np.concatenate([[0], sums_B[stops_E[:-1] - 1]])
            return sums_B - np.repeat(before_E, lengths_E)

        ratio_B = np.exp(within(np.where(never_B, 0.0, log_ratio_B))) * (within(never_B.astype(int)) == 0)  # ρ_{0:t}
        self.episode_B, self.place_B = episodes(lengths_E), places(lengths_E)
        gain_B = gamma**self.place_B * rewards_B
        self.count = len(lengths_E)
        self.ratio_E = ratio_B[stops_E - 1]
        self.return_E = np.bincount(self.episode_B, gain_B, self.count)
        self.per_decision_E = np.bincount(self.episode_B, ratio_B * gain_B, self.count)
        self.ratio_B, self.gain_B, self.lengths_E = ratio_B, gain_B, lengths_E

    def weighted_per_decision(self) -> float:
        longest = int(self.lengths_E.max())
        gain_T = np.bincount(self.place_B, self.ratio_B * self.gain_B, longest)
        weight_T = np.bincount(self.place_B, self.ratio_B, longest)
        over_T = np.bincount(self.lengths_E, self.ratio_E, longest + 1).cumsum()[:longest]  # those that are over
        weight_T += over_T
        return float(np.divide(gain_T, weight_T, out=np.zeros(longest), where=weight_T > 0).sum())


def estimates(logged: Logged) -> dict[str, float]:
    """All estimates of π's value."""
    ratio_E, return_E = logged.ratio_E, logged.return_E
    total = float(ratio_E.sum())
    random = np.random.default_rng(0)
    drawn = random.multinomial(logged.count, np.full(logged.count, 1 / logged.count), size=_BOOTSTRAPS)
    weights, gains = drawn @ ratio_E, drawn @ (ratio_E * return_E)
    boot = np.divide(gains, weights, out=np.zeros(_BOOTSTRAPS), where=weights > 0)
    low, high = np.quantile(boot, [0.025, 0.975])
    return {
        "ordinary": float((ratio_E * return_E).mean()),
        "weighted": float(ratio_E @ return_E) / total if total else 0.0,
        "per_decision": float(logged.per_decision_E.mean()),
        "weighted_per_decision": logged.weighted_per_decision(),
        "interval_low": float(low),
        "interval_high": float(high),
        "effective_sample": 1 / float(np.square(ratio_E / total).sum()) if total else 0.0,
        "unweighted": float(return_E.mean()),
        "log_episodes": float(logged.count),
    }


class OffPolicyEvaluation(Agent, Measures, SamplesActions, Tabular):
    sampling = True

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.gamma, self.copies, self.unit = config.gamma, config.copies, (1.0, "episodes")
        self.policy_SA = np.zeros((config.states, config.actions))
        self.behaviour_SA = self.policy_SA.copy()
        self._log = {name: np.zeros(0, kind) for name, kind in (("state", int), ("action", int), ("reward", float))}
        self._lengths = np.zeros(0, np.int64)
        self.random = np.random.default_rng([context.seed, 5])

    @property
    def num_parameters(self) -> int:
        return self.policy_SA.size

    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        self.environments, self.each = environments, of_each(batch, self.copies)
        env = environments.copies[0]
        self.policy_SA = self._policy("policy", env)
        self.behaviour_SA = self._policy("behaviour", env)
        missing = (self.behaviour_SA == 0) & (self.policy_SA > 0)
        if missing.any():
            state, action = np.argwhere(missing)[0].tolist()
            raise CanonError(
                f"system.behaviour never takes action {action} in state {state}, which system.policy takes with "
                f"probability {self.policy_SA[state, action]:.3g}: such episodes say nothing about its value."
            )

    def _policy(self, key: str, env: Any) -> np.ndarray:
        """[S, A] what a setting names."""
        chosen, states, actions = vars(self.config)[key], self.config.states, self.config.actions
        if chosen == "uniform":
            return np.full((states, actions), 1 / actions)
        if chosen == "optimal":
            model = exact.model_of(env)
            best_S = exact.optimum(model, self.gamma) if model is not None else None
            if model is None or best_S is None:
                raise CanonError(f'system.{key} = "optimal" needs a table P, and system.gamma below 1.')
            return exact.deterministic(exact.first_best(model.backup(best_S, self.gamma)), actions)
        if isinstance(chosen, str) or len(chosen) != actions or min(chosen) < 0 or abs(sum(chosen) - 1) > 1e-9:
            raise CanonError(
                f'system.{key} must be "uniform", "optimal" or {actions} probabilities that sum to 1, got {chosen!r}.'
            )
        return np.tile(np.array(chosen, float), (states, 1))

    def step(self, number: int) -> bool:
        played = play(self.environments, self.each, lambda states: self._sample(self.behaviour_SA, states))
        for name, more in (("state", played.observations), ("action", played.actions), ("reward", played.rewards)):
            self._log[name] = np.concatenate([self._log[name], more])
        self._lengths = np.concatenate([self._lengths, played.lengths])
        return True

    def _sample(self, policy_SA: np.ndarray, states_N: np.ndarray) -> np.ndarray:
        return _drawn(policy_SA[states_N], self.random.random(len(states_N)))

    def logged(self) -> Logged:
        state, action = self._log["state"], self._log["action"]
        with np.errstate(divide="ignore"):
            ratios = np.log(self.policy_SA[state, action]) - np.log(self.behaviour_SA[state, action])
        return Logged(ratios, self._log["reward"], self._lengths, self.gamma)

    def measures(self, environment: Any) -> dict[str, float]:
        if not len(self._lengths):
            return {}
        scores = estimates(self.logged())
        if (model := exact.model_of(environment)) is not None:
            truth_S = exact.return_within(model, self.policy_SA, environment.limit, self.gamma)
            scores["truth"] = float(model.start @ truth_S)
        return scores

    def act(self, observations_N: np.ndarray) -> np.ndarray:
        return self.policy_SA.argmax(axis=1)[observations_N]

    def sample(self, observations_N: np.ndarray, uniform_N: np.ndarray) -> np.ndarray:
        return _drawn(self.policy_SA[observations_N], uniform_N)

    def table(self) -> StateTable:
        visits_S = np.bincount(self._log["state"], minlength=self.config.states)
        return StateTable(np.zeros(self.config.states), self.policy_SA, visits_S)

    def logs(self) -> dict[str, float]:
        scores = estimates(self.logged())
        share = scores["effective_sample"] / scores["log_episodes"]
        return {"weighted": scores["weighted"], "effective_share": share}

    def tensors(self) -> Mapping[str, Mapping[str, Any]]:
        policies = {"policy": self.policy_SA, "behaviour": self.behaviour_SA}
        return {"model": {**policies, **self._log, "lengths": self._lengths}}

    def state(self) -> dict[str, Any]:
        return {"random": self.random.bit_generator.state}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        model = {name: np.array(array) for name, array in tensors["model"].items()}
        self.policy_SA, self.behaviour_SA = model["policy"], model["behaviour"]
        self._log = {name: model[name] for name in self._log}
        self._lengths = model["lengths"]
        self.random.bit_generator.state = state["random"]


def _drawn(policy_NA: np.ndarray, uniform_N: np.ndarray) -> np.ndarray:
    """Actions by numbers between 0 and 1; one of probability 0 is never drawn."""
    drawn_N: np.ndarray = (uniform_N[:, None] >= policy_NA.cumsum(axis=1) / policy_NA.sum(axis=1, keepdims=True)).sum(1)
    last_N = policy_NA.shape[1] - 1 - (policy_NA[:, ::-1] > 0).argmax(axis=1)
    return np.minimum(drawn_N, last_N)
