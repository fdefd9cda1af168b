"""Random search for settings within a time: every trial is an ordinary run, and the validation metric decides.

Bergstra and Bengio 2012, Random search for hyper-parameter optimization. Trial 1 is the unchanged recipe; the others
draw each setting of the system's space independently, from a stream that depends on `seed` and the trial's number: the
machine decides only how many are tried. All trials have the recipe's train.seed, data and split. A trial may take an
eighth of the time; one that is cut short is judged by what it has reached, and if it is the best it is trained to its
end afterwards. OUT/trial-NNN are the runs, OUT/best is the chosen one, tune.json the record; the same command continues
an interrupted search. Weights of other trials than the best are removed unless `keep` is set.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from canon import recipe as recipes
from canon.config import Table, parse_assignment
from canon.errors import CanonError, border
from canon.metrics.records import is_rising
from canon.recipe import EITHER, Recipe
from canon.registry import Range
from canon.report.run import write_report
from canon.runs import files
from canon.runs.checkpoint import point
from canon.storage import write_text
from canon.tasks import table as tasks
from canon.training.data import for_target, read_data
from canon.training.run import Run
from canon.training.trainer import train

Space = Mapping[str, Range | tuple[Any, ...]]

_SHARE = 8  # of the whole time that one trial may take: an eighth
_LEAST_SECONDS = 1.0  # of a trial
_UNLIMITED = 1e9  # seconds
_RECORD = {"recipe": str, "metric": str, "trials": [dict]}  # the part of tune.json that is read back


@dataclass
class Trial:
    """One set of settings and its scores on the validation set."""

    number: int
    settings: Table
    value: float | None = None  # of the metric; None where it failed
    scores: dict[str, float | None] = field(default_factory=dict)  # of the validation set
    seconds: float = 0.0  # by the clock, reading and writing too
    ended: str = ""  # why the run ended, or what was wrong
    run: str = ""

    @property
    def cut_short(self) -> bool:
        return self.ended == "train.seconds are over"


@dataclass
class Tuning:
    """The trials of a search."""

    folder: Path
    recipe: str
    metric: str
    higher_is_better: bool
    trials: list[Trial]
    finished: bool = False

    def ranked(self) -> list[Trial]:
        """The trials that have a score, best first; of equals the earlier one."""
        sign = -1 if self.higher_is_better else 1
        judged = [trial for trial in self.trials if trial.value is not None]
        return sorted(judged, key=lambda trial: (sign * (trial.value or 0.0), trial.number))

    @property
    def best(self) -> Trial | None:
        return next(iter(self.ranked()), None)

    def rows(self, most: int = 10) -> list[dict[str, Any]]:
        """The best trials, to print."""
        ranked = self.ranked()
        keys = list(dict.fromkeys(key for trial in ranked for key in trial.settings))
        return [
            {"trial": trial.number, f"valid/{self.metric}": trial.value, "seconds": round(trial.seconds, 1)}
            | {key.split(".", 1)[1]: _format(trial.settings.get(key)) for key in keys}
            | {"ended": "cut short" if trial.cut_short else ""}
            for trial in ranked[:most]
        ]

    def to_json(self) -> Table:
        best = self.best
        return {
            "recipe": self.recipe,
            "metric": self.metric,
            "finished": self.finished,
            "best": best.number if best else None,
            "run": str(self.folder / "best") if best else None,
            "trials": [asdict(trial) for trial in self.trials],
        }


def tune(
    name: str,
    data: str = "",
    seconds: float = 300.0,
    trials: int = 0,
    seed: int = 0,
    space: Space | None = None,
    changes: Table | None = None,
    out: str | Path | None = None,
    keep: bool = False,
    quiet: bool = False,
) -> Tuning:
    """Searches for `seconds` (and at most `trials`, unless 0), then trains the best to its end."""
    if seconds <= 0 or not math.isfinite(seconds):
        raise CanonError(f"--seconds must be a positive number, got {seconds:g}.")
    changes = changes or {}
    recipe = recipes.load(name, data, changes)
    # Two settings for one thing (steps and epochs) are both fixed when one of them is.
    fixed = {*changes, *(other for key in changes for other in EITHER.get(key, ()))}
    open_ = {key: value for key, value in {**space_of(recipe), **(space or {})}.items() if key not in fixed}
    check_space(open_, name, data, changes)
    metric = _metric(recipe)
    folder = Path(out) if out is not None else Path("runs") / f"tune-{recipe.name.split('/')[-1].replace(':', '-')}"
    tuning = _opened(folder, name, metric, is_rising(metric))
    search = _Search(tuning, data, changes, open_, seconds, seed, keep, quiet)
    search.run(trials)
    search.finish()
    return tuning


def space_of(recipe: Recipe) -> Space:
    """The space that the system's record declares; for a network that declares none, its learning rate."""
    if recipe.system.space:
        return recipe.system.space
    if recipe.system.loop != "gradient":
        raise CanonError(f"{recipe.system.name} declares nothing to tune; name settings with --try system.KEY=a,b.")
    rate = recipe.optimizer.settings.lr
    return {"optimizer.lr": Range(rate / 30, rate * 30)}


