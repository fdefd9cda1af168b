"""The tables of logged numbers: of every run, of the systems of a task, and of one system alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import writing

from canon import registry
from canon.data.encodings.events import EVENTS
from canon.data.encodings.passages import PASSAGES
from canon.objectives.table import by_name
from canon.registry import System
from canon.runs import records as run_records
from canon.tasks import table as tasks
from canon.tasks.records import TASK_RECORDS

_HEADS = ("file", "name", "formula or meaning")


class Row(NamedTuple):
    file: str
    names: str
    meaning: str


def by_all(page: Path) -> str:
    """The numbers that every run has, or every run that learns by gradients."""
    gradient = {names: meaning.format("`optimizer.lr`") for names, meaning in run_records.GRADIENT.items()}
    metrics = run_records.PROGRESS | gradient | run_records.SKIPPED
    files = {"metrics.jsonl": metrics, "timing.jsonl": run_records.TIMING, "result.json": run_records.RESULT}
    return writing.table(_HEADS, [[*row] for file, meanings in files.items() for row in _rows(file, meanings)])


def by_task(page: Path) -> str:
    """A section for each task: the rows of its systems that more than one system has."""
    sections = []
    for task, record in TASK_RECORDS.items():
        systems = [system for system in registry.SYSTEMS if task in system.tasks]
        users: dict[Row, list[str]] = {}
        for system in systems:
            for row in _every()[system.name][task]:
                if _users()[row] > 1:
                    users.setdefault(row, []).append(writing.link(page, system))
        rows = [[*row, "all" if len(of) == len(systems) else ", ".join(of)] for row, of in users.items()]
        if rows:
            sections.append(f"## {record.title}\n\n{writing.table((*_HEADS, 'of'), rows)}")
    return "\n".join(sections)


def alone(page: Path, system: System) -> str:
    """Where the numbers of the system's tasks are, and the numbers that it alone logs."""
    links = [
        f"[{TASK_RECORDS[task].title.lower()}]({writing.relative(page, 'docs/logged.md')}#{_anchor(task)})"
        for task, rows in _every()[system.name].items()
        if any(_users()[row] > 1 for row in rows)
    ]
    parts = [f"Shared with other systems: the numbers of {' and of '.join(links)}.\n"] if links else []
    rows = dict.fromkeys(row for rows in _every()[system.name].values() for row in rows if _users()[row] == 1)
    return "\n".join(parts + ([writing.table(_HEADS, [[*row] for row in rows])] if rows else []))


def loss_of(system: System) -> str:
    """The formula of the loss that a split is scored by."""
    task = TASK_RECORDS[system.task]
    return task.loss or " ".join(filter(None, [f"mean of {by_name()[system.objective].formula}", task.per]))


def phases_of(system: System) -> Mapping[str, str]:
    """The formula of the loss of each phase of training; "" is the only phase."""
    return by_name()[system.objective].phases or {"": loss_of(system)}


def _anchor(task: str) -> str:
    return writing.slug(TASK_RECORDS[task].title)


@cache
def _users() -> Counter[Row]:
    """How many systems have each row."""
    return Counter(row for of_tasks in _every().values() for row in set(chain.from_iterable(of_tasks.values())))


@cache
def _every() -> dict[str, dict[str, list[Row]]]:
    return {system.name: _by_task(system) for system in registry.SYSTEMS}


def _by_task(system: System) -> dict[str, list[Row]]:
    """The numbers that not every run has, or that mean something of their own, by the task that brings them."""
    gradient = system.loop == "gradient"
    metrics: run_records.Meanings = {}
    for phase, formula in phases_of(system).items() if gradient else ():
        ending = f"/{phase}" if phase else ""
        without = "; without the penalty" if system.penalty else ""
        metrics[f"train/loss{ending}",] = f"{formula}; over all examples since the last line, in training mode{without}"
        for (name,), meaning in run_records.GRADIENT.items() if phase else ():
            metrics[name + ending,] = meaning.format(f"`optimizers.{phase}.lr`, else `optimizer.lr`")
    metrics |= {(f"train/{name}",): formula for name, formula in system.logs.items()}
    same = ", ".join(filter(None, ["the same on the validation set", TASK_RECORDS[system.task].scoring]))
    metrics["valid/loss",] = same if gradient and "" in phases_of(system) else loss_of(system)
    result: run_records.Meanings = {}
    if (most := tasks.of(system).risk_examples) < 1 << 60:
        result["scores.train",] = f"of {most:,} examples at most"
    if system.penalty:
        result["risk.structural",] = f"the empirical risk + {system.penalty}"
    if PASSAGES.name in system.encodings:
        result |= run_records.PASSAGES
    if EVENTS.name in system.encodings:
        result |= run_records.EVENTS
    if system.loop == "environment":
        result |= run_records.ENVIRONMENTS
    if system.parameters != System.parameters:  # else as in every run
        result["cost.parameters",] = system.parameters
    rows: dict[str, list[Row]] = {name: [] for name in (system.task, *system.tasks)}
    rows[system.task] += _rows("metrics.jsonl", metrics)
    for name in system.tasks:
        scores = {(f"valid/{score.metric}",): str(score) for score in TASK_RECORDS[name].scores}
        rows[name] += _rows("metrics.jsonl", scores)
    rows[system.task] += _rows("result.json", result)
    return rows


def _rows(file: str, meanings: run_records.Meanings) -> Iterator[Row]:
    for names, meaning in meanings.items():
        yield Row(file, ", ".join(f"`{name}`" for name in names), meaning)
