"""Q-learning and SARSA: the kernel against the same code uncompiled and against acting, and the optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon import recipe as recipes
from canon.contracts import Context
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.opening import Opener
from canon.errors import CanonError
from canon.systems.control import exact, sarsa, tabular
from canon.training import trainer
from canon.training.environment import Copies
from canon.use.model import load
from canon.use.play import play
from tests.data.test_environments import FILE

KINDS = {
    "q-learning": (tabular.QLearning, {}),
    "sarsa": (sarsa.Sarsa, {}),
    "expected": (sarsa.Sarsa, {"expected": True}),
}


def begun(what: str, name: str, batch: int, seed: int = 0, arguments: Any = None, **settings: Any) -> Any:
    cls, own = KINDS[what]
    opener = Opener(name, arguments or {})
    env = EnvironmentCopy(opener)
    config_class = sarsa.Config if cls is sarsa.Sarsa else tabular.Config
    config = config_class(states=env.observation.size, actions=env.num_actions, **own, **settings)
    agent = cls(config, Context(seed=seed))
    agent.begin(Copies(lambda: EnvironmentCopy(opener), 1, seed), batch, 1)
    return agent


@pytest.mark.parametrize("what", KINDS)
def test_the_kernel_is_its_plain_version(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit: values, visits, generator and tallies."""
    agents = [begun(what, "FrozenLake-v1", 3000, alpha_power=0.6, epsilon_end=0.2, epsilon=0.9, epsilon_steps=2000)]
    agents[0].step(1)
    module = tabular.kernel
    with np.errstate(over="ignore"):
        for name in ("_uniform", "_drawn", "_act", "_expected", "_greatest", "rate", "mixed"):
            function = vars(_module())[name]
            monkeypatch.setattr(_module(), name, getattr(function, "py_func", function))
        function = module.learn
        monkeypatch.setattr(_module(), "learn", getattr(function, "py_func", function))
        agents.append(
            begun(what, "FrozenLake-v1", 3000, alpha_power=0.6, epsilon_end=0.2, epsilon=0.9, epsilon_steps=2000)
        )
        agents[1].step(1)
    one, other = agents
    np.testing.assert_array_equal(one.value_SA, other.value_SA)
    np.testing.assert_array_equal(one.visits_SA, other.visits_SA)
    np.testing.assert_array_equal(one._tally, other._tally)
    assert one._bits == other._bits and one._whole.tolist() == other._whole.tolist()


def _module() -> Any:
    import canon.kernels.cpu.tabular as module

    return module


@pytest.mark.parametrize("what", KINDS)
def test_a_transition_is_learned_from_by_the_formula(what: str) -> None:
    agent = begun(what, "five-state-walk", 1, simulate="off", alpha=0.5, gamma=0.9)
    agent.value_SA[:] = [[1, 2], [3, 5], [0, 0], [7, 4], [2, 2]]
    following = agent.learn(0, 1, 1.5, 1, False, 0.2)
    value = {"q-learning": 5.0, "sarsa": [3.0, 5.0][following], "expected": 0.2 * 4 + 0.8 * 5}[what]
    assert agent.value_SA[0, 1] == pytest.approx(2 + 0.5 * (1.5 + 0.9 * value - 2), abs=1e-12)
    agent.learn(3, 0, 1.0, 1, True, 0.2)
    assert agent.value_SA[3, 0] == pytest.approx(7 + 0.5 * (1.0 - 7)), "nothing follows what is terminated"


def test_acting_and_drawing_from_the_table_learn_alike() -> None:
    """The same distribution: mean values over seeds, within four standard errors."""
    settings = {"epsilon": 1.0, "alpha": 0.2, "gamma": 0.9}
    means = []
    for simulate in ("on", "off"):
        values = []
        for seed in range(30):
            agent = begun("q-learning", "five-state-walk", 600, seed, simulate=simulate, **settings)
            agent.step(1)
            values.append(agent.value_SA)
        means.append((np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(30)))
    (one, error), (two, other) = means
    assert (np.abs(one - two) <= 4 * np.sqrt(error**2 + other**2) + 1e-9).all()


def test_uniform_data_finds_the_optimum() -> None:
    agent = begun("q-learning", "FrozenLake-v1", 5_000_000, epsilon=1.0, alpha_power=0.7, gamma=0.9)
    agent.step(1)
    scores = agent.measures(EnvironmentCopy(Opener("FrozenLake-v1")))
    assert scores["q_error"] < 0.06 and scores["value"] == pytest.approx(scores["best_value"], abs=1e-9)


def best_explorer(model: Any, gamma: float, epsilon: float) -> np.ndarray:
    """[S, A] Q of the best ε-greedy policy, by policy iteration."""
    action_S = np.zeros(model.num_states, int)
    while True:
        policy_SA = (1 - epsilon) * exact.deterministic(action_S, model.num_actions) + epsilon / model.num_actions
        value_SA: np.ndarray = model.backup(exact.value_of(model, policy_SA, gamma), gamma)
        better_S = exact.first_best(value_SA)
        if (better_S == action_S).all():
            return value_SA
        action_S = better_S


@pytest.mark.parametrize("what", ["sarsa", "expected"])
def test_sarsa_finds_the_best_policy_that_explores(what: str) -> None:
    """Not the optimum, whose values are 0.13 away."""
    agent = begun(what, "FrozenLake-v1", 5_000_000, epsilon=0.5, alpha_power=0.7, gamma=0.9)
    agent.step(1)
    best_SA, visited_SA = best_explorer(agent._model, 0.9, 0.5), agent.visits_SA > 0
    optimal_SA = agent._model.backup(exact.optimum(agent._model, 0.9), 0.9)
    assert np.abs(optimal_SA - best_SA)[visited_SA].max() > 0.12
    assert np.abs(agent.value_SA - best_SA)[visited_SA].max() < 0.04


