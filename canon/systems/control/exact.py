"""What a table P says without acting: the value of a policy, its return within the limit of steps, and the optimum.

Bellman 1957, Dynamic programming; Howard 1960, Dynamic programming and Markov processes.
  V = R_π + γ P_π V                                  `value_of`, `value_at_start`, by a sparse linear solve
  V_0 = 0, V_{k+1} = R_π + P_π V_k                   `return_within`, the mean of an undiscounted return of k steps
  Q(s, a) = Σ p (r + γ (1 − terminated) V(s'))       `Dynamics.backup`
  π'(s) = argmax_a Q(s, a), the first of equal ones  `first_best`
Deviations: none.
Shapes: S states, A actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.dynamics import Dynamics
from canon.errors import CanonError

_EQUAL = 1e-10  # share of a value within which actions are equally good


def model_of(environment: Any) -> Dynamics | None:
    """An environment's table P, where it has one."""
    return environment.model if isinstance(environment, EnvironmentCopy) else None


def first_best(value_SA: np.ndarray) -> np.ndarray:
    """[S] the first of the best actions, rounding aside."""
    return _best(value_SA).argmax(axis=1)


def _best(value_SA: np.ndarray) -> np.ndarray:
    """[S, A] which actions are best, rounding aside."""
    best_S1 = value_SA.max(axis=1, keepdims=True)
    are_best: np.ndarray = value_SA >= best_S1 - _EQUAL * np.maximum(1, np.abs(best_S1))
    return are_best


def deterministic(action_S: np.ndarray, num_actions: int) -> np.ndarray:
    return np.eye(num_actions)[action_S]


def reached(model: Dynamics, policy_SA: np.ndarray) -> np.ndarray:
    """[S] whether an episode can come to a state."""
    from_S, met_S = model.matrix(policy_SA).T, model.start > 0
    for _ in range(model.num_states):
        more_S = met_S | (from_S @ met_S > 0)
        if (more_S == met_S).all():
            break
        met_S = more_S
    return met_S


def may_end(model: Dynamics, policy_SA: np.ndarray) -> np.ndarray:
    """[S] whether an episode that is in a state can end. Where all can, all end with probability 1."""
    going = model.matrix(policy_SA)
    ends_S = ((model.probability * model.ends).sum(axis=2) * policy_SA).sum(axis=1) > 0
    for _ in range(model.num_states):
        more_S = ends_S | (going @ ends_S > 0)
        if (more_S == ends_S).all():
            break
        ends_S = more_S
    return ends_S


def require_ends(model: Dynamics, gamma: float, name: str) -> None:
    """Refuses γ = 1 where rewards go on for ever, whatever is done."""
    if gamma < 1:
        return
    any_SA = np.full((model.num_states, model.num_actions), 1 / model.num_actions)
    endless_S = reached(model, any_SA) & ~may_end(model, any_SA)
    if endless_S.any() and model.rewards()[endless_S].any():
        raise CanonError(
            f"At system.gamma = 1 episodes must end, but from state {endless_S.argmax()} of {name} none can: set "
            "system.gamma below 1."
        )


def value_of(model: Dynamics, policy_SA: np.ndarray, gamma: float) -> np.ndarray:
    """[S] V of a policy; at γ = 1 its episodes must end."""
    if gamma == 1 and not may_end(model, policy_SA).all():
        raise CanonError(
            "At system.gamma = 1 a policy that circles for ever has no finite value, and planning met one: set "
            "system.gamma below 1."
        )
    return _solved(model, policy_SA, gamma)


def value_at_start(model: Dynamics, policy_SA: np.ndarray, gamma: float) -> float:
    """Σ_s p(start s) V(s), by the states that an episode can come to; NaN where γ = 1 and it need not end."""
    met_S = reached(model, policy_SA)
    if gamma == 1 and not may_end(model, policy_SA)[met_S].all():
        return float("nan")
    return float(model.start @ _solved(model, policy_SA * met_S[:, None], gamma))


def _solved(model: Dynamics, policy_SA: np.ndarray, gamma: float) -> np.ndarray:
    from scipy.sparse import identity
    from scipy.sparse.linalg import spsolve

    reward_S = (policy_SA * model.rewards()).sum(axis=1)
    system = identity(model.num_states, format="csc") - gamma * model.matrix(policy_SA)
    value_S: np.ndarray = np.atleast_1d(spsolve(system, reward_S))
    return value_S


