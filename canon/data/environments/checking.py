"""What `canon check` reports of an environment: its spaces, gymnasium's own check, an episode at random, and resume."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from canon.contracts import Moved
from canon.data.environments import snapshots
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.opening import Opener, gymnasium
from canon.data.formats.cells import counted
from canon.errors import CanonError, reason

_EPISODES, _STEPS = 20, 20_000  # at random, at most
_RESUMED = 50  # steps that are compared after a copy was restored


def examine(opener: Opener) -> tuple[list[str], list[str]]:
    """Notes and warnings. What the environment prints goes to stderr."""
    with redirect_stdout(sys.stderr):
        return _examined(opener)


def _examined(opener: Opener) -> tuple[list[str], list[str]]:
    env = EnvironmentCopy(opener)
    notes, warned = [_spaces(env)], []
    if env.model is not None:
        outcomes = int((env.model.probability > 0).sum())
        notes.append(f"Its table P of transition probabilities has {outcomes:,} outcomes: planning is exact.")
    warned += _by_gymnasium(opener)
    try:
        notes.append(_at_random(env))
        notes.append(_resumed(opener))
    except CanonError as mistake:
        warned.append(str(mistake))
    return notes, warned


def _spaces(env: EnvironmentCopy) -> str:
    states = env.observation.size
    seen = counted(states, "state") if states else counted(env.observation.shape[0], "number")
    limit = counted(env.limit, "step")
    return f"It shows {seen}, takes {counted(env.num_actions, 'action')}; its episodes end after {limit} at most."


def _by_gymnasium(opener: Opener) -> list[str]:
    """What gymnasium.utils.env_checker finds, each as a sentence."""
    gym = gymnasium()
    from gymnasium.utils.env_checker import check_env

    env, _ = opener.open()
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        level, gym.logger.min_level = gym.logger.min_level, logging.WARNING
        try:
            check_env(env.unwrapped, skip_render_check=True, skip_close_check=True)
            failed = []
        except (Exception, SystemExit) as error:
            failed = [f"gymnasium's check_env failed by {type(error).__name__}: {reason(error)}."]
        finally:
            gym.logger.min_level = level
    texts = dict.fromkeys(str(one.message).replace("\x1b[33mWARN: ", "").replace("\x1b[0m", "") for one in caught)
    skipped = ("not within the observation space", "Box observation space maximum", "Box observation space minimum")
    return [*failed, *(f"gymnasium: {text}" for text in texts if not any(known in text for known in skipped[1:]))]


def _at_random(env: EnvironmentCopy) -> str:
    """Some episodes of random actions."""
    random = np.random.default_rng(0)
    returns: list[float] = []
    lengths: list[int] = []
    while len(returns) < _EPISODES and sum(lengths) < _STEPS:
        seen = env.reset(len(returns))
        total, length, over = 0.0, 0, False
        while not over:
            action = int(random.integers(env.num_actions))
            move = env.step(action)
            if env.model is not None:
                _require_in_table(env, seen, action, move)
            seen = move.observation
            total, length, over = total + move.reward, length + 1, move.terminated or move.truncated
        returns.append(total)
        lengths.append(length)
    return (
        f"{len(returns)} episodes of random actions: return {np.mean(returns):.4g} ± {np.std(returns):.2g}, "
        f"{np.mean(lengths):.4g} steps."
    )


def _require_in_table(env: EnvironmentCopy, state: int, action: int, move: Moved) -> None:
    """Refuses a table P that says other than what a step does: planning and moves drawn from it would be wrong."""
    model = env.model
    assert model is not None
    same = (model.after[state, action] == move.observation) & (model.ends[state, action] == move.terminated)
    same &= (model.probability[state, action] > 0) & np.isclose(model.reward[state, action], move.reward)
    if not same.any():
        raise CanonError(
            f"{env.name}: P[{state}][{action}] has no outcome ({move.observation}, {move.reward:g}, "
            f"{move.terminated}), the state, reward and terminated that a step gave: planning would be wrong, and so "
            'would be q-learning and sarsa without system.simulate = "off".'
        )


def _resumed(opener: Opener) -> str:
    """Whether a copy that is restored within its second episode goes on as the other does."""
    first, second = EnvironmentCopy(opener), EnvironmentCopy(opener)
    random = np.random.default_rng(1)
    first.reset(1)
    _walk(first, random, _RESUMED)
    first.reset()
    _walk(first, random, 5)
    restored = second.restore(first.state())
    same = np.array_equal(restored, first.state()["seen"])
    here, there = (_walk(env, np.random.default_rng(2), _RESUMED) for env in (first, second))
    if not same or here != there:
        raise CanonError(
            f"{opener.source} cannot be resumed exactly: a copy that was restored goes on differently. Draw all of its "
            "randomness from self.np_random, or give it snapshot() and restore()."
        )
    ways = {"replay": "the actions since the last reset are replayed", "snapshot": "by its own snapshot()"}
    return f"Exact resume: {ways.get(snapshots.way_of(first.env), 'its state is saved')}."


def _walk(env: EnvironmentCopy, random: np.random.Generator, steps: int) -> list[Any]:
    """Random moves, with a reset wherever an episode ends."""
    seen: list[Any] = []
    for _ in range(steps):
        move = env.step(int(random.integers(env.num_actions)))
        seen.append((np.asarray(move.observation).tobytes(), move.reward, move.terminated, move.truncated))
        if move.terminated or move.truncated:
            env.reset()
    return seen
