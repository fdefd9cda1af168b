"""Whole episodes, the same number from each copy of an environment: with fewer of the long ones, short episodes would
count more.

Shapes: E episodes, B their steps, N copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from canon.contracts import Environments
from canon.errors import CanonError


class Played(NamedTuple):
    """Steps of episodes, one episode after the other."""

    observations: np.ndarray  # [B, …]
    actions: np.ndarray  # [B]
    rewards: np.ndarray  # [B]
    lengths: np.ndarray  # [E]


def of_each(batch: int, copies: int) -> int:
    """How many episodes each copy plays."""
    if batch % copies:
        raise CanonError(
            f"train.batch = {batch} episodes must be a multiple of system.copies = {copies}, so that each copy plays "
            "the same number: otherwise short episodes would count more."
        )
    return batch // copies


def play(environments: Environments, each: int, choose: Callable[[np.ndarray], np.ndarray]) -> Played:
    """`each` episodes of every copy; choose: the actions for observations."""
    left_N = np.full(len(environments.copies), each)
    steps: list[list[tuple[np.ndarray, int, float]]] = [[] for _ in left_N]
    done: list[list[tuple[np.ndarray, int, float]]] = []
    while (open_N := np.flatnonzero(left_N)).size:
        moved = environments.step(choose(environments.observations[open_N]), open_N)
        over_N = moved.terminated | moved.truncated
        for row, copy in enumerate(open_N.tolist()):
            steps[copy].append((moved.before[row], int(moved.actions[row]), float(moved.rewards[row])))
            if over_N[row]:
                done.append(steps[copy])
                steps[copy] = []
                left_N[copy] -= 1
    observations, actions, rewards = zip(*(step for episode in done for step in episode), strict=True)
    return Played(np.stack(observations), np.array(actions), np.array(rewards), np.array([len(x) for x in done]))


def places(lengths_E: np.ndarray) -> np.ndarray:
    """[B] t of each step."""
    return np.concatenate([np.arange(length) for length in lengths_E])


def episodes(lengths_E: np.ndarray) -> np.ndarray:
    """[B] the episode of each step."""
    return np.repeat(np.arange(len(lengths_E)), lengths_E)
