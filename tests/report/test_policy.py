"""The path that a policy's arrows lead along, on grids with and without chance, and the whole section of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.grids import arrows_of, grid_of
from canon.data.environments.opening import Opener
from canon.report.curves import run_charts
from canon.report.policy import path_of
from canon.systems.control import exact
from canon.tasks.control import Control
from canon.training.trainer import train

LOGGED = (
    *("train/loss", "train/episodes", "train/return", "valid/return", "valid/return_std", "valid/discounted"),
    "valid/predicted",
)
PATHS: dict[str, tuple[str, dict[str, Any], list[int]]] = {
    "dry": ("FrozenLake-v1", {"is_slippery": False}, [0, 4, 8, 9, 13, 14, 15]),
    "slippery": ("FrozenLake-v1", {}, [0, 4, 8, 9, 13, 14, 15]),
    "cliff": ("CliffWalking-v1", {}, [36, *range(24, 36), 47]),
    "walk": ("five-state-walk", {}, [2, 3, 4]),
}


@pytest.mark.parametrize("key", PATHS)
def test_the_path_of_the_optimum(key: str) -> None:
    name, arguments, cells = PATHS[key]
    env = EnvironmentCopy(Opener(name, arguments))
    model, grid = env.model, grid_of(env)
    assert model is not None and grid is not None
    value_S = exact.optimum(model, 0.99)
    assert value_S is not None
    best_S = exact.first_best(model.backup(value_S, 0.99))
    assert path_of(env, arrows_of(model, grid), best_S, value_S) == cells


def test_a_path_that_circles_ends() -> None:
    env = EnvironmentCopy(Opener("FrozenLake-v1", {"is_slippery": False}))
    left_S = np.zeros(16, int)
    assert env.model is not None and (grid := grid_of(env)) is not None
    assert path_of(env, arrows_of(env.model, grid), left_S, np.zeros(16)) == [0]


def test_rewards_beyond_all_measure_are_no_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    name = f"{Path(__file__).parents[1] / 'data' / 'environments.py'}:Line"
    changes = {"train.steps": 3, "data.test_episodes": 2, "data.valid_episodes": 2, "data.arguments.reward": 1e300}
    train("q-learning", name, tmp_path / "run", changes=changes, quiet=True)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "e+" in log and max(map(len, log.split())) < 80
    assert not [str(one.message) for one in recwarn if issubclass(one.category, RuntimeWarning)]


def test_a_prediction_is_drawn_beside_what_it_predicts() -> None:
    """Numbers of one sort in one chart, each other number in its own, and none twice or left out."""
    numbers = {**dict.fromkeys(LOGGED, 5.0), "train/lr": 0.1}
    rows = [{"step": step, "epoch": 0, **numbers} for step in (1.0, 2.0, 3.0)]
    charts = run_charts(rows, {}, {}, 2, None, Control.drawn_together)
    drawn = [[line.name for line in chart.lines] for chart in charts]
    assert ["valid/discounted", "valid/predicted"] in drawn and ["train/return", "valid/return"] in drawn
    assert ["train/loss"] in drawn and ["train/lr"] in drawn and ["train/episodes"] in drawn
    assert sorted(name for names in drawn for name in names) == sorted(numbers)
    plain = [[line.name for line in chart.lines] for chart in run_charts(rows, {}, {}, 2)]
    assert ["valid/predicted"] in plain, "other tasks have a chart for each"
