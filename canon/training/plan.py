"""What comes before training: which recipe is carried out where, its data, and the learner and task it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from canon import recipe as recipes
from canon.config import Table
from canon.contracts import Context, Learner, TakesVocabulary, World
from canon.data.batching.loader import steps_per_epoch
from canon.data.batching.passages import Passages
from canon.data.batching.sequences import Uneven, Windows
from canon.data.schema import Data, Schema, num_examples
from canon.data.targets import HiddenTokens, NextToken
from canon.errors import CanonError, border, unknown
from canon.recipe import Recipe
from canon.systems.building import build as build_system
from canon.tasks import table as tasks
from canon.tasks.base import Task
from canon.training.data import with_backbone
from canon.training.devices import seed_step
from canon.training.environment import Playing
from canon.training.gradient import Gradient
from canon.training.phases import Named, Phase
from canon.training.run import Run

# What may be changed when a run is taken up again; the rest decided what it has learned so far.
_CHANGEABLE = ("steps", "epochs", "seconds", "patience", "keep", "nonfinite", "tensorboard", "threads")


def plan(name: str, data: str, out: str | Path | None, resume: bool, changes: Table) -> tuple[Recipe, Path]:
    """The recipe to carry out and the directory to do it in; a run that exists must be asked for with --resume."""
    with border(f"--out {out}", "cannot be used"):  # such as a name that is too long
        exists = out is not None and Path(out).exists()
    if out is None and is_run(name):  # canon train runs/NAME --resume
        path = Path(name)
    else:
        asked = recipes.load(name, data, changes)
        path = Path(out) if out is not None else Path("runs") / asked.name.split("/")[-1]
        if not (exists or path.exists()):
            return with_backbone(asked), path
        kept = Run.open(path).recipe
        if name and asked.system.name != kept.system.name:
            raise CanonError(f"{path} is a run of {kept.system.name}, not of {asked.system.name}: give another --out.")
        if data and data != kept.data.source:
            raise CanonError(f"{path} was trained on {kept.data.source}, not on {data}: give another --out.")
    if not resume:
        raise CanonError(f"{path} already exists: add --resume to go on with it, or give another name with --out.")
    run = Run.open(path)
    run.read_recipe()
    new = {key: value for key, value in changes.items() if not _is_kept(run, key, value)}
    for key in new:
        section, _, field = key.partition(".")
        if section != "train" or field not in _CHANGEABLE:
            allowed = ", ".join(f"train.{field}" for field in _CHANGEABLE)
            raise CanonError(f"{key} cannot change when {path} is resumed; what can: {allowed}.")
    return recipes.load(str(path / "recipe.toml"), changes=new), path


def is_run(name: str) -> bool:
    with border(f"{name[:80]}{'…' * (len(name) > 80)}", "cannot be looked for"):
        return (Path(name) / "recipe.toml").is_file()


def _is_kept(run: Run, key: str, value: Any) -> bool:
    """Whether a run has this value already, maybe worked out for its data: 0 is automatic, and a batch that is larger
    than the training set is all of it."""
    if _value(run.settings, key) == value:
        return True
    if run.recipe.origins.get(key) != "worked out" or type(value) is not int:
        return False
    return value == 0 or (key == "train.batch" and value >= run.recipe.train.batch == run.data["examples"]["train"])


def _value(table: Table, key: str) -> Any:
    for part in key.split("."):
        table = table.get(part, {}) if isinstance(table, dict) else {}
    return table


def build(
    recipe: Recipe, schema: Schema, world: World, pause: Callable[[], None] = lambda: None
) -> tuple[Learner, Task]:
    """The learner of a recipe whose sizes are those of `schema`, and its task. pause: see Context."""
    task = tasks.create(recipe.system, recipe.config, schema, recipe.objective)
    for phase in recipe.optimizers:
        if phase not in task.phases:
            raise unknown("phase (optimizers)", phase, task.phases)

    def optimizer(parameters: Named, phase: str, paces: dict[str, tuple[float, bool]] | None = None) -> Phase:
        return Phase(phase, recipe.optimizer_for(phase), parameters, paces)

    context = Context(recipe, schema, world, recipe.train.seed, optimizer, pause)
    seed_step(recipe.train.seed, 0, 0, world.device)  # the same first weights on every process
    built = build_system(recipe.system, recipe.config, context)
    if recipe.system.loop == "learner":
        return built, task
    if recipe.system.loop == "environment":
        return Playing(built, context), task
    if isinstance(built, TakesVocabulary) and "text" in schema.tokenizers:
        built.take_vocabulary(schema.tokenizers["text"].vocabulary)
    return Gradient(built, task, context), task


@dataclass(frozen=True)
class Prepared:
    """A recipe and its data made ready for the trainer."""

    recipe: Recipe  # with all that the data decides
    size: int  # examples of an epoch; 0 where experience is made, not read
    total: int  # steps
    learner: Learner
    task: Task
    monitor: str  # the metric that decides which checkpoint is best


def prepare(recipe: Recipe, data: Data, world: World, pause: Callable[[], None]) -> Prepared:
    """The learner and task of a recipe for its data; settings that do not go together are an error."""
    size = num_examples(data.splits["train"]) if "train" in data.splits else 0
    recipe = _resolved(recipe, data, size)  # an existing run has its intervals worked out already
    learner, task = build(recipe, data.schema, world, pause)
    if task.carries and recipe.train.batch < world.size:
        raise CanonError(f"train.batch is {recipe.train.batch}, less than the {world.size} processes.")
    if not recipe.train.monitor and task.monitor != type(task).monitor:  # for want of labels
        recipe = recipe.with_monitor(task.monitor)
    for split, columns in data.splits.items():
        if (few := num_examples(columns)) < task.least:
            raise CanonError(
                f"{recipe.system.name} is scored on {task.least} examples at least, but the {split} split of "
                f"{data.name} has {few}; give more data, or another data.{split}."
            )
    monitor = recipe.train.monitor or task.monitor
    if monitor not in task.names():
        raise unknown("metric (train.monitor)", monitor, task.names())
    return Prepared(recipe, size, recipe.total_steps(size), learner, task, monitor)


def _resolved(recipe: Recipe, data: Data, size: int) -> Recipe:
    """A recipe with all that the data decides: sizes of the system, and intervals. Data without training examples, such
    as an environment, has no epochs, and the batch is the recipe's."""
    if not size:
        if recipe.train.steps is None:
            raise CanonError(f"train.steps must be given: {data.name} has no training set to count epochs of.")
        return recipe.fitted(data.schema.sizes()).resolved(max(recipe.train.batch, 1))
    per_epoch = steps_per_epoch(data.schema, data.splits["train"], recipe.train.batch, recipe.train.tokens)
    return recipe.fitted({**data.schema.sizes(), "num_examples": size}).resolved(size, per_epoch)


def floors_of(task: Task, data: Data) -> dict[str, float]:
    """The losses of guesses that look at no input, by name."""
    columns = data.splits.get("train", {})
    of_text = isinstance(data.schema.target, NextToken | HiddenTokens)
    targets = columns.get("target", columns.get("input") if of_text else None)
    if isinstance(targets, Windows | Uneven | Passages):
        targets = targets.tokens
    return task.floors(targets) if isinstance(targets, np.ndarray) and len(targets) else {}
