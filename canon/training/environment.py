"""The environment loop: experience comes from acting, not from a data set.

An agent (canon.contracts.Agent, a system with loop="environment") learns in copies of an environment, and `Playing`
makes a learner of it: it opens the copies, keeps their state and the open episodes in checkpoints, so that resume is
exact, and scores by playing. The data of such a run can make environments (MakesEnvironment) and has no training split;
its other splits are columns of episodes (Episodes), each decided by its seed.
Shapes: N copies of an environment, E episodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

import numpy as np

from canon.contracts import (
    Agent,
    Context,
    Environment,
    Episodes,
    HasTransitions,
    Learner,
    MakesEnvironment,
    Transitions,
)
from canon.data.environments.abilities import Foresees, LearnsFromRecords, Measures, SamplesActions
from canon.data.schema import Columns, Data
from canon.errors import CanonError

_AT_ONCE = 128  # episodes that are played side by side


class Copies:
    """Environments side by side. Where an episode ends, the next begins in the same step."""

    def __init__(self, make: Callable[[], Environment], count: int, seed: int) -> None:
        """Copy i is seeded once, by seed + i."""
        self.copies: list[Any] = [make() for _ in range(count)]
        self.observation, self.num_actions = self.copies[0].observation, self.copies[0].num_actions
        self.observations = np.stack([copy.reset(seed + i) for i, copy in enumerate(self.copies)])
        self._returns_N = np.zeros(count)  # of the open episodes
        self._lengths_N = np.zeros(count, np.int64)
        self._ended = [0.0, 0.0, 0.0]  # since the last log: episodes, the sums of their returns and lengths

    def step(self, actions_N: np.ndarray, open_N: np.ndarray | None = None) -> Transitions:
        """A step of every copy, or of those whose numbers are in `open_N`."""
        numbers = range(len(self.copies)) if open_N is None else open_N.tolist()
        before = self.observations if open_N is None else self.observations[open_N]
        moves = [self.copies[i].step(action) for i, action in zip(numbers, actions_N.tolist(), strict=True)]
        observations, rewards, terminated, truncated = (np.array(column) for column in zip(*moves, strict=True))
        self.observations = self.observations.copy()
        for i, move in zip(numbers, moves, strict=True):
            self._returns_N[i] += move.reward
            self._lengths_N[i] += 1
            over = move.terminated or move.truncated
            self.observations[i] = self._begin_again(i) if over else move.observation
        return Transitions(before, actions_N, rewards, observations, terminated, truncated)

    def _begin_again(self, i: int) -> Any:
        self.count(1, float(self._returns_N[i]), float(self._lengths_N[i]))
        self._returns_N[i], self._lengths_N[i] = 0, 0
        return self.copies[i].reset()

    def count(self, episodes: float, returns: float, lengths: float) -> None:
        for place, value in enumerate((episodes, returns, lengths)):
            self._ended[place] += value

    def logs(self) -> dict[str, float]:
        """Episodes that ended since the last call, and the means of their returns and lengths."""
        (count, returns, lengths), self._ended = self._ended, [0.0, 0.0, 0.0]
        return {"episodes": count} | ({"return": returns / count, "length": lengths / count} if count else {})

    def tensors(self) -> dict[str, np.ndarray]:
        return {"returns": self._returns_N, "lengths": self._lengths_N, "ended": np.array(self._ended)}

    def state(self) -> dict[str, Any]:
        return {"copies": [copy.state() for copy in self.copies]}

    def restore(self, tensors: Mapping[str, Any], state: dict[str, Any]) -> None:
        pairs = zip(self.copies, state["copies"], strict=True)
        self.observations = np.stack([copy.restore(kept) for copy, kept in pairs])
        self._returns_N, self._lengths_N = np.array(tensors["returns"]), np.array(tensors["lengths"])
        self._ended = np.asarray(tensors["ended"]).tolist()


@contextmanager
def _contained() -> Iterator[None]:
    """What environments print goes to stderr, for stdout is for results; and of numbers that overflow only those speak
    that check whether they are finite."""
    with redirect_stdout(sys.stderr), np.errstate(over="ignore", invalid="ignore"):
        yield


class Playing(Learner):
    """Learner of every system with loop="environment"."""

    def __init__(self, agent: Agent, context: Context) -> None:
        super().__init__(agent.config, context)
        self.agent = agent
        self._copies: Copies | None = None  # while it learns

    @property
    def num_parameters(self) -> int:
        return self.agent.num_parameters

    def begin(self, data: Any, batch: int, steps: int) -> None:
        name = self.context.recipe.system.name
        if not isinstance(data, MakesEnvironment):
            raise CanonError(f"{name} learns by acting, but {data.name} is not an environment to act in.")
        if self.context.world.size > 1:
            raise CanonError(f"{name} learns by acting, which one process does: start it without torchrun.")
        seeds = self.context.seed + np.arange(self.agent.copies, dtype=object)
        for split in data.splits.values() if isinstance(data, Data) else ():
            if isinstance(split["input"], Episodes) and set(seeds) & set(split["input"].seeds.tolist()):
                raise CanonError(f"train.seed = {self.context.seed} decides episodes to be judged by: choose another.")
        with _contained():
            self._copies = Copies(data.make, self.agent.copies, self.context.seed)
        self.agent.begin(self._copies, batch, steps)
        if isinstance(data, HasTransitions) and (records := data.transitions()) is not None:
            if not isinstance(self.agent, LearnsFromRecords):
                raise CanonError(f"data.transitions are for q-learning: {name} learns from what it does itself.")
            self.agent.take_records(records)
        self.unit, self.flops_per_example = self.agent.unit, self.agent.flops_per_example

    def step(self, number: int) -> bool:
        with _contained():
            return self.agent.step(number)

    def logs(self) -> dict[str, float]:
        return {**self.agent.logs(), **(self._copies.logs() if self._copies else {})}

    def tensors(self) -> Mapping[str, Mapping[str, Any]]:
        open_episodes = {"copies": self._copies.tensors()} if self._copies else {}
        return {**self.agent.tensors(), **open_episodes}

    def state(self) -> dict[str, Any]:
        return {"agent": self.agent.state(), "environments": self._copies.state() if self._copies else {}}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        """Of "model" alone, which is to be scored, the open episodes are not restored: that may be impossible."""
        self.agent.restore(tensors, state["agent"])
        if self._copies and "copies" in tensors:
            with _contained():
                self._copies.restore(tensors["copies"], state["environments"])

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        """Of episodes [E]: return, length, whether it was cut off, the discounted return and what was predicted of it;
        and the same measures of the agent for each. Of observations [N]: the action, and its value."""
        episodes: Any = columns["input"]
        if not isinstance(episodes, Episodes):
            foreseen = {"value": self.agent.foresee(episodes)} if isinstance(self.agent, Foresees) else {}
            return {"action": self.agent.act(episodes), **foreseen}
        with _contained():
            parts = [
                self._play(episodes.make, episodes.seeds[i : i + _AT_ONCE])
                for i in range(0, len(episodes.seeds), _AT_ONCE)
            ]
        played = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        measured = self.agent.measures(episodes.make()) if isinstance(self.agent, Measures) else {}
        return played | {name: np.full(len(episodes), value) for name, value in measured.items()}

    def _play(self, make: Callable[[], Environment], seeds_E: np.ndarray) -> dict[str, np.ndarray]:
        copies, agent = [make() for _ in seeds_E], self.agent
        observations = np.stack([copy.reset(int(seed)) for copy, seed in zip(copies, seeds_E, strict=True)])
        foreseen = {"predicted": agent.foresee(observations).astype(float)} if isinstance(agent, Foresees) else {}
        returns_E, discounted_E, lengths_E, truncated_E = np.zeros((4, len(copies)))
        randoms = [np.random.default_rng([int(seed), 1]) for seed in seeds_E]
        open_E = np.arange(len(copies))
        while len(open_E):
            self.context.pause()
            if isinstance(agent, SamplesActions) and agent.sampling:
                actions = agent.sample(observations[open_E], np.array([randoms[i].random() for i in open_E]))
            else:
                actions = agent.act(observations[open_E])
            going = []
            for i, action in zip(open_E.tolist(), actions.tolist(), strict=True):
                observations[i], reward, terminated, truncated = copies[i].step(action)
                returns_E[i] += reward
                discounted_E[i] += agent.gamma ** lengths_E[i] * reward
                lengths_E[i] += 1
                truncated_E[i] = truncated and not terminated
                if not (terminated or truncated):
                    going.append(i)
            open_E = np.array(going, np.int64)
        played = {"return": returns_E, "length": lengths_E, "truncated": truncated_E, "discounted": discounted_E}
        return played | foreseen

    def penalty(self) -> float:
        return self.agent.penalty()
