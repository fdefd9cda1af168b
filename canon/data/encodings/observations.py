"""What an agent reads of an environment: observations of numbers or states; states alone; or the table P as well.

There are no training examples. The other splits are episodes, decided by the seeds of their resets.
Shapes: N observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from canon.contracts import Environment, Episodes, HasTransitions, MakesEnvironment, Transitions
from canon.data.encodings.base import Ask, Encoding, Inputs, finish
from canon.data.environments import records
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.opening import Opener
from canon.data.kinds.environments import ENVIRONMENTS, EnvironmentSource
from canon.data.paths import find_path
from canon.data.records import Given
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Common
from canon.data.source import Source
from canon.data.targets import Nothing
from canon.errors import CanonError, border

_FIRST_SEED, _LAST_SEED = 1 << 30, (1 << 31) - (1 << 24)  # of episodes to be judged by


@dataclass(frozen=True)
class EnvironmentEpisodes(Episodes):
    """A column of episodes to play."""

    opener: Opener
    seeds: np.ndarray

    def make(self) -> Environment:
        return EnvironmentCopy(self.opener)

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.seeds.shape

    @property
    def dtype(self) -> np.dtype:
        return self.seeds.dtype

    def take(self, indices: np.ndarray) -> EnvironmentEpisodes:
        return replace(self, seeds=self.seeds[indices])


@dataclass(frozen=True)
class EnvironmentData(Data, MakesEnvironment, HasTransitions):
    """Data that is acted in."""

    opener: Opener = field(default_factory=lambda: Opener(""))
    config: Any = None  # [data]

    def make(self) -> Environment:
        return EnvironmentCopy(self.opener)

    def transitions(self) -> Transitions | None:
        """Read when they are learned from: a run can be scored and played without its file."""
        if self.config is None or not self.config.transitions:
            return None
        return records.read(self.config.transitions, self.make(), self.opener.source, self.config)


@dataclass(frozen=True)
class ObservationSchema(Schema):
    encoding = "observations"
    one_shape = True
    states: int = 0  # 0: observations are numbers
    actions: int = 0
    limit: int = 0  # steps of an episode at most

    def sizes(self) -> dict[str, Any]:
        return {"shape": self.shape, "states": self.states, "actions": self.actions}


@dataclass(frozen=True)
class StateSchema(ObservationSchema):
    encoding = "states"


@dataclass(frozen=True)
class DynamicsSchema(ObservationSchema):
    encoding = "dynamics"


class ObservationEncoding(Encoding):
    reads = (ENVIRONMENTS,)
    settings = Common
    schema: ClassVar[type[ObservationSchema]] = ObservationSchema
    causes = (
        "too few steps (train.steps), or rewards that exploring rarely finds",
        "a learning rate that is too high or too low (optimizer.lr, system.alpha)",
        "episodes that are cut off too soon (data.max_steps)",
    )
    takes_rows = False

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        assert isinstance(source, EnvironmentSource)
        env = EnvironmentCopy(source.opener)
        self.require(env, ask.system)
        schema = self.schema(
            Nothing(), env.observation.shape, states=env.observation.size, actions=env.num_actions, limit=env.limit
        )
        counts = {"valid": config.valid_episodes, "test": config.test_episodes}
        if config.valid == 0:
            counts["valid"] = 0
        first = int(np.random.default_rng(config.seed).integers(_FIRST_SEED, _LAST_SEED))
        splits: dict[str, Columns] = {}
        for name, count in counts.items():
            if count:
                splits[name] = {"input": EnvironmentEpisodes(source.opener, np.arange(first, first + count))}
            first += count
        kept = {"seed": config.seed, "max_steps": env.limit}
        data = finish(source, schema, splits, {}, config, [], protocol=kept, examples="Episodes to be judged by")
        return EnvironmentData(**vars(data), opener=source.opener, config=config)

    def require(self, env: EnvironmentCopy, system: str) -> None:
        """Refuses an environment that has not what is read."""

    def labelled(self, schema: Any, source: str, config: Any) -> Columns:
        """Episodes of another environment of the same spaces, or of the same one with other arguments."""
        other = ENVIRONMENTS.source(replace(config, source=source, **({} if source == config.source else _BARE)))
        return self.columns(schema, other, config)

    def columns(self, schema: ObservationSchema, source: Source, config: Any) -> Columns:
        assert isinstance(source, EnvironmentSource)
        fresh = self.fit(source, config, Ask()).splits["test"]
        env = EnvironmentCopy(source.opener)
        same = (env.observation.shape, env.observation.size, env.num_actions)
        if same != (schema.shape, schema.states, schema.actions):
            raise CanonError(f"{source.name} has other observations or actions than the run was trained on.")
        return fresh

    def inputs(self, schema: ObservationSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        """Observations in files: one a line, numbers between commas or spaces; or a .npy."""
        rows: list[np.ndarray] = []
        names: list[str] = []
        for given in sources:
            path = find_path(str(given), named=False)
            with border(path, "cannot be read as observations"):
                array = np.load(path) if path.suffix == ".npy" else _numbers(path)
            taken = self.array(schema, array, config)
            if taken is None:
                wanted = f"{schema.shape[0]} numbers" if schema.shape else "a state"
                raise CanonError(f"{path}: an observation is {wanted} in a line.")
            rows.append(np.asarray(taken[0]["input"]))
            names += [f"{path}, line {row + 1}" for row in range(len(rows[-1]))]
        return {"input": np.concatenate(rows)}, names

    def array(self, schema: ObservationSchema, array: np.ndarray, config: Any) -> Inputs | None:
        if not schema.states:
            return super().array(schema, array, config)
        states = np.atleast_1d(array.squeeze())
        if states.ndim != 1 or not np.isin(states, np.arange(schema.states)).all():
            return None
        return {"input": states.astype(np.int64)}, [str(row) for row in range(len(states))]


_BARE: dict[str, Any] = {"arguments": {}, "max_steps": 0}


def _numbers(path: Path) -> np.ndarray:
    return np.loadtxt(path, delimiter="," if "," in path.read_text().partition("\n")[0] else None, ndmin=2)


class StateEncoding(ObservationEncoding):
    schema: ClassVar[type[ObservationSchema]] = StateSchema

    def require(self, env: EnvironmentCopy, system: str) -> None:
        if not env.observation.size:
            raise CanonError(
                f"{system} keeps a table with a row for each state, but {env.name} shows {env.observation.shape[0]} "
                "numbers (Box): use dqn or reinforce."
            )


class DynamicsEncoding(StateEncoding):
    schema = DynamicsSchema

    def require(self, env: EnvironmentCopy, system: str) -> None:
        if env.model is None:
            raise CanonError(
                f"{system} plans with transition probabilities, but {env.name} has no table P of them: use q-learning "
                "or dqn, which learn by acting."
            )


OBSERVATIONS, STATES, DYNAMICS = ObservationEncoding(), StateEncoding(), DynamicsEncoding()
