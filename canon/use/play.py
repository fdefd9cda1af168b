"""Episodes of a run's agent in its environment: what `canon play` prints and records."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Literal

import numpy as np

from canon.contracts import Agent, Episodes
from canon.data.encodings.observations import EnvironmentData
from canon.data.environments.abilities import SamplesActions
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.grids import grid_of
from canon.data.environments.opening import Opener
from canon.errors import CanonError
from canon.training.data import read_data
from canon.training.environment import Playing
from canon.use import frames
from canon.use.model import Model

Policy = Literal["greedy", "sample", ""]
MOST_FRAMES = 2000


def agent_of(model: Model) -> Agent | None:
    return model.learner.agent if isinstance(model.learner, Playing) else None


def play(
    model: Model,
    episodes: int = 1,
    seed: int | None = None,
    policy: Policy = "",
    record: Path | None = None,
    show: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """A row for each episode: seed, return, length, and whether it was cut off.

    seed: of the first reset; default: that of the first test episode. policy: default as the run is scored. record: a
    GIF to write. show: takes a text of each state, where the environment is a grid or renders text. What the
    environment itself prints goes to stderr."""
    agent = agent_of(model)
    if agent is None:
        raise CanonError(f"{model.run.path} is not a run of an agent; canon play is for those that act.")
    if policy == "sample" and not isinstance(agent, SamplesActions):
        raise CanonError("--policy sample is for stochastic policies (reinforce); this run has the best action only.")
    if record is not None:
        frames.check_name(record)
    data = read_data(model.run.recipe, model.run.path)
    assert isinstance(data, EnvironmentData)
    if seed is None:
        column: Any = data.splits["test"]["input"]
        assert isinstance(column, Episodes)
        seed = int(column.seeds[0])
    with redirect_stdout(sys.stderr):
        return _played(agent, data.opener, range(seed, seed + episodes), policy, record, show)


def _played(
    agent: Agent, opener: Opener, seeds: range, policy: Policy, record: Path | None, show: Callable[[str], None] | None
) -> list[dict[str, Any]]:
    env = EnvironmentCopy(opener)
    grid = grid_of(env)
    if record is not None and (mode := frames.drawing_mode(env)):
        env = EnvironmentCopy(opener, mode)
    shows = show is not None and (grid is not None or "ansi" in frames.modes_of(env))
    if shows and grid is None:
        env = EnvironmentCopy(opener, "ansi")
    paint = frames.painter_of(env) if record is not None else None
    pictures: list[Any] = []
    rows = []
    for seed in seeds:
        random = np.random.default_rng([seed, 1])
        observation, over, total, length = env.reset(seed), False, 0.0, 0
        while True:
            if show is not None and shows:
                show(grid.text(int(observation)) if grid is not None else frames.text_of(env))
            if paint is not None and len(pictures) < MOST_FRAMES:
                pictures.append(paint(observation))
            if over:
                break
            observation, reward, terminated, truncated = env.step(action_of(agent, observation, policy, random))
            total, length, over = total + reward, length + 1, terminated or truncated
        rows.append({"seed": seed, "return": total, "length": length, "truncated": truncated})
    if record is not None:
        frames.save_gif(record, pictures, frames.pause_of(env))
    return rows


def action_of(agent: Agent, observation: Any, policy: Policy, random: np.random.Generator) -> int:
    """policy: "" as the agent is scored."""
    observations_1 = np.asarray(observation)[None]
    if isinstance(agent, SamplesActions) and (policy == "sample" or (not policy and agent.sampling)):
        return int(agent.sample(observations_1, np.array([random.random()]))[0])
    return int(agent.act(observations_1)[0])
