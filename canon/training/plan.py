"""What comes before training: which recipe is carried out where, its data, and the learner and task it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from canon import recipe as recipes
from canon.config import Table, assign, parse
from canon.contracts import Borrows, Context, Learner, ParameterPace, Suggests, TakesVocabulary, World
from canon.data.batching.composer import Pretext
from canon.data.batching.epochs import steps_per_epoch
from canon.data.batching.passages import Passages
from canon.data.batching.sequences import Uneven, Windows
from canon.data.catalogue import CATALOGUE
from canon.data.checking.choosing import SystemChoice, choose_system
from canon.data.config import DataConfig
from canon.data.kinds import by_name
from canon.data.paths import missing_path
from canon.data.schema import Data, Schema, num_examples
from canon.data.targets import HiddenTokens, NextToken
from canon.errors import CanonError, border, unknown
from canon.optim.settings import Adam, AdamW
from canon.recipe import Recipe
from canon.registry.of_user import RECORD
from canon.systems.building import build as build_system
from canon.tasks import table as tasks
from canon.tasks.base import Carries, Compares, NetworkTask, Scoring, Task, Training
from canon.tasks.records import TASK_RECORDS
from canon.training.data import for_target, with_backbone
from canon.training.environment import Playing
from canon.training.run import Run

# What may be changed when a run is resumed; the rest decided what it has learned so far.
_SUGGESTED = "chosen for the data"  # the origin of settings that a system suggests
_CHANGEABLE = ("steps", "epochs", "seconds", "patience", "keep", "nonfinite", "tensorboard", "threads", "micro_batch")


def plan(name: str, data: str, out: str | Path | None, resume: bool, changes: Table) -> tuple[Recipe, Path]:
    """The recipe to carry out and the directory to do it in; a run that exists must be asked for with --resume."""
    with border(f"--out {out}", "cannot be used"):  # such as a name that is too long
        exists = out is not None and Path(out).exists()
    if out is None and is_run(name):  # canon train runs/NAME --resume
        path = Path(name)
    else:
        asked, folder = _asked(name, data, changes)
        path = Path(out) if out is not None else Path("runs") / folder
        if not (exists or path.exists()):
            return with_backbone(asked), path
        kept = Run.open(path).recipe
        if (name or data) and asked.system.name != kept.system.name:
            raise CanonError(f"{path} is a run of {kept.system.name}, not of {asked.system.name}: give another --out.")
        if data and data != kept.data.source:
            raise CanonError(f"{path} was trained on {kept.data.source}, not on {data}: give another --out.")
    if not resume:
        raise CanonError(f"{path} already exists: add --resume to continue it, or give another name with --out.")
    run = Run.open(path)
    run.read_recipe()
    new = {key: value for key, value in changes.items() if not _is_kept(run, key, value)}
    for key in new:
        section, _, field = key.partition(".")
        if section != "train" or field not in _CHANGEABLE:
            allowed = ", ".join(f"train.{field}" for field in _CHANGEABLE)
            raise CanonError(f"{key} cannot change when {path} is resumed; what can: {allowed}.")
    return recipes.load(str(path / "recipe.toml"), changes=new), path


def _asked(name: str, data: str, changes: Table) -> tuple[Recipe, str]:
    """The recipe that is meant, and the name of its run; where only data is named, the first choice for its kind."""
    if name and not recipes.is_known(name):
        if name in CATALOGUE or Path(name).exists() or by_name(DataConfig(source=name)) is not None:
            if data and Path(name).suffix == ".py":
                raise CanonError(f"{name} has no record of a system: {RECORD} = canon.registry.System(…).")
            if data:
                raise CanonError(f"{name} and {data} are both data: give one of them.")
            name, data = "", name
        elif named := [known for known in CATALOGUE if known.replace("-", "") == name.replace("-", "").lower()]:
            raise CanonError(f'No recipe or system "{name}"; the data set is {named[0]}: canon train {named[0]}.')
        elif Path(name).suffix:  # no recipe has one
            raise missing_path(Path(name))
    if name or not data:
        asked = recipes.load(name, data, changes)
        return asked, asked.name.split("/")[-1]
    table: Table = {}
    for key, value in changes.items():
        if key.startswith("data."):
            assign(table, key.removeprefix("data."), value)
    config = parse(DataConfig, {**table, "source": data}, "data", dict.fromkeys(changes, "--set"))
    system = changes.get("system.name", "")
    chosen = SystemChoice(str(system), "") if system else choose_system(config, lambda task: TASK_RECORDS[task].targets)
    asked = replace(recipes.load(chosen.name, data, changes), choice=chosen.sentence)
    return asked, f"{Path(data).name.partition('.')[0]}-{asked.system.name}"


def is_run(name: str) -> bool:
    with border(f"{name[:80]}{'…' * (len(name) > 80)}", "cannot be looked for"):
        return (Path(name) / "recipe.toml").is_file()


def _is_kept(run: Run, key: str, value: Any) -> bool:
    """Whether a run has this value already, maybe worked out for its data: 0 is automatic, and a batch that is larger
    than the training set is all of it."""
    kept: Any = run.settings
    for part in key.split("."):
        kept = kept.get(part, {}) if isinstance(kept, dict) else {}
    if kept == value:
        return True
    if run.recipe.origins.get(key) != recipes.WORKED_OUT or type(value) is not int:
        return False
    return value == 0 or (key == "train.batch" and value >= run.recipe.train.batch == run.data["examples"]["train"])


def build(
    recipe: Recipe, schema: Schema, world: World, pause: Callable[[], None] = lambda: None
) -> tuple[Learner, Task]:
    """The learner of a recipe whose sizes are those of `schema`, and its task. pause: see Context."""
    task = tasks.create(recipe.system, recipe.config, schema, recipe.objective)
    phases = task.phases if isinstance(task, Training) else ("all",)
    for phase in recipe.optimizers:
        if phase not in phases:
            raise unknown("phase (optimizers)", phase, phases)

    def optimizer(parameters: Any, phase: str, paces: dict[str, ParameterPace] | None = None) -> Any:
        from canon.training.phases import Phase

        return Phase(phase, recipe.optimizer_for(phase), parameters, paces)

    context = Context(recipe, schema, world, recipe.train.seed, optimizer, pause)
    if recipe.system.torch == "always":
        from canon.training.devices import seed_step

        seed_step(recipe.train.seed, 0, 0, world.device)  # the same first weights on every process
    built = build_system(recipe.system, recipe.config, context)
    if recipe.train.init and isinstance(built, Borrows) and built.borrows:
        from canon.interop.backbones import lend

        lend(built.borrower, recipe)
    if recipe.system.loop == "learner":
        return built, task
    if recipe.system.loop == "environment":
        return Playing(built, context), task
    if isinstance(built, TakesVocabulary) and "text" in schema.tokenizers:
        built.take_vocabulary(schema.tokenizers["text"].vocabulary)
    from canon.training.gradient import Gradient

    assert isinstance(task, NetworkTask), f"{recipe.system.task} does not train networks"
    return Gradient(built, task, context), task


def prepare(recipe: Recipe, data: Data, world: World, pause: Callable[[], None]) -> tuple[Recipe, Learner, Task]:
    """A recipe with all that its data decides, and its learner and task; settings that do not fit together are an
    error."""
    # An existing run has its intervals worked out already.
    recipe = resolved(for_target(recipe, data.schema.target), data)
    learner, task = build(recipe, data.schema, world, pause)
    if isinstance(task, Carries) and recipe.train.batch < world.size:
        raise CanonError(f"train.batch is {recipe.train.batch}, less than the {world.size} processes.")
    if isinstance(task, Compares) and task.needs_several and recipe.train.batch == 1:
        raise CanonError(
            f"{recipe.objective.name} compares the rows of a batch with each other, but the batch has one row: set "
            "train.batch to 2 or more."
        )
    if not recipe.train.monitor and task.monitor != tasks.of(recipe.system).monitor:
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
    return recipe, learner, task


def epoch_size(data: Data) -> int:
    """Examples of an epoch; 0 where experience comes from an environment."""
    return num_examples(data.splits["train"]) if "train" in data.splits else 0


def resolved(recipe: Recipe, data: Data) -> Recipe:
    """A recipe with all that the data decides: how it was read, sizes of the system, settings that the system suggests
    for such data, and intervals. Data without training examples, such as an environment, has no epochs, and the batch
    is the recipe's."""
    size = epoch_size(data)
    recipe = _with_defaults(recipe, {f"data.{key}": value for key, value in data.decided.items()}, "the data")
    _, cls = recipe.system.load()
    if issubclass(cls, Suggests):
        recipe = _with_defaults(recipe, cls.suggest(recipe, data.schema, size), _SUGGESTED)
    recipe = _with_objective_for(recipe, data)
    if not size:
        if recipe.train.steps is None:
            raise CanonError(f"Set train.steps: {data.name} has no training set whose epochs could be counted.")
        return recipe.fitted(data.schema.sizes()).resolved(max(recipe.train.batch, 1))
    per_epoch = steps_per_epoch(data.schema, data.splits["train"], recipe.train.batch, recipe.train.tokens)
    return recipe.fitted({**data.schema.sizes(), "num_examples": size}).resolved(size, per_epoch)


