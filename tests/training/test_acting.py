"""Runs of agents: killed at any moment and resumed, with one copy and with eight, on six environments; and played."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence
from safetensors.torch import load_file

from canon import recipe as recipes
from canon.errors import CanonError
from canon.training import trainer
from canon.training.run import Run
from canon.use.model import load
from canon.use.play import play
from canon.use.sketches import sketch_of
from tests.data.test_environments import FILE, SIX

TRAIN = {
    "train.steps": 12,
    "train.log_every": 1,
    "train.evaluate_every": 5,
    "train.checkpoint_every": 3,
    "train.keep": 100,
    "train.device": "cpu",
    "train.threads": 1,
    "data.valid_episodes": 2,
    "data.test_episodes": 3,
    "data.max_steps": 40,
}
DQN = {
    "system.name": "dqn:tiny",
    "system.capacity": 600,
    "optimizer.lr": 1e-3,
    "train.batch": 64,
    "objective.name": "temporal-difference",
}
QLEARNING = {"system.name": "q-learning:tiny", "system.simulate": "off", "train.batch": 50}
REINFORCE = {"system.name": "reinforce:tiny", "train.batch": 8}


def training(out: Path, name: str, changes: dict[str, Any]) -> trainer.Trainer:
    if out.exists():
        recipe = recipes.load(str(out / "recipe.toml"))
    else:
        recipe = recipes.load("control/cartpole", name, {**TRAIN, **changes})
    return trainer.Trainer(recipe, out, trainer.enter_world(recipe.train), quiet=True)


def assert_resumed(folder: Path, name: str, changes: dict[str, Any], steps: tuple[int, ...]) -> None:
    training(folder / "whole", name, changes).fit()
    for step in steps:
        killed = training(folder / f"{step}", name, changes)
        learn = killed.learner.step

        def die(number: int, at: int = step, learn: Callable[[int], bool] = learn) -> bool:
            more = learn(number)
            if number == at + 1:
                raise SystemExit  # after the step, before anything is written of it
            return more

        killed.learner.step = die  # type: ignore[method-assign]
        with pytest.raises(SystemExit):
            killed.fit()
        training(folder / f"{step}", name, changes).fit()
        one, other = folder / "whole", folder / f"{step}"
        assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
        for file in (one / "last").resolve().glob("*.safetensors"):
            ours, theirs = load_file(file), load_file((other / "last").resolve() / file.name)
            assert all(torch.equal(ours[key], theirs[key]) for key in ours), file.name
        states = [json.loads((run / "last" / "state.json").read_text())["learner"] for run in (one, other)]
        assert states[0] == states[1]


@pytest.mark.parametrize("copies", [1, 8])
@pytest.mark.parametrize("name", SIX)
def test_killed_and_resumed_is_never_killed(name: str, copies: int, tmp_path: Path) -> None:
    """The ring, ε, the optimiser, open episodes and all generators."""
    assert_resumed(tmp_path, name, {**DQN, "system.copies": copies}, (4, 10))


@pytest.mark.parametrize("changes", [QLEARNING, {**QLEARNING, "system.name": "sarsa:tiny"}, REINFORCE], ids=str)
def test_other_agents_are_resumed(changes: dict[str, Any], tmp_path: Path) -> None:
    assert_resumed(tmp_path, "FrozenLake-v1", changes, (7,))


def test_replayed_actions_resume_an_environment_of_ones_own(tmp_path: Path) -> None:
    assert_resumed(tmp_path, f"{FILE}:Drift", {**DQN, "system.copies": 2}, (4,))
    with pytest.raises(CanonError, match="cannot be resumed exactly"):
        assert_resumed(tmp_path / "secret", f"{FILE}:Secret", DQN, (4,))


def test_what_cannot_be_resumed_is_scored_all_the_same(tmp_path: Path) -> None:
    """The best weights are read again in the end, without the open episodes."""
    result = training(tmp_path / "run", f"{FILE}:Secret", {**DQN, "system.copies": 2}).fit().result
    assert result is not None and result["steps"] == 12 and result["scores"]["test"]["return"] > 0


def test_an_environment_that_breaks_loses_nothing(tmp_path: Path) -> None:
    """The sentence, and the checkpoints before it."""
    name = f"{FILE}:Broken"
    broken = training(tmp_path / "run", name, DQN)
    learn = broken.learner.step

    def breaks(number: int) -> bool:
        if number == 8:
            broken.learner._copies.copies[0].env.how = "raises"  # type: ignore[attr-defined]
        return learn(number)

    broken.learner.step = breaks  # type: ignore[method-assign]
    with pytest.raises(CanonError, match=r"step\(\d\) failed after \d+ steps of an episode by ZeroDivisionError"):
        broken.fit()
    run = training(tmp_path / "run", name, DQN).fit()
    assert run.result is not None and run.result["steps"] == 12


def test_other_arguments_are_other_data(tmp_path: Path) -> None:
    training(tmp_path / "run", "FrozenLake-v1", QLEARNING).fit()
    with pytest.raises(CanonError, match=r"data\.arguments.* cannot change when .* is resumed"):
        trainer.train(str(tmp_path / "run"), resume=True, changes={"data.arguments.is_slippery": False}, quiet=True)


def test_seeds_of_training_are_not_those_of_scoring(tmp_path: Path) -> None:
    run = training(tmp_path / "run", "FrozenLake-v1", QLEARNING)
    first = int(run.data.splits["test"]["input"].seeds[0])  # type: ignore[union-attr]
    with pytest.raises(CanonError, match=r"decides episodes to be judged by"):
        training(tmp_path / "other", "FrozenLake-v1", {**QLEARNING, "train.seed": first - 0})


def test_the_last_weights_are_scored_beside_the_best(tmp_path: Path) -> None:
    result = training(tmp_path / "run", "CartPole-v1", DQN).fit().result
    assert result is not None and result["best_step"] < result["steps"] == 12
    shutil.copytree(tmp_path / "run", tmp_path / "last", symlinks=True)
    (tmp_path / "last" / "best").unlink()
    (tmp_path / "last" / "best").symlink_to((tmp_path / "run" / "last").readlink())
    assert load(tmp_path / "last").evaluate()["return"] == result["last"]["test"]["return"]


def test_what_an_environment_prints_is_no_result(tmp_path: Path, canon: Callable[..., Any]) -> None:
    line = f"{FILE}:Line"
    training(tmp_path / "run", line, QLEARNING).fit()
    played = canon("play", tmp_path / "run", "--json")
    assert json.loads(played.out)[0]["length"] > 0 and "a step" in played.err
    assert "return" in json.loads(canon("evaluate", tmp_path / "run", "--json").out)
    assert json.loads(canon("check", line, "--json").out)["kind"] == "environments"
    answer = canon("play", tmp_path / "run", "--record", tmp_path / "line.gif")
    assert answer.code == 2 and "it takes no argument render_mode" in answer.err


def test_played_and_recorded(tmp_path: Path, canon: Callable[..., Any]) -> None:
    """The first episodes are those of the test set; the GIF shows each state for 30 ms, equal pictures as one."""
    path = training(tmp_path / "run", "CartPole-v1", DQN).fit().path
    model = load(path)
    rows = play(model, 3, record=tmp_path / "cart.gif")
    result = Run(path).result
    assert result is not None
    assert sum(row["return"] for row in rows) / 3 == pytest.approx(result["scores"]["test"]["return"])
    with Image.open(tmp_path / "cart.gif") as picture:
        shown = [frame.info["duration"] for frame in ImageSequence.Iterator(picture)]
    assert sum(shown) == 30 * sum(row["length"] + 1 for row in rows)
    printed = canon("play", path, "--episodes", "3", "--json")
    assert json.loads(printed.out) == rows
    answer = canon("play", path, "--policy", "sample")
    assert answer.code == 2 and "is for stochastic policies" in answer.err
    lake = training(tmp_path / "lake", "FrozenLake-v1", QLEARNING).fit().path
    assert "[S]" in canon("play", lake).err
    answer = canon("play", lake, "--record", tmp_path / "lake.png")
    assert answer.code == 2 and "recorded as .gif" in answer.err
    corridor = training(tmp_path / "corridor", "short-corridor", QLEARNING).fit().path
    assert "[0] 1  2" in canon("play", corridor).err
    assert canon("play", corridor, "--record", tmp_path / "corridor.gif").code == 0
    with Image.open(tmp_path / "corridor.gif") as picture:
        assert len(list(ImageSequence.Iterator(picture))) > 1
    taxi = training(tmp_path / "taxi", "Taxi-v4", QLEARNING).fit().path
    assert canon("play", taxi, "--record", tmp_path / "taxi.gif").code == 0
    with Image.open(tmp_path / "taxi.gif") as picture:
        colors = {color for _, color in picture.convert("RGB").getcolors(100_000) or ()}
    assert any(min(red, green) > 200 and blue < 100 for red, green, blue in colors), "the taxi is a yellow cell"


def red_at(sketch: Any, observation: list[float]) -> tuple[float, float]:
    """Where the middle of what is drawn in red is."""
    pixels = np.asarray(sketch(np.array(observation)).convert("RGB")).astype(int)
    rows, cols = np.nonzero((pixels[..., 0] > 200) & (pixels[..., 1:].max(axis=2) < 60))
    return float(rows.mean()), float(cols.mean())


def test_classic_control_is_drawn_where_it_is() -> None:
    """By gymnasium's own geometry: rows are counted from above."""
    cart, acrobot, car = (
        sketch_of(gymnasium.make(name).unwrapped, (size,))
        for name, size in (("CartPole-v1", 4), ("Acrobot-v1", 6), ("MountainCar-v0", 2))
    )
    assert red_at(cart, [1.2, 0, 0.2, 0])[1] > red_at(cart, [1.2, 0, 0, 0])[1] == 225, "the pole falls to the right"
    down, right, up = (red_at(acrobot, [c, s, 1, 0, 0, 0]) for c, s in ((1, 0), (0, 1), (-1, 0)))
    assert down[0] > right[0] > up[0] and right[1] > down[1] + 50 and abs(down[1] - up[1]) < 3
    folded = red_at(acrobot, [1, 0, -1, 0, 0, 0])
    assert abs(folded[0] - (down[0] - 45)) < 3, "the second link leads back to the joint"
    valley, goal = red_at(car, [-np.pi / 6, 0]), red_at(car, [0.5, 0])
    assert valley[0] > goal[0] + 100 and goal[1] > valley[1]
