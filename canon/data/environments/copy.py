"""One copy of a gymnasium environment as canon.contracts.Environment: checked, cut off in time, and restorable.

An episode ends by `terminated`, which means that nothing could follow, or is `truncated`; where both are true,
terminated counts. The limit of steps is counted here. Every observation and reward is checked, since a NaN that gets in
shows much later and elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import index
from typing import Any

import numpy as np

from canon.contracts import Environment, Moved, Space
from canon.data.environments import snapshots
from canon.data.environments.dynamics import Dynamics, dynamics_of
from canon.data.environments.opening import Opener, gymnasium
from canon.errors import CanonError, reason

_SLACK = 1e-5  # share of a bound by which rounding may exceed it
_MOST_STATES = 100_000  # that several numbers may make together
_START_SEEDS = 1000  # resets that estimate where episodes begin, where the environment does not say


class EnvironmentCopy(Environment):
    def __init__(self, opener: Opener, render_mode: str = "") -> None:
        self.name = opener.source
        self.env, self.limit = opener.open(render_mode)
        self._opener = opener
        spaces = gymnasium().spaces
        try:
            actions, observations = self.env.action_space, self.env.observation_space
        except AttributeError as missing:
            raise CanonError(
                f"{self.name} has no {missing.name or 'spaces'}: __init__ must set action_space and observation_space."
            ) from None
        if not isinstance(actions, spaces.Discrete):
            raise CanonError(
                f"{self.name} has actions {actions}: canon acts by one of finitely many (Discrete); number them with "
                "gymnasium.wrappers.TransformAction in a function of yours."
            )
        self.num_actions, self._first_action = int(actions.n), int(actions.start)
        self._parts = _parts(observations, spaces)
        if self._parts:
            self.observation = Space(size=math.prod(size for size, _ in self._parts))
            self._is_one = isinstance(observations, spaces.Discrete)
        elif isinstance(observations, spaces.Box):
            self.observation = Space(shape=(int(np.prod(observations.shape)),))
            self._shape, self._dtype = observations.shape, observations.dtype
            self._low, self._high = _bounds(observations)
        else:
            raise CanonError(
                f"{self.name} has observations {type(observations).__name__}: canon reads Box, Discrete and up to "
                f"{_MOST_STATES:,} combinations of Discrete; flatten others with gymnasium.wrappers.FlattenObservation."
            )
        self._steps, self._over = 0, True
        self._observation: Any = None
        self._replays = snapshots.way_of(self.env) == "replay"
        self._past = snapshots.Past()

    @property
    def wrapped(self) -> bool:
        return self.env is not self.env.unwrapped

    @cached_property
    def model(self) -> Dynamics | None:
        """The transition probabilities, where the environment has a table of what is observed and no wrapper may change
        rewards or observations."""
        inner = self.env.unwrapped
        table, size = vars(inner).get("P"), self.observation.size
        sized = isinstance(table, Mapping | Sequence | np.ndarray)
        if self.wrapped or not size or not sized or len(table) != size:
            return None
        start = vars(inner).get("initial_state_distrib")
        if start is None:
            other = EnvironmentCopy(self._opener)
            start = np.bincount([other.reset(seed) for seed in range(_START_SEEDS)], minlength=size)
        return dynamics_of(table, size, self.num_actions, start, self.name)

    def reset(self, seed: int | None = None) -> Any:
        if self._replays:
            self._past.begin(self.env, seed)
        try:
            answer = self.env.reset(seed=seed)
        except (Exception, SystemExit) as error:
            raise CanonError(f"{self.name}: reset failed by {type(error).__name__}: {reason(error)}.") from error
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise CanonError(f"{self.name}: reset must return (observation, info), as gymnasium's do.")
        self._steps, self._over = 0, False
        self._observation = self._checked(answer[0])
        if self._replays:
            self._past.see(answer[0])
        return self._observation

    def step(self, action: int) -> Moved:
        assert not self._over, "an episode that is over goes on by reset"
        try:
            answer = self.env.step(action + self._first_action)
        except (Exception, SystemExit) as error:
            raise CanonError(
                f"{self.name}: step({action}) failed after {self._steps:,} steps of an episode by "
                f"{type(error).__name__}: {reason(error)}."
            ) from error
        if not (isinstance(answer, tuple) and len(answer) == 5):
            raise CanonError(
                f"{self.name}: step must return (observation, reward, terminated, truncated, info), as gymnasium's do "
                "since 0.26."
            )
        observation, reward, terminated, truncated, _ = answer
        try:
            reward = float(reward)
        except (TypeError, ValueError):
            reward = math.nan
        if not math.isfinite(reward):
            raise CanonError(
                f"{self.name}: step({action}) gave the reward {_shown(answer[1])}; a reward is one finite number."
            )
        self._steps += 1
        self._observation = self._checked(observation)
        if self._replays:
            self._past.actions.append(action + self._first_action)
            self._past.see(observation, reward)
        terminated, truncated = self._flag("terminated", terminated), self._flag("truncated", truncated)
        truncated = not terminated and (truncated or self._steps >= self.limit)
        self._over = terminated or truncated
        return Moved(self._observation, reward, terminated, truncated)

    def _flag(self, name: str, value: Any) -> bool:
        if isinstance(value, bool | np.bool_ | int) or (np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biu"):
            return bool(value)
        raise CanonError(f"{self.name}: step gave {name} = {_shown(value)}, which is not True or False.")

    def _checked(self, observation: Any) -> Any:
        if self.observation.size:
            return self._state(observation)
        try:
            array = np.asarray(observation)
        except ValueError:  # lists of different lengths
            array = np.array(None)
        if array.shape != self._shape or array.dtype.kind not in "fiub":
            numbers = array.dtype.kind in "fiub"
            what = f"shape {array.shape}" if numbers else f"{_shown(observation)}, which is not an array of numbers,"
            raise CanonError(f"{self.name}: an observation has {what} where its space has shape {self._shape}.")
        if not ((array >= self._low) & (array <= self._high)).all():
            bad = array[~((array >= self._low) & (array <= self._high))].flat[0]
            what = "is not finite" if not np.isfinite(bad) else "is outside of its observation space"
            raise CanonError(f"{self.name}: after {self._steps:,} steps of an episode {bad} {what}.")
        return array.reshape(-1) if array.dtype == self._dtype else array.astype(self._dtype).reshape(-1)

    def _state(self, observation: Any) -> int:
        """Of several numbers the last counts fastest, as in numpy.ravel_multi_index."""
        state = 0
        try:
            for part, (size, first) in zip((observation,) if self._is_one else observation, self._parts, strict=True):
                place = index(part) - first
                if not 0 <= place < size:
                    raise ValueError
                state = state * size + place
        except (TypeError, ValueError):
            raise CanonError(
                f"{self.name}: observation {_shown(observation)} is not one of its {self.observation.size:,} states."
            ) from None
        return state

    def state(self) -> dict[str, Any]:
        seen = self._observation
        return {
            "steps": self._steps,
            "over": self._over,
            "seen": seen.tolist() if isinstance(seen, np.ndarray) else seen,
            "environment": snapshots.save(self.env, self._past, self.name),
        }

    def restore(self, state: dict[str, Any]) -> Any:
        snapshots.load(self.env, state["environment"], self._past, self.name)
        self._steps, self._over = state["steps"], state["over"]
        seen = state["seen"]
        self._observation = seen if self.observation.size else np.array(seen, self._dtype)
        return self._observation


def _parts(space: Any, spaces: Any) -> list[tuple[int, int]]:
    """Of a space whose members can be listed, the size and the first value of each number; else nothing."""
    if isinstance(space, spaces.Discrete):
        return [(int(space.n), int(space.start))]
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        parts = list(zip(space.nvec.tolist(), space.start.tolist(), strict=True))
    elif isinstance(space, spaces.Tuple) and all(isinstance(part, spaces.Discrete) for part in space):
        parts = [(int(part.n), int(part.start)) for part in space]
    else:
        return []
    return parts if math.prod(size for size, _ in parts) <= _MOST_STATES else []


def _shown(value: Any) -> str:
    return f"{' '.join(repr(value).split()):.60}"


def _bounds(box: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a finite number of the space is between, with some slack for rounding."""
    if box.dtype.kind != "f":
        return box.low, box.high
    most = np.finfo(box.dtype).max
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    low, high = low - _SLACK * np.abs(low), high + _SLACK * np.abs(high)
    return np.maximum(low, -most).astype(box.dtype), np.minimum(high, most).astype(box.dtype)
