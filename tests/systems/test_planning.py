"""Policy iteration and value iteration against scipy's linear programs and the exact values of gymnasium's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from canon.contracts import Context
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.dynamics import Dynamics, dynamics_of
from canon.data.environments.opening import Opener
from canon.errors import CanonError
from canon.systems.control import exact
from canon.systems.control.planning import Config, PolicyIteration, ValueIteration
from canon.tasks.control import Control
from canon.training.environment import Copies
from canon.training.run import Run
from canon.training.trainer import train

# V*(start) at γ = 0.99 and the undiscounted return of its greedy policy within the limit of steps.
TABLE: dict[str, tuple[str, dict[str, Any], float, float | None]] = {
    "4x4": ("FrozenLake-v1", {}, 0.542026, 0.7402),
    "8x8": ("FrozenLake8x8-v1", {}, 0.414640, 0.8630),
    "4x4 dry": ("FrozenLake-v1", {"is_slippery": False}, 0.950990, 1.0),
    "8x8 dry": ("FrozenLake8x8-v1", {"is_slippery": False}, 0.877521, 1.0),
    "cliff": ("CliffWalking-v1", {}, -12.247898, None),
    "slippery cliff": ("CliffWalkingSlippery-v1", {}, -46.352672, None),
    "taxi": ("Taxi-v4", {}, 6.327464, 7.93),
}


def environment(key: str) -> EnvironmentCopy:
    name, arguments, *_ = TABLE[key]
    return EnvironmentCopy(Opener(name, arguments))


def model_of(env: EnvironmentCopy) -> Dynamics:
    assert env.model is not None
    return env.model


def planned(kind: type, env: EnvironmentCopy, gamma: float) -> Any:
    model = model_of(env)
    agent = kind(Config(states=model.num_states, actions=model.num_actions, gamma=gamma), Context())
    agent.begin(Copies(lambda: env, 1, 0), 1, 1)
    step = 1
    while agent.step(step):
        step += 1
    return agent


@pytest.mark.parametrize("kind", [PolicyIteration, ValueIteration])
@pytest.mark.parametrize("key", TABLE)
def test_the_optimum_is_that_of_the_table(kind: type, key: str) -> None:
    env = environment(key)
    agent, model = planned(kind, env, 0.99), model_of(env)
    assert model.start @ agent.value_S == pytest.approx(TABLE[key][2], abs=1e-6)
    if TABLE[key][3] is not None:
        reached = exact.return_within(model, agent.policy(), env.limit)
        assert model.start @ reached == pytest.approx(TABLE[key][3], abs=5e-5)


@pytest.mark.parametrize("key", ["4x4", "slippery cliff"])
def test_values_solve_the_linear_program(key: str) -> None:
    """min Σ V such that V ≥ R_a + γ P_a V for every action."""
    env = environment(key)
    model, gamma = model_of(env), 0.95
    rows, bounds = [], []
    for action in range(model.num_actions):
        policy = exact.deterministic(np.full(model.num_states, action), model.num_actions)
        rows.append(gamma * model.matrix(policy).toarray() - np.eye(model.num_states))
        bounds.append(-model.rewards()[:, action])
    solved = linprog(
        np.ones(model.num_states), np.concatenate(rows), np.concatenate(bounds), bounds=(None, None), method="highs"
    )
    for kind in (PolicyIteration, ValueIteration):
        np.testing.assert_allclose(planned(kind, env, gamma).value_S, solved.x, atol=1e-6)


def test_at_no_discount_episodes_must_end() -> None:
    env = environment("cliff")
    for kind in (PolicyIteration, ValueIteration):
        assert planned(kind, env, 1.0).value_S[36] == pytest.approx(-13, abs=1e-9)
    circling = exact.deterministic(np.zeros(48, np.int64), 4)  # up
    with pytest.raises(CanonError, match=r"set system\.gamma below 1"):
        exact.value_of(model_of(env), circling, 1.0)


@pytest.mark.parametrize("kind", [PolicyIteration, ValueIteration])
def test_at_no_discount_moves_that_tie_lead_to_the_end(kind: type) -> None:
    """All moves of the dry lake that keep out of holes are worth 1; the first of them circles."""
    env = environment("4x4 dry")
    agent = planned(kind, env, 1.0)
    assert agent.measures(env)["exact_return"] == agent.measures(env)["value"] == 1


def test_a_policy_that_circles_has_no_value_at_no_discount() -> None:
    env = environment("4x4 dry")
    model = model_of(env)
    left_SA = exact.deterministic(np.zeros(16, int), 4)
    assert np.isnan(exact.value_at_start(model, left_SA, 1.0)) and exact.value_at_start(model, left_SA, 0.9) == 0
    right_SA = exact.deterministic(np.array([1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 2, 2, 0]), 4)
    assert exact.value_at_start(model, right_SA, 1.0) == 1, "cells that it never comes to may circle"
    columns: Any = {}
    played = {name: np.ones(2) for name in ("return", "length", "truncated", "discounted")}
    task = Control(None, None, None)  # type: ignore[arg-type]
    task.score({**played, "value": np.full(2, np.nan)}, columns)
    assert any("may circle for ever" in remark for remark in task.remarks)
    task.score({**played, "value": np.ones(2)}, columns)
    assert not task.remarks


def test_the_flag_ends_the_return_not_the_state() -> None:
    """State 1 is entered by a move that ends and by one that does not; outcomes alike in all but p add up."""
    table = {
        0: {0: [(0.5, 1, 2.0, True), (0.5, 1, 2.0, False)], 1: [(0.25, 0, 0.0, True)] * 4},
        1: {0: [(1.0, 1, 1.0, True)], 1: [(1.0, 1, 1.0, True)]},
    }
    model = dynamics_of(table, 2, 2, np.array([1.0, 0.0]), "two states")
    value_S = exact.value_of(model, exact.deterministic(np.array([0, 0]), 2), 0.5)
    np.testing.assert_allclose(value_S, [2 + 0.5 * 0.5 * 1, 1])
    assert model.probability.shape == (2, 2, 2) and model.probability[0, 1].tolist() == [1, 0]


def test_a_return_within_the_limit_is_the_mean_over_episodes() -> None:
    env = environment("4x4")
    model = model_of(env)
    random = np.random.default_rng(0)
    policy_SA = random.dirichlet(np.ones(4), 16)
    returns = []
    for seed in range(4000):
        state, over, total = env.reset(seed), False, 0.0
        while not over:
            state, reward, terminated, truncated = env.step(int(random.choice(4, p=policy_SA[state])))
            total, over = total + reward, terminated or truncated
        returns.append(total)
    expected = float(model.start @ exact.return_within(model, policy_SA, env.limit))
    assert np.mean(returns) == pytest.approx(expected, abs=4 * np.std(returns) / np.sqrt(len(returns)))


BAD = {
    "a sum": ({0: {0: [(0.5, 0, 0.0, True)]}}, "sum to 0.5"),
    "a state": ({0: {0: [(1.0, 7, 0.0, True)]}}, "goes to state 7"),
    "three numbers": ({0: {0: [(1.0, 0, 0.0)]}}, "is not a list of"),
    "a hole": ({0: {}}, "is not a list of"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_wrong_table_is_a_sentence(what: str) -> None:
    table, sentence = BAD[what]
    with pytest.raises(CanonError, match=sentence):
        dynamics_of(table, 1, 1, np.ones(1), "one state")


def test_a_run_by_the_recipe(tmp_path: Path) -> None:
    run = train("control/dynamic", out=tmp_path / "run", quiet=True)
    result = Run(run.path).result
    assert result is not None
    scores = result["scores"]["test"]
    assert scores["value"] == pytest.approx(0.542026, abs=1e-6) and scores["best_value"] == scores["value"]
    assert scores["loss"] < 1e-9 and scores["predicted"] == pytest.approx(scores["value"])