def test_errors_are_of_what_was_visited() -> None:
    agent = begun("q-learning", "CliffWalking-v1", 100_000, gamma=1.0, alpha=0.5)
    agent.step(1)
    scores = agent.measures(EnvironmentCopy(Opener("CliffWalking-v1")))
    assert (agent.visits_SA == 0).any() and scores["q_error"] < 20 and scores["value"] == -13


def test_the_cliff() -> None:
    """Q-learning's greedy path is the edge; SARSA's keeps away, and its online return is higher."""
    online = {}
    for what, length in (("q-learning", 13), ("sarsa", 17)):
        returns = []
        for seed in range(3):
            agent = begun(what, "CliffWalking-v1", 1, seed, gamma=1.0, alpha=0.5, alpha_decay=100)
            while agent._whole[3] < 500:
                before = agent._tally[2]
                agent.step(1)
                if agent._tally[2] != before and agent._whole[3] > 100:
                    returns.append(agent._tally[2] - before)
            model = agent._model
            assert model.start @ exact.return_within(model, agent.policy(), 100) == -length
        online[what] = np.mean(returns)
    assert online["sarsa"] > online["q-learning"] + 10


def test_what_it_cannot_learn_from_is_a_sentence() -> None:
    with pytest.raises(CanonError, match=r'system\.simulate = "on" draws from a table P, which short-corridor has not'):
        begun("q-learning", "short-corridor", 1, simulate="on")
    with pytest.raises(CanonError, match=r"At system\.gamma = 1 episodes must end, but from state 0 of .* none can"):
        begun("q-learning", f"{FILE}:Line", 1, gamma=1.0, arguments={"table": "loop"})


# Transitions in a file

STEPS = "state,action,reward,next_state,terminated"


def recorded(
    folder: Path, rows: list[str], header: str = STEPS, system: str = "q-learning:tiny", **changes: Any
) -> Any:
    (folder / "steps.csv").write_text("\n".join([header, *rows]) + "\n")
    given = {"system.name": system, "data.transitions": str(folder / "steps.csv"), "train.steps": 40, **changes}
    recipe = recipes.load("control/taxi", "five-state-walk", {**given, "train.batch": 100, "data.test_episodes": 2})
    return trainer.Trainer(recipe, folder / "run", trainer.enter_world(recipe.train), quiet=True)


def test_q_is_learned_from_a_file_of_transitions(tmp_path: Path) -> None:
    """Every move of the walk once, α = 1: Q is Q* by the table P, exactly. No step is taken in the environment."""
    moves = EnvironmentCopy(Opener("five-state-walk")).env.P
    rows = [
        f"{state},{action},{reward},{after},{ends}"
        for state, row in moves.items()
        for action, [(_, after, reward, ends)] in row.items()
    ]
    run = recorded(tmp_path, rows, **{"system.alpha": 1.0, "system.gamma": 0.9, "train.log_every": 1})
    whole = run.fit()
    assert f"It learns from the steps in {tmp_path / 'steps.csv'}, not by acting." in run.data.notes
    model = EnvironmentCopy(Opener("five-state-walk")).model
    assert model is not None
    best = model.backup(np.asarray(exact.optimum(model, 0.9)), 0.9)
    np.testing.assert_allclose(run.learner.agent.value_SA, best, atol=1e-12)
    assert not any(row.get("train/episodes") for row in whole.metrics())
    (tmp_path / "steps.csv").unlink()
    assert play(load(tmp_path / "run"))[0]["length"] == 3, "it is played without the file"


def test_a_limit_of_steps_in_a_file_is_no_end(tmp_path: Path) -> None:
    """The value of the next state counts where terminated is false: 0.9 · 1 in state 3."""
    run = recorded(tmp_path, ["3,1,0,4,0", "4,1,1,4,1"], **{"system.alpha": 1.0, "system.gamma": 0.9})
    run.fit()
    assert run.learner.agent.value_SA[3, 1] == 0.9 and run.learner.agent.value_SA[4, 1] == 1


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no flag": (
        {"rows": ["1,1,0,2"], "header": "state,action,reward,next_state"},
        "steps.csv has no column terminated",
    ),
    "empty": ({"rows": []}, "steps.csv has a header but no rows"),
    "state": ({"rows": ["1,1,0,2,0", "5,1,0,2,0"]}, "steps.csv, line 3: state 5 is not one of the 5 states"),
    "action": ({"rows": ["1,0.5,0,2,0"]}, r"line 2: action 0\.5 is not one of the 2 actions"),
    "reward": ({"rows": ["1,1,much,2,0"]}, 'line 2: reward "much" is not a number'),
    "flag": ({"rows": ["1,1,0,2,maybe"]}, 'line 2: terminated "maybe" is not true or false'),
    "sarsa": ({"rows": ["1,1,0,2,0"], "system": "sarsa:tiny"}, r"data\.transitions are for q-learning: sarsa learns"),
}


@pytest.mark.parametrize("what", WRONG)
def test_transitions_that_are_wrong_are_a_sentence(what: str, tmp_path: Path) -> None:
    given, sentence = WRONG[what]
    with pytest.raises(CanonError, match=sentence):
        recorded(tmp_path, **given).fit()
