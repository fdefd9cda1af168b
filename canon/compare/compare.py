"""Recipes side by side: the same data, split, budget and seeds; means, intervals, paired tests and cost.

Each recipe × seed is an ordinary run directory OUT/RECIPE/seed-K. A finished one is used as it is and an unfinished one
is resumed, so that the same command continues where it was interrupted.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from canon import recipe as recipes
from canon.compare.protocol import (
    Budget,
    Terms,
    budget_changes,
    check_alike,
    check_budget,
    check_budgets,
    check_metrics,
)
from canon.compare.report import render
from canon.compare.result import Comparison, Entry, flat, recipe_settings, summarize
from canon.config import Table
from canon.data.schema import Data
from canon.errors import CanonError, border, unknown
from canon.recipe import Recipe
from canon.report.page import write_page
from canon.report.run import write_report
from canon.storage import write_text
from canon.training.data import for_target, read_data, with_backbone
from canon.training.plan import epoch_size, resolved
from canon.training.run import Run
from canon.training.trainer import train_and_keep

VARIED = ("data.seed", "data.fold")
ReadData = dict[tuple, Data]  # by what decides how it is read


@dataclass(frozen=True)
class PlannedRecipe:
    """One recipe of a comparison, before its runs are trained."""

    label: str
    folder: str
    name: str
    source: str  # the data that was given in place of the recipe's own; "" for none
    changes: Table
    recipe: Recipe  # as it will be in the run directory, but for the seed
    data: Data


def compare(
    names: Sequence[str],
    seeds: int = 3,
    data: str = "",
    budget: Budget | None = None,
    changes: Table | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
    vary: str = "",
) -> Comparison:
    """Trains every recipe with seeds 0 … seeds − 1 and compares them on the test set.

    vary: data.seed or data.fold, which goes with the seed, so that every seed has its own set of examples."""
    if not names:
        raise CanonError("Give the recipes to compare, as in canon compare digits-mlp digits-softmax.")
    if seeds < 1:
        raise CanonError(f"--seeds must be a positive whole number, got {seeds}.")
    changes = changes or {}
    if "train.seed" in changes:
        raise CanonError("train.seed is what a comparison varies: leave it out and give --seeds N.")
    if vary and vary not in VARIED:
        raise unknown("setting that goes with the seed (--vary)", vary, VARIED)
    if vary in changes:
        raise CanonError(f"{vary} is what --vary {vary} sets: leave it out.")

    def planned_for(seed: int) -> list[PlannedRecipe]:
        own = {**changes, vary: seed} if vary else changes
        plans = _plan(names, data, check_budget(budget) if budget else None, own)
        terms = [Terms.planned(plan.label, plan.recipe, plan.data) for plan in plans]
        check_alike(terms)
        if budget is None:
            check_budgets(terms, "give one to all, as in --budget examples=50000 (or steps, epochs, seconds)")
        return plans

    plans = planned_for(0)
    folder = _folder_for(out, [plan.folder for plan in plans])
    runs: dict[str, dict[int, Run]] = {plan.label: {} for plan in plans}
    total = len(plans) * seeds
    for number in range(total):  # seed by seed, so that an interrupted comparison has whole pairs
        seed, place = divmod(number, len(plans))
        if vary and seed and not place:
            plans = planned_for(seed)
        plan = plans[place]
        title = f"[{number + 1}/{total}] {plan.label}, seed {seed}"
        with _progress(title, quiet):
            run, read = finished_run(plan, seed, folder / plan.folder / f"seed-{seed}")
            if read is not None or not (run.path / "report.html").is_file():
                write_report(run, read)
        runs[plan.label][seed] = run
        if not quiet:
            print(f"{title}: {_scores(run)}", file=sys.stderr)
    entries = [Entry(plan.label, runs[plan.label]) for plan in plans]
    words = ["canon", "compare", *names, "--seeds", str(seeds), *(("--data", data) if data else ())]
    words += ["--vary", vary] if vary else []
    words += ["--budget", f"{budget[0]}={budget[1]}"] if budget else []
    for key, value in changes.items():
        words += ["--set", f"{key}={json.dumps(value)}"]
    return _finish(entries, folder, shlex.join([*words, "--out", str(folder)]))


def compare_runs(paths: Sequence[str | Path], out: str | Path | None = None) -> Comparison:
    """Compares finished runs as they are: runs that differ only in their seed are one recipe."""
    runs = [Run.open(path) for path in paths]
    for run in runs:
        if run.result is None:
            raise CanonError(f"{run.path} is not finished: continue it with canon train {run.path} --resume.")
    entries = _grouped(runs)
    terms = [Terms(entry.label, run.recipe, run.data) for entry in entries for run in entry.runs.values()]
    check_alike(terms)
    check_budgets(terms, "train them again with one budget, as with canon compare RECIPE… --budget examples=50000")
    folder = _folder_for(out, [_folder(entry.label) for entry in entries])
    return _finish(entries, folder, shlex.join(["canon", "compare", *map(str, paths), "--out", str(folder)]))


def _plan(names: Sequence[str], data: str, budget: Budget | None, changes: Table) -> list[PlannedRecipe]:
    plans: list[PlannedRecipe] = []
    read: ReadData = {}
    for name in names:
        label = Path(name).stem if name.endswith(".toml") else name
        times = 1 + sum(label == plan.label.partition(" #")[0] for plan in plans)
        label += f" #{times}" if times > 1 else ""
        folder = _folder(label)
        if any(plan.folder == folder for plan in plans):
            folder = _folder(label.replace("/", "-"))
        plans.append(planned(name, label, folder, data, budget, changes, read))
    return plans


def planned(
    name: str, label: str, folder: str, data: str, budget: Budget | None, changes: Table, read: ReadData
) -> PlannedRecipe:
    """The recipe as it will be trained; `read` holds the data of earlier plans and takes that of this one."""
    recipe = recipes.load(name, data, changes)
    # Which a tokenizer may belong to, and which decides the length of passages.
    deciding = ("backbone", "max_positions", "verbaliser", "prefix")
    network = recipe.train.init, *(vars(recipe.config).get(name) for name in deciding)
    key = repr(recipe.data), recipe.system.encodings, recipe.system.tasks, *network
    if key not in read:
        read[key] = read_data(recipe)
    size = epoch_size(read[key])
    batch = min(recipe.train.batch or size, size) if size else recipe.train.batch
    settings = {**changes, **budget_changes(budget, batch)}
    recipe = for_target(with_backbone(recipes.load(name, data, settings)), read[key].schema.target)
    return PlannedRecipe(label, folder, name, data, settings, resolved(recipe, read[key]), read[key])


def finished_run(plan: PlannedRecipe, seed: int, path: Path) -> tuple[Run, Data | None]:
    """The run at `path`: used as it is, or resumed or trained, and then with the data that it has read."""
    with border(path, "cannot be used"):
        exists = path.exists()
    if exists:
        run = Run.open(path)
        _check_same(run, replace(plan.recipe, train=replace(plan.recipe.train, seed=seed)))
        run.check_same_data(plan.data)
        if run.result is not None:
            return run, None
    if exists:  # by what it is: the recipe that it began from may name another system
        return train_and_keep(str(path), "", None, resume=True, changes={}, quiet=True)
    changes = {**plan.changes, "train.seed": seed}
    return train_and_keep(plan.name, plan.source, path, resume=False, changes=changes, quiet=True)


def _check_same(run: Run, wanted: Recipe) -> None:
    there, here = flat(run.settings), flat(tomllib.loads(wanted.to_toml()))
    for key in here | there:
        if there.get(key) != here.get(key):
            was, now = there.get(key, "not given"), here.get(key, "not given")
            raise CanonError(f"{run.path} was made with {key} {was}, not {now}: give another --out.")


def _grouped(runs: Sequence[Run]) -> list[Entry]:
    """Runs of one recipe together; a seed that comes twice begins another group."""
    groups: list[tuple[Table, dict[int, Run]]] = []
    for run in runs:
        settings, seed = recipe_settings(run), run.recipe.train.seed
        members = next((of for known, of in groups if known == settings and seed not in of), None)
        if members is None:
            members = {}
            groups.append((settings, members))
        members[seed] = run
    names = [str((next(iter(members.values())).result or {})["recipe"]) for _, members in groups]
    entries = []
    for name, (settings, members) in zip(names, groups, strict=True):
        others = [known for other, (known, _) in zip(names, groups, strict=True) if other == name]
        differing = [key for key in settings if any(settings[key] != known.get(key) for known in others)]
        if len(others) > 1:
            listed = ", ".join(f"{key}={settings[key]}" for key in differing[:3])
            name += f" ({listed or next(iter(members.values())).path})"
        entries.append(Entry(name, dict(sorted(members.items()))))
    return entries


def _finish(entries: list[Entry], folder: Path, command: str) -> Comparison:
    """Works out the statistics and writes compare.json and report.html."""
    comparison = summarize(entries, folder, command)
    check_metrics({entry.label: list(entry.summary) for entry in comparison.entries})
    facts = comparison.to_json()
    write_text(folder / "compare.json", json.dumps(facts, ensure_ascii=False, indent=1))
    write_page(folder / "report.html", render, facts)
    return comparison


def _folder(label: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", label.split("/")[-1]).strip("-")


def _folder_for(out: str | Path | None, names: Sequence[str]) -> Path:
    return Path("runs") / f"compare-{'-'.join(names)}"[:120] if out is None else Path(out)


def _scores(run: Run) -> str:
    result = run.result or {}
    scores = list(result["scores"].values())[-1]
    values = "  ".join(f"{name} {'–' if value is None else f'{value:.4f}'}" for name, value in scores.items())
    return f"{values}  in {result['cost']['seconds']:.1f} s"


@contextmanager
def _progress(text: str, quiet: bool) -> Iterator[None]:
    """A line with a clock while a run is trained, if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(text, total=None)
        yield
