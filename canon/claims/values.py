"""The values that a claim names: those of a finished run, those that a probe or a look returns, and what cannot be one.

Names of a run's values are in record.py. What a run of a recipe can never have is refused before anything is trained.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from canon.claims.record import FAILED, LEARNED
from canon.claims.results import Curve
from canon.compare.compare import PlannedRecipe
from canon.config import Table
from canon.errors import CanonError
from canon.metrics.records import METRICS
from canon.runs import files
from canon.tasks import table as tasks
from canon.training.run import Run

Values = dict[str, float | Curve]
_SPLITS = ("train", "valid", "test")
_SERIES = ("last", "least", "most", "curve")


def returned(place: str, values: Any) -> Values:
    """What a probe or a look returned, as numbers and curves."""
    if not isinstance(values, dict):
        raise CanonError(f"{place} must return numbers and curves [[x, y], …] by name, got {values!r:.40}.")
    return {str(name): _value(place, name, value) for name, value in values.items()}


def _value(place: str, name: Any, value: Any) -> float | Curve:
    try:
        if isinstance(value, list | tuple):
            return [[float(x), float(y)] for x, y in value]
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise CanonError(f"{place}: {name} must be a number or a curve [[x, y], …], got {value!r:.40}.")


def value_of(run: Run, name: str) -> float | Curve | None:
    """A value of a finished run by its name; None if it has none."""
    result: Table = run.result or {}
    if name in (LEARNED, FAILED):
        losses = [row["train/loss"] for row in run.metrics() if "train/loss" in row]
        return float((losses[-1] < 0.9 * losses[0]) == (name == LEARNED)) if losses else None
    section, _, key = name.partition("/")
    if section == "cost":
        return result["cost"].get(key)
    if section in _SERIES:
        points = [[float(row["step"]), float(row[key])] for row in run.metrics() if key in row]
        if section == "curve" or not points:
            return points or None
        series = [y for _, y in points]
        return {"last": series[-1], "least": min(series), "most": max(series)}[section]
    return result["scores"].get(section, {}).get(key)


def values_in(run: Run) -> list[str]:
    """The names of all values of a finished run."""
    result: Table = run.result or {}
    scores = [f"{split}/{key}" for split, of in result["scores"].items() for key in of]
    series = dict.fromkeys(key for row in run.metrics() for key in row if key not in ("step", "epoch"))
    return [*scores, *(f"cost/{key}" for key in result["cost"]), *(f"last/{key}" for key in series), LEARNED, FAILED]


def impossible(plan: PlannedRecipe, names: Iterable[str], looked: bool) -> tuple[str, list[str]]:
    """The first name that no run of a recipe has, and names that one may have; looked: a look gives others too."""
    metrics = tasks.create(plan.recipe.system, plan.recipe.config, plan.data.schema, plan.recipe.objective).names()
    scores = [f"{split}/{metric}" for split in _SPLITS for metric in metrics]
    cost: Any = files.RESULT["cost"]
    costs = [f"cost/{key}" for key in cost]
    series = [f"{kind}/{of}" for kind in _SERIES for of in ("train/loss", *(f"valid/{metric}" for metric in metrics))]
    possible = [*scores, *costs, *series, LEARNED, FAILED]
    for name in names:
        section, _, key = name.partition("/")
        # Learners log series of their own, and a measure of an environment may be a metric that no task names.
        open_ended = (section in _SERIES and not key.startswith("valid/")) or (section in _SPLITS and key in METRICS)
        if name not in possible and not (key and open_ended) and not (looked and section not in (*_SPLITS, "cost")):
            return name, possible
    return "", possible
