"""What a comparison found: per recipe the spread of each metric, its difference from the first, and its cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from canon.compare.statistics import LEVEL, Difference, Spread, holm, paired, spread
from canon.config import Table
from canon.errors import CanonError
from canon.report.page import duration
from canon.tasks.table import TASKS
from canon.training.run import Run

_COSTS = ("parameters", "seconds", "examples_per_second", "memory_bytes", "examples")


@dataclass(frozen=True)
class Entry:
    """One recipe with its runs by seed."""

    label: str
    runs: dict[int, Run]
    values: dict[str, dict[int, float]] = field(default_factory=dict)  # metric -> seed -> value
    summary: dict[str, Spread] = field(default_factory=dict)
    against: dict[str, Difference] = field(default_factory=dict)  # the first recipe; empty for the first itself
    cost: dict[str, float] = field(default_factory=dict)  # means over the runs


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

    def rows(self, metric: str) -> list[dict[str, Any]]:
        """A line per recipe, to print."""
        lines = []
        for entry in self.entries:
            found, against = entry.summary[metric], entry.against.get(metric)
            line: dict[str, Any] = {"recipe": entry.label, "runs": found.n, metric: found.mean, "sd": found.sd}
            line |= {"95% from": found.low, "to": found.high}
            if len(self.entries) > 1:
                line["minus first"] = against.mean if against else None
                line |= {"from": against.low if against else None, "to ": against.high if against else None}
                line["p"] = told_p(against.p_holm) if against and against.p_holm is not None else None
            lines.append(line)
        return lines

    def costs(self) -> list[dict[str, Any]]:
        return [
            {
                "recipe": entry.label,
                "parameters": round(entry.cost["parameters"]),
                "time": duration(entry.cost["seconds"]),
                "examples/s": round(entry.cost["examples_per_second"]),
                "memory MB": round(entry.cost["memory_bytes"] / 1e6),
                "examples seen": round(entry.cost["examples"]),
            }
            for entry in self.entries
        ]

    def verdicts(self) -> list[str]:
        """One sentence per recipe against the first, on the main metric."""
        return [_verdict(self, entry) for entry in self.entries[1:]]

    def to_json(self) -> Table:
        return {
            "command": self.command,
            "main": self.main,
            "split": self.split,
            "seeds": self.seeds,
            "protocol": self.protocol,
            "notes": self.notes,
            "verdicts": self.verdicts(),
            "recipes": [
                {
                    "label": entry.label,
                    "system": next(iter(entry.runs.values())).recipe.system_name,
                    "runs": {str(seed): str(run.path) for seed, run in entry.runs.items()},
                    "values": {name: {str(k): v for k, v in found.items()} for name, found in entry.values.items()},
                    "metrics": {name: asdict(found) for name, found in entry.summary.items()},
                    "minus_first": {name: asdict(found) for name, found in entry.against.items()},
                    "cost": entry.cost,
                }
                for entry in self.entries
            ],
        }


def summarize(entries: list[Entry], folder: Path, command: str) -> Comparison:
    """Statistics over finished runs; what must be alike was checked before."""
    results = {entry.label: {seed: run.result or {} for seed, run in entry.runs.items()} for entry in entries}
    one = next(iter(results[entries[0].label].values()))
    split = "test" if "test" in one["scores"] else list(one["scores"])[-1]
    recipe = next(iter(entries[0].runs.values())).recipe
    task = TASKS[recipe.system.task]
    every = [result["scores"][split] for found in results.values() for result in found.values()]
    undefined = [name for name in one["scores"][split] if any(scores.get(name) is None for scores in every)]
    main = recipe.train.monitor or task.monitor
    if main in undefined:
        raise CanonError(f"{main} decides, but it is undefined for the {split} set of a run: set train.monitor.")
    comparable = len({_loss_of(run) for entry in entries for run in entry.runs.values()}) == 1
    filled = []
    for entry in entries:
        found = results[entry.label]
        names = [name for name in next(iter(found.values()))["scores"][split] if name not in undefined]
        names = [name for name in names if comparable or name != "loss"]
        names.sort(key=lambda name: name != main)
        values = {name: {seed: result["scores"][split][name] for seed, result in found.items()} for name in names}
        filled.append(
            replace(
                entry,
                values=values,
                summary={name: spread(list(of.values())) for name, of in values.items()},
                cost={key: fmean(result["cost"][key] for result in found.values()) for key in _COSTS},
            )
        )
    filled = _tested(filled)
    higher = main in task.rising
    notes = _notes(filled, split, comparable, main)
    notes += [f"{name} is undefined for the {split} set of a run (–), and is not compared." for name in undefined]
    return Comparison(folder, command, filled, main, higher, split, one["protocol"], notes)


def _loss_of(run: Run) -> str:
    """Losses of other objectives, or of one with other settings (smoothed targets), are other quantities."""
    return repr(run.recipe.objective)


def _tested(entries: list[Entry]) -> list[Entry]:
    """Every recipe against the first over the seeds that both have; p-values corrected per metric."""
    first, *others = entries
    against: list[dict[str, Difference]] = [{} for _ in others]
    for name, values in first.values.items():
        for found, other in zip(against, others, strict=True):
            theirs = other.values.get(name, {})
            seeds = [seed for seed in values if seed in theirs]
            if seeds:
                found[name] = paired([values[seed] for seed in seeds], [theirs[seed] for seed in seeds])
            else:
                gap = other.summary[name].mean - first.summary[name].mean if name in other.summary else float("nan")
                found[name] = Difference(0, gap, None, None, None, why="they have no seed in common")
        tested = [found for found in against if found[name].p is not None]
        corrected = holm([found[name].p or 0.0 for found in tested])
        for found, p in zip(tested, corrected, strict=True):
            found[name] = replace(found[name], p_holm=p)
    return [first, *(replace(other, against=found) for other, found in zip(others, against, strict=True))]


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
        notes.append(f"Every seed gives the same {main} for {', '.join(fixed)}: no spread between runs is shown by it.")
    devices = {run.env.get("processor", "") for entry in entries for run in entry.runs.values()}
    if len(devices) > 1:
        notes.append("The runs were made on different machines: their times are not comparable.")
    if len(entries) > 2:
        notes.append(f"p is corrected for {len(entries) - 1} comparisons with the first (Holm).")
    return notes


def _verdict(found: Comparison, entry: Entry) -> str:
    first, gap = found.entries[0].label, entry.against[found.main]
    said = f"{entry.label} against {first}: {found.main} {_signed(gap.mean)}"
    if gap.p_holm is None or gap.low is None or gap.high is None:
        return f"{said}; {gap.why}."
    interval = f" (95 % from {_signed(gap.low)} to {_signed(gap.high)}, p = {told_p(gap.p_holm)})"
    if gap.p_holm >= 1 - LEVEL:
        return f"{said}{interval}: no difference is shown."
    return f"{said}{interval}: {'better' if (gap.mean > 0) == found.higher_is_better else 'worse'}."


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def told_p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"
