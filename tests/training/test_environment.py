"""Experience that is made: a toy environment and a toy agent go through the trainer as every other system does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import Field
from safetensors.torch import load_file
from torch import Tensor

from canon import recipe as recipes
from canon import registry
from canon.config import settings
from canon.contracts import Agent, Context, Environment, Environments, Episodes, MakesEnvironment, Moved, Space, World
from canon.data.encodings.features import FeatureSchema
from canon.data.schema import Columns, Data, FileRecord
from canon.data.targets import Nothing
from canon.errors import CanonError
from canon.metrics.records import METRICS, Metric
from canon.objectives import table as objectives
from canon.objectives.record import Objective
from canon.objectives.settings import NoSettings
from canon.registry import System
from canon.report.run import write_report
from canon.tasks import table as tasks
from canon.tasks.base import Outputs, Task
from canon.training import trainer
from canon.training.environment import Copies, Playing
from canon.training.run import Run
from canon.training.signals import Interrupted
from canon.use import model

LENGTH, SLIP, LIMIT, GAMMA = 6, 0.2, 25, 0.9


class Corridor:
    """Cells 0 … 5; action 1 goes right, 0 left, and either slips the other way at times. The last cell is the goal."""

    observation = Space(size=LENGTH)
    num_actions = 2

    def __init__(self) -> None:
        self.random, self.cell, self.steps = np.random.default_rng(0), 0, 0

    def reset(self, seed: int | None = None) -> int:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.cell, self.steps = int(self.random.integers(LENGTH - 1)), 0
        return self.cell

    def step(self, action: int) -> Moved:
        right = bool(action) != (self.random.random() < SLIP)
        self.cell = min(max(self.cell + (1 if right else -1), 0), LENGTH - 1)
        self.steps += 1
        goal = self.cell == LENGTH - 1
        return Moved(self.cell, 1.0 if goal else -0.1, goal, self.steps == LIMIT)

    def state(self) -> dict[str, Any]:
        return {"cell": self.cell, "steps": self.steps, "random": self.random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> int:
        self.cell, self.steps, self.random.bit_generator.state = state["cell"], state["steps"], state["random"]
        return self.cell


@dataclass(frozen=True)
class CorridorEpisodes:
    seeds: np.ndarray

    def make(self) -> Environment:
        return Corridor()

    def __len__(self) -> int:
        return len(self.seeds)


@dataclass(frozen=True)
class CorridorData(Data):
    def make(self) -> Environment:
        return Corridor()


def corridor(*_: object) -> CorridorData:
    splits: Any = {
        "valid": {"input": CorridorEpisodes(1000 + np.arange(40))},
        "test": {"input": CorridorEpisodes(2000 + np.arange(200))},
    }
    return CorridorData("corridor", FeatureSchema(Nothing()), splits, (FileRecord("corridor", 0, "0"),))


@settings
class Config:
    lr: float = Field(default=0.1)
    epsilon: float = Field(default=0.3)
    copies: int = Field(default=3)


class QLearning(Agent):
    """Q(s, a) += lr (r + γ (1 − terminated) max Q(s', ·) − Q(s, a)), acting at random with probability ε."""

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.copies = config.copies
        self.values = np.zeros((LENGTH, 2))
        self.random = np.random.default_rng(context.seed)  # goes on from step to step, so it is kept
        self.error, self.count = 0.0, 0

    @property
    def num_parameters(self) -> int:
        return self.values.size

    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        self.environments, self.turns = environments, batch // self.copies

    def step(self, number: int) -> bool:
        for _ in range(self.turns):
            random = self.random.random(self.copies) < self.config.epsilon
            actions = np.where(
                random, self.random.integers(2, size=self.copies), self.act(self.environments.observations)
            )
            before, actions, rewards, after, terminated, _ = self.environments.step(actions)
            errors = rewards + GAMMA * ~terminated * self.values[after].max(1) - self.values[before, actions]
            np.add.at(self.values, (before, actions), self.config.lr * errors)
            self.error, self.count = self.error + float(np.abs(errors).sum()), self.count + len(errors)
        return True

    def act(self, observations_N: np.ndarray) -> np.ndarray:
        return self.values[observations_N].argmax(1)

    def logs(self) -> dict[str, float]:
        mean, self.error, self.count = self.error / max(self.count, 1), 0.0, 0
        return {"td_error": mean}

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        return {"model": {"values": self.values.copy()}}

    def state(self) -> dict[str, Any]:
        return {"random": self.random.bit_generator.state, "error": self.error, "count": self.count}

    def restore(self, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
        self.values = np.array(tensors["model"]["values"])
        self.random.bit_generator.state = state["random"]
        self.error, self.count = state["error"], state["count"]


class Control(Task):
    monitor = "return"

    def names(self) -> tuple[str, ...]:
        return ("return", "length", "truncated")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        return {name: float(rows.mean(dtype=np.float64)) for name, rows in outputs.items()}

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return []


SYSTEM = System(
    name="toy-q",
    title="Q-learning",
    chapter="control",
    paper="none",
    module="tests.training.test_environment:QLearning",
    encodings=("features",),
    task="toy-control",
    objective="toy-td",
    loop="environment",
)
OBJECTIVE = Objective(
    name="toy-td",
    title="Temporal difference",
    formula="|r + γ max Q(s', ·) − Q(s, a)|",
    paper="none",
    tasks={"toy-control": NoSettings},
    columns=(),
    outputs=(),
)
TRAIN = {
    "steps": 60,
    "batch": 12,
    "log_every": 4,
    "evaluate_every": 15,
    "checkpoint_every": 7,
    "keep": 100,
    "seed": 3,
    "device": "cpu",
}


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SYSTEMS", (*registry.SYSTEMS, SYSTEM))
    monkeypatch.setattr(objectives, "OBJECTIVES", (*objectives.OBJECTIVES, OBJECTIVE))
    monkeypatch.setitem(tasks.TASKS, "toy-control", Control)
    monkeypatch.setitem(METRICS, "return", Metric("return", "Return", "Σ r", higher_is_better=True))
    monkeypatch.setattr(trainer, "read_data", corridor)
    monkeypatch.setattr(model, "read_data", corridor)


def recipe_of(**changes: Any) -> recipes.Recipe:
    train = {key: value for key, value in {**TRAIN, **changes}.items() if value is not None}
    return recipes.build({"system": {"name": "toy-q"}, "data": {"source": "corridor"}, "train": train}, "toy", {})


def training(out: Path, **changes: Any) -> trainer.Trainer:
    recipe = recipes.load(str(out / "recipe.toml")) if out.exists() else recipe_of(**changes)
    return trainer.Trainer(recipe, out, trainer.enter_world(recipe.train), quiet=True)


def assert_same_end(first: Path, second: Path) -> None:
    assert (first / "metrics.jsonl").read_bytes() == (second / "metrics.jsonl").read_bytes()
    ours, theirs = (load_file(run / "last" / "model.safetensors") for run in (first, second))
    assert torch.equal(ours["values"], theirs["values"])
    states = [json.loads((run / "last" / "state.json").read_text())["learner"] for run in (first, second)]
    assert states[0] == states[1], "generators, open episodes and tallies too"


def optimal_actions() -> np.ndarray:
    """By value iteration on the corridor's own probabilities."""
    values = np.zeros(LENGTH)
    for _ in range(500):
        moved = [np.minimum(np.maximum(np.arange(LENGTH) + way, 0), LENGTH - 1) for way in (-1, 1)]
        of_move = [np.where(to == LENGTH - 1, 1.0, -0.1 + GAMMA * values[to]) for to in moved]
        of_action = np.stack([(1 - SLIP) * of_move[0] + SLIP * of_move[1], (1 - SLIP) * of_move[1] + SLIP * of_move[0]])
        values = of_action.max(0) * (np.arange(LENGTH) < LENGTH - 1)
    return of_action.argmax(0)[: LENGTH - 1]


def test_an_agent_learns_and_leaves_a_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = recipe_of(steps=200)
    run = trainer.Trainer(recipe, tmp_path / "run", trainer.enter_world(recipe.train)).fit()
    said = capsys.readouterr().err
    assert (
        "40 valid, 200 test" in said and "200 steps of 12 environment steps" in said and " environment steps/s" in said
    )
    values = load_file(run.path / "best" / "model.safetensors")["values"].numpy()
    assert (values[: LENGTH - 1].argmax(1) == optimal_actions()).all()
    rows = run.metrics()
    logged = [row for row in rows if "train/td_error" in row]
    assert logged[-1].keys() == {"step", "train/td_error", "train/episodes", "train/return", "train/length"}
    returns = [row["valid/return"] for row in rows if "valid/return" in row]
    untrained = Playing(QLearning(Config(), Context()), Context()).outputs(corridor().splits["valid"])
    assert untrained["return"].mean() < 0 < returns[-1], "at first it goes left, and each step costs"
    assert run.result is not None
    assert run.result["risk"] == {} and run.result["scores"].keys() == {"valid", "test"}
    assert run.result["cost"]["examples"] == 200 * 12, "environment steps"
    assert run.timings()[-1]["examples_per_second"] > 0
    write_report(run, corridor())
    assert "train/td_error" in (run.path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("step", [3, 7, 29, 45])
def test_killed_and_resumed_is_never_killed(step: int, tmp_path: Path) -> None:
    """Killed in the middle of a step, within episodes: what came after the last checkpoint is done again."""
    training(tmp_path / "whole").fit()
    killed = training(tmp_path / "killed")
    learn = killed.learner.step

    def die(number: int) -> bool:
        if number == step + 1:
            raise SystemExit
        return learn(number)

    killed.learner.step = die  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        killed.fit()
    assert Run(tmp_path / "killed").result is None
    training(tmp_path / "killed").fit()
    assert_same_end(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("place", ["a step", "an evaluation"])
def test_stopped_by_a_signal_and_resumed_is_never_stopped(place: str, tmp_path: Path) -> None:
    """Also between two moves of the episodes that it is scored by."""
    training(tmp_path / "whole").fit()
    stopped = training(tmp_path / "stopped")
    learner: Any = stopped.learner
    calls: list[int] = []
    act, learn = learner.agent.act, learner.step

    def acting(observations: np.ndarray) -> np.ndarray:
        calls.append(len(observations))
        if calls.count(40) == 2:  # the first move of the second evaluation
            stopped.signals.number = 15
        return act(observations)

    def stepping(number: int) -> bool:
        stopped.signals.number = 15 * (number == 31)
        return learn(number)

    if place == "a step":
        learner.step = stepping
    else:
        learner.agent.act = acting
    with pytest.raises(Interrupted):
        stopped.fit()
    training(tmp_path / "stopped").fit()
    assert_same_end(tmp_path / "whole", tmp_path / "stopped")


def test_a_finished_run_is_evaluated_by_playing(tmp_path: Path) -> None:
    training(tmp_path / "run").fit()
    result = Run(tmp_path / "run").result
    assert result is not None
    loaded = model.load(tmp_path / "run")
    assert loaded.evaluate() == result["scores"]["test"]
    # By hand, one episode after the other, with the policy of the best weights.
    values = load_file(tmp_path / "run" / "best" / "model.safetensors")["values"].numpy()
    returns = []
    for seed in 2000 + np.arange(200):
        environment, total, over = Corridor(), 0.0, False
        cell = environment.reset(int(seed))
        while not over:
            cell, reward, terminated, truncated = environment.step(int(values[cell].argmax()))
            total, over = total + reward, terminated or truncated
        returns.append(total)
    assert result["scores"]["test"]["return"] == pytest.approx(np.mean(returns), rel=1e-12)


def test_copies_begin_again_where_they_end_and_give_the_true_last_observation() -> None:
    copies = Copies(Corridor, 4, seed=0)
    by_hand = [Corridor() for _ in range(4)]
    cells = [environment.reset(i) for i, environment in enumerate(by_hand)]
    ends = 0
    for _ in range(60):
        assert copies.observations.tolist() == cells
        moved = copies.step(np.ones(4, np.int64))
        expected = [environment.step(1) for environment in by_hand]
        assert moved.before.tolist() == cells
        assert moved.after.tolist() == [move.observation for move in expected], "of an end too"
        assert moved.terminated.tolist() == [move.terminated for move in expected]
        over = [move.terminated or move.truncated for move in expected]
        ends += sum(over)
        pairs = zip(by_hand, expected, over, strict=True)
        cells = [environment.reset() if ended else move.observation for environment, move, ended in pairs]
    assert ends > 8 and copies.logs()["episodes"] == ends and copies.logs() == {"episodes": 0.0}


def test_data_without_examples_needs_steps(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"Set train\.steps: corridor has no training set"):
        training(tmp_path / "run", steps=None, epochs=2.0)


REFUSED: dict[str, tuple[Callable[[], Data], World, str]] = {
    "a table": (lambda: Data("a table", FeatureSchema(Nothing()), {}), World(), "a table is not an environment"),
    "processes": (corridor, World("cpu", 0, 2), "which one process does"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_agent_cannot_learn_from_is_a_sentence(what: str) -> None:
    data, world, sentence = REFUSED[what]
    learner = Playing(QLearning(Config(), Context()), Context(recipe=recipe_of(), world=world))
    with pytest.raises(CanonError, match=sentence):
        learner.begin(data(), 12, 1)


def test_the_toys_are_what_the_contracts_ask_for() -> None:
    assert isinstance(corridor(), MakesEnvironment) and isinstance(corridor().splits["test"]["input"], Episodes)
    assert not isinstance(Data("x", FeatureSchema(Nothing()), {}), MakesEnvironment)
