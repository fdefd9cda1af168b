"""REINFORCE against the exact gradient, by all trajectories of a small environment, and against torch's backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from canon.contracts import Context
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.opening import Opener
from canon.errors import CanonError
from canon.optim.schedules import Schedule
from canon.optim.settings import SGD
from canon.recipe import OptimizerChoice
from canon.systems.control import exact
from canon.systems.control.episodes import Played
from canon.systems.control.reinforce import Config, Reinforce, mean_of_others, returns_to_go
from canon.training.environment import Copies
from canon.training.phases import Phase

STEPS, GAMMA = 4, 0.9
MODEL = EnvironmentCopy(Opener("five-state-walk", {"slip": 0.25})).model
CHOICE = OptimizerChoice("x", SGD(lr=1e-12), Schedule(), ())
CONTEXT = Context(optimizer=lambda named, phase, paces=None: Phase(phase, CHOICE, named, paces))


def agent_of(**settings: Any) -> Reinforce:
    torch.manual_seed(1)
    settings = {"hidden": (), "copies": 1, "baseline": "none", "gamma": GAMMA, **settings}
    agent = Reinforce(Config(states=5, shape=(), actions=2, **settings), CONTEXT)
    opener = Opener("five-state-walk")
    agent.begin(Copies(lambda: EnvironmentCopy(opener), agent.copies, 0), 2 * agent.copies, 1)
    return agent


def trajectories(policy_SA: np.ndarray, state: int = 2, steps: int = STEPS) -> Iterator[tuple[float, list[Any]]]:
    """Every trajectory of so many steps at most, with its probability."""
    assert MODEL is not None
    for action in range(2):
        for place, p in enumerate(MODEL.probability[state, action]):
            weight = float(p * policy_SA[state, action])
            if not weight:
                continue
            step = (state, action, float(MODEL.reward[state, action, place]))
            if MODEL.ends[state, action, place] or steps == 1:
                yield weight, [step]
                continue
            for more, rest in trajectories(policy_SA, int(MODEL.after[state, action, place]), steps - 1):
                yield weight * more, [step, *rest]


def played(*episodes: list[Any]) -> Played:
    states, actions, rewards = zip(*(step for episode in episodes for step in episode), strict=True)
    lengths = np.array([len(episode) for episode in episodes])
    return Played(np.array(states), np.array(actions), np.array(rewards), lengths)


def gradient(agent: Reinforce, episodes: Played) -> np.ndarray:
    """[A, S] of the policy's loss."""
    agent.update(episodes)
    slope = agent.policy.network.output.weight.grad
    assert slope is not None
    return slope.numpy().copy()


def exact_gradient(agent: Reinforce, steps: int = STEPS) -> np.ndarray:
    """[A, S] of Σ_t γ^t r_t's mean, by autograd through the probabilities."""
    assert MODEL is not None
    logits_AS = agent.policy.network.output.weight.detach().double().requires_grad_()
    policy_SA = logits_AS.softmax(dim=0).T
    value_S = torch.zeros(5, dtype=torch.float64)
    keep = torch.from_numpy(MODEL.probability * ~MODEL.ends)
    reward_SA = torch.from_numpy(MODEL.rewards())
    for _ in range(steps):
        value_S = (policy_SA * (reward_SA + GAMMA * (keep * value_S[torch.from_numpy(MODEL.after)]).sum(2))).sum(1)
    value_S[2].backward()
    assert logits_AS.grad is not None
    return logits_AS.grad.numpy()


def test_the_mean_over_all_trajectories_is_the_exact_gradient() -> None:
    """With γ^t, which the gradient of a discounted return has."""
    agent = agent_of(discount_steps=True)
    every = list(trajectories(agent.probabilities()))
    assert sum(p for p, _ in every) == pytest.approx(1, abs=1e-12) and len(every) > 100
    mean = sum(p * gradient(agent, played(episode)) for p, episode in every)
    np.testing.assert_allclose(-mean, exact_gradient(agent), atol=2e-7)


@pytest.mark.parametrize("baseline", ["mean", "learned"])
def test_a_baseline_keeps_the_mean(baseline: str) -> None:
    """Over all pairs of trajectories."""
    plain, agent = agent_of(discount_steps=True), agent_of(discount_steps=True, baseline=baseline)
    agent.policy.take(plain.policy.network.state_dict())
    every = list(trajectories(plain.probabilities(), steps=3))
    means = np.zeros((2, 2, 5))
    for p, one in every:
        for q, other in every:
            for place, each in enumerate((plain, agent)):
                means[place] += p * q * gradient(each, played(one, other))
    np.testing.assert_allclose(means[1], means[0], atol=1e-6)


@pytest.mark.parametrize("baseline", ["mean", "learned"])
def test_a_baseline_lowers_the_variance(baseline: str) -> None:
    """Of batches of 16 episodes; the learned one at the true values."""
    plain, agent = agent_of(), agent_of(baseline=baseline)
    agent.policy.take(plain.policy.network.state_dict())
    assert MODEL is not None
    agent.value.take({"output.weight": exact.value_of(MODEL, plain.probabilities(), GAMMA)[None]})
    every, random = list(trajectories(plain.probabilities(), steps=8)), np.random.default_rng(0)
    drawn = random.choice(len(every), (60, 16), p=np.array([p for p, _ in every]))
    slopes = np.array(
        [[gradient(each, played(*(every[i][1] for i in row))) for each in (plain, agent)] for row in drawn]
    )
    spread = slopes.var(axis=0).sum(axis=(1, 2))
    assert spread[1] < 0.9 * spread[0]


def test_numpy_and_torch_agree() -> None:
    rows = np.random.default_rng(0)
    episodes = Played(rows.integers(5, size=30), rows.integers(2, size=30), rows.normal(size=30), np.array([12, 10, 8]))
    gradients = []
    for by_torch in (False, True):
        agent = agent_of(hidden=(8,), entropy=0.3, baseline="learned", scale_returns=True)
        if by_torch:
            agent.policy.small = agent.value.small = None
        agent.update(episodes)
        nets = (agent.policy.network, agent.value.network)
        gradients.append([parameter.grad.numpy().copy() for net in nets for parameter in net.parameters()])  # type: ignore
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_slopes_are_the_derivative_of_the_loss() -> None:
    agent, random = agent_of(entropy=0.7), np.random.default_rng(0)
    logits = random.normal(size=(6, 2))
    episodes = Played(np.zeros(6), random.integers(2, size=6), np.zeros(6), np.array([4, 2]))
    beyond = random.normal(size=6)
    slope, _, _ = agent.slopes(logits, episodes, beyond)
    for row in range(6):
        for action in range(2):
            step = np.zeros_like(logits)
            step[row, action] = 1e-6
            above, below = (agent.slopes(logits + sign * step, episodes, beyond)[1] for sign in (1, -1))
            assert slope[row, action] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_returns_and_baselines_by_hand() -> None:
    lengths = np.array([3, 1])
    returns = returns_to_go(np.array([1.0, 2.0, 4.0, 8.0]), lengths, 0.5)
    np.testing.assert_allclose(returns, [3, 4, 4, 8])
    np.testing.assert_allclose(mean_of_others(returns, lengths), [8, 0, 0, 3])


def test_each_copy_plays_as_many_episodes() -> None:
    with pytest.raises(CanonError, match=r"train\.batch = 3 episodes must be a multiple of system\.copies = 2"):
        opener = Opener("five-state-walk")
        agent = Reinforce(Config(states=5, shape=(), copies=2), CONTEXT)
        agent.begin(Copies(lambda: EnvironmentCopy(opener), 2, 0), 3, 1)