def _with_defaults(recipe: Recipe, values: Table, origin: str) -> Recipe:
    """A recipe with `values` by section.key, each where nobody gave that setting or the one that replaces it."""
    given = {key for key, noted in recipe.origins.items() if noted != "default"}
    given |= set() if isinstance(recipe.optimizer.settings, Adam | AdamW) else {"optimizer.lr"}
    new = {key: value for key, value in values.items() if not given & {key, *recipes.EITHER.get(key, ())}}
    sections: dict[str, Table] = {}
    for key, value in new.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    optimizer = recipe.optimizer
    return replace(
        recipe,
        config=replace(recipe.config, **sections.get("system", {})),
        data=replace(recipe.data, **sections.get("data", {})),
        train=replace(recipe.train, **sections.get("train", {})),
        optimizer=replace(optimizer, settings=replace(optimizer.settings, **sections.get("optimizer", {}))),
        origins=recipe.origins | dict.fromkeys(new, origin),
    )


def _with_objective_for(recipe: Recipe, data: Data) -> Recipe:
    """Without what the text rules out of the ways of pre-training, where it is only the system's usual one."""
    passages = data.splits.get("train", {}).get("input")
    if not isinstance(passages, Passages) or not issubclass(recipe.objective.record.load(), Pretext):
        return recipe
    ruled_out = recipe.objective.create().suited(passages)
    new = {key: value for key, value in ruled_out.items() if recipe.origins[f"objective.{key}"].startswith("system ")}
    objective = replace(recipe.objective, settings=replace(recipe.objective.settings, **new))
    config = replace(recipe.config, **{key: value for key, value in new.items() if key in objective.record.shapes})
    origins = recipe.origins | {f"objective.{key}": _SUGGESTED for key in new}
    return replace(recipe, objective=objective, config=config, origins=origins)


def suggestions(recipe: Recipe) -> str:
    """A sentence with the settings that the system suggested for its data; "" for none."""
    sections = {"system": recipe.config, "train": recipe.train, "optimizer": recipe.optimizer.settings}
    sections["objective"] = recipe.objective.settings
    keys = [key for key, origin in recipe.origins.items() if origin == _SUGGESTED]
    listed = [f"{key} = {vars(sections[section])[name]}" for key in keys for section, _, name in [key.partition(".")]]
    return f"Chosen for this data: {', '.join(listed)}." if listed else ""


def floors_of(task: Scoring, data: Data) -> dict[str, float]:
    """The losses of predictors that look at no input, by name."""
    columns = data.splits.get("train", {})
    of_text = isinstance(data.schema.target, NextToken | HiddenTokens)
    targets = columns.get("target", columns.get("input") if of_text else None)
    if isinstance(targets, Windows | Uneven | Passages):
        targets = targets.tokens
    return task.floors(targets) if isinstance(targets, np.ndarray) and len(targets) else {}
