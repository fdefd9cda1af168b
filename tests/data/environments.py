"""Environments of a user's own, good and broken, for tests."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Drift(gymnasium.Env):
    """A point that drifts; action 4 pushes it back. It ends outside of ±2, `both`: truncated too."""

    def __init__(self, start: float = 0.0, both: bool = False) -> None:
        self.start, self.both = start, both
        self.observation_space = spaces.Box(-10, 10, (1, 2), np.float32)
        self.action_space = spaces.Discrete(2, start=3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place, self.count = self.start + self.np_random.normal(), 0
        return self.seen(), {}

    def seen(self) -> Any:
        return np.array([[self.place, self.count % 3]], np.float32)

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        assert action in (3, 4), "a Discrete space may begin above 0"
        self.count += 1
        self.place += self.np_random.normal() * 0.3 - 0.2 * np.sign(self.place) * (action == 4)
        over = bool(abs(self.place) > 2)
        return self.seen(), 1.0, over, over and self.both, {}


class Snapshots(Drift):
    """Randomness that is not np_random's, but a snapshot of everything."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        if seed is not None:
            self.own = np.random.default_rng(seed + 1)
        super().reset(seed=seed)
        self.place = self.start + self.own.normal()
        return self.seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.place += self.own.normal() * 0.1
        return super().step(action)

    def snapshot(self) -> Any:
        return {"place": self.place, "count": self.count, "own": self.own.bit_generator.state}

    def restore(self, state: Any) -> None:
        self.place, self.count = state["place"], state["count"]
        self.own = np.random.default_rng()
        self.own.bit_generator.state = state["own"]


class Secret(Drift):
    """Randomness that nobody can see."""

    chance = np.random.default_rng()

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.place += self.chance.normal() * 0.1
        return super().step(action)


class Broken(Drift):
    def __init__(self, how: str = "", start: float = 0.0) -> None:
        if how == "no spaces":
            return
        if how == "leaves":
            raise SystemExit(4)
        if how == "imports":
            import no_such_simulator  # type: ignore[import-not-found]  # noqa: F401
        super().__init__(start)
        self.how = how
        if how == "continuous":
            self.action_space = spaces.Box(-1, 1, (1,))
        if how == "dict":
            self.observation_space = spaces.Dict({"a": spaces.Discrete(2)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        seen, more = super().reset(seed=seed)
        if self.how == "reset raises":
            raise RuntimeError("no road")
        self.place = 0.0
        return seen if self.how == "old reset" else (seen, more)

    def step(self, action: int) -> Any:
        seen, reward, over, cut, more = super().step(action)
        if self.count < 3:
            return seen, reward, over, cut, more
        changed: dict[str, Any] = {
            "nan": (np.full((1, 2), np.nan, np.float32), reward, over, cut, more),
            "infinite": (np.full((1, 2), np.inf, np.float32), reward, over, cut, more),
            "outside": (np.full((1, 2), 11, np.float32), reward, over, cut, more),
            "shape": (np.zeros(2, np.float32), reward, over, cut, more),
            "ragged": ([[0], [0, 0]], reward, over, cut, more),
            "many rewards": (seen, np.zeros(300), over, cut, more),
            "text": ("here", reward, over, cut, more),
            "reward": (seen, np.nan, over, cut, more),
            "no reward": (seen, None, over, cut, more),
            "old step": (seen, reward, over, more),
            "none over": (seen, reward, None, cut, more),
            "many cut": (seen, reward, over, np.array([True, False]), more),
        }
        if self.how == "exits":
            raise SystemExit(3)
        if self.how == "raises":
            raise ZeroDivisionError("division by zero")
        return changed.get(self.how, (seen, reward, over, cut, more))


class Line(gymnasium.Env):
    """States 0 to 3, to the right by action 1; `table` is its P, `seen` a type that states are shown as."""

    def __init__(self, table: str = "", seen: str = "int", reward: float = 1.0) -> None:
        self.reward = reward
        self.observation_space, self.action_space = spaces.Discrete(4), spaces.Discrete(2)
        self.seen = {"int": int, "float": float, "array": np.int64}[seen]
        row = {"text": ("much", 1, 0.0, False), "nowhere": (1.0, None, 0.0, False), "loop": (1.0, 1, 1.0, False)}
        if table:
            self.P = {state: {action: [row[table]] for action in (0, 1)} for state in range(4)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.s = 0
        return self.seen(self.s), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        print("a step")
        self.s = min(max(self.s + (1 if action else -1), 0), 3)
        return self.seen(self.s), self.reward * (self.s == 3), self.s == 3, False, {}


class Many(Line):
    """More states than anyone would write down at once."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Discrete(60_000)


class Unsaved(Line):
    def snapshot(self) -> Any:
        return {self.s}

    def restore(self, state: Any) -> None:
        raise AssertionError


def tenfold() -> Any:
    return gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda reward: 10 * reward)


def cut_off() -> Any:
    return gymnasium.wrappers.TimeLimit(gymnasium.make("CliffWalking-v1"), 20)


NOT_ONE = dict  # makes no environment