def return_within(model: Dynamics, policy_SA: np.ndarray, steps: int, gamma: float = 1.0) -> np.ndarray:
    """[S] the mean return of episodes that are cut off after so many steps."""
    reward_S, going = (policy_SA * model.rewards()).sum(axis=1), model.matrix(policy_SA)
    value_S = np.zeros(model.num_states)
    for _ in range(steps):
        value_S = reward_S + gamma * (going @ value_S)
    return value_S


def nearest_end(model: Dynamics, allowed_SA: np.ndarray) -> np.ndarray:
    """[S] of the allowed actions those by which episodes can end soonest, so that they do end where they can."""
    reached_S, action_S = np.zeros(model.num_states, bool), allowed_SA.argmax(axis=1)
    possible_SAK = (model.probability > 0) & allowed_SA[:, :, None]
    for _ in range(model.num_states):
        can_SA = (possible_SAK & (model.ends | reached_S[model.after])).any(axis=2)
        new_S = can_SA.any(axis=1) & ~reached_S
        if not new_S.any():
            break
        action_S[new_S] = can_SA[new_S].argmax(axis=1)
        reached_S |= new_S
    return action_S


def greedy(model: Dynamics, value_S: np.ndarray, gamma: float) -> np.ndarray:
    """[S] the first of the best actions; at γ = 1, where equally good ones may circle, one that ends soonest."""
    best_SA = _best(model.backup(value_S, gamma))
    return nearest_end(model, best_SA) if gamma == 1 else best_SA.argmax(axis=1)


def improved(model: Dynamics, action_S: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """One iteration of policy iteration: the value of a policy, and the policy that is greedy for it. At γ = 1 an
    action that is among the best stays, since others that are equally good may circle."""
    value_S = value_of(model, deterministic(action_S, model.num_actions), gamma)
    best_SA = _best(model.backup(value_S, gamma))
    stays_S = best_SA[np.arange(model.num_states), action_S] & (gamma == 1)
    return value_S, np.where(stays_S, action_S, best_SA.argmax(axis=1))


def first_policy(model: Dynamics, gamma: float) -> np.ndarray:
    """Where policy iteration begins: at γ = 1 with a policy that ends."""
    every_SA = np.ones((model.num_states, model.num_actions), bool)
    return nearest_end(model, every_SA) if gamma == 1 else np.zeros(model.num_states, np.int64)


def best_value(model: Dynamics, gamma: float) -> np.ndarray:
    """[S] V*, by policy iteration."""
    action_S = first_policy(model, gamma)
    while True:
        value_S, better_S = improved(model, action_S, gamma)
        if (better_S == action_S).all():
            return value_S
        action_S = better_S


_OPTIMA: dict[tuple[str, float], np.ndarray | None] = {}


def optimum(model: Dynamics, gamma: float) -> np.ndarray | None:
    """[S] V*, computed once for equal models; None where γ = 1 and some policy on the way never ends."""
    key = (model.digest(), gamma)
    if key not in _OPTIMA:
        try:
            _OPTIMA[key] = best_value(model, gamma)
        except CanonError:
            _OPTIMA[key] = None
    return _OPTIMA[key]


def measured(
    environment: Any,
    policy_SA: np.ndarray,
    gamma: float,
    value_SA: np.ndarray | None = None,
    visited_SA: np.ndarray | None = None,
) -> dict[str, float]:
    """What is known exactly of a policy where the environment has a table P; value_SA: the agent's own Q, of which
    `visited_SA` was learned (default: all)."""
    model = model_of(environment)
    if model is None:
        return {}
    scores = {"exact_return": float(model.start @ return_within(model, policy_SA, environment.limit))}
    best_S = optimum(model, gamma)
    if best_S is not None:
        scores["best_value"] = float(model.start @ best_S)
        if value_SA is not None:
            error_SA = np.abs(value_SA - model.backup(best_S, gamma))
            scores["q_error"] = float(error_SA.max(where=True if visited_SA is None else visited_SA, initial=0.0))
    return {**scores, "value": value_at_start(model, policy_SA, gamma)}