def check_space(space: Space, name: str, data: str, changes: Table) -> None:
    """Requires every value, and both ends of every range, to be valid in the recipe."""
    if not space:
        raise CanonError("There is nothing left to tune: --set fixes every setting of the space.")
    for key, values in space.items():
        for value in (values.low, values.high) if isinstance(values, Range) else values:
            recipes.load(name, data, {**changes, key: value})


def parse_space(text: str) -> tuple[str, Range | tuple[Any, ...]]:
    """`system.lr=0.01..1` to a range, `system.dim=10,50,100` to choices."""
    key, equals, value = text.partition("=")
    low, dots, high = value.partition("..")
    try:
        if equals and dots:
            ends = parse_assignment(f"{key}={low}")[1], parse_assignment(f"{key}={high}")[1]
            if all(type(end) in (int, float) for end in ends) and 0 < ends[0] < ends[1]:
                return key.strip(), Range(*ends)
        elif equals and value:
            return key.strip(), tuple(parse_assignment(f"{key}={part}")[1] for part in value.split(","))
    except CanonError:
        pass
    raise CanonError(f'--try takes key=low..high or key=a,b,c, as in --try system.lr=0.01..1; got "{text}".')


def draw(space: Space, seed: int, number: int) -> Table:
    """The settings of a trial: each a function of the seed, the trial's number and the setting's name."""
    settings: Table = {}
    for key, values in space.items():
        # RandomState, since numpy guarantees its stream; one for each setting, so that the others do not matter.
        keyed = np.array([seed & 0xFFFFFFFF, number, *key.encode()], dtype=np.uint32)
        share = float(np.random.RandomState(keyed).random_sample())
        if not isinstance(values, Range):
            settings[key] = values[int(share * len(values))]
        elif isinstance(values.low, int):
            drawn = math.exp(math.log(values.low) + share * (math.log(values.high + 1) - math.log(values.low)))
            settings[key] = min(int(drawn), int(values.high))
        else:
            drawn = math.exp(math.log(values.low) + share * (math.log(values.high) - math.log(values.low)))
            settings[key] = float(f"{drawn:.4g}")
    return settings


