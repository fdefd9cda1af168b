"""What must be equal before scores may be compared: data, split, task, metrics, budget. A difference is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from canon.config import Table, parse_assignment
from canon.data.schema import Data
from canon.errors import CanonError, unknown
from canon.recipe import Recipe
from canon.tasks import table as tasks
from canon.training.plan import epoch_size

UNITS = ("examples", "steps", "epochs", "seconds")
Budget = tuple[str, float]  # unit, amount


class Terms(NamedTuple):
    """The terms on which one recipe's scores are made."""

    label: str
    recipe: Recipe
    data: Table  # data.json of a run

    @classmethod
    def planned(cls, label: str, recipe: Recipe, data: Data) -> Terms:
        """Of a run before it is trained."""
        record: Table = {"name": data.name, "fingerprint": data.fingerprint(), "protocol": data.protocol}
        record |= {"files": [asdict(file) for file in data.files]}
        return cls(label, recipe, record | {"examples": {"train": epoch_size(data)}})

    @property
    def monitor(self) -> str:
        """The metric that chooses the weights."""
        return self.recipe.train.monitor or tasks.of(self.recipe.system).monitor

    @property
    def examples(self) -> int:
        """How many training reads, or steps in an environment, unless it ends sooner."""
        return self.recipe.total_steps(int(self.data["examples"].get("train", 0))) * self.recipe.train.batch


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
    """Refuses recipes that differ from the first, with the first difference."""
    first = terms[0]
    for other in terms[1:]:
        pair = f"{first.label} and {other.label} cannot be compared"
        one, two = first.recipe.system.task, other.recipe.system.task
        if one != two:
            raise CanonError(f"{pair}: the task of one is {one}, of the other {two}.")
        if first.data["fingerprint"] != other.data["fingerprint"]:
            raise CanonError(f"{pair}: {_data_difference(first.data, other.data)}.")
        if first.monitor != other.monitor:
            chosen = f"the weights of best {first.monitor}, the other of best {other.monitor}"
            raise CanonError(f"{pair}: one keeps {chosen}; set train.monitor.")


def check_budgets(terms: Sequence[Terms], remedy: str) -> None:
    """Requires equal numbers of examples, up to rounding to whole batches, or of seconds."""
    first = terms[0]
    for other in terms[1:]:
        ours, theirs = first.recipe.train, other.recipe.train
        if ours.seconds and ours.seconds == theirs.seconds:
            continue
        if abs(first.examples - other.examples) >= max(ours.batch, theirs.batch) or ours.seconds != theirs.seconds:
            one, two = (
                f"{of.examples:,} examples" + (f" in {of.recipe.train.seconds:g} s" if of.recipe.train.seconds else "")
                for of in (first, other)
            )
            raise CanonError(f"The budgets differ: {first.label} sees {one} and {other.label} {two}; {remedy}.")


def check_metrics(metrics: dict[str, Sequence[str]]) -> None:
    """Finished runs must report the same metrics."""
    (label, names), *others = metrics.items()
    for other, theirs in others:
        if set(names) != set(theirs):
            pair = f"{label} and {other} cannot be compared"
            one, two = ", ".join(sorted(names)), ", ".join(sorted(theirs))
            raise CanonError(f"{pair}: the metrics of one are {one}, of the other {two}.")


def _data_difference(first: Table, other: Table) -> str:
    if first["name"] != other["name"]:
        return f"the data of one is {first['name']}, of the other {other['name']}; give one to both with --data"
    here, there = ({file["name"]: file["sha256"] for file in data["files"]} for data in (first, other))
    if changed := sorted(name for name in here | there if here.get(name) != there.get(name)):
        return f"their data files differ ({', '.join(changed[:3])})"
    for key in first["protocol"] | other["protocol"]:
        one, two = (_short(data["protocol"].get(key, "none")) for data in (first, other))
        if one != two:
            what = {"seed": "the split's seed (data.seed)", "split": "the split", "sizes": "the split"}.get(key, key)
            return f"{what} of one is {one}, of the other {two}; make them alike, as with --set data.valid=0.1"
    return "they read other columns or classes of the data"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {item}" for key, item in value.items()) + ")"
    return str(value)
