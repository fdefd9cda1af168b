"""Q-learning: a table of action values, learned by acting; and what it shares with SARSA (sarsa.py).

Watkins 1989, Learning from delayed rewards.
  Q(s, a) += α (y − Q(s, a))                                                          `TableLearner.learn`
  y = r + γ (1 − terminated) max_a Q(s', a)                                           `following_value`
  a: random with probability ε, else the best, one of equal ones at random             `TableLearner._act`
α is constant, α/(1 + episode/`alpha_decay`), or n(s, a)^−`alpha_power`; ε goes linearly from `epsilon` to
`epsilon_end` over `epsilon_steps` steps, or stays. ε = 1 is a uniform behaviour policy.
Where the environment has a table P, moves are drawn from it by a compiled kernel (canon/kernels/cpu/tabular.py); else,
or with `simulate = "off"`, it acts in the environment. Q-learning learns as well from a file of transitions that
anything else made (`data.transitions`), drawn uniformly.
Deviations: none.
Shapes: S states, A actions, N observations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Agent, Context, Environments, Transitions
from canon.data.environments.abilities import Foresees, LearnsFromRecords, Measures, StateTable, Tabular
from canon.errors import CanonError
from canon.kernels import Later
from canon.systems.control import exact
from canon.systems.settings import Natural, Positive

kernel: Any = Later("cpu.tabular")
Probability = Annotated[float, Field(ge=0, le=1)]
_Rate = Annotated[float, Field(gt=0, le=1)]


@settings
class Config:
    states: Positive = Field(default=16, description="the environment decides")
    actions: Positive = Field(default=4, description="the environment decides")
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(default=0.99, description="γ, the discount")
    alpha: _Rate = Field(default=0.1, description="α, the rate of learning")
    alpha_decay: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="episodes after which α is half; 0: it is constant"
    )
    alpha_power: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description="α = n(s, a)^−power in place of `alpha`; 0: not so"
    )
    epsilon: Probability = Field(default=0.1, description="ε, how often an action is random; 1: a uniform behaviour")
    epsilon_end: Probability = Field(default=0.1, description="ε after `epsilon_steps`")
    epsilon_steps: Natural = Field(default=0, description="steps over which ε changes; 0: it stays `epsilon`")
    first_value: float = Field(default=0.0, description="Q at first")
    simulate: Literal["auto", "on", "off"] = Field(
        default="auto", description="whether moves are drawn from the table P; auto: where there is one"
    )


class TableLearner(Agent, Foresees, Measures, Tabular):
    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.gamma = config.gamma
        self.value_SA = np.full((config.states, config.actions), config.first_value)
        self.visits_SA = np.zeros((config.states, config.actions), np.int64)
        # Where it is (state −1: an episode is to begin), SARSA's next action, steps of the episode, episodes, steps.
        self._whole = np.array([-1, -1, 0, 0, 0], np.int64)
        self._total = np.zeros(1)  # return of the open episode, where moves are drawn from P
        self._tally = np.zeros(4)  # since the last log: absolute errors; episodes, returns and lengths
        self._moves = 0  # since the last log
        seed = np.random.SeedSequence(context.seed).generate_state(1, np.uint64)
        self._bits = seed  # of the kernel's generator
        self.random = np.random.default_rng([context.seed, 2])
        self._model: Any = None

    @property
    def kind(self) -> int:
        """Which target it learns, by the kernel's names."""
        return int(kernel.QLEARNING)

    @property
    def num_parameters(self) -> int:
        return self.value_SA.size

    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        self.environments, self.batch = environments, batch
        first = environments.copies[0]
        model = exact.model_of(first)
        if self.config.simulate == "on" and model is None:
            raise CanonError(f'system.simulate = "on" draws from a table P, which {first.name} has not.')
        if model is not None:
            exact.require_ends(model, self.gamma, first.name)
        if model is not None and self.config.simulate != "off":
            self._model, self._limit = model, first.limit
            self._cumulative, self._start = model.probability.cumsum(axis=2), model.start.cumsum()

    def step(self, number: int) -> bool:
        self._moves += self.batch
        if self._model is None:
            for _ in range(self.batch):
                self._move()
            return True
        config, model, before = self.config, self._model, self._tally[1:].copy()
        still = config.epsilon_steps == 0
        kernel.learn(
            self.batch, self.kind, self._cumulative, model.after, model.reward, model.ends, self._start, self._limit,
            config.gamma, config.alpha, config.alpha_decay, config.alpha_power, config.epsilon,
            config.epsilon if still else config.epsilon_end, config.epsilon_steps, self.value_SA, self.visits_SA,
            self._whole, self._total, self._bits, self._tally,
        )  # fmt: skip
        self.environments.count(*(self._tally[1:] - before))
        return True

    def epsilon(self) -> float:
        config, steps = self.config, int(self._whole[4])
        if config.epsilon_steps == 0:
            return float(config.epsilon)
        share = min(steps / config.epsilon_steps, 1.0)
        return float(config.epsilon + (config.epsilon_end - config.epsilon) * share)

    def _move(self) -> None:
        """One move in the environment."""
        state, epsilon = int(self.environments.observations[0]), self.epsilon()
        action = int(self._whole[1])
        if action < 0:
            action = self._act(state, epsilon)
        moved = self.environments.step(np.array([action]))
        self._whole[4] += 1
        ends, cut = bool(moved.terminated[0]), bool(moved.truncated[0])
        following = self.learn(state, action, float(moved.rewards[0]), int(moved.after[0]), ends, epsilon)
        self._whole[1] = -1 if ends or cut else following
        self._whole[3] += ends or cut

    def _act(self, state: int, epsilon: float) -> int:
        if self.random.random() < epsilon:
            return int(self.random.integers(self.config.actions))
        values_A = self.value_SA[state]
        return int(self.random.choice(np.flatnonzero(values_A == values_A.max())))

    def learn(self, state: int, action: int, reward: float, after: int, ends: bool, epsilon: float) -> int:
        """Learns from one transition; returns the next action, −1 where it is not chosen yet."""
        following, target = -1, reward
        if not ends:
            value, following = self.following_value(after, epsilon)
            target += self.gamma * value
        self.visits_SA[state, action] += 1
        error = target - self.value_SA[state, action]
        self.value_SA[state, action] += self._rate(int(self.visits_SA[state, action])) * error
        self._tally[0] += abs(error)
        return following

    def _rate(self, visits: int) -> float:
        config = self.config
        if config.alpha_power > 0:
            return float(visits**-config.alpha_power)
        decay = 1 + int(self._whole[3]) / config.alpha_decay if config.alpha_decay else 1.0
        return float(config.alpha / decay)

    def following_value(self, after: int, epsilon: float) -> tuple[float, int]:
        """What is expected from the next state on, and the action that is chosen there already, or −1."""
        return float(self.value_SA[after].max()), -1

    def act(self, observations_N: np.ndarray) -> np.ndarray:
        return exact.first_best(self.value_SA)[observations_N]

    def foresee(self, observations_N: np.ndarray) -> np.ndarray:
        return self.value_SA[observations_N].max(axis=1)

    def policy(self) -> np.ndarray:
        return exact.deterministic(exact.first_best(self.value_SA), self.config.actions)

    def measures(self, environment: Any) -> dict[str, float]:
        return exact.measured(environment, self.policy(), self.gamma, self.value_SA, self.visits_SA > 0)

    def table(self) -> StateTable:
        return StateTable(self.value_SA.max(axis=1), self.policy(), self.visits_SA.sum(axis=1))

    def logs(self) -> dict[str, float]:
        mean, self._tally, self._moves = self._tally[0] / max(self._moves, 1), np.zeros(4), 0
        return {"td_error": float(mean), "epsilon": self.epsilon(), "mean_q": float(self.value_SA.mean())}

    def tensors(self) -> Mapping[str, Mapping[str, Any]]:
        model = {"values": self.value_SA, "visits": self.visits_SA}
        return {"model": model, "place": {"whole": self._whole, "total": self._total, "tally": self._tally}}

    def state(self) -> dict[str, Any]:
        return {"random": self.random.bit_generator.state, "bits": int(self._bits[0]), "moves": self._moves}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.value_SA = np.array(tensors["model"]["values"])
        self.visits_SA = np.array(tensors["model"]["visits"])
        if place := tensors.get("place"):
            self._whole, self._total = np.array(place["whole"]), np.array(place["total"])
            self._tally = np.array(place["tally"])
        self.random.bit_generator.state = state["random"]
        self._bits, self._moves = np.array([state["bits"]], np.uint64), state["moves"]


class QLearning(TableLearner, LearnsFromRecords):
    _records: Transitions | None = None

    def take_records(self, records: Transitions) -> None:
        self._records = records

    def step(self, number: int) -> bool:
        """Of records, as many as moves, drawn uniformly."""
        if self._records is None:
            return super().step(number)
        self._moves += self.batch
        rows = self.random.integers(len(self._records.actions), size=self.batch)
        columns = [column[rows].tolist() for column in self._records[:5]]
        for before, action, reward, after, ends in zip(*columns, strict=True):
            self.learn(before, action, reward, after, ends, self.config.epsilon)
        self._whole[4] += self.batch
        return True
