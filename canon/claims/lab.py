"""Runs a claim: each variant × seed is an ordinary run, or a probe's values, in OUT/NAME/BUDGET/VARIANT; then judges.

What is finished is used as it is, so the same command continues where it was interrupted, and more seeds add to those
there are. Variants of one comparison must agree in data, split, metric and budget, as in canon compare.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from canon.claims.figures import figure_of
from canon.claims.record import FAILED, LEARNED, Claim, with_seeds
from canon.claims.results import DEFAULT_OUT, Curve, Measured, Result, measured, write
from canon.compare.compare import PlannedRecipe, ReadData, finished_run, planned
from canon.compare.protocol import Terms, check_alike, check_budgets
from canon.config import Table
from canon.contracts import World
from canon.errors import CanonError, NonFinite, border, unknown
from canon.figures import save
from canon.report.page import can_draw, duration
from canon.runs import files
from canon.storage import write_text
from canon.training.run import Run, environment

Values = dict[str, float | Curve]
_NOTED = {"of": dict, "values": dict, "seconds": (int, float)}  # a file of values, of a probe or of a run that diverged


def run(
    claim: Claim,
    budget: str = "quick",
    seeds: int | None = None,
    out: Path = DEFAULT_OUT,
    say: Callable[[str], None] | None = None,
) -> Result:
    """Measures all variants, judges, and writes result.json and figure.svg."""
    lab = _Lab(with_seeds(claim, budget, seeds), budget, out / claim.name / budget, say or _say)
    result = lab.run()
    write(lab.folder / "result.json", result)
    if can_draw():
        save(figure_of(claim, result), lab.folder / "figure.svg")
    return result


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _Lab:
    def __init__(self, claim: Claim, budget: str, folder: Path, say: Callable[[str], None]) -> None:
        self.claim, self.budget, self.folder, self.say = claim, budget, folder, say
        self.read: ReadData = {}
        self.plans: dict[str, PlannedRecipe] = {}
        self.values: Measured = {name: {} for name in claim.variants}
        self.failed: dict[str, str] = {}
        self.environment: Table | None = None  # of a run
        self.seconds = 0.0  # of probes and runs, those of earlier sittings too

    def run(self) -> Result:
        claim = self.claim
        nearest = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        if not nearest.is_dir():
            raise CanonError(f"{self.folder} cannot be made: {nearest} is not a folder.")
        # Mistakes in the settings and missing data show before anything is measured.
        for name, variant in claim.variants.items():
            if variant.recipe and not variant.start:
                self._plan(name, {})
        jobs = [(seed, name) for seed in range(claim.budgets[self.budget].seeds) for name in claim.variants]
        spent: dict[str, list[float]] = {}  # by variant, in this sitting
        for number, (seed, name) in enumerate(jobs, start=1):  # seed by seed, so that whole pairs are there early
            if name in self.failed:
                continue
            title, begun = f"[{number}/{len(jobs)}] {claim.name}: {name}, seed {seed}", time.perf_counter()
            try:
                self.values[name][seed] = self._measure(name, seed)
            except CanonError as mistake:
                self.failed[name] = str(mistake)
                self.say(f"{title}: {mistake}")
                continue
            taken = time.perf_counter() - begun
            spent.setdefault(name, []).append(taken)
            left = _left(spent, [later for _, later in jobs[number:] if later not in self.failed])
            self.say(f"{title}: {duration(taken)}" + (f"; about {duration(left)} left" if left >= 1 else ""))
        if not any(self.values.values()):
            raise CanonError(f"{claim.name}: {next(iter(self.failed.values()))}")
        where = self.environment or environment(World())
        return measured(claim, self.budget, self.values, self.failed, self.seconds, where)

    def _measure(self, name: str, seed: int) -> Values:
        variant = self.claim.variants[name]
        noted = self.folder / name / f"seed-{seed}.json"
        changes = self.claim.changes(name, self.budget)
        what: Table = {"what": variant.probe or variant.recipe, "settings": json.loads(json.dumps(changes))}
        if noted.is_file():
            found = files.read(noted, _NOTED, "remove it to measure again")
            if found["of"] != what:
                raise CanonError(f"{noted} was measured with other settings: give another --out.")
            self.seconds += found["seconds"]
            return found["values"]
        if variant.probe:
            begun = time.perf_counter()
            values = self._called(variant.probe, seed=seed, **changes)
            return self._note(noted, what, self._chosen(name, values), time.perf_counter() - begun)
        plan = self._plan(name, self._start(variant.start, seed)) if variant.start else self.plans[name]
        begun = time.perf_counter()
        try:
            finished, _ = finished_run(plan, seed, self.folder / name / f"seed-{seed}")
        except NonFinite:
            return self._note(noted, what, {LEARNED: 0.0, FAILED: 1.0}, time.perf_counter() - begun)
        assert finished.result is not None
        self.seconds += finished.result["cost"]["seconds"]
        self.environment = finished.env
        looked = self._called(variant.look, finished) if variant.look else {}
        return self._chosen(name, looked, finished)

    def _called(self, place: str, *arguments: Run, **settings: Any) -> dict[str, Any]:
        """The values of a probe or a look; what it raises is a sentence."""
        with border(place, "failed"):
            return self.claim.function(place)(*arguments, **settings)

    def _note(self, path: Path, what: Table, values: Values, seconds: float) -> Values:
        write_text(path, json.dumps({"of": what, "values": values, "seconds": round(seconds, 3)}))
        self.seconds += seconds
        return values

    def _start(self, other: str, seed: int) -> Table:
        path = self.folder / other / f"seed-{seed}"
        if not path.is_dir():
            raise CanonError(f"{other}, from whose run it starts, has none of seed {seed}.")
        return {"train.init": str(path)}

    def _plan(self, name: str, more: Table) -> PlannedRecipe:
        variant = self.claim.variants[name]
        changes = {**self.claim.changes(name, self.budget), **more}
        self.plans[name] = planned(variant.recipe, name, name, variant.data, None, changes, self.read)
        for part in self.claim.rule:
            half = len(part.sides) // 2
            for (one, _), (two, _) in zip(part.sides[:half], part.sides[half:], strict=False):
                if name in (one, two) and one in self.plans and two in self.plans:
                    terms = [
                        Terms.planned(plan.label, plan.recipe, plan.data)
                        for plan in map(self.plans.get, (one, two))
                        if plan
                    ]
                    check_alike(terms)
                    check_budgets(terms, "make them alike in the claim's file")
        return self.plans[name]

    def _chosen(self, name: str, values: dict[str, Any], run: Run | None = None) -> Values:
        """The values that the rule and the figure need, from a probe or look or else from a run."""
        chosen: Values = {}
        for wanted in self.claim.values_of(name):
            value = values.get(wanted)
            if value is None and run is not None:
                value = value_of(run, wanted)
            if value is not None:
                chosen[wanted] = [[float(x), float(y)] for x, y in value] if isinstance(value, list) else float(value)
            elif any(wanted == value and name == of for part in self.claim.rule for of, value in part.sides):
                raise unknown(f"value of {name}", wanted, values if run is None else values_in(run))
        return chosen


def _left(spent: dict[str, list[float]], later: list[str]) -> float:
    every = [one for of in spent.values() for one in of]
    mean = math.fsum(every) / len(every)
    return math.fsum(math.fsum(spent[name]) / len(spent[name]) if name in spent else mean for name in later)


def value_of(run: Run, name: str) -> float | Curve | None:
    """A value of a finished run by its name; None if it has none."""
    result: Table = run.result or {}
    if name in (LEARNED, FAILED):
        losses = [row["train/loss"] for row in run.metrics() if "train/loss" in row]
        return float((losses[-1] < 0.9 * losses[0]) == (name == LEARNED)) if losses else None
    section, _, key = name.partition("/")
    if section == "cost":
        return result["cost"].get(key)
    if section in ("last", "least", "most", "curve"):
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
