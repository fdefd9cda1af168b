"""Off-policy estimators: unbiased over all trajectories, their formulas by loops, and where they fail."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon.contracts import Context
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.dynamics import Dynamics
from canon.data.environments.opening import Opener
from canon.errors import CanonError
from canon.systems.control import exact
from canon.systems.control.evaluation import Config, Logged, OffPolicyEvaluation, estimates
from canon.training.environment import Copies
from canon.training.trainer import train

# Two states, two actions: action a in state s ends with probability ENDS[s, a], else the other state follows.
ENDS, REWARDS = np.array([[0.3, 0.6], [0.5, 0.2]]), np.array([[1.0, -2.0], [0.5, 3.0]])
POLICY, BEHAVIOUR = np.array([[0.9, 0.1], [0.35, 0.65]]), np.array([[0.5, 0.5], [0.7, 0.3]])
STEPS, GAMMA = 5, 0.8


def trajectories() -> list[tuple[float, list[tuple[int, int]]]]:
    """Every trajectory of STEPS steps at most, and its probability where b acts."""
    paths: list[tuple[float, list[tuple[int, int]]]] = []
    for length in range(1, STEPS + 1):
        for actions in itertools.product(range(2), repeat=length):
            p, path = 1.0, []
            for t, action in enumerate(actions):
                state = t % 2
                p *= BEHAVIOUR[state, action]
                p *= (
                    ENDS[state, action]
                    if t == length - 1 < STEPS - 1
                    else 1
                    if t == STEPS - 1
                    else 1 - ENDS[state, action]
                )
                path.append((state, action))
            paths.append((p, path))
    return paths


def logged(*paths: list[tuple[int, int]]) -> Logged:
    steps = [step for path in paths for step in path]
    ratios = np.array([np.log(POLICY[step] / BEHAVIOUR[step]) for step in steps])
    return Logged(ratios, np.array([REWARDS[step] for step in steps]), np.array([len(path) for path in paths]), GAMMA)


def truth() -> float:
    value = 0.0
    values = np.zeros(2)
    for _ in range(STEPS):
        after = values[::-1]
        values = (POLICY * (REWARDS + GAMMA * (1 - ENDS) * after[:, None])).sum(axis=1)
        value = float(values[0])
    return value


def test_ordinary_and_per_decision_are_unbiased() -> None:
    every = trajectories()
    assert sum(p for p, _ in every) == pytest.approx(1, abs=1e-12)
    sums = np.zeros(2)
    for p, path in every:
        one = logged(path)
        sums += p * np.array([one.ratio_E[0] * one.return_E[0], one.per_decision_E[0]])
    np.testing.assert_allclose(sums, truth(), rtol=0, atol=1e-12)


def test_estimates_by_loops() -> None:
    paths = [path for _, path in trajectories()][::3]
    ratios, gains, per_decision = [], [], []
    for path in paths:
        ratio, gain, decided = 1.0, 0.0, 0.0
        for t, step in enumerate(path):
            ratio *= POLICY[step] / BEHAVIOUR[step]
            gain += GAMMA**t * REWARDS[step]
            decided += GAMMA**t * ratio * REWARDS[step]
        ratios.append(ratio)
        gains.append(gain)
        per_decision.append(decided)
    weighted = 0.0
    for t in range(STEPS):
        above = below = 0.0
        for path in paths:
            ratio = float(np.prod([POLICY[step] / BEHAVIOUR[step] for step in path[: t + 1]]))
            below += ratio
            above += ratio * REWARDS[path[t]] if t < len(path) else 0.0
        weighted += GAMMA**t * above / below
    estimate = estimates(logged(*paths))
    assert estimate["ordinary"] == pytest.approx(np.mean(np.multiply(ratios, gains)), rel=1e-12)
    assert estimate["weighted"] == pytest.approx(np.dot(ratios, gains) / np.sum(ratios), rel=1e-12)
    assert estimate["per_decision"] == pytest.approx(np.mean(per_decision), rel=1e-12)
    assert estimate["weighted_per_decision"] == pytest.approx(weighted, rel=1e-12)
    assert estimate["effective_sample"] == pytest.approx(np.sum(ratios) ** 2 / np.sum(np.square(ratios)), rel=1e-12)
    assert estimate["unweighted"] == pytest.approx(np.mean(gains))
    assert estimate["interval_low"] < estimate["weighted"] < estimate["interval_high"]


@pytest.mark.parametrize("sets", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_intervals_cover_the_truth(sets: int) -> None:
    """Of sets of 1,000 walks at random, for the policy that goes right with probability 0.7: the intervals of 85 % or
    more hold its value, and the weighted estimate varies less than the ordinary one."""
    model = EnvironmentCopy(Opener("five-state-walk")).model
    assert model is not None
    policy_SA = np.tile([0.3, 0.7], (5, 1))
    value = model.start @ exact.value_of(model, policy_SA, 1.0)
    every = [estimates(walks(model, policy_SA, np.random.default_rng(number))) for number in range(sets)]
    covered = sum(one["interval_low"] <= value <= one["interval_high"] for one in every) / sets
    weighted, ordinary = (np.std([one[name] for one in every]) for name in ("weighted", "ordinary"))
    assert covered >= 0.85 and weighted < 0.006 and 0.02 < ordinary < 0.05, (covered, weighted, ordinary)


def walks(model: Dynamics, policy_SA: np.ndarray, random: np.random.Generator) -> Logged:
    """1,000 episodes in which both actions are equally likely, of a table without chance."""
    walk_N, state_N = np.arange(1000), np.full(1000, model.start.argmax())
    steps = []
    while len(walk_N):
        action_N = random.integers(2, size=len(walk_N))
        ratio_N = policy_SA[state_N, action_N] / 0.5
        steps.append((walk_N, ratio_N, model.reward[state_N, action_N, 0]))
        goes_N = ~model.ends[state_N, action_N, 0]
        walk_N, state_N = walk_N[goes_N], model.after[state_N, action_N, 0][goes_N]
    walk_B, ratio_B, reward_B = (np.concatenate(column) for column in zip(*steps, strict=True))
    order_B = walk_B.argsort(kind="stable")
    return Logged(np.log(ratio_B[order_B]), reward_B[order_B], np.bincount(walk_B), 1.0)


def test_infinite_variance() -> None:
    """Sutton and Barto 2018, example 5.5: one state; π goes left, b left or right; left goes on with p 0.9 or ends at
    1; right ends at 0. The weighted estimate is the truth, 1, as soon as π could have made an episode; the ordinary one
    is still off."""
    random = np.random.default_rng(0)
    lengths, ratios, rewards = [], [], []
    for _ in range(3000):
        length = 0
        while True:
            length += 1
            left, back = random.random() < 0.5, random.random() < 0.9
            ratios.append(np.log(2.0) if left else -np.inf)
            rewards.append(float(left and not back))
            if not left or not back:
                break
        lengths.append(length)
    estimate = estimates(Logged(np.array(ratios), np.array(rewards), np.array(lengths), 1.0))
    assert estimate["weighted"] == pytest.approx(1, abs=1e-12) and abs(estimate["ordinary"] - 1) > 0.02


def begun(**settings: Any) -> OffPolicyEvaluation:
    agent = OffPolicyEvaluation(Config(**settings), Context())
    opener = Opener("five-state-walk")
    agent.begin(Copies(lambda: EnvironmentCopy(opener), agent.copies, 0), agent.copies, 1)
    return agent


def test_the_walk() -> None:
    """The truth 0.9270 and the spread of estimates from 1,000 episodes; the interval covers it in most of 25 sets."""
    env, covered, weighted = EnvironmentCopy(Opener("five-state-walk")), 0, []
    for seed in range(25):
        agent = OffPolicyEvaluation(Config(policy=(0.3, 0.7), copies=100), Context(seed=seed))
        agent.begin(Copies(lambda: EnvironmentCopy(Opener("five-state-walk")), 100, 1000 * seed), 1000, 1)
        agent.step(1)
        scores = agent.measures(env)
        assert scores["truth"] == pytest.approx(0.927027, abs=1e-6)
        covered += scores["interval_low"] <= scores["truth"] <= scores["interval_high"]
        weighted.append(scores["weighted"])
    assert covered >= 19 and np.std(weighted) < 0.01


BAD = {
    "never": ({"policy": (0.5, 0.5), "behaviour": (0.0, 1.0)}, "never takes action 0 in state 0"),
    "sum": ({"policy": (0.5, 0.6)}, r"2 probabilities that sum to 1"),
    "name": ({"policy": "best"}, r"must be \"uniform\", \"optimal\""),
}


@pytest.mark.parametrize("what", BAD)
def test_policies_that_say_nothing_are_a_sentence(what: str) -> None:
    settings, sentence = BAD[what]
    with pytest.raises(CanonError, match=sentence):
        begun(**settings)


def test_a_small_effective_sample_is_reported(tmp_path: Path) -> None:
    """Uniform episodes for the optimum of FrozenLake."""
    changes = {"system.policy": "optimal", "system.gamma": 0.99, "train.steps": 5}
    run = train("control/evaluate", "FrozenLake-v1", tmp_path / "run", changes=changes, quiet=True)
    assert run.result is not None and "estimates and interval may be far off" in run.result["remarks"][0]
