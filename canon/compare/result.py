"""The result of a comparison: per recipe the spread of each metric, its difference from the first, and its cost.

`Comparison.to_json` gathers all of it as JSON, which `compare.json` stores and the command line and the page show.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from canon.compare.statistics import LEVEL, Difference, Spread, holm, paired, spread
from canon.config import Table
from canon.errors import CanonError
from canon.metrics.records import is_rising
from canon.report.curves import training_losses
from canon.report.page import duration
from canon.tasks import table as tasks
from canon.training.run import Run

_COSTS = ("parameters", "seconds", "examples_per_second", "memory_bytes", "examples")
Values = dict[str, dict[int, float]]  # metric -> seed -> value


@dataclass(frozen=True)
class Entry:
    """One recipe with its runs by seed."""

    label: str
    runs: dict[int, Run]
    values: Values = field(default_factory=dict)
    summary: dict[str, Spread] = field(default_factory=dict)
    against: dict[str, Difference] = field(default_factory=dict)  # the first recipe; empty for the first itself
    cost: dict[str, float] = field(default_factory=dict)  # means over the runs

    @property
    def first_run(self) -> Run:
        return next(iter(self.runs.values()))


@dataclass(frozen=True)
class Comparison:
    folder: Path
    command: str
    entries: list[Entry]
    main: str  # the metric that chose the weights
    higher_is_better: bool
    split: str
    protocol: Table
    notes: list[str]

    @property
    def metrics(self) -> list[str]:
        return list(self.entries[0].summary)

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for entry in self.entries for seed in entry.runs})

    def verdicts(self) -> list[str]:
        """One sentence per recipe against the first, on the main metric."""
        return [_verdict(self, entry) for entry in self.entries[1:]]

    def to_json(self) -> Table:
        """The facts of the comparison; `notes` are its warnings.

        curves: by metric, recipe and seed the points [examples seen, value]. settings: those in which recipes differ,
        by recipe. recipes: runs, pages (links from the folder; "" if there is none), seconds and values by seed;
        metrics (mean, sd and interval), minus_first (paired difference with its test), cost (means over the runs).
        """
        settings = {entry.label: recipe_settings(entry.first_run) for entry in self.entries}
        keys = dict.fromkeys(key for table in settings.values() for key in table)
        differing = [key for key in keys if len({repr(table.get(key)) for table in settings.values()}) > 1]
        return {
            "command": self.command,
            "main": self.main,
            "split": self.split,
            "seeds": self.seeds,
            "protocol": self.protocol,
            "notes": self.notes,
            "verdicts": self.verdicts(),
            "curves": self._curves(),
            "settings": {name: {key: table.get(key) for key in differing} for name, table in settings.items()},
            "recipes": [
                {
                    "label": entry.label,
                    "system": entry.first_run.recipe.system_name,
                    "runs": {str(seed): str(run.path) for seed, run in entry.runs.items()},
                    "pages": {str(seed): self._link(run.path / "report.html") for seed, run in entry.runs.items()},
                    "seconds": {str(seed): (run.result or {})["cost"]["seconds"] for seed, run in entry.runs.items()},
                    "values": {name: {str(k): v for k, v in values.items()} for name, values in entry.values.items()},
                    "metrics": {name: asdict(spread) for name, spread in entry.summary.items()},
                    "minus_first": {name: asdict(difference) for name, difference in entry.against.items()},
                    "cost": entry.cost,
                }
                for entry in self.entries
            ],
        }

    def _link(self, page: Path) -> str:
        return Path(os.path.relpath(page, self.folder)).as_posix() if page.is_file() else ""

    def _curves(self) -> Table:
        """Over examples seen, so that recipes of different batch sizes share an axis."""
        logged = {
            entry.label: {str(seed): (run.metrics(), run.recipe.train.batch) for seed, run in entry.runs.items()}
            for entry in self.entries
        }
        wanted = [f"valid/{self.main}"]
        if "loss" in self.metrics:
            every = [row for runs in logged.values() for rows, _ in runs.values() for row in rows]
            wanted += ["valid/loss", *training_losses(every)]
        return {
            name: {
                label: {
                    seed: [[row["step"] * batch, row[name]] for row in rows if name in row]
                    for seed, (rows, batch) in runs.items()
                }
                for label, runs in logged.items()
            }
            for name in dict.fromkeys(wanted)
        }


def metric_rows(facts: Table, metric: str) -> list[dict[str, Any]]:
    """A row per recipe; the best mean is not marked, since it may be chance."""
    rows = []
    for recipe in facts["recipes"]:
        of, against = recipe["metrics"][metric], recipe["minus_first"].get(metric, {})
        row = {"recipe": recipe["label"], "runs": of["n"], metric: of["mean"], "sd": of["sd"]}
        row |= {"95% from": of["low"], "to": of["high"]}
        if len(facts["recipes"]) > 1:
            row |= {"minus first": against.get("mean"), "from": against.get("low"), "to ": against.get("high")}
            row["p"] = None if against.get("p_holm") is None else format_p(against["p_holm"])
        rows.append(row)
    return rows


def cost_rows(facts: Table) -> list[dict[str, Any]]:
    return [
        {
            "recipe": recipe["label"],
            "parameters": round(recipe["cost"]["parameters"]),
            "time": duration(recipe["cost"]["seconds"]),
            "examples/s": round(recipe["cost"]["examples_per_second"]),
            "memory MB": round(recipe["cost"]["memory_bytes"] / 1e6),
            "examples seen": round(recipe["cost"]["examples"]),
        }
        for recipe in facts["recipes"]
    ]


def summarize(entries: list[Entry], folder: Path, command: str) -> Comparison:
    """Statistics over finished runs; what must be alike was checked before."""
    results = {entry.label: {seed: run.result or {} for seed, run in entry.runs.items()} for entry in entries}
    one, recipe = next(iter(results[entries[0].label].values())), entries[0].first_run.recipe
    split = "test" if "test" in one["scores"] else list(one["scores"])[-1]
    task = tasks.of(recipe.system)
    per_recipe = [[result["scores"][split] for result in by_seed.values()] for by_seed in results.values()]
    every = [scores for of_recipe in per_recipe for scores in of_recipe]
    # In a run of the first recipe's metrics, or in some seeds of another's.
    undefined = [name for name in one["scores"][split] if any(scores.get(name) is None for scores in every)]
    for of_recipe in per_recipe:
        names = dict.fromkeys(name for scores in of_recipe for name in scores if name not in undefined)
        undefined += [name for name in names if any(scores.get(name) is None for scores in of_recipe)]
    main = recipe.train.monitor or task.monitor
    if main in undefined:
        raise CanonError(f"{main} decides, but it is undefined for the {split} set of a run: set train.monitor.")
    # Losses of other objectives, or of one with other settings (smoothed targets), are other quantities.
    comparable = len({repr(run.recipe.objective) for entry in entries for run in entry.runs.values()}) == 1
    left_out = {*undefined, *(() if comparable else ("loss",))}
    filled = []
    for entry in entries:
        by_seed = results[entry.label]
        shown = [name for name in next(iter(by_seed.values()))["scores"][split] if name not in left_out]
        shown.sort(key=lambda name: name != main)
        values = {name: {seed: result["scores"][split][name] for seed, result in by_seed.items()} for name in shown}
        filled.append(
            replace(
                entry,
                values=values,
                summary={name: spread(list(of.values())) for name, of in values.items()},
                cost={key: fmean(result["cost"][key] for result in by_seed.values()) for key in _COSTS},
            )
        )
    notes = _notes(filled, split, comparable, main)
    notes += [f"{name} is undefined for the {split} set of a run (–), and is not compared." for name in undefined]
    return Comparison(folder, command, _tested(filled), main, is_rising(main), split, one["protocol"], notes)


def _tested(entries: list[Entry]) -> list[Entry]:
    """Every recipe against the first over the seeds that both have; p-values corrected per metric."""
    first, *others = entries
    against: list[dict[str, Difference]] = [{} for _ in others]
    for name, values in first.values.items():
        for differences, other in zip(against, others, strict=True):
            theirs = other.values.get(name, {})
            seeds = [seed for seed in values if seed in theirs]
            if seeds:
                differences[name] = paired([values[seed] for seed in seeds], [theirs[seed] for seed in seeds])
            else:
                gap = other.summary[name].mean - first.summary[name].mean if name in other.summary else float("nan")
                differences[name] = Difference(0, gap, why="they have no seed in common")
        tested = [differences for differences in against if differences[name].p is not None]
        corrected = holm([differences[name].p or 0.0 for differences in tested])
        for differences, p in zip(tested, corrected, strict=True):
            differences[name] = replace(differences[name], p_holm=p)
    return [first, *(replace(other, against=gaps) for other, gaps in zip(others, against, strict=True))]


def _notes(entries: list[Entry], split: str, comparable: bool, main: str) -> list[str]:
    notes = []
    if split != "test":
        notes.append(f"There is no test set: the scores are of the {split} set.")
    if any(entry.summary[main].n == 1 for entry in entries):
        notes.append("One seed: no interval and no test is possible; add --seeds 5.")
    if not comparable:
        notes.append("The losses are of different objectives and are not compared.")
    fixed = [entry.label for entry in entries if entry.summary[main].n > 1 and entry.summary[main].sd == 0]
    if fixed:
        notes.append(f"Every seed gives the same {main} for {', '.join(fixed)}: it has no spread between runs.")
    if len({run.env.get("processor", "") for entry in entries for run in entry.runs.values()}) > 1:
        notes.append("The runs were made on different machines: their times are not comparable.")
    if len(entries) > 2:
        notes.append(f"p is corrected for {len(entries) - 1} comparisons with the first (Holm).")
    return notes


def _verdict(comparison: Comparison, entry: Entry) -> str:
    first, gap = comparison.entries[0].label, entry.against[comparison.main]
    difference = f"{entry.label} against {first}: {comparison.main} {_signed(gap.mean)}"
    if gap.p_holm is None or gap.low is None or gap.high is None:
        return f"{difference}; {gap.why}."
    difference += f" (95 % from {_signed(gap.low)} to {_signed(gap.high)}, p = {format_p(gap.p_holm)})"
    if gap.p_holm >= 1 - LEVEL:
        return f"{difference}: no difference is shown."
    return f"{difference}: {'better' if (gap.mean > 0) == comparison.higher_is_better else 'worse'}."


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def format_p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def recipe_settings(run: Run) -> Table:
    """A run's settings by their dotted names, without the seed, which is what runs of one recipe differ in."""
    return {key: value for key, value in flat(run.settings).items() if key != "train.seed"}


def flat(table: Table, prefix: str = "") -> Table:
    """Settings by their dotted names, without the section [expect]."""
    settings: Table = {}
    for key, value in table.items():
        if prefix + key != "expect":
            settings |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return settings
