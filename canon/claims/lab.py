"""Runs a claim: each variant × seed is an ordinary run, or a probe's values, in OUT/NAME/BUDGET/VARIANT; then judges.

What is finished is used as it is, so the same command continues where it was interrupted, and more seeds add to those
there are. Variants of one comparison must agree in data, split, metric and budget, as in canon compare.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from canon import recipe as recipes
from canon.claims.figures import described, figure_of
from canon.claims.record import FAILED, LEARNED, Claim, with_seeds
from canon.claims.results import DEFAULT_OUT, Measured, Result, measured, read, write
from canon.claims.values import Values, impossible, returned, value_of, values_in
from canon.compare.compare import PlannedRecipe, ReadData, finished_run, planned
from canon.compare.protocol import Terms, check_alike, check_budgets
from canon.config import Table
from canon.contracts import World
from canon.data import catalogue
from canon.data.kinds import kind_of
from canon.data.paths import named_set
from canon.errors import CanonError, NonFinite, border, unknown
from canon.figures import render
from canon.recipe import Recipe
from canon.report.page import can_draw, duration
from canon.runs import files
from canon.storage import write_text
from canon.training.run import Run, environment

_NOTED = {"of": dict, "values": dict, "seconds": (int, float)}  # a file of values, of a probe or of a run that diverged


def run(
    claim: Claim,
    budget: str = "quick",
    seeds: int | None = None,
    out: Path = DEFAULT_OUT,
    say: Callable[[str], None] | None = None,
) -> Result:
    """Measures all variants, judges, and writes result.json and figure.svg. Seeds of an earlier result stay in it."""
    say, folder = say or _say, out / claim.name / budget
    wanted = with_seeds(claim, budget, seeds)
    there = _judged_already(folder / "result.json", claim, budget)
    if there > wanted.budgets[budget].seeds:
        say(f"{claim.name} has {there} seeds already, and all of them are judged.")
        wanted = with_seeds(claim, budget, there)
    lab = _Lab(wanted, budget, folder, say)
    result = lab.run()
    write(lab.folder / "result.json", result)
    if can_draw():
        drawn = render(figure_of(claim, result), lab.folder / "figure.svg").decode()
        write_text(lab.folder / "figure.svg", described(drawn, claim, result))
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
        self.known: dict[str, list[str] | None] = {}  # the names of a variant's values; None while all seeds diverged
        self.environment: Table | None = None  # of a run
        self.seconds = 0.0  # of probes and runs, those of earlier sittings too

    def run(self) -> Result:
        claim = self.claim
        nearest = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        if not nearest.is_dir():
            raise CanonError(f"{self.folder} cannot be made: {nearest} is not a folder.")
        # Mistakes in the settings and missing data show before anything is measured.
        for name, variant in claim.variants.items():
            for place in filter(None, (variant.probe, variant.look)):
                claim.function(place)
            if not variant.recipe:
                continue
            with _in_variant(name):
                if not variant.start:
                    self._plan(name, {})
                else:  # it is planned once there is the run that it starts from
                    _check_source(recipes.load(variant.recipe, variant.data, claim.changes(name, self.budget)))
        self._check_names()
        jobs = [(seed, name) for seed in range(claim.budgets[self.budget].seeds) for name in claim.variants]
        spent: dict[str, list[float]] = {}  # by variant, in this sitting
        for number, (seed, name) in enumerate(jobs, start=1):  # seed by seed, so that whole pairs are there early
            if number == len(claim.variants) + 1:
                self._check_figure()
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
        self._check_figure()
        if not any(self.values.values()):
            raise CanonError(f"{claim.name}: {next(iter(self.failed.values()))}")
        where = self.environment or environment(World())
        return measured(claim, self.budget, self.values, self.failed, self.seconds, where)

    def _measure(self, name: str, seed: int) -> Values:
        variant = self.claim.variants[name]
        noted = self.folder / name / f"seed-{seed}.json"
        changes = self.claim.changes(name, self.budget)
        what: Table = {"what": variant.probe or variant.recipe, "settings": json.loads(json.dumps(changes))}
        source = {"source": self.claim.source_of(variant.probe)} if variant.probe else {}
        if noted.is_file():
            kept = files.read(noted, _NOTED, "remove it to measure again")
            before = kept["of"].pop("source", source.get("source"))
            if kept["of"] != what:
                raise CanonError(f"{noted} was measured with other settings: give another --out.")
            if before == source.get("source"):
                self.seconds += kept["seconds"]
                return self._chosen(name, kept["values"]) if variant.probe else self._diverged(name, kept["values"])
            self.say(f"{variant.probe} has changed since seed {seed} of {name} was measured; it is measured again.")
        if variant.probe:
            begun = time.perf_counter()
            values = self._called(variant.probe, seed=seed, **changes)
            return self._chosen(name, self._note(noted, what | source, values, time.perf_counter() - begun))
        plan = self._plan(name, self._start(variant.start, seed)) if variant.start else self.plans[name]
        begun = time.perf_counter()
        try:
            finished, _ = finished_run(plan, seed, self.folder / name / f"seed-{seed}")
        except NonFinite:
            values = {LEARNED: 0.0, FAILED: 1.0}
            return self._diverged(name, self._note(noted, what, values, time.perf_counter() - begun))
        assert finished.result is not None
        self.seconds += finished.result["cost"]["seconds"]
        self.environment = finished.env
        looked = self._called(variant.look, finished) if variant.look else {}
        return self._chosen(name, looked, finished)

    def _called(self, place: str, *arguments: Run, **settings: Any) -> Values:
        """The values of a probe or a look; what it raises is a sentence."""
        with border(place, "failed"):
            return returned(place, self.claim.function(place)(*arguments, **settings))

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
            if part.sizes:  # how far results are apart, also those of other drawings of the data
                continue
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

    def _diverged(self, name: str, values: Values) -> Values:
        self.known.setdefault(name, None)
        return values

    def _chosen(self, name: str, values: Values, run: Run | None = None) -> Values:
        """The values that the rule and the figure need, from a probe or look or else from a run."""
        chosen: Values = {}
        self.known[name] = [*values, *(values_in(run) if run is not None else ())]
        for wanted in self.claim.values_of(name):
            value = values.get(wanted)
            if value is None and run is not None:
                value = value_of(run, wanted)
            if value is not None:
                chosen[wanted] = value
            elif wanted in self.claim.ruled(name):
                if wanted in (self.known[name] or ()):
                    raise CanonError(f"{wanted} of {name} is undefined for its data.")
                raise unknown(f"value of {name}", wanted, self.known[name] or ())
        return chosen

    def _check_names(self) -> None:
        """Values that no run can have show before anything is trained."""
        figure, possible = [], []
        for name, plan in self.plans.items():
            looked = bool(self.claim.variants[name].look)
            wrong, known = impossible(plan, self.claim.ruled(name), looked)
            if wrong:
                raise unknown(f"value of {name}", wrong, known)
            figure.append(impossible(plan, [self.claim.figure.value], looked)[0])
            possible += known
        if len(self.plans) == len(self.claim.variants) and all(figure):
            raise unknown("value of a variant (figure.value)", self.claim.figure.value, set(possible))

    def _check_figure(self) -> None:
        """After the first seed: some variant must have what the figure shows, unless it diverged."""
        value, known = self.claim.figure.value, self.known.values()
        shown = any(value in of for seeds in self.values.values() for of in seeds.values())
        if known and None not in known and not shown and not self.failed:
            names = {name for of in known for name in of or ()}
            raise unknown("value of a variant (figure.value)", value, names)


@contextmanager
def _in_variant(name: str) -> Iterator[None]:
    """A mistake in a claim's file is said to be in its variant, and not in --set."""
    try:
        yield
    except CanonError as mistake:
        raise CanonError(f"variants.{name}: {str(mistake).replace(' (from --set)', '')}") from None


def _check_source(recipe: Recipe) -> None:
    """What a recipe reads must be on this machine."""
    record = named_set(recipe.data.source)
    if record is None:
        kind_of(recipe.data)
    elif not record.builtin:
        catalogue.require(record.name)


def _left(spent: dict[str, list[float]], later: list[str]) -> float:
    every = [one for of in spent.values() for one in of]
    mean = math.fsum(every) / len(every)
    return math.fsum(math.fsum(spent[name]) / len(spent[name]) if name in spent else mean for name in later)


def _judged_already(path: Path, claim: Claim, budget: str) -> int:
    """How many seeds a result of the same variants and budget has; 0 for none, or one that cannot be read."""
    try:
        result = read(path)
    except CanonError:
        return 0
    return result.seeds if result.design == claim.designs[budget] else 0