@dataclass
class _Search:
    tuning: Tuning
    data: str
    changes: Table
    space: Space
    seconds: float
    seed: int
    keep: bool
    quiet: bool

    def run(self, most: int) -> None:
        """Runs trials until the time is over or there are `most` of them (0: no limit)."""
        self._write()  # so that a search that is stopped in its first trial can be continued
        spent = sum(trial.seconds for trial in self.tuning.trials)
        number = len(self.tuning.trials)
        while (not most or number < most) and (spent < self.seconds or not number):
            number += 1
            settings = {} if number == 1 else draw(self.space, self.seed, number)
            trial = Trial(number, settings, run=str(self.tuning.folder / f"trial-{number:03d}"))
            self._train(trial, self.seconds - spent)
            spent += trial.seconds
            before = self.tuning.best
            self.tuning.trials.append(trial)
            self._report(trial)
            self._keep_best(before, trial)
            self._write()

    def _train(self, trial: Trial, left: float) -> None:
        path, begun = Path(trial.run), time.perf_counter()
        share = max(min(self.seconds / _SHARE, left), _LEAST_SECONDS)
        limit = recipes.load(self.tuning.recipe, self.data, self.changes).train.seconds
        changes = {**self.changes, **trial.settings, "train.seconds": float(min(share, limit or share))}
        try:
            if path.exists():  # the search was stopped inside this trial
                shutil.rmtree(path)
            run = train(self.tuning.recipe, self.data, path, changes=changes, quiet=True)
        except CanonError as mistake:
            if trial.number == 1:  # the recipe itself cannot be trained
                raise
            trial.ended = str(mistake)
        else:
            self._judge(trial, run)
        trial.seconds = round(time.perf_counter() - begun, 3)

    def _judge(self, trial: Trial, run: Run) -> None:
        result = run.result or {}
        trial.scores, trial.ended = result["scores"]["valid"], result["ended"]
        trial.value = trial.scores.get(self.tuning.metric)
        if trial.value is None:
            trial.ended = f"{self.tuning.metric} is undefined for its validation set: choose another by train.monitor."

    def _keep_best(self, before: Trial | None, trial: Trial) -> None:
        """Links the best run, and removes the weights of the one that is not the best."""
        best = self.tuning.best
        if best is not None:
            point(self.tuning.folder / "best", Path(best.run))
        loser = before if best is trial else trial
        if loser is not None and not self.keep:
            for link in ("best", "last"):
                (Path(loser.run) / link).unlink(missing_ok=True)
            shutil.rmtree(Path(loser.run) / "checkpoints", ignore_errors=True)

    def finish(self) -> None:
        """Trains the best to the end of its budget and writes its report."""
        best = self.tuning.best
        if best is None:
            raise CanonError(f"No trial in {self.tuning.folder} could be judged: {self.tuning.trials[-1].ended}")
        if best.cut_short:
            self._print(f"Training trial {best.number} to its end.")
            longer = {"train.seconds": _UNLIMITED}
            run = train(self.tuning.recipe, self.data, Path(best.run), resume=True, changes=longer, quiet=True)
            self._judge(best, run)
        write_report(Run.open(best.run))
        self.tuning.finished = True
        self._write()

    def _write(self) -> None:
        record = json.dumps(self.tuning.to_json(), ensure_ascii=False, indent=1)
        write_text(self.tuning.folder / "tune.json", record)

    def _report(self, trial: Trial) -> None:
        if trial.value is None:
            self._print(f"[{trial.number}] failed: {trial.ended}")
            return
        settings = " ".join(f"{key}={_format(value)}" for key, value in trial.settings.items())
        best = "  best so far" if self.tuning.best is trial else ""
        short = ", cut short" if trial.cut_short else ""
        head = f"[{trial.number}] {self.tuning.metric} {trial.value:.4f}  {trial.seconds:.1f} s{short}"
        self._print(f"{head}  {settings or 'the unchanged recipe'}{best}")

    def _print(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)


def _metric(recipe: Recipe) -> str:
    """The metric that decides; there must be a validation set to compute it on."""
    read = read_data(recipe)
    task = tasks.of(for_target(recipe, read.schema.target).system)
    if "valid" not in read.splits:
        raise CanonError(f"{read.name} has no validation set to choose by: give data.valid a share or a file.")
    return recipe.train.monitor or task.monitor


def _opened(folder: Path, name: str, metric: str, rising: bool) -> Tuning:
    """The search in `folder`, without an unfinished trial; or a new one."""
    file = folder / "tune.json"
    if not file.is_file():
        if folder.exists() and any(folder.iterdir()):
            raise CanonError(f"{folder} holds something other than a search: give another --out.")
        return Tuning(folder, name, metric, rising, [])
    again = "remove it to search again"
    stored = files.read(file, _RECORD, again)
    if (stored["recipe"], stored["metric"]) != (name, metric):
        was = f"{stored['recipe']} by {stored['metric']}"
        raise CanonError(f"{folder} holds a search for {was}, not for {name} by {metric}: give another --out.")
    with border(file, f"is damaged, {again}"):
        return Tuning(folder, name, metric, rising, [Trial(**row) for row in stored["trials"]])


def _format(value: Any) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
