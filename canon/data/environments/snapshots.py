"""An environment's state as JSON, saved and restored: gymnasium itself can do neither.

Three ways, the first that fits:
- the classes that come with gymnasium and canon: their attributes and generator (`_ATTRIBUTES`);
- an environment of yours that is a `canon.data.environments.abilities.Snapshot`;
- any other: the state of the generator before the last reset and the actions since. They are replayed, and what is
  observed must be the same bit for bit; else it is refused.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from canon.data.environments.abilities import Snapshot
from canon.errors import CanonError, border

# By class, without its subclasses, which may keep more.
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": ("state", "steps_beyond_terminated"),
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": ("state",),
    "gymnasium.envs.classic_control.mountain_car:MountainCarEnv": ("state",),
    "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.taxi:TaxiEnv": ("s", "lastaction", "fickle_step", "taxi_orientation"),
    "canon.data.environments.builtin:FiveStateWalk": ("s", "lastaction"),
    "canon.data.environments.builtin:ShortCorridor": ("s", "lastaction"),
}


def way_of(env: Any) -> str:
    """How an environment is restored: "attributes", "snapshot" or "replay"."""
    if env is not env.unwrapped:  # a wrapper may keep something too
        return "replay"
    if isinstance(env, Snapshot):
        return "snapshot"
    return "attributes" if _place(env) in _ATTRIBUTES else "replay"


def _place(env: Any) -> str:
    return f"{type(env).__module__}:{type(env).__qualname__}"


class Past:
    """The actions of an episode since its reset, and a checksum of what was observed."""

    def __init__(self) -> None:
        self.before: Any = None  # the generator before the reset; or, of the first episode, nothing
        self.seed: int | None = None
        self.actions: list[int] = []
        self.sum = 0

    def begin(self, env: Any, seed: int | None) -> None:
        self.seed, self.actions, self.sum = seed, [], 0
        self.before = None if seed is not None else generator_of(env)

    def see(self, observation: Any, reward: float = 0.0) -> None:
        self.sum = zlib.crc32(np.float64(reward).tobytes(), zlib.crc32(np.asarray(observation).tobytes(), self.sum))


def generator_of(env: Any) -> Any:
    """The state of an environment's generator."""
    return _plain(env.unwrapped.np_random.bit_generator.state)


def save(env: Any, past: Past, name: str) -> dict[str, Any]:
    way = way_of(env)
    if way == "snapshot":
        with border(f"{name}: snapshot()", "cannot be saved as JSON"):
            state = env.snapshot()
            json.dumps(state)
        return {"way": way, "state": state, "random": generator_of(env)}
    if way == "attributes":
        values = {name: _packed(vars(env)[name]) for name in _ATTRIBUTES[_place(env)] if name in vars(env)}
        return {"way": way, "state": values, "random": generator_of(env)}
    return {"way": way, "seed": past.seed, "before": past.before, "actions": list(past.actions), "sum": past.sum}


def load(env: Any, state: dict[str, Any], past: Past, name: str) -> None:
    if state["way"] != way_of(env):
        raise CanonError(f"{name} was saved by another version of its class; train again with another --out.")
    if state["way"] == "replay":
        with border(name, "cannot be resumed"):
            _replay(env, state, past, name)
        return
    with border(name, "cannot be resumed"):
        env.reset(seed=0)  # which may set what no snapshot has
        if state["way"] == "snapshot":
            env.restore(state["state"])
    if state["way"] == "attributes":
        for key, value in state["state"].items():
            vars(env)[key] = _unpacked(value)
    env.np_random.bit_generator.state = state["random"]


def _replay(env: Any, state: dict[str, Any], past: Past, name: str) -> None:
    past.seed, past.before, past.actions, past.sum = state["seed"], state["before"], [], 0
    if state["before"] is not None:
        env.unwrapped.np_random.bit_generator.state = state["before"]
    observation, _ = env.reset(seed=state["seed"])
    past.see(observation)
    for action in state["actions"]:
        observation, reward, *_ = env.step(action)
        past.actions.append(action)
        past.see(observation, reward)
    if past.sum != state["sum"]:
        raise CanonError(
            f"{name} cannot be resumed exactly: the same actions from the same seed lead elsewhere. Draw all of its "
            "randomness from self.np_random, or give it snapshot() and restore() (docs/control.md)."
        )


def _packed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, tuple | list):
        return {"items": [_packed(item) for item in value], "tuple": isinstance(value, tuple)}
    if isinstance(value, np.generic):
        return {"number": value.item(), "dtype": str(value.dtype)}
    return value


def _unpacked(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], value["dtype"])
    if "items" in value:
        items = [_unpacked(item) for item in value["items"]]
        return tuple(items) if value["tuple"] else items
    return np.dtype(value["dtype"]).type(value["number"])


def _plain(value: Any) -> Any:
    """A generator's state as JSON has it: some have arrays."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
