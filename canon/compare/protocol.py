"""What must be alike before numbers may stand side by side: data, split, task, metrics, budget. Unlike is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from canon.config import Table, parse_assignment
from canon.data.schema import Data, num_examples
from canon.errors import CanonError, unknown
from canon.recipe import Recipe
from canon.tasks.table import TASKS
from canon.training.run import Run

UNITS = ("examples", "steps", "epochs", "seconds")
Budget = tuple[str, float]  # unit, amount


@dataclass(frozen=True)
class Terms:
    """On what terms one recipe's numbers are made."""

    label: str
    task: str
    monitor: str  # the metric that chooses the weights
    source: str
    fingerprint: str
    files: dict[str, str]  # name -> sha256
    protocol: Table
    batch: int
    examples: int  # that training will see, unless it ends sooner
    seconds: float | None

    @classmethod
    def planned(cls, label: str, recipe: Recipe, data: Data) -> Terms:
        files = {record.name: record.sha256 for record in data.files}
        size = num_examples(data.splits["train"])
        return _terms(label, recipe, data.name, data.fingerprint(), files, data.protocol, size)

    @classmethod
    def of_run(cls, label: str, run: Run) -> Terms:
        data = run.data
        files = {record["name"]: record["sha256"] for record in data["files"]}
        size = int(data["examples"]["train"])
        return _terms(label, run.recipe, data["name"], data["fingerprint"], files, data["protocol"], size)


def _terms(
    label: str, recipe: Recipe, source: str, fingerprint: str, files: dict[str, str], protocol: Table, size: int
) -> Terms:
    train = recipe.train
    return Terms(
        label=label,
        task=recipe.system.task,
        monitor=train.monitor or TASKS[recipe.system.task].monitor,
        source=source,
        fingerprint=fingerprint,
        files=files,
        protocol=protocol,
        batch=train.batch,
        examples=recipe.total_steps(size) * train.batch,
        seconds=train.seconds,
    )


def parse_budget(text: str) -> Budget:
    """`examples=50000` to ("examples", 50000)."""
    unit, equals, _ = text.partition("=")
    if not equals:
        raise CanonError(f'--budget takes unit=amount, as in --budget examples=50000; got "{text}".')
    return check_budget((unit.strip(), parse_assignment(text)[1]))


def check_budget(budget: tuple[str, Any]) -> Budget:
    unit, amount = budget
    if unit not in UNITS:
        raise unknown("unit of a budget", unit, UNITS)
    whole = unit in ("examples", "steps")
    number = isinstance(amount, int if whole else int | float) and not isinstance(amount, bool)
    if not number or not 0 < amount < float("inf"):
        kind = "a positive whole number" if whole else "a positive number"
        raise CanonError(f"--budget {unit} must be {kind}, got {amount!r}.")
    return unit, amount


def budget_changes(budget: Budget | None, batch: int) -> Table:
    """The settings that give a recipe of this batch the budget."""
    if budget is None:
        return {}
    unit, amount = budget
    if unit == "examples":
        return {"train.steps": -(-int(amount) // batch)}
    return {f"train.{unit}": int(amount) if unit == "steps" else float(amount)}


def check_alike(terms: Sequence[Terms]) -> None:
    """One sentence about the first thing that differs from the first recipe's."""
    first = terms[0]
    for other in terms[1:]:
        pair = f"{first.label} and {other.label} cannot be compared"
        if first.task != other.task:
            raise CanonError(f"{pair}: the task of one is {first.task}, of the other {other.task}.")
        if first.fingerprint != other.fingerprint:
            raise CanonError(f"{pair}: {_data_difference(first, other)}.")
        if first.monitor != other.monitor:
            chosen = f"the weights of best {first.monitor}, the other of best {other.monitor}"
            raise CanonError(f"{pair}: one keeps {chosen}; set train.monitor.")


def check_budgets(terms: Sequence[Terms], remedy: str) -> None:
    """Equal examples seen, but for the rounding to whole batches; or the same number of seconds."""
    first = terms[0]
    for other in terms[1:]:
        if first.seconds and first.seconds == other.seconds:
            continue
        if abs(first.examples - other.examples) >= max(first.batch, other.batch) or first.seconds != other.seconds:
            one, two = map(_told, (first, other))
            raise CanonError(f"The budgets differ: {first.label} sees {one} and {other.label} {two}; {remedy}.")


def _told(terms: Terms) -> str:
    return f"{terms.examples:,} examples" + (f" in {terms.seconds:g} s" if terms.seconds else "")


def check_metrics(found: dict[str, Sequence[str]]) -> None:
    """Finished runs must report the same metrics."""
    (label, names), *others = found.items()
    for other, theirs in others:
        if set(names) != set(theirs):
            pair = f"{label} and {other} cannot be compared"
            one, two = ", ".join(sorted(names)), ", ".join(sorted(theirs))
            raise CanonError(f"{pair}: the metrics of one are {one}, of the other {two}.")


def _data_difference(first: Terms, other: Terms) -> str:
    if first.source != other.source:
        return f"the data of one is {first.source}, of the other {other.source}; give one to both with --data"
    changed = [name for name in first.files if first.files[name] != other.files.get(name)]
    if changed or first.files.keys() != other.files.keys():
        names = changed or list(first.files.keys() ^ other.files.keys())
        return f"their data files differ ({', '.join(sorted(names)[:3])})"
    for key in first.protocol | other.protocol:
        one, two = (_short(protocol.get(key, "none")) for protocol in (first.protocol, other.protocol))
        if one != two:
            what = {"seed": "the split's seed (data.seed)", "split": "the split", "sizes": "the split"}.get(key, key)
            return f"{what} of one is {one}, of the other {two}; make them alike, as with --set data.valid=0.1"
    return "they read other columns or classes of the data"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {item}" for key, item in value.items()) + ")"
    return str(value)


def seeded(recipe: Recipe, seed: int) -> Recipe:
    return replace(recipe, train=replace(recipe.train, seed=seed))
